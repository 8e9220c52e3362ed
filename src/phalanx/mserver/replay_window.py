"""Replay window: which numbers of one session have been taken (RFC 4303, section 3.4.3)."""

from __future__ import annotations

WINDOW = 4096
"""How far a packet may come behind the newest one."""
_MASK = (1 << WINDOW) - 1


class ReplayWindow:
    """Takes each number once. Numbers below the first one are refused: whoever has only now met
    the session cannot tell which of them were taken before."""

    __slots__ = ("_highest", "_taken")

    def __init__(self, first: int) -> None:
        self._highest = first
        self._taken = _MASK
        """Bit i stands for the number `highest` - i."""

    def take(self, number: int) -> bool:
        """Whether the number is new; it is taken then."""
        ahead = number - self._highest
        if ahead > 0:
            self._taken = 1 if ahead >= WINDOW else ((self._taken << ahead) & _MASK) | 1
            self._highest = number
            return True
        if -ahead >= WINDOW or self._taken >> -ahead & 1:
            return False
        self._taken |= 1 << -ahead
        return True
