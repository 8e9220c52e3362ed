"""Ranges of message numbers as numpy arrays: cells, cuts, first range wins.

A range is (key, first, last), both bounds included; the key is a sender, or any other small number.
Key and number are packed into one sortable integer, so that every function here sorts boundaries
once or twice: the cost is that of sorting the ranges, whatever their lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.journal.schema import NUMBER_MAX

Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

SHIFT = 44
"""Message numbers lie below 2^44, so that a key and a number are one integer."""
assert NUMBER_MAX + 1 < 1 << SHIFT
_LOW = (1 << SHIFT) - 1

NONE = np.iinfo(np.int64).min
"""In the place of a null."""


def packed(key: Longs, number: Longs) -> Longs:
    return (key << SHIFT) | number


def packed_one(key: int, number: int) -> int:
    return key << SHIFT | number


def number_of(point: Longs) -> Longs:
    return point & _LOW


def key_of(point: Longs) -> Longs:
    return point >> SHIFT


class Grid(NamedTuple):
    """All boundaries of some ranges: the cells between them, which none of the ranges cuts."""

    points: Longs
    """Packed, rising; cell i reaches from point i to before point i + 1."""

    @property
    def first(self) -> Longs:
        return number_of(self.points[:-1])

    @property
    def last(self) -> Longs:
        return number_of(self.points[1:]) - 1

    @property
    def key(self) -> Longs:
        return key_of(self.points[:-1])


class NumberStretch(NamedTuple):
    """Per key, the numbers from `low` to before `high`: a part of a large group."""

    low: Longs
    high: Longs

    def has(self, key: Longs, number: Longs) -> Bools:
        found: Bools = (self.low[key] <= number) & (number < self.high[key])
        return found


def grid(*ranges: tuple[Longs, Longs, Longs]) -> Grid:
    """Of ranges given as key, first, last. Cells between two ranges, and from the last range of a
    key to the first one of the next, exist too: no range has them."""
    points = [packed(key, first) for key, first, _ in ranges]
    points += [packed(key, last + 1) for key, _, last in ranges]
    return Grid(distinct(np.concatenate(points)) if points else np.zeros(0, dtype=np.int64))


def distinct(values: Longs) -> Longs:
    """The values that are there, rising. Sorting is faster than the hashing of `np.unique`."""
    rising = np.sort(values)
    if not len(rising):
        return rising
    found: Longs = rising[np.append(True, rising[1:] != rising[:-1])]
    return found


def order_of(*keys: Longs) -> Longs | slice:
    """The order of rows by these keys, the first one first; rows with equal keys stay in their
    order. A slice of all if they are in order: journals are, mostly."""
    unclear = np.ones(max(0, len(keys[0]) - 1), dtype=bool)  # equal to the row before so far
    for key in keys:
        if (key[1:] < key[:-1])[unclear].any():
            return np.lexsort(keys[::-1])
        unclear &= key[1:] == key[:-1]
    return slice(None)


def stable_order(key: Longs) -> Longs:
    """The order by a small number, at least 0; equal ones stay in their order. With the place in
    its low bits the key is sorted faster than by a stable sort."""
    size = max(1, len(key))
    bits = size.bit_length()
    if len(key) and int(key.max()) >= 1 << (62 - bits):
        return np.argsort(key, kind="stable")
    found: Longs = np.sort((key << bits) | np.arange(len(key))) & ((1 << bits) - 1)
    return found


class CutRanges(NamedTuple):
    """Ranges as the cells that they are made of: range `row` has the cell `cell`."""

    row: Longs
    cell: Longs


def cut(cells: Grid, key: Longs, first: Longs, last: Longs) -> CutRanges:
    """Of ranges whose boundaries are in the grid. In the order of the ranges."""
    begin = np.searchsorted(cells.points, packed(key, first))
    end = np.searchsorted(cells.points, packed(key, last + 1))
    row = repeated(end - begin)
    return CutRanges(row, begin[row] + counted(end - begin))


def repeated(counts: Longs) -> Longs:
    """0, 1, ... each as often as its count says."""
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def counted(counts: Longs) -> Longs:
    """For each entry of `repeated`, which one of its kind it is: 0, 1, ..."""
    total = int(counts.sum())
    starts = np.cumsum(counts) - counts
    return np.arange(total, dtype=np.int64) - np.repeat(starts, counts)


def holder(starts: Longs, lasts: Longs, keys: Longs, key: Longs, number: Longs) -> Longs:
    """Which of disjoint ranges, sorted by key and first (`starts`: packed), has each number; -1 if
    none has."""
    if not len(starts):
        return np.full(len(number), -1, dtype=np.int64)
    at = np.searchsorted(starts, packed(key, number), side="right") - 1
    fits = (at >= 0) & (keys[at] == key) & (lasts[at] >= number)
    return np.where(fits, at, -1)


def overlapping(group: Longs, first: Longs, last: Longs) -> Longs:
    """The groups of ranges in which two ranges share a number, rising."""
    if len(group) < 2:
        return np.zeros(0, dtype=np.int64)
    # Of ranges that begin alike each overlaps the next, in any order.
    few = int(group.max()) < 1 << (62 - SHIFT)
    order = np.argsort(packed(group, first)) if few else np.lexsort((first, group))
    g, f, e = group[order], first[order], last[order]
    highest = np.maximum.accumulate(packed(_dense(g), e))
    same = g[1:] == g[:-1]
    shared = same & (packed(_dense(g)[1:], f[1:]) <= highest[:-1])
    found: Longs = np.unique(g[1:][shared])
    return found


def _dense(rising: Longs) -> Longs:
    """Sorted numbers as 0, 1, ..."""
    if not len(rising):
        return rising
    return np.concatenate([[0], np.cumsum(rising[1:] != rising[:-1])]).astype(np.int64)


def group_starts(*sorted_columns: Longs) -> Longs:
    """Where groups of equal values begin in columns that are sorted together."""
    size = len(sorted_columns[0])
    if not size:
        return np.zeros(0, dtype=np.int64)
    new = np.zeros(size, dtype=bool)
    new[0] = True
    for column in sorted_columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def group_ends(starts: Longs, size: int) -> Longs:
    """The last rows of groups that begin there."""
    return np.append(starts[1:], size)[: len(starts)] - 1


class Piece(NamedTuple):
    """Numbers that belong to a range: `row` is its index."""

    row: int
    first: int
    last: int


def first_wins(rows: Sequence[tuple[int, int, int]]) -> Iterator[Piece]:
    """Disjoint pieces of overlapping ranges (index, first, last): each number belongs to the first
    range that has it."""
    firsts: list[int] = []
    lasts: list[int] = []
    for row, first, last in rows:
        at = bisect_left(lasts, first)
        pieces = []
        while first <= last:
            if at == len(firsts) or firsts[at] > last:
                pieces.append((first, last))
                break
            if firsts[at] > first:
                pieces.append((first, firsts[at] - 1))
            first = lasts[at] + 1
            at += 1
        for low, high in pieces:
            place = bisect_left(firsts, low)
            firsts.insert(place, low)
            lasts.insert(place, high)
            yield Piece(row, low, high)
