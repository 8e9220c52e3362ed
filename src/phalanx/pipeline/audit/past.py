"""Cause and effect: each delivery of a member against what came before it, and its whole past.

A send row names its direct dependencies only. A message has its sender's previous messages in its
past, so the past is a vector: for each sender, the highest number. It is transitive, also through
members that were not addressed, and it reaches through views and lives. For each delivery and each
sender in its past one message decides: the last that was for the member. If it came first, so did
all before it, because each was judged in its turn.

Vectors take a number for each send row and sender. They are computed only if `direct_causes` has
no proof for some member.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from phalanx.pipeline.audit.member_masks import Words
from phalanx.pipeline.audit.number_ranges import NONE, SHIFT, Bools, Longs, holder
from phalanx.pipeline.audit.number_ranges import packed as keys

CHUNK = 1 << 15


class PastSends(NamedTuple):
    """The send rows of one run by (s, first). Lists are flat, with where they start."""

    senders: int
    s: Longs
    first: Longs
    last: Longs
    lseq: Longs
    basic: Bools
    home: Longs
    t: Longs
    """The set of receivers: a row of `meant`."""
    dep_at: Longs
    dep_s: Longs
    dep_n: Longs


class PastDeliveries(NamedTuple):
    """The deliveries of one member in the order of its rows."""

    k: int
    s: Longs
    first: Longs
    last: Longs
    lseq: Longs
    v: Longs
    frame: Longs
    batch: Longs
    basic: Bools


class Late(NamedTuple):
    """A message of which the past was not there: `part` of `part_s` was delivered at `lseq` in
    `v`, and what it follows is `number` of `s`, which came at `cause` in `w`, if it came."""

    kind: str
    k: int
    s: int
    number: int
    v: int
    w: int
    part_s: int
    part_first: int
    part_last: int
    lseq: int
    cause: int


class Past:
    """The vectors of one run."""

    def __init__(self, sends: PastSends, meant: Words, bits: Words) -> None:
        """`meant`: per set of receivers its members; `bits`: per member the set of it alone."""
        self.sends = sends
        self._meant, self._bits = meant, bits
        self.keys = keys(sends.s, sends.first)
        self._looped: list[int] = []

    @property
    def looped(self) -> list[int]:
        """Send rows that depend on themselves."""
        assert len(self.vectors)
        return self._looped

    @cached_property
    def vectors(self) -> Longs:
        """Per send row, the highest number of each sender in its past. The last row is that of no
        message: zero."""
        sends = self.sends
        vectors = np.zeros((len(sends.s) + 1, max(1, sends.senders)), dtype=np.int64)
        self._fill(vectors)
        return vectors

    @cached_property
    def weight(self) -> Longs:
        """Per send row, how many other senders are in its past."""
        own = self.vectors[np.arange(len(self.sends.s)), self.sends.s] > 0
        found: Longs = (self.vectors[:-1] > 0).sum(axis=1) - own
        return found

    def rows_of(self, s: Longs, number: Longs) -> Longs:
        """The send row of each message; -1 where there is none."""
        return holder(self.keys, self.sends.last, self.sends.s, s, number)

    def _fill(self, vectors: Longs) -> None:
        """Each sender goes on until a dependency is not known yet; round and round. The last row
        is always known."""
        sends = self.sends
        known = np.zeros(len(vectors), dtype=bool)
        known[-1] = True
        direct = self.rows_of(sends.dep_s, sends.dep_n)
        begin = np.searchsorted(sends.s, np.arange(sends.senders))
        end = np.searchsorted(sends.s, np.arange(sends.senders), side="right")
        at = begin.copy()
        open_ = [s for s in range(sends.senders) if at[s] < end[s]]
        while open_:
            moved = False
            for s in open_:
                i = int(at[s])
                while i < end[s] and self._row(vectors, i, i > begin[s], direct, known, False):
                    i += 1
                moved |= i > at[s]
                at[s] = i
            if not moved:
                s = open_[0]
                self._looped.append(int(at[s]))
                self._row(vectors, int(at[s]), at[s] > begin[s], direct, known, True)
                at[s] += 1
            open_ = [s for s in open_ if at[s] < end[s]]

    def _row(
        self, vectors: Longs, i: int, later: Any, direct: Longs, known: Bools, at_once: bool
    ) -> bool:
        """The vector of a row; False while what it needs is not known."""
        sends = self.sends
        lo, hi = int(sends.dep_at[i]), int(sends.dep_at[i + 1])
        if lo < hi:
            rows = direct[lo:hi]
            if not known[rows].all():
                if not at_once:
                    return False
                rows = rows[known[rows]]
            past = vectors[rows].max(axis=0, initial=0)
            who, number = sends.dep_s[lo:hi], sends.dep_n[lo:hi]
            past[who] = np.maximum(past[who], number)
            vectors[i] = np.maximum(past, vectors[i - 1]) if later else past
        elif later:
            vectors[i] = vectors[i - 1]
        known[i] = True
        return True

    def due(self, k: int) -> Longs:
        """The send rows that are for a member, and ordered at all."""
        mine = (self._meant[self.sends.t] & self._bits[k]).any(axis=1)
        return np.flatnonzero(mine & ~self.sends.basic)


class Parts(NamedTuple):
    """Deliveries cut by send rows: `row` of the deliveries, `at` of the sends or -1."""

    row: Longs
    first: Longs
    last: Longs
    at: Longs


def cut(past: Past, rows: PastDeliveries) -> Parts:
    at = past.rows_of(rows.s, rows.first)
    end = past.rows_of(rows.s, rows.last)
    n = np.arange(len(at))
    odd = np.flatnonzero(at != end)  # nearly always none: a row is of one frame, as a send row is
    if not len(odd):
        return Parts(n, rows.first, rows.last, at)
    keep = np.ones(len(at), dtype=bool)
    keep[odd] = False
    pieces = [piece for i in odd for piece in _pieces(past, rows, int(i))]
    more = np.array(pieces, dtype=np.int64).reshape(-1, 4)
    columns = (n, rows.first, rows.last, at)
    row, first, last, where = (
        np.concatenate([column[keep], more[:, j]]) for j, column in enumerate(columns)
    )
    order = np.lexsort((first, row))
    return Parts(row[order], first[order], last[order], where[order])


def _pieces(past: Past, rows: PastDeliveries, i: int) -> Iterator[tuple[int, int, int, int]]:
    sends = past.sends
    s, first, last = int(rows.s[i]), int(rows.first[i]), int(rows.last[i])
    at = int(np.searchsorted(past.keys, (s << SHIFT) | first, side="right")) - 1
    at = max(at, 0)
    while at < len(sends.s) and (sends.s[at] < s or (sends.s[at] == s and sends.first[at] <= last)):
        if sends.s[at] == s and sends.last[at] >= first:
            lo, hi = max(first, int(sends.first[at])), min(last, int(sends.last[at]))
            if lo > first:
                yield i, first, lo - 1, -1
            yield i, lo, hi, at
            first = hi + 1
        at += 1
    if first <= last:
        yield i, first, last, -1


class Judged(NamedTuple):
    """How often each was asked, and what was found."""

    fifo: int
    causal: int
    reliable: int
    crossing: int
    late: list[Late]


def judge_fifo(past: Past, rows: PastDeliveries) -> tuple[int, list[Late]]:
    """Fifo alone, of one member: it needs no vectors."""
    parts = cut(past, rows)
    return _fifo(rows, Parts(*(column[~rows.basic[parts.row]] for column in parts)))


def judge(past: Past, rows: PastDeliveries) -> Judged:
    """Fifo, causal, reliable causal and no inversion across views, of one member."""
    parts = cut(past, rows)
    nonbasic = ~rows.basic[parts.row]
    fifo, swapped = _fifo(rows, Parts(*(column[nonbasic] for column in parts)))
    judged = np.flatnonzero((parts.at >= 0) & nonbasic)
    part = Parts(*(column[judged] for column in parts))
    weight = past.weight[part.at]
    asked = int(weight.sum())
    at, s, number = _candidates(past, rows, part)
    crossing, late = _against(past, rows, part, at, s, number)
    return Judged(fifo, asked, asked + int((part.first > 1).sum()), crossing, swapped + late)


def _fifo(rows: PastDeliveries, parts: Parts) -> tuple[int, list[Late]]:
    """Of each sender rising numbers, as long as the view stays the same."""
    v, s = rows.v[parts.row], rows.s[parts.row]
    if not len(v):
        return 0, []
    stay = np.concatenate([[0], np.cumsum(v[1:] != v[:-1])])
    order = np.lexsort((s, stay))  # stable: within a sender as they were delivered
    row, first, last, s, stay = (x[order] for x in (parts.row, parts.first, parts.last, s, stay))
    group = np.concatenate([[0], np.cumsum((s[1:] != s[:-1]) | (stay[1:] != stay[:-1]))])
    key = keys(group, last)
    highest = np.maximum.accumulate(key)
    holder = np.maximum.accumulate(np.where(key == highest, np.arange(len(key)), 0))
    same = group[1:] == group[:-1]
    late = []
    for i in np.flatnonzero(same & (keys(group[1:], first[1:]) <= highest[:-1])) + 1:
        before, here, there = int(holder[i - 1]), int(row[i]), int(row[holder[i - 1]])
        late.append(
            Late(
                "fifo",
                rows.k,
                int(s[i]),
                int(first[before]),
                int(rows.v[here]),
                int(rows.v[here]),
                int(s[i]),
                int(first[i]),
                int(last[i]),
                int(rows.lseq[here]),
                int(rows.lseq[there]),
            )
        )
    return int(same.sum()), late


def _candidates(past: Past, rows: PastDeliveries, part: Parts) -> tuple[Longs, Longs, Longs]:
    """What no delivery of the same view had in its past, or was itself, before: which part, which
    sender, up to which number. Almost every delivery finds all of its past there."""
    own, v = rows.s[part.row], rows.v[part.row]
    turns = np.flatnonzero(np.diff(v)) + 1
    found: list[tuple[Longs, Longs, Longs]] = []
    for begin, end in zip([0, *turns], [*turns, len(v)], strict=True):
        cleared = np.zeros(past.vectors.shape[1], dtype=np.int64)
        for lo in range(int(begin), int(end), CHUNK):
            here = slice(lo, min(int(end), lo + CHUNK))
            mine = (np.arange(here.stop - lo), own[here])
            need = past.vectors[part.at[here]]
            after = need.copy()
            need[mine] = np.maximum(need[mine], part.first[here] - 1)
            after[mine] = np.maximum(after[mine], part.last[here])
            np.maximum(after[:1], cleared, out=after[:1])
            np.maximum.accumulate(after, axis=0, out=after)
            new = np.empty(need.shape, dtype=bool)
            new[0] = need[0] > cleared
            np.greater(need[1:], after[:-1], out=new[1:])
            cleared = after[-1].copy()
            i, s = np.nonzero(new)
            found.append((i + lo, s, need[i, s]))
    if not found:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    at, s, number = (np.concatenate(column) for column in zip(*found, strict=True))
    return at, s, number


def _against(
    past: Past, rows: PastDeliveries, part: Parts, at: Longs, s: Longs, number: Longs
) -> tuple[int, list[Late]]:
    """Part `at` follows all messages of `s` up to `number`: did the last for the member come?"""
    sends = past.sends
    due = past.due(rows.k)
    if not len(due) or not len(at):
        return 0, []
    place = np.searchsorted(past.keys[due], keys(s, number), side="right") - 1
    row = due[place]
    some = (place >= 0) & (sends.s[row] == s)
    at, s, row, number = at[some], s[some], row[some], number[some]
    number = np.minimum(number, sends.last[row])
    order = np.lexsort((rows.first, rows.s))
    starts = keys(rows.s, rows.first)[order]
    cause = holder(starts, rows.last[order], rows.s[order], s, number)
    came = cause >= 0
    cause = np.where(came, order[cause], 0)
    me = part.row[at]
    same = came & (rows.v[cause] == rows.v[me])
    after = came & (cause > me)
    elsewhere = came & ~same
    home = sends.home[row]
    ways = {
        "reliable-causal": ~came & (home == rows.v[me]),
        "homeless": ~came & (home < 0),
        "causal": same & after & (s != rows.s[me]),
        "no-view-crossing-inversion": elsewhere & after,
    }
    late: dict[tuple[str, int, int, int], Late] = {}
    for kind, bad in ways.items():
        for i in np.flatnonzero(bad):
            p = int(at[i])
            j = int(me[i])
            found = Late(
                kind,
                rows.k,
                int(s[i]),
                int(number[i]),
                int(rows.v[j]),
                int(rows.v[cause[i]]) if came[i] else NONE,
                int(rows.s[j]),
                int(part.first[p]),
                int(part.last[p]),
                int(rows.lseq[j]),
                int(rows.lseq[cause[i]]) if came[i] else int(sends.lseq[row[i]]),
            )
            where = found.v if kind == "homeless" else 0
            late.setdefault((kind, found.s, found.number, where), found)
    return int(elsewhere.sum()), list(late.values())
