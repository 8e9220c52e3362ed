"""Range map: sets of message numbers as disjoint ranges, each with a value.

Two members may split ranges at different numbers, so nothing here assumes equal bounds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V")
K = TypeVar("K", bound=Hashable)


class RangeMap(Generic[V]):
    """Disjoint ranges in ascending order; a number keeps the value it was first added with."""

    __slots__ = ("firsts", "lasts", "values")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.values: list[V] = []

    def add(self, first: int, last: int, value: V) -> list[tuple[int, int]]:
        """Add the numbers that are not in the map yet, and return them as ranges."""
        if not self.lasts or first > self.lasts[-1]:
            self.firsts.append(first)
            self.lasts.append(last)
            self.values.append(value)
            return [(first, last)]
        new = self.missing(first, last)
        for lo, hi in new:
            at = bisect_left(self.firsts, lo)
            self.firsts.insert(at, lo)
            self.lasts.insert(at, hi)
            self.values.insert(at, value)
        return new

    def index(self, number: int) -> int:
        """The index of the range that holds the number; -1 if none does."""
        at = bisect_right(self.firsts, number) - 1
        return at if at >= 0 and self.lasts[at] >= number else -1

    def get(self, number: int) -> V | None:
        at = self.index(number)
        return None if at < 0 else self.values[at]

    def within(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """The parts of first..last in the map: their bounds, and the index of the range."""
        at = max(bisect_right(self.firsts, first) - 1, 0)
        parts = []
        while at < len(self.firsts) and self.firsts[at] <= last:
            if self.lasts[at] >= first:
                parts.append((max(first, self.firsts[at]), min(last, self.lasts[at]), at))
            at += 1
        return parts

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of first..last that are not in the map."""
        at = bisect_right(self.firsts, first) - 1
        if at >= 0 and self.lasts[at] >= last:
            return []  # one range holds them all: the common case
        gaps = []
        for lo, hi, _ in self.within(first, last):
            if lo > first:
                gaps.append((first, lo - 1))
            first = hi + 1
        if first <= last:
            gaps.append((first, last))
        return gaps


def agree(
    claims: Iterable[tuple[int, int, K, V]],
) -> tuple[list[tuple[int, int, K, V]], list[tuple[V, V]]]:
    """Compare claims (first, last, what, who): do all agree on what each number is?

    Returns the agreed map, disjoint and ascending, and the pairs of claimants that differ.
    Where claims differ, the map keeps the one that starts first.
    """
    agreed: list[tuple[int, int, K, V]] = []
    apart: list[tuple[V, V]] = []
    for first, last, what, who in sorted(claims, key=lambda c: c[:2]):
        at = len(agreed) - 1
        while at >= 0 and agreed[at][1] >= first:
            if agreed[at][0] <= last and agreed[at][2] != what:
                apart.append((agreed[at][3], who))
            at -= 1
        if agreed:
            first = max(first, agreed[-1][1] + 1)
        if first <= last:
            agreed.append((first, last, what, who))
    return agreed, apart
