"""Cause and effect: each delivery of a member against what came before it, and its whole past.

A send row names its direct dependencies only. A message has its sender's previous messages in its
past, so the past is a vector: for each sender, the highest number. It is transitive, also through
members that were not addressed, and it reaches through views and lives. For each delivery and each
sender in its past one message decides: the last that was for the member. If it came first, so did
all before it, because each was judged in its turn.

Vectors take a number for each send row and sender. They are computed only if `direct_causes` has
no proof for some member, and then for a block of senders at a time (`past_vectors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from phalanx.pipeline.audit.member_masks import Words
from phalanx.pipeline.audit.number_ranges import NONE, SHIFT, Bools, Longs, holder
from phalanx.pipeline.audit.number_ranges import packed as keys
from phalanx.pipeline.audit.past_vectors import PastVectors, SendGraph, VectorBlock

CHUNK = 1 << 15
CHUNK_BYTES = 2 << 20
"""Vectors that are compared at a time: at most so many rows, and about so many bytes."""


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
    """The send rows of one run, and the vectors of their past."""

    def __init__(
        self, sends: PastSends, meant: Words, bits: Words, block_bytes: int | None = None
    ) -> None:
        """`meant`: per set of receivers its members; `bits`: per member the set of it alone."""
        self.sends = sends
        self._meant, self._bits = meant, bits
        self._block_bytes = block_bytes
        self.keys = keys(sends.s, sends.first)

    @cached_property
    def vectors(self) -> PastVectors:
        sends = self.sends
        cause = self.rows_of(sends.dep_s, sends.dep_n)
        graph = SendGraph(
            senders=sends.senders,
            s=sends.s,
            highest=int(sends.last.max(initial=0)),
            dep_at=sends.dep_at,
            dep_s=sends.dep_s,
            dep_n=sends.dep_n,
            cause=cause,
        )
        return PastVectors(graph, self._block_bytes)

    @property
    def looped(self) -> list[int]:
        """Send rows that depend on themselves."""
        return self.vectors.looped

    def compare(self, readers: Sequence[VectorReader]) -> None:
        """Shows all vectors to each reader, block by block."""
        if readers:
            for block in self.vectors.blocks():
                for reader in readers:
                    reader.read(block)

    def rows_of(self, s: Longs, number: Longs) -> Longs:
        """The send row of each message; -1 where there is none."""
        return holder(self.keys, self.sends.last, self.sends.s, s, number)

    def due(self, k: int) -> Longs:
        """The send rows that are for a member, and ordered at all."""
        mine = (self._meant[self.sends.t] & self._bits[k]).any(axis=1)
        return np.flatnonzero(mine & ~self.sends.basic)


class VectorReader(Protocol):
    """Compares the vectors of some send rows, a block of senders at a time."""

    def read(self, block: VectorBlock) -> None: ...


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


def judge_fifo(rows: PastDeliveries, parts: Parts) -> tuple[int, list[Late]]:
    """Fifo alone, of one member: it needs no vectors."""
    return _fifo(rows, Parts(*(column[~rows.basic[parts.row]] for column in parts)))


def judge(past: Past, rows: PastDeliveries) -> Judged:
    """Fifo, causal, reliable causal and no inversion across views, of one member."""
    member = PastOfMember(past, rows, cut(past, rows))
    past.compare([member])
    return member.judged()


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


class PastOfMember:
    """The deliveries of one member against the vectors of what it delivered."""

    def __init__(self, past: Past, rows: PastDeliveries, parts: Parts) -> None:
        self._past, self._rows = past, rows
        nonbasic = ~rows.basic[parts.row]
        self._fifo, self._late = _fifo(rows, Parts(*(column[nonbasic] for column in parts)))
        judged = np.flatnonzero((parts.at >= 0) & nonbasic)
        self._part = Parts(*(column[judged] for column in parts))
        self._due = past.due(rows.k)
        self._due_keys = past.keys[self._due]
        self._order = order = np.lexsort((rows.first, rows.s))
        self._ranges = keys(rows.s, rows.first)[order], rows.last[order], rows.s[order]
        self._asked = self._crossing = 0

    def read(self, block: VectorBlock) -> None:
        at, s, number = self._candidates(block)
        crossing, late = self._against(at, s, number)
        self._crossing += crossing
        self._late += late

    def judged(self) -> Judged:
        """After all blocks."""
        reliable = self._asked + int((self._part.first > 1).sum())
        return Judged(self._fifo, self._asked, reliable, self._crossing, self._late)

    def _candidates(self, block: VectorBlock) -> tuple[Longs, Longs, Longs]:
        """What no delivery of the same view had in its past, or was itself, before: which part,
        which sender, up to which number. Almost every delivery finds all of its past there."""
        part = self._part
        own, v = self._rows.s[part.row], self._rows.v[part.row]
        turns = np.flatnonzero(np.diff(v)) + 1
        size = max(1, min(CHUNK, CHUNK_BYTES // (block.width * block.matrix.itemsize)))
        found: list[tuple[Longs, Longs, Longs]] = []
        for begin, end in zip([0, *turns], [*turns, len(v)], strict=True):
            cleared = np.zeros(block.width, dtype=block.matrix.dtype)
            for lo in range(int(begin), int(end), size):
                here = slice(lo, min(int(end), lo + size))
                need = block.of(part.at[here])
                inside = np.flatnonzero((own[here] >= block.low) & (own[here] < block.high))
                mine = inside, own[here][inside] - block.low
                self._asked += int(np.count_nonzero(need) - np.count_nonzero(need[mine]))
                after = need.copy()
                need[mine] = np.maximum(need[mine], part.first[here][inside] - 1)
                after[mine] = np.maximum(after[mine], part.last[here][inside])
                np.maximum(after[:1], cleared, out=after[:1])
                np.maximum.accumulate(after, axis=0, out=after)
                new = np.empty(need.shape, dtype=bool)
                new[0] = need[0] > cleared
                np.greater(need[1:], after[:-1], out=new[1:])
                cleared = after[-1].copy()
                i, s = np.nonzero(new)
                found.append((i + lo, s + block.low, need[i, s]))
        if not found:
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty, empty
        at, s, number = (np.concatenate(column) for column in zip(*found, strict=True))
        return at, s, number

    def _against(self, at: Longs, s: Longs, number: Longs) -> tuple[int, list[Late]]:
        """Part `at` follows all of `s` up to `number`: did the last for the member come?"""
        past, rows, part = self._past, self._rows, self._part
        sends, due, order = past.sends, self._due, self._order
        if not len(due) or not len(at):
            return 0, []
        place = np.searchsorted(self._due_keys, keys(s, number), side="right") - 1
        row = due[place]
        some = (place >= 0) & (sends.s[row] == s)
        at, s, row, number = at[some], s[some], row[some], number[some]
        number = np.minimum(number, sends.last[row])
        cause = holder(*self._ranges, s, number)
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
