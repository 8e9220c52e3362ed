"""What one journal says about the order of messages: the views, and the ranges delivered in each.

Only agreed and safe messages that were addressed to the whole view count: every member of the view
delivers them at the same positions. Positions of messages to some members are left out.

A journal also shows which positions are *fixed*: every member of the view that goes on delivers
these messages at these positions. A message follows everything that its sender had delivered before
it was sent (rule D-20). Once every member has the message (`stable`), every member has all that
decided the positions before it, so nobody can decide otherwise.

A log can be stored without its ranges: `refill` reads them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from phalanx.journal import schema as ev
from phalanx.journal.tail_reader import Place

TABLES = ("deliver", "sent", "stable", "view_installed", "life", "gap", "corrupt")
"""The tables that a log is made of."""
ORDERED_SERVICES = ("AGREED", "SAFE")
STAYS_MAX = 64
"""Views of one journal that are remembered."""
RANGES_MAX = 1 << 17
"""Ranges of one journal that wait until the stream has come so far; older ones are forgotten."""


class Range(NamedTuple):
    """Messages first..last of a sender, at consecutive positions from `pos` on."""

    pos: int
    sender: str
    sender_incarnation: int
    first: int
    last: int
    lseq: int
    journal: str
    place: Place
    """Before the block that the row is in."""

    @property
    def end(self) -> int:
        return self.pos + self.last - self.first + 1


class Stay(msgspec.Struct, kw_only=True):
    """One view in one journal, from its installation to the next one."""

    view: str
    epoch: tuple[int, int]
    id: int
    """The number of the row that it begins with."""
    members: list[str] = []
    """`ada.1`; none if the row of the installation is missing."""
    transitional: list[str] = []
    begin: int = 0
    """Positions before this one are not known."""
    compared: int = 0
    """Positions before this one were compared with what was yielded, or need not be."""
    upto: int = 0
    """The member has delivered all positions before this one."""
    next: str | None = None
    """The view that the member installed next."""
    cut: bool = False
    """Rows are missing behind the last one: no more of it is known."""


class MemberLog(msgspec.Struct, kw_only=True):
    """The order as one member saw it."""

    journal: str
    member: str
    """Name and incarnation, `ada.1`."""
    lseq: int = 0
    """All rows up to this one were read."""
    stays: list[Stay] = []
    sent: list[tuple[int, int]] = []
    """Own messages that are not yet known to be stable: the number, and how far the member had
    delivered when it sent it."""
    ended: bool = False
    ranges: dict[int, deque[Range]] = {}
    """Per stay, what the stream has not come to yet. Not stored."""

    @property
    def last(self) -> Stay | None:
        return self.stays[-1] if self.stays else None

    def stay_in(self, view: str, pos: int) -> Stay | None:
        """The stay in a view that holds this position, or will."""
        found = [stay for stay in self.stays if stay.view == view and stay.begin <= pos]
        return found[-1] if found else None

    def after(self, stay: Stay) -> list[Stay]:
        return [other for other in self.stays if other.id > stay.id]

    def add(self, rows: Sequence[ev.Event], first: int, last: int, place: Place) -> dict[str, int]:
        """Takes a block: its rows of `TABLES`, the numbers of all its rows, and the place before
        it. Returns the positions that are now fixed, by view. A block that was read before only
        refills ranges."""
        if last <= self.lseq:
            self._refill(rows, place)
            return {}
        if first > self.lseq + 1:
            self._cut()
        fixed: dict[str, int] = {}
        for row in rows:
            match row:
                case ev.Deliver():
                    self._deliver(row, place)
                case ev.Sent():
                    stay = self.last
                    if stay is not None and row.view == stay.view and row.phase == 0:
                        self.sent.append((row.last, stay.upto))
                case ev.Stable():
                    if (pos := self._stable(row)) is not None:
                        fixed[row.view] = max(pos, fixed.get(row.view, 0))
                case ev.ViewInstalled():
                    self._install(row)
                case ev.Life():
                    self.ended = row.op != "START"
                case ev.Gap() | ev.Corrupt():
                    self._cut()
                case _:
                    pass
        self.lseq = last
        return fixed

    def cut(self, upto: int) -> None:
        """Rows up to this number are missing."""
        self._cut()
        self.lseq = max(self.lseq, upto)

    def forget_all(self) -> None:
        """The ranges cannot be read again: all that was not yielded yet is missing."""
        for stay in self.stays:
            stay.begin = stay.compared = stay.upto
        self.ranges = {}

    def forget_before(self, stay: Stay) -> None:
        """Stays before this one will not be asked for."""
        for old in self.stays:
            if old.id < stay.id:
                self.ranges.pop(old.id, None)
        self.stays = [kept for kept in self.stays if kept.id >= stay.id]

    def forget_ranges(self, stay: Stay, pos: int) -> None:
        """Positions before this one will not be asked for."""
        ranges = self.ranges.get(stay.id)
        while ranges and ranges[0].end <= pos:
            ranges.popleft()

    def resume(self, place: Place) -> Place:
        """Where to read again after the log was stored; `place` is how far it was read."""
        known = [some[0].place for some in self.ranges.values() if some]
        return min([place, *known])

    # ------------------------------------------------------------------ rows

    def _install(self, row: ev.ViewInstalled) -> None:
        before = self.last
        if before is not None and not before.cut:
            if row.previous == before.view:
                before.next = row.view
            else:
                before.cut = True
        self.sent = []
        stay = Stay(
            view=row.view,
            epoch=(row.joins, row.removals),
            id=row.lseq,
            members=_named(row.members, row.member_incarnations),
            transitional=_named(row.transitional, row.transitional_incarnations),
        )
        self._begin(stay)

    def _resumed(self, view: str, lseq: int, pos: int) -> Stay:
        """A stay of which the first rows are missing."""
        known = next((stay for stay in reversed(self.stays) if stay.view == view), None)
        return Stay(
            view=view,
            epoch=known.epoch if known else _epoch(view),
            id=lseq,
            members=known.members if known else [],
            transitional=known.transitional if known else [],
            begin=pos,
            compared=pos,
            upto=pos,
        )

    def _begin(self, stay: Stay) -> None:
        self.stays = [*self.stays, stay][-STAYS_MAX:]
        self.ranges = {s.id: self.ranges[s.id] for s in self.stays if s.id in self.ranges}
        self.ranges[stay.id] = deque()

    def _deliver(self, row: ev.Deliver, place: Place) -> None:
        if row.service not in ORDERED_SERVICES or row.pos is None:
            return
        stay = self.last
        if stay is None or stay.cut or stay.view != row.view:
            stay = self._resumed(row.view, row.lseq, row.pos)
            self._begin(stay)
        stay.upto = max(stay.upto, row.pos + row.last - row.first + 1)
        if row.to is None:
            ranges = self.ranges.setdefault(stay.id, deque())
            ranges.append(self._range(row, row.pos, place))
            if len(ranges) > RANGES_MAX:
                stay.begin = ranges.popleft().end

    def _refill(self, rows: Sequence[ev.Event], place: Place) -> None:
        for row in rows:
            if not isinstance(row, ev.Deliver) or row.pos is None or row.to is not None:
                continue
            if row.service in ORDERED_SERVICES:
                stays = [s for s in self.stays if s.view == row.view and s.id <= row.lseq]
                if stays and stays[-1].begin <= row.pos:
                    ranges = self.ranges.setdefault(stays[-1].id, deque())
                    ranges.append(self._range(row, row.pos, place))

    def _range(self, row: ev.Deliver, pos: int, place: Place) -> Range:
        sender = row.sender, row.sender_incarnation
        return Range(pos, *sender, row.first, row.last, row.lseq, self.journal, place)

    def _stable(self, row: ev.Stable) -> int | None:
        stay = self.last
        if row.members is not None or stay is None or stay.view != row.view:
            return None
        if f"{row.sender}.{row.sender_incarnation}" != self.member:
            return None
        known = [pos for number, pos in self.sent if number <= row.upto]
        self.sent = [pair for pair in self.sent if pair[0] > row.upto]
        return max(known, default=None)

    def _cut(self) -> None:
        stay = self.last
        if stay is not None and stay.next is None:
            stay.cut = True
        self.sent = []


def _named(names: Sequence[str], incarnations: Sequence[int]) -> list[str]:
    return [f"{name}.{number}" for name, number in zip(names, incarnations, strict=True)]


def _epoch(view: str) -> tuple[int, int]:
    """Of the text of a view; the lowest one where it says none."""
    joins, _, removals = view.partition(":")[0].partition(".")
    return (int(joins), int(removals)) if joins.isdigit() and removals.isdigit() else (0, 0)
