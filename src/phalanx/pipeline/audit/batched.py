"""ToTo's batches: a batch is a set of concurrent frames in the order of their senders.

Concurrency is judged by what was delivered, which is less than what was received: a batch that
passes here may still be wrong, one that fails is.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.number_ranges import NONE, Longs
from phalanx.pipeline.audit.past import CHUNK, Late, Past, PastDeliveries, cut

FAR = np.iinfo(np.int64).max


def batches(past: Past, rows: PastDeliveries, with_past: bool = True) -> list[Late]:
    """What one member delivered in a batch, against each other. Without the past, only order and
    frames are compared."""
    parts = cut(past, rows)
    sel = np.flatnonzero(~rows.basic[parts.row] & (rows.batch[parts.row] != NONE))
    if len(sel) < 2:
        return []
    order = sel[np.argsort(rows.v[parts.row[sel]], kind="stable")]
    row, first, last, at = (column[order] for column in parts)
    v, batch, s, frame = (x[row] for x in (rows.v, rows.batch, rows.s, rows.frame))
    turn = np.concatenate([[True], (v[1:] != v[:-1]) | (batch[1:] != batch[:-1])])
    group = np.cumsum(turn) - 1
    found = _in_order(rows, row, first, last, s, frame, group)
    found += _frames(rows, row, first, last, s, frame, group)
    if with_past:
        found += _follows(past, rows, row, first, last, s, at, group)
    return found


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


def _follows(
    past: Past,
    rows: PastDeliveries,
    row: Longs,
    first: Longs,
    last: Longs,
    s: Longs,
    at: Longs,
    group: Longs,
) -> list[Late]:
    """No message of a batch has another of it in its past."""
    found: list[Late] = []
    begin, senders = 0, past.vectors.shape[1]
    while begin < len(group):
        end = int(np.searchsorted(group, group[min(begin + CHUNK, len(group) - 1)], side="right"))
        here = slice(begin, end)
        local = group[here] - group[begin]
        lowest = np.full((int(local[-1]) + 1, senders), FAR, dtype=np.int64)
        np.minimum.at(lowest, (local, s[here]), first[here])
        vectors = past.vectors[at[here]]  # of no send row: zero
        bad = vectors >= lowest[local]
        bad[np.arange(end - begin), s[here]] = False
        for i, other in zip(*np.nonzero(bad), strict=True):
            number = int(lowest[local[i], other])
            early = np.flatnonzero((local == local[i]) & (s[here] == other))
            j, e = begin + int(i), begin + int(early[0])
            found.append(
                _late(
                    "follows",
                    rows,
                    int(row[j]),
                    int(first[j]),
                    int(last[j]),
                    int(other),
                    number,
                    int(row[e]),
                )
            )
        begin = end
    return found
