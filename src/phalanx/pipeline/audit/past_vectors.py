"""Vectors of the whole past of send rows, a block of senders at a time.

The vector of a send row has for each sender the highest number in its past: the maximum over the
vectors of its direct causes (the sender's row before, and its dependencies), and the dependencies
themselves. The numbers of one sender depend on no other sender's, so the matrix of send rows and
senders is computed in blocks of columns, and only one block is in memory: at most `BLOCK_BYTES`, or
one column.

Rows are sorted by level: the length of the longest chain of causes behind a row. The rows of one
level do not depend on each other and are computed together. Consecutive levels of one row each are
a chain in which each row follows the one before; it is a running maximum. So the number of steps is
that of levels with more than one row, and of chains between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.pipeline.audit.number_ranges import Longs

BLOCK_BYTES = 64 << 20
"""Of one block of the matrix. More make fewer passes over the levels."""
_STEP_BYTES = 4 << 20
"""Vectors of causes that are gathered at a time, about."""


class VectorBlock(NamedTuple):
    """The columns of the senders from `low` to before `high`."""

    low: int
    high: int
    matrix: NDArray[Any]
    place: Longs
    """Per send row its row of the matrix; the last is that of no message, zero."""

    @property
    def width(self) -> int:
        return self.high - self.low

    def of(self, rows: Longs) -> NDArray[Any]:
        """The vectors of send rows; zero for -1. A copy."""
        found: NDArray[Any] = self.matrix[self.place[rows]]
        return found


class SendGraph(NamedTuple):
    """Send rows by (sender, number), and the rows that they depend on. Lists are flat."""

    senders: int
    s: Longs
    highest: int
    """The highest number that was sent."""
    dep_at: Longs
    dep_s: Longs
    dep_n: Longs
    cause: Longs
    """Per dependency its send row; -1 if there is none."""


class _Order(NamedTuple):
    """Send rows by level, with their causes as places in this order."""

    place: Longs
    causes: NDArray[np.int32]
    starts: Longs
    """Per place, where its causes begin."""
    steps: list[tuple[int, int, bool]]
    """Places from the first to before the second; whether they are a chain."""
    looped: list[int]


class PastVectors:
    """The vectors of one group."""

    def __init__(self, graph: SendGraph, block_bytes: int | None = None) -> None:
        self._graph = graph
        size = len(graph.s) + 1
        highest = max(graph.highest, int(graph.dep_n.max(initial=0)))
        self._type = np.int32 if highest < 1 << 31 else np.int64
        width = (block_bytes or BLOCK_BYTES) // (size * np.dtype(self._type).itemsize)
        self._width = min(max(1, width), max(1, graph.senders))
        self._only: VectorBlock | None = None

    @property
    def looped(self) -> list[int]:
        """Send rows that depend on themselves."""
        return self._order.looped

    def blocks(self) -> Iterator[VectorBlock]:
        """All senders, in their order. If all are in one block, it is kept."""
        senders = max(1, self._graph.senders)
        for low in range(0, senders, self._width):
            if self._only is None:
                block = self._block(low, min(senders, low + self._width))
                if self._width >= senders:
                    self._only = block
                yield block
            else:
                yield self._only

    @cached_property
    def _order(self) -> _Order:
        level, cause, looped = _levels(self._graph)
        return _ordered(self._graph, level, cause, looped)

    def _block(self, low: int, high: int) -> VectorBlock:
        graph, order = self._graph, self._order
        size = len(graph.s)
        matrix = np.zeros((size + 1, high - low), dtype=self._type)
        mine = np.flatnonzero((graph.dep_s >= low) & (graph.dep_s < high))
        if len(mine):
            row = np.searchsorted(graph.dep_at, mine, side="right") - 1
            at = order.place[row], graph.dep_s[mine] - low
            np.maximum.at(matrix, at, graph.dep_n[mine].astype(self._type))
            self._fill(matrix)
        return VectorBlock(low, high, matrix, order.place)

    def _fill(self, matrix: NDArray[Any]) -> None:
        causes, starts, steps = self._order.causes, self._order.starts, self._order.steps
        most = max(1, _STEP_BYTES // (matrix.shape[1] * matrix.itemsize))
        for first, end, chain in steps:
            begin = first
            while begin < end:
                upto = end
                if starts[end] - starts[begin] > most:
                    upto = int(np.searchsorted(starts, starts[begin] + most, side="right")) - 1
                    upto = min(end, max(begin + 1, upto))
                lo, hi = int(starts[begin]), int(starts[upto])
                past = matrix[causes[lo:hi]]
                if hi - lo > upto - begin:
                    past = np.maximum.reduceat(past, starts[begin:upto] - lo, axis=0)
                here = matrix[begin:upto]
                np.maximum(here, past, out=here)
                if chain:
                    np.maximum.accumulate(here, axis=0, out=here)
                begin = upto


def _levels(graph: SendGraph) -> tuple[Longs, Longs, list[int]]:
    """The level of each send row, from 1. If rows depend on themselves, a row of the first sender
    that cannot go on is taken as it is: the causes that are not known then count as none."""
    levels, causes = np.zeros(len(graph.s), dtype=np.int64), graph.cause.copy()
    level, cause, dep_at = levels.data, causes.data, graph.dep_at.data  # faster one by one
    senders = np.arange(graph.senders)
    begin = np.searchsorted(graph.s, senders).tolist()
    end = np.searchsorted(graph.s, senders, side="right").tolist()
    at = list(begin)
    ready = [s for s in range(graph.senders - 1, -1, -1) if begin[s] < end[s]]
    waiting: dict[int, list[int]] = {}
    looped: list[int] = []
    lowest = 0
    while True:
        while ready:
            s = ready.pop()
            i = at[s]
            while i < end[s]:
                high = level[i - 1] if i > begin[s] else 0
                for j in range(dep_at[i], dep_at[i + 1]):
                    row = cause[j]
                    if row >= 0:
                        if not level[row]:
                            waiting.setdefault(row, []).append(s)
                            break
                        if level[row] > high:
                            high = level[row]
                else:
                    level[i] = high + 1
                    if i in waiting:
                        ready += waiting.pop(i)
                    i += 1
                    continue
                break
            at[s] = i
        while lowest < graph.senders and at[lowest] == end[lowest]:
            lowest += 1
        if lowest == graph.senders:
            return levels, causes, looped
        i = at[lowest]
        looped.append(i)
        for j in range(dep_at[i], dep_at[i + 1]):
            if cause[j] >= 0 and not level[cause[j]]:
                cause[j] = -1
        ready.append(lowest)


def _ordered(graph: SendGraph, level: Longs, cause: Longs, looped: list[int]) -> _Order:
    size = len(graph.s)
    by_level = np.argsort(level, kind="stable")
    place = np.empty(size + 1, dtype=np.int64)
    place[by_level] = np.arange(size)
    place[size] = size
    later = np.flatnonzero(graph.s[1:] == graph.s[:-1]) + 1
    known = np.flatnonzero(cause >= 0)
    row = np.searchsorted(graph.dep_at, known, side="right") - 1
    row = np.concatenate([place[later], place[row]]).astype(np.int32)
    before = np.concatenate([place[later - 1], place[cause[known]]]).astype(np.int32)
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=size), out=starts[1:])
    causes = before[np.argsort(row, kind="stable")]
    return _Order(place, causes, starts, list(_steps(level)), looped)


def _steps(level: Longs) -> Iterator[tuple[int, int, bool]]:
    """Levels behind the first, and chains of levels of one row."""
    if not len(level):
        return
    widths = np.bincount(level)[1:]
    ends = np.cumsum(widths)
    single = widths == 1
    turns = np.flatnonzero(~single | np.concatenate([[True], ~single[:-1]]))
    for at, upto in zip(turns.tolist(), [*turns[1:].tolist(), len(widths)], strict=True):
        begin = max(1, at)
        if begin < upto:
            yield int(ends[begin - 1]), int(ends[upto - 1]), bool(single[at])
