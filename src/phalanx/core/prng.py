"""Dice for back-offs: a seeded stream of integers, the same on every machine.

The core may not use `random`: its state would not be the caller's to choose. This is
SplitMix64 (Steele, Lea, Flood 2014); it decides nothing but delays.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


class Prng:
    __slots__ = ("_state",)

    def __init__(self, entropy: int) -> None:
        self._state = entropy & _MASK

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return low + (z ^ (z >> 31)) % (high - low + 1)
