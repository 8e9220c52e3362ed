"""All members' deliveries of the same messages, side by side, next to their sending.

The numbers of a sender are cut at every boundary of every range, sent or delivered: a *cell* has
one sending, and every member delivered all of it or none. A *way* is a cell and one manner in which
it was delivered (view, service, frame, position, ...), with the set of members that did so. What
members have in common is compared once per way and not once per member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from phalanx.pipeline.audit.member_masks import MaskSpace, Words, united
from phalanx.pipeline.audit.message_columns import Columns, Deliveries, Sends
from phalanx.pipeline.audit.number_ranges import (
    NONE,
    Bools,
    Longs,
    NumberStretch,
    cut,
    first_wins,
    grid,
    group_starts,
    holder,
    overlapping,
    packed,
    stable_order,
)
from phalanx.pipeline.audit.row_coder import AGREED, BASIC

FAR = np.iinfo(np.int64).max


@dataclass(slots=True, kw_only=True)
class Ways(Columns):
    """One row for each manner in which a cell was delivered, by cell."""

    cell: Longs
    s: Longs
    c1: Longs
    c2: Longs
    v: Longs
    o: Longs
    service: Longs
    frame: Longs
    pos: Longs
    """The position of the first message of the cell; NONE without one."""
    batch: Longs
    t: Longs
    head: Bools
    """The cell begins a range that one delivery and one sending share."""
    n: Longs
    """How many deliveries."""
    k: Longs
    """A member that did it, and the row of its journal."""
    lseq: Longs
    own_step: Longs
    own_lseq: Longs
    """Step and row of the sender's own delivery; FAR without one."""
    ns: Longs
    """When another member first delivered it; FAR if that is not known."""
    sent: Longs
    """The index of its sending; -1 without one."""


class DeliveredCells:
    """The cells of some senders of a group."""

    def __init__(
        self,
        deliveries: Deliveries,
        sends: Sends,
        masks: MaskSpace,
        stretch: NumberStretch | None = None,
    ) -> None:
        """Deliveries and sends have each message once; sends are sorted by sender and number. With
        a stretch, only cells in it count: all ranges that meet it must be there."""
        self.masks, self.sends = masks, sends
        d = deliveries
        ranges = [(d.s, d.first, d.last), (sends.s, sends.first, sends.last)]
        if stretch is not None:
            every = np.flatnonzero(stretch.low < stretch.high)
            ranges.append((every, stretch.low[every], stretch.high[every] - 1))
        self.grid = grid(*ranges)
        starts = packed(sends.s, sends.first)
        first, key = self.grid.first, self.grid.key
        self.sent = holder(starts, sends.last, sends.s, key, first)
        """Per cell, the index of its sending; -1 without one."""
        self._counts = None if stretch is None else stretch.has(key, first)
        if self._counts is not None:
            self.sent[~self._counts] = -1
        self._gather(d)

    def _gather(self, d: Deliveries) -> None:
        row, cell = cut(self.grid, d.s, d.first, d.last)
        if self._counts is not None:
            row, cell = row[self._counts[cell]], cell[self._counts[cell]]
        c1 = self.grid.first[cell]
        pos = np.where(d.pos[row] == NONE, NONE, d.pos[row] + c1 - d.first[row])
        attributes = (d.v[row], d.o[row], d.service[row], d.frame[row], pos, d.batch[row], d.t[row])
        order = _way_order(cell, (*attributes, d.first[row]))
        row, cell, pos, c1 = row[order], cell[order], pos[order], c1[order]
        at = group_starts(cell, *(column[order] for column in attributes), d.first[row])
        bits = self.masks.bits[d.k[row]]
        own = d.k[row] == d.s[row]
        sent = self.sent[cell[at]]
        begin = np.where(sent >= 0, self.sends.first[sent] if len(self.sends) else 0, 0)
        self.ways = Ways(
            cell=cell[at],
            s=d.s[row[at]],
            c1=c1[at],
            c2=self.grid.last[cell[at]],
            v=d.v[row[at]],
            o=d.o[row[at]],
            service=d.service[row[at]],
            frame=d.frame[row[at]],
            pos=pos[at],
            batch=d.batch[row[at]],
            t=d.t[row[at]],
            head=c1[at] == np.maximum(d.first[row[at]], begin),
            n=np.diff(np.append(at, len(row))),
            k=d.k[row[at]],
            lseq=d.lseq[row[at]],
            own_step=_least(np.where(own, d.step[row], FAR), at),
            own_lseq=_least(np.where(own, d.lseq[row], FAR), at),
            ns=_least(np.where(own | (d.ns[row] == NONE), FAR, d.ns[row]), at),
            sent=sent,
        )
        self.meant = self.ways.t.copy()
        """Per way, the set that its messages are for: as the send row says, if it is there. A
        member whose row names other receivers is wrong about that, and no one else is."""
        self.meant[sent >= 0] = self.sends.t[sent[sent >= 0]]
        self.mask = united(bits, at)
        """Per way, who did it."""
        regular = np.where(d.regular[row][:, None], bits, np.uint64(0))
        self.regular = united(regular, at)
        """Per way, who did it before the marker."""
        cells = len(self.grid.points)
        self.had = _by(self.ways.cell, self.mask, cells)
        """Per cell, who delivered it in any view."""
        self.had_regular = _by(self.ways.cell, self.regular, cells)
        self._viewed()

    def _viewed(self) -> None:
        """What members did with a cell in one view, whatever the rest of the way."""
        w = self.ways
        at = group_starts(w.cell, w.v)  # ways are sorted by both
        counts = np.diff(np.append(at, len(w)))
        nobody = np.uint64(0)
        nonbasic = (w.service != BASIC)[:, None]
        placed = ((w.service >= AGREED) & (w.pos != NONE))[:, None]
        self.have = np.repeat(united(self.mask, at), counts, axis=0)
        """Per way, who delivered the cell in the view of the way."""
        in_order = np.where(nonbasic, self.mask, nobody)
        self.in_order = np.repeat(united(in_order, at), counts, axis=0)
        """... in order, that is not as basic."""
        self.placed = np.repeat(united(np.where(placed, self.mask, nobody), at), counts, axis=0)
        """... with an agreed position."""
        shown = np.where(w.service != BASIC, w.v, -1)
        cells = group_starts(w.cell)
        many = np.diff(np.append(cells, len(w)))
        if len(w):
            low = np.minimum.reduceat(np.where(shown < 0, FAR, shown), cells)
            high = np.maximum.reduceat(shown, cells)
            self.several = np.repeat((high >= 0) & (low != high), many)
        else:
            self.several = np.zeros(0, dtype=bool)
        """Per way, whether members delivered its cell in several views."""

    def had_in(self, cell: Longs, v: Longs) -> Words:
        """Who delivered these cells in these views."""
        w = self.ways
        starts = group_starts(w.cell, w.v)
        many = int(max(w.v.max(initial=0), v.max(initial=0))) + 1
        keys = w.cell[starts] * many + w.v[starts]
        at = np.searchsorted(keys, cell * many + v)
        fits = (at < len(keys)) & (v >= 0)
        fits[fits] = keys[at[fits]] == (cell * many + v)[fits]
        found = self.masks.nobody(len(cell))
        found[fits] = self.have[starts[at[fits]]]
        return found


def _way_order(cell: Longs, attributes: Sequence[Longs]) -> Longs:
    """Rows by cell and attributes. Rows of equal ones stay in their order, which is that of members
    and their journals. In nearly all cells the attributes are equal, so that only rows of the
    others are sorted by all of them."""
    order = stable_order(cell)
    sorted_cells = cell[order]
    starts = group_starts(sorted_cells)
    differs = np.zeros(len(order), dtype=bool)
    for column in attributes:
        differs[1:] |= column[order[1:]] != column[order[:-1]]
    differs[starts] = False
    counts = np.diff(np.append(starts, len(order)))
    odd_cells = np.logical_or.reduceat(differs, starts) if len(starts) else differs
    odd = np.flatnonzero(np.repeat(odd_cells, counts))
    if len(odd):
        rows = order[odd]
        order[odd] = rows[
            np.lexsort([*(column[rows] for column in reversed(attributes)), cell[rows]])
        ]
    return order


def _least(values: Longs, at: Longs) -> Longs:
    if not len(at):
        return values[:0]
    found: Longs = np.minimum.reduceat(values, at)
    return found


def _by(cell: Longs, masks: Words, cells: int) -> Words:
    """Sets united by cell; `cell` is sorted."""
    found = np.zeros((cells, masks.shape[1]), dtype=np.uint64)
    at = group_starts(cell)
    found[cell[at]] = united(masks, at)
    return found


# ---------------------------------------------------------------------------- each message once


def deliveries_once(rows: Deliveries, members: int) -> tuple[Deliveries, Deliveries]:
    """Deliveries of which each member has each message once, the first one; and the rows that
    repeat something."""
    group = rows.k * members + rows.s
    doubled = overlapping(group, rows.first, rows.last)
    if not len(doubled):
        return rows, rows.at(np.zeros(0, dtype=np.int64))
    odd = np.isin(group, doubled)
    where, first, last, again = _pieces(group, rows.lseq, rows.first, rows.last, odd)
    pieces = rows.at(where)
    pieces.pos = np.where(pieces.pos == NONE, NONE, pieces.pos + first - pieces.first)
    pieces.first, pieces.last = first, last
    made = rows.at(~odd).joined(pieces)
    return made.at(np.lexsort((made.first, made.lseq, made.k))), rows.at(again)


def sends_once(rows: Sends) -> tuple[Sends, Sends]:
    """Sends of which each number was sent once, first; and the rows that repeat something."""
    doubled = overlapping(rows.s, rows.first, rows.last)
    if not len(doubled):
        return rows, rows.at(np.zeros(0, dtype=np.int64))
    odd = np.isin(rows.s, doubled)
    where, first, last, again = _pieces(rows.s, rows.lseq, rows.first, rows.last, odd)
    pieces = rows.at(where)
    pieces.first, pieces.last = first, last
    made = rows.at(~odd).joined(pieces)
    return made.at(np.lexsort((made.lseq, made.first, made.s))), rows.at(again)


def _pieces(
    group: Longs, lseq: Longs, first: Longs, last: Longs, odd: Bools
) -> tuple[Longs, Longs, Longs, Longs]:
    """Of the odd rows: pieces as row, first and last, and the rows that lost something."""
    chosen = np.flatnonzero(odd)
    chosen = chosen[np.lexsort((lseq[chosen], group[chosen]))]
    starts = [*group_starts(group[chosen]).tolist(), len(chosen)]
    pieces = []
    for begin, end in pairwise(starts):
        rows = chosen[begin:end].tolist()
        ranges = [(row, int(first[row]), int(last[row])) for row in rows]
        pieces += list(first_wins(ranges))
    kept = np.zeros(len(group), dtype=np.int64)
    found = np.array(pieces, dtype=np.int64).reshape(-1, 3)
    np.add.at(kept, found[:, 0], found[:, 2] - found[:, 1] + 1)
    again = chosen[kept[chosen] < last[chosen] - first[chosen] + 1]
    return found[:, 0], found[:, 1], found[:, 2], np.sort(again)
