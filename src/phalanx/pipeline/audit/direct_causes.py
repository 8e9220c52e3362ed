"""Causality by induction: where every direct cause comes first, so does the whole past.

A vector of its whole past for every send row takes memory and time that grow with the number of
senders. Nearly always a shorter proof will do. Say that of one member k

1. no message is basic or addressed to some members only, every send row is there, but for those of
   earlier views if only some views are judged, and the direct causes of a message (its
   dependencies, and the sender's message before it) belong to its view or to one with a lower
   epoch;
2. k delivers each message in the view that it belongs to, and the epochs of the views of k rise;
3. each direct cause that belongs to the same view was delivered by k before;
4. every dependency of what k sends was delivered by k;
5. no dependency of a message was delivered by k since the batch of the message began.

Then fifo, causal, reliable causal and no inversion across views hold at k: along a chain of causes
epochs never rise. As long as the chain stays in the view of the delivery, each cause was delivered
before the one that it leads to (3). Once it leaves the view it never comes back, so no later cause
belongs to the view, and those that k delivered it delivered in views with lower epochs, that is
before (2). With 4 no message depends on itself: a chain that returned to a message of k would have
to be delivered before itself. With 5 no message of a batch has another one of it in its past: the
last step of a chain between them would be a dependency within the batch. Where one of these fails,
`past` judges with vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs, holder, packed
from phalanx.pipeline.audit.past import Parts, PastDeliveries, PastSends


class DirectCauses:
    """The direct causes of the sends of a group, and whether the induction applies (1)."""

    def __init__(self, sends: PastSends, epochs: Longs, sent_before: Longs) -> None:
        """`epochs`: per view, rising with its epoch; -1 if that is not known. `sent_before`: per
        sender, numbers up to this one were sent before the rows that are here."""
        self.sends, self.epochs, self.sent_before = sends, epochs, sent_before
        self.keys = packed(sends.s, sends.first)
        size = len(sends.s)
        self.row = np.repeat(np.arange(size), np.diff(sends.dep_at))
        """Per dependency, the send row that has it."""
        self.cause = holder(self.keys, sends.last, sends.s, sends.dep_s, sends.dep_n)
        """Per dependency, the send row that it is a message of; -1 if there is none."""
        self.applies = self._applies()
        many = np.concatenate([[0], np.cumsum(np.diff(sends.dep_at) > 0)])
        begin = np.searchsorted(sends.s, sends.s)
        self.has_causes = many[1:] > many[begin] if size else np.zeros(0, dtype=bool)
        """Per send row, whether it or an earlier one of its sender has a dependency."""

    def _applies(self) -> bool:
        sends, epochs = self.sends, self.epochs
        if not len(sends.s):
            return True
        if sends.basic.any() or (sends.t >= 0).any() or (sends.home < 0).any():
            return False
        if (epochs[sends.home] < 0).any():
            return False
        if (self.cause[sends.dep_n > self.sent_before[sends.dep_s]] < 0).any():
            return False
        same = sends.s[1:] == sends.s[:-1]
        if (sends.first[1:][same] != sends.last[:-1][same] + 1).any():
            return False
        begins = np.concatenate([[True], ~same])
        if (sends.first[begins] != self.sent_before[sends.s[begins]] + 1).any():
            return False
        later, here = np.flatnonzero(same) + 1, self.cause >= 0
        earlier = self._older(self.cause[here], self.row[here])
        return bool(self._older(later - 1, later).all() and earlier.all())

    def _older(self, cause: Longs, row: Longs) -> Bools:
        """The cause belongs to the view of the row, or to one with a lower epoch."""
        home = self.sends.home
        found: Bools = self.epochs[home[cause]] < self.epochs[home[row]]
        found |= home[cause] == home[row]
        return found


def _batch_starts(rows: PastDeliveries) -> Longs:
    """Per delivery, where its batch began; behind the end without one."""
    size = len(rows.s)
    starts = np.full(size, size)
    batched = np.flatnonzero(rows.batch != NONE)
    if not len(batched):
        return starts
    v, batch = rows.v[batched], rows.batch[batched]
    new = np.concatenate([[True], (v[1:] != v[:-1]) | (batch[1:] != batch[:-1])])
    starts[batched] = batched[np.flatnonzero(new)][np.cumsum(new) - 1]
    return starts


class Shown(NamedTuple):
    """The induction applies to a member: how often each property was tested."""

    fifo: int
    causal: int
    reliable: int
    crossing: int


def shown(causes: DirectCauses, rows: PastDeliveries, parts: Parts, rising: bool) -> Shown | None:
    """Whether the deliveries of a member satisfy 2 to 5; None if they do not. `parts`: the same
    deliveries, cut by send rows. `rising`: the epochs of its views rise."""
    if not causes.applies or not rising:
        return None
    sends, at = causes.sends, parts.at
    if len(at) != len(rows.s) or (at < 0).any() or (sends.home[at] != rows.v).any():
        return None
    direct = _whole_rows(causes, rows, at)
    if direct is None:
        direct = _pieces(causes, rows, at)
    # the sender's message before
    due = (direct.row_before >= 0) & (sends.home[direct.row_before] == rows.v[direct.later])
    if ((direct.before < 0) | (direct.before >= direct.later))[due].any():
        return None
    delivery, cause = direct.delivery, direct.cause
    due_cause = (direct.row_cause >= 0) & (sends.home[direct.row_cause] == rows.v[delivery])
    if ((cause < 0) | (cause >= delivery))[due_cause].any():
        return None
    if (cause >= _batch_starts(rows)[delivery]).any():
        return None
    if (direct.own < 0).any():
        return None
    came = (direct.before >= 0) & ~due
    crossing = int(came.sum() + ((cause >= 0) & ~due_cause).sum())
    causal = int(causes.has_causes[at].sum())
    fifo = int(((direct.before >= 0) & due).sum())
    return Shown(fifo, causal, causal + len(direct.later), crossing)


class _Direct(NamedTuple):
    """The direct causes of the deliveries of a member, as places of its deliveries; -1 if it did
    not deliver them."""

    later: Longs
    """Deliveries that do not begin with a sender's first message; its message before, and the send
    row of that, -1 if it is not here."""
    before: Longs
    row_before: Longs
    delivery: Longs
    """Per dependency of a delivery, the delivery, the cause, and the send row of that. A delivery
    begins a send row, or goes on with one whose dependencies count for it too."""
    cause: Longs
    row_cause: Longs
    own: Longs
    """Dependencies of what the member sent itself."""


def _whole_rows(causes: DirectCauses, rows: PastDeliveries, at: Longs) -> _Direct | None:
    """If each delivery is one whole send row, as nearly always: places need no search."""
    sends = causes.sends
    if (rows.first != sends.first[at]).any() or (rows.last != sends.last[at]).any():
        return None
    place = np.full(len(sends.s) + 1, -1)  # the last is that of no send row
    place[at] = np.arange(len(at))
    later = np.flatnonzero(rows.first > 1)
    row_before = at[later] - 1
    row_before[sends.s[row_before] != rows.s[later]] = -1  # sent before the rows that are here
    row_before[at[later] == 0] = -1
    delivery = place[causes.row]
    there = np.flatnonzero(delivery >= 0)
    row_cause = causes.cause[there]
    mine = (sends.s[causes.row] == rows.k) & (causes.cause >= 0)
    return _Direct(
        later=later,
        before=place[row_before],
        row_before=row_before,
        delivery=delivery[there],
        cause=place[row_cause],
        row_cause=row_cause,
        own=place[causes.cause[mine]],
    )


def _pieces(causes: DirectCauses, rows: PastDeliveries, at: Longs) -> _Direct:
    """Of deliveries that are parts of send rows."""
    sends = causes.sends
    order = np.argsort(packed(rows.s, rows.first), kind="stable")
    starts = packed(rows.s, rows.first)[order]

    def place(s: Longs, number: Longs) -> Longs:
        """Which delivery has these messages; -1 if none has."""
        found = holder(starts, rows.last[order], rows.s[order], s, number)
        return np.where(found >= 0, order[found], -1)

    later = np.flatnonzero(rows.first > 1)
    numbers = rows.s[later], rows.first[later] - 1
    counts = np.diff(sends.dep_at)[at]
    delivery = np.repeat(np.arange(len(at)), counts)
    offset = np.arange(len(delivery)) - np.repeat(np.cumsum(counts) - counts, counts)
    dependency = sends.dep_at[at][delivery] + offset
    mine = np.flatnonzero((sends.s[causes.row] == rows.k) & (causes.cause >= 0))
    return _Direct(
        later=later,
        before=place(*numbers),
        row_before=holder(causes.keys, sends.last, sends.s, *numbers),
        delivery=delivery,
        cause=place(sends.dep_s[dependency], sends.dep_n[dependency]),
        row_cause=causes.cause[dependency],
        own=place(sends.dep_s[mine], sends.dep_n[mine]),
    )
