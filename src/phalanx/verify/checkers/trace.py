"""The trace of a run: the rows of all journals, indexed once for all checkers.

Deliveries are split into parts. A part is a range that one member delivered for the first time and
that one send row covers, so that all its messages were sent alike. Repeated deliveries make no
parts; they are listed separately.

The *home* of a message is the view it belongs to: the view it was sent in or, if a view change was
under way at its sender (phase 1), the next view that its sender installed
(docs/protocol/properties.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from phalanx.journal.schema import (
    Accepted,
    AllDelivered,
    Corrupt,
    Deliver,
    Event,
    Gap,
    Life,
    MergedComponent,
    NotSent,
    Ordered,
    Queue,
    Sent,
    Topology,
    Transitional,
    ViewChangeStep,
    ViewInstalled,
    Window,
)
from phalanx.journal.schema import Stable as StableRow
from phalanx.verify.checkers.life_spans import LifeSpans
from phalanx.verify.checkers.member_names import Member, addressed, messages
from phalanx.verify.checkers.range_map import RangeMap
from phalanx.verify.checkers.view_trace import ViewTrace


class DeliveredRange(NamedTuple):
    """Messages first..last of `sender`, delivered by `member` in `row`, its nth deliver row."""

    member: Member
    sender: Member
    first: int
    last: int
    row: Deliver
    nth: int
    send: Sent | None
    at: int
    """Index of the send row among the sender's; -1 if there is none."""

    @property
    def pos(self) -> int | None:
        return None if self.row.pos is None else self.row.pos + self.first - self.row.first

    def is_for(self, member: Member) -> bool:
        """Whether these messages are for the member: as the send row says, if it is there. A
        member whose row names other receivers is wrong about that, and no one else is."""
        return addressed(member, self.row if self.send is None else self.send)

    def __str__(self) -> str:
        return messages(self.sender, self.first, self.last)


class Trace:
    """Rows of one run of one group."""

    def __init__(self, rows: Iterable[Event], over: bool) -> None:
        self.over = over
        self.lives = LifeSpans(over)
        self.journals = _journals(rows)
        self.installs: dict[Member, list[ViewInstalled]] = {m: [] for m in self.journals}
        self.sends: dict[Member, RangeMap[Sent]] = {m: RangeMap() for m in self.journals}
        self.submits: dict[Member, list[Accepted]] = {m: [] for m in self.journals}
        self.not_sent: dict[Member, list[NotSent]] = {m: [] for m in self.journals}
        self.lost_receivers: dict[Member, list[NotSent]] = {m: [] for m in self.journals}
        """Reports that name lost receivers of messages with other receivers left."""
        self.deliveries: dict[Member, list[Deliver]] = {m: [] for m in self.journals}
        self.stables: dict[Member, list[StableRow]] = {m: [] for m in self.journals}
        self.orders: dict[Member, list[Ordered]] = {m: [] for m in self.journals}
        self.all_delivered: dict[Member, list[AllDelivered]] = {m: [] for m in self.journals}
        self.sides: dict[Member, dict[str, list[MergedComponent]]] = {m: {} for m in self.journals}
        """Per merged view, the reports about its components."""
        self.selective: set[tuple[Member, str]] = set()
        """Senders of messages that were for some members only, and in which views."""
        self.queues: dict[Member, list[Queue]] = {m: [] for m in self.journals}
        self.steps: dict[Member, list[ViewChangeStep]] = {m: [] for m in self.journals}
        self.windows: dict[Member, list[Window]] = {m: [] for m in self.journals}
        self.markers: dict[tuple[Member, str], Transitional] = {}
        self.resent: list[Sent] = []
        self.misplaced: list[tuple[Sent | Deliver | Transitional, str | None]] = []
        """Rows that name another view than the member was in, with the view it was in."""
        self.wrong_region: list[tuple[Deliver, Transitional | None]] = []
        """Deliveries whose region contradicts their place before or after the marker."""
        for member, journal in self.journals.items():
            self._read(member, journal)
        self.lives.close()

        self.view_trace = ViewTrace(self.lives, self.installs, self.steps)
        # Shorter names for the message-level checkers, which use them for each message.
        self.views, self.inside = self.view_trace.views, self.view_trace.inside
        self.installed = self.view_trace.installed
        self.successor, self.before = self.view_trace.successor, self.view_trace.before

        self.delivered: dict[Member, dict[Member, RangeMap[int]]] = {}
        """Per member and sender, the delivered numbers, with the index of the delivery."""
        self.parts: dict[Member, list[DeliveredRange]] = {}
        self.by_view: dict[str, dict[Member, list[DeliveredRange]]] = {}
        """Per view and member, the parts delivered in it, without basic messages."""
        self.repeated: list[tuple[Deliver, Deliver]] = []
        for member in self.journals:
            self._cut(member)

    # ------------------------------------------------------------------ reading

    def _read(self, member: Member, journal: list[Event]) -> None:
        if [row.lseq for row in journal] != list(range(1, len(journal) + 1)):
            self.lives.torn.add(member)
        self.lives.add(member, journal[0].sim_ns, journal[-1].sim_ns)
        view: str | None = None
        marker: Transitional | None = None
        for row in journal:
            if isinstance(row, Deliver):
                self.deliveries[member].append(row)
                if row.to is not None:
                    self.selective.add(((row.sender, row.sender_incarnation), row.view))
                if row.view != view:
                    self.misplaced.append((row, view))
                if (row.region == "TRANSITIONAL") is not (marker is not None):
                    self.wrong_region.append((row, marker))
            elif isinstance(row, Sent):
                if self.sends[member].add(row.first, row.last, row) != [(row.first, row.last)]:
                    self.resent.append(row)
                if row.to is not None:
                    self.selective.add((member, row.view))
                if row.view != view:
                    self.misplaced.append((row, view))
            elif isinstance(row, Accepted):
                self.submits[member].append(row)
            elif isinstance(row, StableRow):
                self.stables[member].append(row)
            elif isinstance(row, Ordered):
                self.orders[member].append(row)
            elif isinstance(row, AllDelivered):
                self.all_delivered[member].append(row)
            elif isinstance(row, ViewInstalled):
                self.installs[member].append(row)
                view, marker = row.view, None
            elif isinstance(row, Transitional):
                self.markers.setdefault((member, row.view), row)
                marker = row
                if row.view != view:
                    self.misplaced.append((row, view))
            else:
                self._read_seldom(member, row)

    def _read_seldom(self, member: Member, row: Event) -> None:
        match row:
            case ViewChangeStep():
                self.steps[member].append(row)
                self.lives.note(member, row)
            case Life() | Topology():
                self.lives.note(member, row)
            case NotSent():
                rows = self.lost_receivers if row.rest else self.not_sent
                rows[member].append(row)
            case MergedComponent():
                self.sides[member].setdefault(row.view, []).append(row)
            case Queue():
                self.queues[member].append(row)
            case Window():
                self.windows[member].append(row)
            case Corrupt() | Gap():
                self.lives.torn.add(member)
            case _:
                pass

    # ------------------------------------------------------------------ parts of deliveries

    def _cut(self, member: Member) -> None:
        seen: dict[Member, RangeMap[int]] = {}
        parts: list[DeliveredRange] = []
        view, here = "", parts
        for nth, row in enumerate(self.deliveries[member]):
            sender = (row.sender, row.sender_incarnation)
            spans = seen.get(sender)
            if spans is None:
                spans = seen[sender] = RangeMap()
            first, last = row.first, row.last
            new = spans.add(first, last, nth)
            sends = self.sends.get(sender)
            at = sends.index(first) if sends is not None else -1
            if (
                sends is not None
                and at >= 0
                and sends.lasts[at] >= last
                and new[:1] == [(first, last)]
            ):
                cut = [DeliveredRange(member, sender, first, last, row, nth, sends.values[at], at)]
            else:
                cut = [p for lo, hi in new for p in self._pieces(member, sender, lo, hi, row, nth)]
            if new != [(first, last)]:
                self._repeats(member, row, nth, spans)
            parts += cut
            if row.service == "BASIC":
                continue
            if row.view != view:
                view = row.view
                here = self.by_view.setdefault(view, {}).setdefault(member, [])
            here += cut
        self.delivered[member] = seen
        self.parts[member] = parts

    def _pieces(
        self, member: Member, sender: Member, first: int, last: int, row: Deliver, nth: int
    ) -> list[DeliveredRange]:
        """Split a range that no single send row covers at the bounds of the send rows."""
        parts = []
        sends = self.sends.get(sender)
        for lo, hi, at in () if sends is None else sends.within(first, last):
            assert sends is not None
            if lo > first:
                parts.append(DeliveredRange(member, sender, first, lo - 1, row, nth, None, -1))
            parts.append(DeliveredRange(member, sender, lo, hi, row, nth, sends.values[at], at))
            first = hi + 1
        if first <= last:
            parts.append(DeliveredRange(member, sender, first, last, row, nth, None, -1))
        return parts

    def _repeats(self, member: Member, row: Deliver, nth: int, spans: RangeMap[int]) -> None:
        found = [spans.values[at] for _, _, at in spans.within(row.first, row.last)]
        earlier = min(i for i in found if i != nth)
        self.repeated.append((self.deliveries[member][earlier], row))

    # ------------------------------------------------------------------ queries

    def last_view(self, member: Member) -> str | None:
        return self.view_trace.last_view(member)

    def reports_all(self, member: Member) -> bool:
        """Whether the journal has a row for every event of the application, as since schema 6."""
        installs = self.installs[member]
        return bool(installs) and installs[0].joined is not None

    def step_ended(self, row: Event) -> bool:
        """Whether all rows of this row's step are there: the journal goes on after the step, or it
        is whole."""
        member = (row.member, row.incarnation)
        return self.journals[member][-1].step > row.step or self.lives.whole(member)

    def closed(self, member: Member, view: str) -> bool:
        """Whether a member went on from a view, so that all it did in the view is recorded."""
        return (member, view) in self.successor and member not in self.lives.torn

    def home(self, sender: Member, send: Sent) -> str | None:
        """The view that a message belongs to; None if it is unknown."""
        if send.phase == 0:
            return send.view
        after = self.successor.get((sender, send.view))
        if after is not None:
            return after.view
        return send.view if self.over and self.lives.alive(sender) else None

    def sent_all(self, sender: Member, number: int) -> bool:
        """Whether the send row of this message would be there if the message had been sent."""
        sends = self.sends.get(sender)
        if sends is None or sender in self.lives.torn:
            return False
        if self.lives.whole(sender):
            return True
        return bool(sends.lasts) and number <= sends.lasts[-1]

    def lacks(
        self, member: Member, sender: Member, first: int, last: int
    ) -> tuple[int, int] | None:
        """The first range of these messages that a member never delivered."""
        spans = self.delivered.get(member, {}).get(sender)
        if spans is None:
            return first, last
        gaps = spans.missing(first, last)
        return gaps[0] if gaps else None


def _journals(rows: Iterable[Event]) -> dict[Member, list[Event]]:
    """The rows of each member in their order. ValueError for rows of two runs or groups."""
    journals: dict[Member, list[Event]] = {}
    groups = set()
    for row in rows:
        journals.setdefault((row.member, row.incarnation), []).append(row)
        groups.add((row.run, row.group))
    if len(groups) > 1:
        raise ValueError(f"rows of {len(groups)} runs or groups: check one at a time")
    for journal in journals.values():
        journal.sort(key=lambda r: r.lseq)
    return {m: journals[m] for m in sorted(journals)}
