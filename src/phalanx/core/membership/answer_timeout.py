"""How long members have to answer a proposal (rule T): doubled after each miss, up to eight-fold.

On a network that is slower than the settings say, changes would break each other off without end.
The doubling is forgotten after a long time without a late member.
"""

from __future__ import annotations

STRAIN_MAX = 3
"""The time is doubled so often at most."""
CALM_CHANGES = 256
"""After so many times the shortest answer time without a miss, it is the shortest again."""


class AnswerTimeout:
    __slots__ = ("_missed_ns", "_shortest_ns", "_strain")

    def __init__(self, shortest_ns: int) -> None:
        self._shortest_ns = shortest_ns
        self._strain = 0
        self._missed_ns = 0

    def answer_ns(self, now: int) -> int:
        if self._strain and now - self._missed_ns > CALM_CHANGES * self._shortest_ns:
            self._strain = 0
        return self._shortest_ns << self._strain

    def missed(self, now: int) -> None:
        """A member did not answer in time (rule T)."""
        self._strain = min(self._strain + 1, STRAIN_MAX)
        self._missed_ns = now
