"""Lives and views of one run: the facts that the checks of messages are joined with.

These rows are few, and their order in time matters. They are read in Python, one run at a time, in
the tasks of one Spark job, which also judge view-level properties (`view_checks`). As column
functions the same took some forty jobs and 50 s of processor time whatever the size of the input,
which is most of a small audit (measured with the thirty hand-made runs of the tests). Messages, of
which there are many, are left to Spark.

A run is *settled* if its simulator says so in every journal, and none of them just ends. Of any
other run no clock is believed across members, nothing is expected to have happened in the end, and
a member that stopped counts as having left. Rows that a journal lacks blame nobody: a journal
without a STOP row may lack a suffix, a torn one may lack anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from phalanx.pipeline.audit.journal_excerpt import JournalExcerpt
from phalanx.pipeline.audit.report_rows import (
    Closing,
    LastStep,
    Lost,
    QueueCounts,
    Receipts,
    Side,
    Submitted,
)
from phalanx.verify.evidence import ENDS


class JournalRecord(msgspec.Struct):
    """One journal, and what became of its member."""

    cluster: str
    run: str
    group: str
    journal: str
    member: str
    incarnation: int
    torn: int
    settled: int
    undisturbed_ns: int
    mode: str | None = None
    changes_max: int | None = None
    end_sim_ns: int | None = None
    order: str | None = None
    early: int | None = None

    @property
    def label(self) -> str:
        return f"{self.member}.{self.incarnation}"

    @property
    def shared(self) -> dict[str, str]:
        """The settings that all members of a group share, as far as its header has them."""
        early = None if self.early is None else bool(self.early)
        values = {"order": self.order, "early": early, "mode": self.mode}
        return {name: str(value) for name, value in values.items() if value is not None}


class Fate(msgspec.Struct):
    """A row of `life`, `topology`, or `view_change_step`."""

    member: str
    incarnation: int
    lseq: int
    op: str = ""
    sim_ns: int | None = None
    component: list[str] | None = None
    stage: str = ""
    context: str = ""
    reason: str | None = None


class Install(msgspec.Struct):
    member: str
    incarnation: int
    lseq: int
    step: int
    view: str
    v: int
    joins: int
    removals: int
    inside: list[str]
    transitional: list[str]
    context: str
    cause: str
    components: list[str]
    prev: int | None = None
    previous: str | None = None
    sim_ns: int | None = None
    joined: list[str] | None = None
    left: list[str] | None = None
    role_members: list[str] = []
    role_serials: list[int] = []
    role_operations: list[str] = []


class Marker(msgspec.Struct):
    member: str
    incarnation: int
    lseq: int
    view: str
    v: int
    pos: int
    members: list[str] | None = None


class Use(msgspec.Struct):
    """What one member delivered of one sender in one view, counted; only `rows` with basic ones."""

    member: str
    incarnation: int
    sender: str
    sender_incarnation: int
    view: str
    v: int
    origin: str
    o: int
    rows: int
    others: int
    ordered: int
    batched: int
    highest: int | None = None
    selective: bool = False
    """One of them was for some members only."""


class SentRange(msgspec.Struct):
    """How many rows of sends a member wrote in one view, and the highest number in them, which is
    in row `lseq`."""

    member: str
    incarnation: int
    view: str
    v: int
    rows: int
    last: int
    lseq: int
    selective: bool = False
    """One of them was for some members only."""


class Receivers(msgspec.Struct):
    """A set of receivers that rows name, by number. Rows of before incarnations were recorded name
    them by name alone."""

    t: int
    to: list[str]
    to_incarnations: list[int] | None = None

    def means(self, member: MemberRecord) -> bool:
        if self.to_incarnations is None:
            return member.member in self.to
        return (member.member, member.incarnation) in zip(
            self.to, self.to_incarnations, strict=True
        )

    @property
    def names(self) -> list[str]:
        if self.to_incarnations is None:
            return sorted(self.to)
        return sorted(f"{n}.{i}" for n, i in zip(self.to, self.to_incarnations, strict=True))


class MemberRecord:
    """Everybody that the run names, by rank. `journal` is None where there is none."""

    def __init__(self, k: int, member: str, incarnation: int) -> None:
        self.k, self.member, self.incarnation = k, member, incarnation
        self.label = f"{member}.{incarnation}"
        self.journal: JournalRecord | None = None
        self.crash: Fate | None = None
        self.stop: Fate | None = None
        self.left: Fate | None = None
        self.reach: Fate | None = None
        self.steps: list[Fate] = []
        self.fates: list[Fate] = []
        """All of its rows of `life`, `topology` and `view_change_step`."""
        self.installs: list[Install] = []
        self.before: list[int | None] = []
        """The view before each install. Of a torn journal the row itself must say it."""
        self.next: dict[int, int] = {}
        """Per view that it left, the index of the install that did it."""
        self.came: dict[int, int] = {}
        """Per view, the one that it first came from."""
        self.markers: dict[int, Marker] = {}
        self.marks: list[int] = []
        self.uses: dict[int, Used] = {}
        self.delivered = self.sent = 0
        """Rows."""
        self.sent_last = self.sent_last_lseq = 0
        """The highest number that was sent, and its row."""
        self.first: Fate | Install | None = None
        """The first row of its life or of a view."""
        self.sides: dict[int, list[Side]] = {}
        """Per merged view, the reports of its components."""
        self.closings: list[Closing] = []
        self.receipts: dict[str, Receipts] = {}
        self.queues: list[QueueCounts] = []
        self.submitted: dict[int, int] = {}
        """Messages submitted after so many rows of its queue, and before the next."""
        self.lost = 0
        self.last_step: int | None = None
        """The step of its last row, unless it stopped."""
        self.excerpt = JournalExcerpt()
        """Which rows of its journal are here: all, unless some views are judged."""

    @property
    def torn(self) -> bool:
        return self.journal is not None and bool(self.journal.torn)

    @property
    def crashed(self) -> bool:
        return self.crash is not None

    @property
    def tells(self) -> bool:
        """Its journal has a row for every report to its application: not in older ones."""
        return bool(self.installs) and self.installs[0].joined is not None

    @property
    def end(self) -> int | None:
        """The view that it was in at last."""
        return self.installs[-1].v if self.installs else None

    @property
    def installed(self) -> set[int]:
        return {row.v for row in self.installs}


class Used:
    """What a member delivered in a view, basic messages left out."""

    def __init__(self) -> None:
        self.rows = self.ordered = self.batched = 0
        self.highest: int | None = None

    def add(self, use: Use) -> None:
        self.rows += use.others
        self.ordered += use.ordered
        self.batched += use.batched
        if use.highest is not None:
            self.highest = max(use.highest, self.highest or 0)


class ViewRecord(msgspec.Struct):
    """The first install of a view, in the order of members, says what it is."""

    v: int
    view: str
    inside: frozenset[str]
    first: tuple[int, int]


class Route(msgspec.Struct):
    """Who went through `v` alike: those that came from it to the same next view `w`, and those
    that ended in it (None).

    Agreed is not uniform: of those that ended in a view that anybody left behind, only the living
    are compared. A torn journal may lack the install that says where its member went."""

    v: int
    w: int | None
    members: list[MemberRecord]


class Chronicle:
    """One run."""

    def __init__(self, rows: Iterable[Any]) -> None:
        by_kind: defaultdict[type, list[Any]] = defaultdict(list)
        for row in rows:
            by_kind[type(row)].append(row)
        self.journals: list[JournalRecord] = by_kind[JournalRecord]
        self.settled = self._all_known(by_kind[Install], by_kind[Fate])
        self.undisturbed_ns = max((j.undisturbed_ns for j in self.journals), default=0)
        self.changes_max = max(
            (j.changes_max for j in self.journals if j.changes_max is not None), default=None
        )
        modes = {journal.mode for journal in self.journals}
        self.mode = modes.pop() if modes in ({"hold"}, {"flow"}) else None
        self.end_ns = max((j.end_sim_ns or 0 for j in self.journals), default=0)
        self.vids: dict[int, str] = {}
        self.members = self._ranked(by_kind)
        self._by_name = {(m.member, m.incarnation): m for m in self.members}
        self.selective: set[tuple[int, int]] = set()
        """Senders of messages that were for some members only, and in which views."""
        self.by_label = {m.label: m for m in self.members}
        self._read(by_kind)
        self.receivers: list[Receivers] = by_kind[Receivers]
        self.known = [m for m in self.members if m.journal is not None]
        self.views = self._views()
        self.routes = list(self._routes())
        self.living = [m for m in self.known if self.settled and self.alive(m)]

    # ------------------------------------------------------------------ reading

    def _all_known(self, installs: Iterable[Install], fates: Iterable[Fate]) -> bool:
        """All headers say the same, that the run settled, and nothing of it is missing, not even
        the end of a journal."""
        truths = {(j.settled, j.undisturbed_ns, j.changes_max) for j in self.journals}
        here = {f"{journal.member}.{journal.incarnation}" for journal in self.journals}
        ended = {
            (fate.member, fate.incarnation) for fate in fates if fate.op in ENDS and not fate.stage
        }
        return (
            len(truths) == 1
            and all(journal.settled and not journal.torn for journal in self.journals)
            and ended.issuperset((journal.member, journal.incarnation) for journal in self.journals)
            and all(here.issuperset(row.inside) for row in installs)
        )

    def _ranked(self, by_kind: dict[type, list[Any]]) -> list[MemberRecord]:
        names = {(j.member, j.incarnation) for j in self.journals}
        names |= {(use.sender, use.sender_incarnation) for use in by_kind[Use]}
        mentioned = [row.inside for row in by_kind[Install]]
        mentioned += [row.delivered for row in by_kind[Side]]
        for name in {name for some in mentioned for name in some}:
            member, _, incarnation = name.rpartition(".")
            names.add((member, int(incarnation)))
        return [MemberRecord(k, *name) for k, name in enumerate(sorted(names))]

    def _read(self, by_kind: dict[type, list[Any]]) -> None:
        of = self._by_name
        for journal in self.journals:
            of[journal.member, journal.incarnation].journal = journal
        for kind in (Fate, Install, Marker):
            for row in sorted(by_kind[kind], key=lambda row: row.lseq):
                self._note(of[row.member, row.incarnation], row)
        self._read_reports(by_kind)
        for use in by_kind[Use]:
            self.vids |= {use.v: use.view, use.o: use.origin}
            member = of[use.member, use.incarnation]
            member.delivered += use.rows
            if use.selective:
                self.selective.add((of[use.sender, use.sender_incarnation].k, use.v))
            if use.others:
                member.uses.setdefault(use.v, Used()).add(use)
        for sent in by_kind[SentRange]:
            self.vids[sent.v] = sent.view
            member = of[sent.member, sent.incarnation]
            member.sent += sent.rows
            if sent.selective:
                self.selective.add((member.k, sent.v))
            if sent.last > member.sent_last:
                member.sent_last, member.sent_last_lseq = sent.last, sent.lseq
        for member in self.members:
            self._follow(member)

    def _read_reports(self, by_kind: dict[type, list[Any]]) -> None:
        """Reports to applications besides messages, views and markers."""
        of = self._by_name
        for kind in (Side, Closing, QueueCounts):
            by_kind[kind].sort(key=lambda row: row.lseq)
        for side in by_kind[Side]:
            of[side.member, side.incarnation].sides.setdefault(side.v, []).append(side)
            self.vids |= {side.v: side.view, side.w: side.component}
        for closing in by_kind[Closing]:
            of[closing.member, closing.incarnation].closings.append(closing)
            self.vids[closing.v] = closing.view
        for row in by_kind[QueueCounts]:
            of[row.member, row.incarnation].queues.append(row)
        for row in by_kind[Receipts]:
            receipts = of[row.member, row.incarnation].receipts
            known = receipts.get(row.what)
            if known is not None:
                row = msgspec.structs.replace(
                    row, rows=row.rows + known.rows, upto=max(row.upto, known.upto)
                )
            receipts[row.what] = row
        for row in by_kind[Submitted]:
            submitted = of[row.member, row.incarnation].submitted
            submitted[row.after] = submitted.get(row.after, 0) + row.count
        for row in by_kind[LastStep]:
            member = of[row.member, row.incarnation]
            member.last_step = max(row.step, member.last_step or 0)
        for row in by_kind[Lost]:
            of[row.member, row.incarnation].lost += row.rows

    def _note(self, member: MemberRecord, row: Fate | Install | Marker) -> None:
        if not isinstance(row, Marker):
            if member.first is None or row.lseq < member.first.lseq:
                member.first = row
        if isinstance(row, Fate):
            member.fates.append(row)
        match row:
            case Install():
                member.installs.append(row)
                self.vids[row.v] = row.view
                if row.prev is not None:
                    self.vids[row.prev] = row.previous or ""
            case Marker():
                member.markers.setdefault(row.v, row)
                member.marks.append(row.lseq)
                self.vids[row.v] = row.view
            case Fate(component=list()):
                member.reach = row
            case Fate(op="STOP"):
                member.stop = row
            case Fate(op="CRASH"):
                member.crash = row
            case Fate(op="LEAVE"):
                member.left = member.left or row
            case _ if row.stage:
                member.steps.append(row)

    def _follow(self, member: MemberRecord) -> None:
        """Who stopped before the run did had left. And which view came after which."""
        stop = member.stop
        if stop is not None and member.left is None:
            if not self.settled or stop.sim_ns is None or stop.sim_ns < self.end_ns:
                member.left = stop
        last: int | None = None
        for i, row in enumerate(member.installs):
            before = row.prev if member.torn else last
            member.before.append(before)
            if before is not None:
                member.next.setdefault(before, i)
                member.came.setdefault(row.v, before)
            last = row.v

    # ------------------------------------------------------------------ what can be asked

    def alive(self, member: MemberRecord) -> bool:
        known = member.journal is not None and not member.torn
        return known and not member.crashed and member.left is None

    def rank(self, member: str, incarnation: int) -> int:
        return self._by_name[member, incarnation].k

    def view_name(self, v: int | None) -> str:
        return "no view" if v is None else self.vids.get(v, "no view")

    def whole(self, member: MemberRecord) -> bool:
        """All that it did is in its journal."""
        if member.journal is None or member.torn:
            return False
        return member.stop is not None or (self.settled and not member.crashed)

    def step_ended(self, member: MemberRecord, step: int) -> bool:
        """No row of this step is missing at the journal's end: the journal goes on after it, or
        nothing can have followed."""
        goes_on = member.last_step is not None and member.last_step > step
        return goes_on or self.whole(member)

    def _views(self) -> dict[int, ViewRecord]:
        found: dict[int, ViewRecord] = {}
        for member in self.known:
            for row in member.installs:
                if row.v not in found:
                    first = (member.k, row.lseq)
                    found[row.v] = ViewRecord(row.v, row.view, frozenset(row.inside), first)
        return found

    def _routes(self) -> Iterable[Route]:
        through: dict[int, dict[int | None, list[MemberRecord]]] = {}
        for member in self.known:
            for v in dict.fromkeys(row.v for row in member.installs):
                at = member.next.get(v)
                to = None if at is None else member.installs[at].v
                through.setdefault(v, {}).setdefault(to, []).append(member)
        for member in self.known:
            for v in member.uses:  # deliveries in views never installed
                if v not in member.installed:
                    through.setdefault(v, {}).setdefault(None, []).append(member)
        for v, ways in through.items():
            for w, members in ways.items():
                if w is None:
                    members = [m for m in members if not m.torn]
                    if len(ways) > 1:
                        members = [m for m in members if self.alive(m) and self.whole(m)]
                if members:
                    yield Route(v, w, members)
