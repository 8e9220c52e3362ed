"""The trace of a run, indexed once for all checkers.

A member is a pair (name, incarnation). Deliveries are cut into parts: a part is a range that
one member delivered for the first time and that one send row covers, so that all its
messages share every fact about their sending. Repeated deliveries make no parts; they are
listed on their own.

What a journal does not say is not held against anyone. A journal without a STOP row may lack
a suffix; one with a hole in `lseq` may lack anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from phalanx.journal.events import (
    Corrupt,
    Deliver,
    Event,
    Life,
    Send,
    Topology,
    TransMarker,
    ViewInstall,
)
from phalanx.journal.events import Stable as StableRow
from phalanx.sim.checkers.spans import Spans

Member = tuple[str, int]


class Part(NamedTuple):
    """Messages first..last of `sender`, delivered by `member` in `row`, its nth delivery."""

    member: Member
    sender: Member
    first: int
    last: int
    row: Deliver
    nth: int
    send: Send | None
    at: int
    """Index of the send row among the sender's; -1 where there is none."""

    @property
    def pos(self) -> int | None:
        return None if self.row.pos is None else self.row.pos + self.first - self.row.first

    def __str__(self) -> str:
        return messages(self.sender, self.first, self.last)


def label(member: Member) -> str:
    return f"{member[0]}.{member[1]}"


def messages(sender: Member, first: int, last: int) -> str:
    return f"{label(sender)}#{first}" + (f"..{last}" if last > first else "")


def addressed(member: Member, to: list[str] | None) -> bool:
    return to is None or member[0] in to


class Trace:
    """Rows of one run of one group. `over`: the run settled, nothing more would happen."""

    def __init__(self, rows: Iterable[Event], over: bool) -> None:
        self.over = over
        self.journals: dict[Member, list[Event]] = {}
        groups = set()
        for row in rows:
            self.journals.setdefault((row.node, row.inc), []).append(row)
            groups.add((row.run, row.group))
        if len(groups) > 1:
            raise ValueError(f"rows of {len(groups)} runs or groups: check one at a time")
        self.journals = {m: self.journals[m] for m in sorted(self.journals)}

        self.installs: dict[Member, list[ViewInstall]] = {m: [] for m in self.journals}
        self.sends: dict[Member, Spans[Send]] = {m: Spans() for m in self.journals}
        self.deliveries: dict[Member, list[Deliver]] = {m: [] for m in self.journals}
        self.markers: dict[tuple[Member, str], TransMarker] = {}
        self.stables: dict[Member, list[StableRow]] = {m: [] for m in self.journals}
        self.topology: dict[Member, Topology] = {}
        self.crashed: set[Member] = set()
        self.stopped: dict[Member, Life] = {}
        self.torn: set[Member] = set()
        self.resent: list[Send] = []
        for member, journal in self.journals.items():
            journal.sort(key=lambda r: r.lseq)
            self._read(member, journal)

        self.views: dict[str, tuple[Member, ...]] = {}
        self.successor: dict[tuple[Member, str], ViewInstall] = {}
        for member, installs in self.installs.items():
            for i, row in enumerate(installs):
                here = tuple(zip(row.members, row.member_incs, strict=True))
                self.views.setdefault(row.vid, here)
                if i:
                    self.successor.setdefault((member, installs[i - 1].vid), row)

        self.delivered: dict[Member, dict[Member, Spans[int]]] = {}
        self.parts: dict[Member, list[Part]] = {}
        self.repeated: list[tuple[Deliver, Deliver]] = []
        for member in self.journals:
            self._cut(member)
        self._left_early = self._find_leavers()

    def _read(self, member: Member, journal: list[Event]) -> None:
        if journal[0].lseq != 1 or any(b.lseq != a.lseq + 1 for a, b in pairwise(journal)):
            self.torn.add(member)
        for row in journal:
            match row:
                case Send():
                    if self.sends[member].add(row.first, row.last, row) != [(row.first, row.last)]:
                        self.resent.append(row)
                case Deliver():
                    self.deliveries[member].append(row)
                case ViewInstall():
                    self.installs[member].append(row)
                case TransMarker():
                    self.markers.setdefault((member, row.vid), row)
                case StableRow():
                    self.stables[member].append(row)
                case Topology():
                    self.topology[member] = row
                case Life(op="CRASH"):
                    self.crashed.add(member)
                case Life(op="STOP"):
                    self.stopped[member] = row
                case Corrupt():
                    self.torn.add(member)
                case _:
                    pass

    def _cut(self, member: Member) -> None:
        seen: defaultdict[Member, Spans[int]] = defaultdict(Spans)
        parts: list[Part] = []
        for index, row in enumerate(self.deliveries[member]):
            sender = (row.sender, row.sender_inc)
            spans = seen[sender]
            new = spans.add(row.first, row.last, index)
            if new != [(row.first, row.last)]:
                earlier = min(
                    i
                    for _, _, at in spans.within(row.first, row.last)
                    if (i := spans.values[at]) != index
                )
                self.repeated.append((self.deliveries[member][earlier], row))
            sends = self.sends.get(sender)
            for first, last in new:
                if sends is None:
                    parts.append(Part(member, sender, first, last, row, index, None, -1))
                    continue
                for lo, hi, at in sends.within(first, last):
                    if lo > first:
                        parts.append(Part(member, sender, first, lo - 1, row, index, None, -1))
                    parts.append(Part(member, sender, lo, hi, row, index, sends.values[at], at))
                    first = hi + 1
                if first <= last:
                    parts.append(Part(member, sender, first, last, row, index, None, -1))
        self.delivered[member] = dict(seen)
        self.parts[member] = parts

    def _find_leavers(self) -> set[Member]:
        """Members that stopped while others went on."""
        busy = [
            (row.sim_ns, member)
            for member, journal in self.journals.items()
            for row in journal
            if isinstance(row, Send | Deliver) and row.sim_ns is not None
        ]
        busy.sort(reverse=True)
        leavers = set()
        for member, stop in self.stopped.items():
            latest = next((t for t, m in busy if m != member), None)
            if stop.sim_ns is not None and latest is not None and latest > stop.sim_ns:
                leavers.add(member)
        return leavers

    # ------------------------------------------------------------------ what can be asked

    def alive(self, member: Member) -> bool:
        """Its journal goes on to the end of the run, whole."""
        return (
            member in self.journals
            and member not in self.crashed
            and member not in self.torn
            and member not in self._left_early
        )

    def last_view(self, member: Member) -> str | None:
        installs = self.installs.get(member)
        return installs[-1].vid if installs else None

    def closed(self, member: Member, vid: str) -> bool:
        """It went from this view to another, so what it did in it is complete."""
        return (member, vid) in self.successor and member not in self.torn

    def sent_all(self, sender: Member, number: int) -> bool:
        """Would a send row of this message be here if there had been one?"""
        sends = self.sends.get(sender)
        if sends is None or sender in self.torn:
            return False
        if sender in self.stopped or (self.over and sender not in self.crashed):
            return True
        return bool(sends.lasts) and number <= sends.lasts[-1]

    def lacks(
        self, member: Member, part_of: Member, first: int, last: int
    ) -> tuple[int, int] | None:
        """The first range of these messages that the member never delivered."""
        spans = self.delivered.get(member, {}).get(part_of)
        if spans is None:
            return first, last
        gaps = spans.missing(first, last)
        return gaps[0] if gaps else None
