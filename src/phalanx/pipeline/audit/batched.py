"""ToTo's batches: a batch is a set of concurrent frames in the order of their senders.

Concurrency is judged by what was delivered, which is less than what was received: a batch that
passes here may still be wrong, one that fails is.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.number_ranges import NONE, Longs
from phalanx.pipeline.audit.past import (
    CHUNK,
    CHUNK_BYTES,
    Late,
    Parts,
    Past,
    PastDeliveries,
    cut,
)
from phalanx.pipeline.audit.past_vectors import VectorBlock

FAR = np.iinfo(np.int64).max


def batches(past: Past, rows: PastDeliveries, with_past: bool = True) -> list[Late]:
    """What one member delivered in a batch, against each other. Without the past, only order and
    frames are compared."""
    member = Batches(rows, cut(past, rows))
    if with_past:
        past.compare([member])
    return member.late


class Batches:
    """The batches of one member. `late` has what is wrong in them: at first by order and frames,
    after the vectors of their past also what follows what."""

    def __init__(self, rows: PastDeliveries, parts: Parts) -> None:
        sel = np.flatnonzero(~rows.basic[parts.row] & (rows.batch[parts.row] != NONE))
        order = sel[np.argsort(rows.v[parts.row[sel]], kind="stable")]
        row, first, last, at = (column[order] for column in parts)
        v, batch, s, frame = (x[row] for x in (rows.v, rows.batch, rows.s, rows.frame))
        new = np.ones(len(row), dtype=bool)
        new[1:] = (v[1:] != v[:-1]) | (batch[1:] != batch[:-1])
        group = np.cumsum(new) - 1
        self._rows, self._row, self._first, self._last = rows, row, first, last
        self._s, self._at, self._group = s, at, group
        self.late = _in_order(rows, row, first, last, s, frame, group)
        self.late += _frames(rows, row, first, last, s, frame, group)

    @property
    def some(self) -> bool:
        """A batch has two parts."""
        return len(self._group) > 0 and int(self._group[-1]) + 1 < len(self._group)

    def read(self, block: VectorBlock) -> None:
        """No message of a batch has another of it in its past."""
        group, s, first = self._group, self._s, self._first
        size = max(1, min(CHUNK, CHUNK_BYTES // (block.width * block.matrix.itemsize)))
        begin = 0
        while begin < len(group):
            end = int(np.searchsorted(group, group[min(begin + size, len(group) - 1)], "right"))
            here = slice(begin, end)
            local = group[here] - group[begin]
            inside = np.flatnonzero((s[here] >= block.low) & (s[here] < block.high))
            mine = s[here][inside] - block.low
            lowest = np.full((int(local[-1]) + 1, block.width), FAR, dtype=np.int64)
            np.minimum.at(lowest, (local[inside], mine), first[here][inside])
            bad = block.of(self._at[here]) >= lowest[local]
            bad[inside, mine] = False
            for i, column in zip(*np.nonzero(bad), strict=True):
                other = block.low + int(column)
                early = np.flatnonzero((local == local[i]) & (s[here] == other))
                number = int(lowest[local[i], column])
                self._follows(begin + int(i), other, number, begin + int(early[0]))
            begin = end

    def _follows(self, j: int, other: int, number: int, early: int) -> None:
        first, last = int(self._first[j]), int(self._last[j])
        row, before = int(self._row[j]), int(self._row[early])
        self.late.append(_late("follows", self._rows, row, first, last, other, number, before))


def _late(
    kind: str, rows: PastDeliveries, i: int, first: int, last: int, s: int, number: int, early: int
) -> Late:
    """`number` of `s` at row `early` is not as it should be next to the part of row `i`."""
    v = int(rows.v[i])
    lseq, cause = int(rows.lseq[i]), int(rows.lseq[early])
    return Late(kind, rows.k, s, number, v, v, int(rows.s[i]), first, last, lseq, cause)


def _in_order(
    rows: PastDeliveries,
    row: Longs,
    first: Longs,
    last: Longs,
    s: Longs,
    frame: Longs,
    group: Longs,
) -> list[Late]:
    """Rising sender, frame, number."""
    same = group[1:] == group[:-1]
    back = s[1:] < s[:-1]
    level = s[1:] == s[:-1]
    back |= level & (frame[1:] < frame[:-1])
    back |= level & (frame[1:] == frame[:-1]) & (first[1:] <= first[:-1])
    return [
        _late(
            "order",
            rows,
            int(row[i + 1]),
            int(first[i + 1]),
            int(last[i + 1]),
            int(s[i]),
            int(first[i]),
            int(row[i]),
        )
        for i in np.flatnonzero(same & back)
    ]


def _frames(
    rows: PastDeliveries,
    row: Longs,
    first: Longs,
    last: Longs,
    s: Longs,
    frame: Longs,
    group: Longs,
) -> list[Late]:
    """Two frames of one sender follow each other."""
    order = np.lexsort((first, s, group))
    a, b = order[:-1], order[1:]
    two = (group[a] == group[b]) & (s[a] == s[b]) & (frame[a] != frame[b])
    return [
        _late(
            "follows",
            rows,
            int(row[y]),
            int(first[y]),
            int(last[y]),
            int(s[x]),
            int(first[x]),
            int(row[x]),
        )
        for x, y in zip(a[two], b[two], strict=True)
    ]
