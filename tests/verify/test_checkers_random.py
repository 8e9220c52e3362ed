"""The checkers against random legal traces, of which no part may ever be called a violation, and
in which every change of a delivery, a receipt or a report must be seen. And how long they take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.verify.trace_builder import (
    TraceBuilder,
    everywhere_at_once,
    incs,
    life,
    names,
    renumbered,
)

from phalanx.journal import schema as ev
from phalanx.verify.checkers import check
from phalanx.verify.checkers.member_names import addressed


@dataclass
class Place:
    """Messages in the one sequence of a view; `pos` and `batch` if they are ordered."""

    sender: str
    first: int
    last: int
    pos: int | None
    batch: int | None


@dataclass
class View:
    """A view and the one sequence of its messages; each member delivers a prefix of it, cut as it
    likes, and the rest when the view ends. Basic messages go up at any time."""

    vid: str
    members: str
    joins: int = 0
    removals: int = 0
    sequence: list[Place] = field(default_factory=list)
    basics: list[tuple[str, str, int, int]] = field(default_factory=list)
    positions: int = 0
    batches: int = 0
    receipts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per kind of receipt and sender, the last of its messages that has none yet."""
    cursors: dict[str, tuple[int, int]] = field(default_factory=dict)
    lost: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Messages for some that were sent in the change to this view."""

    def add(self, sender: str, first: int, last: int, service: str, to: str | None) -> None:
        if service == "BASIC":
            self.basics += [(m, sender, first, last) for m in self.members if m in (to or m)]
        elif service == "CAUSAL":
            self.sequence.append(Place(sender, first, last, None, None))
        else:
            self.sequence.append(Place(sender, first, last, self.positions, self.batches))
            self.positions += last - first + 1


class Groups:
    """An ideal group: views with one sequence each, which part, unite, and lose members."""

    def __init__(self, draw: st.DrawFn, members: str, alone: bool) -> None:
        self.draw = draw
        self.tale = TraceBuilder(members, boot="", reports=True)
        self.numbers: dict[str, int] = {}
        self.made = 0
        self.alive = members
        self.views = [View(f"boot{m}", m) for m in members] if alone else [View("boot", members)]
        for view in self.views:
            self.tale.install(view.members, view.vid, view.members)

    # ------------------------------------------------------------------ in a view

    def talk(self, view: View, rounds: int) -> None:
        """A round is a set of concurrent frames, in the order of senders: a batch if ordered."""
        for _ in range(rounds):
            service = self.draw(st.sampled_from(["BASIC", "CAUSAL", "AGREED", "SAFE"]))
            senders = self.draw(st.sets(st.sampled_from(view.members), min_size=1))
            for sender in sorted(senders, key=str.lower):
                to = self.draw(st.none() | st.sets(st.sampled_from(view.members), min_size=1))
                self.say(view, view, sender, service, "".join(sorted(to)) if to else None)
            view.batches += 1
            for node in self.draw(st.lists(st.sampled_from(view.members), max_size=6)):
                self.acknowledge(view, node)
                if self.draw(st.booleans()) and view.basics:
                    at = self.draw(st.integers(0, len(view.basics) - 1))
                    self.tale.deliver(*view.basics.pop(at))
                else:
                    self.advance(view, node)

    def say(
        self, at: View, home: View, sender: str, service: str, to: str | None, phase: int = 0
    ) -> None:
        first = self.numbers.get(sender, 0) + 1
        cut = first + self.draw(st.integers(0, 2))
        last = cut + self.draw(st.integers(0, 2))
        self.numbers[sender] = last
        given: dict[str, Any] = {"service": service, "to": to, "phase": phase, "vid": at.vid}
        if to is not None or self.draw(st.booleans()):
            self.tale.submit(sender, first, last, to, service=service)
        self.tale.send(sender, first, cut, **given)
        if last > cut:  # the same frame, told in two rows
            self.tale.send(sender, cut + 1, last, frame=self.tale.frames[sender], **given)
        home.add(sender, first, last, service, to)
        for kind in ("ordered", "stable"):
            home.receipts.setdefault(kind, {})[sender] = last

    def acknowledge(self, view: View, sender: str) -> None:
        """The sender gets the receipts that it waits for in its view, or one of them. All frames
        are everywhere at once, so none is too early."""
        for kind, tell in (("ordered", self.tale.ordered), ("stable", self.tale.stable)):
            if sender in view.receipts.get(kind, {}) and self.draw(st.booleans()):
                tell(sender, view.receipts[kind].pop(sender))

    def close(self, view: View, sender: str, along: str) -> int:
        """The view ends for a sender, which moves on with these; returns the step."""
        step = self.tale.step[sender] + 1
        upto = view.receipts.get("ordered", {}).pop(sender, None)
        if upto is not None:
            self.tale.ordered(sender, upto, step=step)
        upto = view.receipts.get("stable", {}).pop(sender, None)
        if upto is not None:
            self.tale.stable(sender, upto, along, step=step)
        return step

    def advance(self, view: View, node: str) -> bool:
        at, done = view.cursors.get(node, (0, 0))
        while at < len(view.sequence):
            place = view.sequence[at]
            if addressed(life(node), self.tale.sent[place.sender, place.first]):
                upto = self.draw(st.integers(place.first + done, place.last))
                given: dict[str, Any] = {}
                if place.pos is not None:
                    given = {"pos": place.pos + done, "batch": place.batch}
                self.tale.deliver(node, place.sender, place.first + done, upto, **given)
                whole = upto == place.last
                view.cursors[node] = (at + 1, 0) if whole else (at, upto + 1 - place.first)
                return True
            at, done = at + 1, 0
        view.cursors[node] = (at, 0)
        return False

    def flush(self, view: View) -> None:
        """All that is left goes up at all that are left."""
        for node in view.members:
            while node in self.alive and self.advance(view, node):
                pass
        for basic in view.basics:
            if basic[0] in self.alive:
                self.tale.deliver(*basic)
        view.basics = []

    # ------------------------------------------------------------------ changes

    def lose(self) -> None:
        """A member crashes and may come back, leaves, or stops because its name is another's."""
        victim = self.draw(st.sampled_from(self.alive))
        if len(self.alive) == 1:
            return
        ends = ["crash", "crash and return", "leave", "name in use"]
        how = self.draw(st.sampled_from(ends if victim.islower() else ends[::2]))
        if how == "name in use" and not any(view.members == victim for view in self.views):
            how = "crash and return"  # no word stops a member that is in a view with others
        returns = how in ("crash and return", "name in use")
        self.alive = self.alive.replace(victim, "") + (victim.upper() if returns else "")
        if how == "leave":
            self.tale.change(victim, "LEAVE").life(victim, "STOP", "left")
        elif how != "name in use":
            self.tale.life(victim, "CRASH")
        if returns:
            self.made += 1
            self.views.append(View(f"boot{self.made}", victim.upper()))
            self.tale.install(victim.upper(), self.views[-1].vid, victim.upper())
        if how == "name in use":
            self.tale.life(victim, "STOP", "name-in-use")

    def regroup(self) -> None:
        """Every view ends; the living are dealt out anew. Some speak in the middle of it, some
        have something to say for members that may be gone afterwards."""
        side = {m: self.draw(st.integers(0, 1)) for m in self.alive}
        after: list[View] = []
        for group in (0, 1):
            here = "".join(m for m in sorted(self.alive) if side[m] == group)
            origins = [v for v in self.views if set(v.members) & set(here)]
            if here:
                after.append(self.next_view(here, origins))
        homes = {m: view for view in after for m in view.members}
        waiting: list[tuple[str, str]] = []
        for view in self.views:
            living = [m for m in view.members if m in self.alive]
            for m in [m for m in living if self.draw(st.booleans())]:
                service = self.draw(st.sampled_from(["BASIC", "CAUSAL", "SAFE"]))
                to = self.some(view) if self.draw(st.booleans()) else None
                first = self.numbers.get(m, 0) + 1
                self.say(view, homes[m], m, service, to, phase=1)
                homes[m].batches += 1
                if to is not None:
                    homes[m].lost.append((m, first, self.numbers[m], to))
            for m in [m for m in living if self.draw(st.booleans())]:
                waiting.append((m, self.some(view)))
                first = self.numbers[m] = self.numbers.get(m, 0) + 1
                self.tale.submit(m, first, to=waiting[-1][1])
            for m in living:
                self.tale.change(m, "COMMIT" if homes[m].removals == 0 else "FA", "COMMIT")
            self.flush(view)
            if self.draw(st.booleans()):
                for m in living:
                    self.tale.marker(m, view.positions, along(view, homes[m]))
        for view in after:
            components = [v.vid for v in self.views if set(v.members) & set(view.members)]
            self.install(view, components if view.removals == 0 else [])
        for m, to in waiting:
            self.say_late(homes[m], m, to)
        self.views = after

    def some(self, view: View) -> str:
        chosen = self.draw(st.sets(st.sampled_from(view.members), min_size=1))
        return "".join(sorted(chosen))

    def say_late(self, view: View, sender: str, to: str) -> None:
        """What was accepted before the change is sent to those that are left, if there are any."""
        number = self.numbers[sender]
        rest = "".join(m for m in to if m in view.members)
        if rest != to:
            gone = "".join(m for m in to if m not in rest)
            self.tale.lost(sender, gone, len(rest), number)
        if rest or self.draw(st.booleans()):
            self.tale.send(sender, number, service="CAUSAL", to=rest)
            view.add(sender, number, number, "CAUSAL", rest)
            for kind in ("ordered", "stable"):
                view.receipts.setdefault(kind, {})[sender] = number

    def next_view(self, members: str, origins: list[View]) -> View:
        self.made += 1
        if len(origins) == 1:
            old = origins[0]
            return View(f"v{self.made}", members, old.joins, old.removals + 1)
        return View(f"v{self.made}", members, 1 + max(v.joins for v in origins))

    def install(self, view: View, components: list[str]) -> None:
        given: dict[str, Any] = {"components": components} if components else {}
        for before in self.views:
            for m in before.members:
                if m not in view.members:
                    continue
                trans = along(before, view)
                step = self.close(before, m, trans)
                epoch = view.removals, view.joins, trans
                self.tale.install(m, view.vid, view.members, *epoch, step=step, **given)
                for sender, first, last, to in view.lost:
                    rest = "".join(x for x in to if x in view.members)
                    if sender == m and rest != to:
                        gone = "".join(x for x in to if x not in rest)
                        self.tale.lost(m, gone, len(rest), first, last)

    def end(self) -> TraceBuilder:
        for view in self.views:
            self.flush(view)
            for kind, tell in (("ordered", self.tale.ordered), ("stable", self.tale.stable)):
                for sender, upto in view.receipts.get(kind, {}).items():
                    tell(sender, upto)
        self.tale.topology(*("".join(v.members) for v in self.views))
        return self.tale.stop()


def along(before: View, after: View) -> str:
    """Those that move on together."""
    return "".join(m for m in after.members if m in before.members)


@st.composite
def legal_tales(draw: st.DrawFn) -> TraceBuilder:
    """Up to four members, up to three changes, a crash here and there, a life after it."""
    members = "abcd"[: draw(st.integers(1, 4))]
    groups = Groups(draw, members, alone=draw(st.booleans()))
    for change in range(draw(st.integers(0, 3)) + 1):
        if change:
            if draw(st.integers(0, 3)) == 0:
                groups.lose()
            groups.regroup()
        for view in groups.views:
            groups.talk(view, draw(st.integers(0 if change else 1, 2)))
    return groups.end()


def deliveries(tale: TraceBuilder) -> list[int]:
    return [i for i, row in enumerate(tale.rows) if isinstance(row, ev.Deliver)]


def held_to(tale: TraceBuilder) -> dict[str, Any]:
    return {"mode": "flow", "inserted": everywhere_at_once(tale)}


@settings(deadline=None)
@given(legal_tales())
def test_a_legal_trace_breaks_nothing(tale: TraceBuilder) -> None:
    report = tale.check(settled=True, **held_to(tale))
    assert report.violations == []
    assert report.properties["membership-precision"].verdict == "holds"


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_no_loss_of_evidence_makes_a_violation(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. Journals that end anywhere. 2. Journals with holes anywhere."""
    ends = {m: data.draw(st.integers(0, len(tale.rows))) for m in tale.count}
    at = {(name, inc): ends[m] for m in ends for name, inc in zip(names(m), incs(m), strict=True)}
    cut = [r for r in tale.rows if r.lseq <= at[r.node, r.inc]]
    assert check(cut, expect_liveness=False, **held_to(tale)).violations == []
    lost = data.draw(st.sets(st.integers(0, len(tale.rows) - 1)))
    holed = [r for i, r in enumerate(tale.rows) if i not in lost]
    assert check(holed, expect_liveness=False, **held_to(tale)).violations == []


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_left_out_is_missed(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. In the last view of a member. 2. In an earlier one, if another that moved along
    delivered it, and it was not basic."""
    assume(deliveries(tale))
    at = data.draw(st.sampled_from(deliveries(tale)))
    row = tale.rows[at]
    assert isinstance(row, ev.Deliver)
    rows = renumbered(tale.rows[:at] + tale.rows[at + 1 :])
    mine = _route(rows, (row.node, row.inc), row.vid)
    along = [
        r
        for r in rows
        if isinstance(r, ev.Deliver)
        and _overlap(r, row)
        and _route(rows, (r.node, r.inc), r.vid) == mine
    ]
    if mine[1] == "end" or (mine[1] != "gone" and along and row.service != "BASIC"):
        assert check(rows, expect_liveness=True, mode="flow").violated != ()


def _route(rows: list[ev.Event], member: tuple[str, int], vid: str) -> tuple[str, str]:
    """The view, and what came after it for this member: a view, the end of the run, or its own end
    before that, by a crash or another stop."""
    here = [r for r in rows if (r.node, r.inc) == member]
    after = [r.vid for r in here if isinstance(r, ev.ViewInstall) and r.prev_vid == vid]
    gone = any(isinstance(r, ev.Life) and r.reason != "ended" for r in here)
    return vid, (*after, "gone" if gone else "end")[0]


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_repeated_or_changed_is_caught(
    tale: TraceBuilder, data: st.DataObject
) -> None:
    assume(deliveries(tale))
    at = data.draw(st.sampled_from(deliveries(tale)))
    row = tale.rows[at]
    assert isinstance(row, ev.Deliver)
    twice = renumbered([*tale.rows[:at], row, *tale.rows[at:]])
    assert "no-duplication" in check(twice, expect_liveness=True).violated
    unsent = msgspec.structs.replace(row, first=row.first + 1000, last=row.last + 1000)
    changed = [*tale.rows[:at], unsent, *tale.rows[at + 1 :]]
    ends = {(r.node, r.inc): r for r in tale.rows if isinstance(r, ev.Life)}
    if ends[row.sender, row.sender_inc].op == "STOP":
        assert "integrity" in check(changed, expect_liveness=True).violated
    route = _route(tale.rows, (row.node, row.inc), row.vid)
    if row.pos is not None and route[1] == "end":
        moved_row = msgspec.structs.replace(row, pos=row.pos + 1)
        changed = [*tale.rows[:at], moved_row, *tale.rows[at + 1 :]]
        alone = sum(isinstance(r, ev.Deliver) and _overlap(r, row) for r in tale.rows) == 1
        assert alone or "running-prefix" in check(changed, expect_liveness=True).violated


def _overlap(a: ev.Deliver, b: ev.Deliver) -> bool:
    same = (a.sender, a.sender_inc) == (b.sender, b.sender_inc)
    return same and a.first <= b.last and b.first <= a.last


# ---------------------------------------------------------------------------- what is told besides

TOLD = (ev.Ordered, ev.Stable, ev.NotSent, ev.MergeSide, ev.TransMarker, ev.Queue, ev.ViewInstall)


def false(row: ev.Event) -> list[tuple[ev.Event, str]]:
    """The row with one of the facts changed that an application is told, and what that breaks."""
    stranger = {"members": ["z"], "member_incs": [1]}
    changes: list[tuple[dict[str, Any], str]] = []
    match row:
        case ev.Ordered():
            changes = [({"upto": row.upto + 1000}, "receipt-truth")]
        case ev.Stable():
            changes = [({"upto": row.upto + 1000}, "receipt-truth"), (stranger, "receipt-truth")]
            changes.append(({"sender_inc": 7}, "receipt-truth"))
        case ev.NotSent():
            changes = [({"rest": row.rest + 1}, "not-sent-liveness")]
            changes.append(({"to": ["z"], "to_incs": [1]}, "not-sent-liveness"))
        case ev.MergeSide():
            for i, number in enumerate(row.upto):
                upto = [*row.upto[:i], number + 1, *row.upto[i + 1 :]]
                changes.append(({"upto": upto}, "merge-report-truth"))
            changes.append(({"side_vid": "elsewhere"}, "merge-report-truth"))
            changes.append((stranger, "merge-report-truth"))
            alone = {"alone": ["z"], "alone_incs": [1], "alone_first": [1], "alone_last": [1]}
            changes.append((alone, "merge-report-truth"))
        case ev.TransMarker():
            changes = [(stranger, "safe-marker")]
        case ev.Queue():
            for column in ("accepted", "submitted", "refused"):
                changes.append(({column: getattr(row, column) + 1}, "accepted-is-sent"))
        case ev.ViewInstall():
            changes = [
                ({c: ["z"], f"{c}_incs": [1]}, "view-delta-truth") for c in ("joined", "left")
            ]
        case _:
            pass
    return [(msgspec.structs.replace(row, **columns), name) for columns, name in changes]


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_fact_that_is_told_and_false_is_caught(tale: TraceBuilder, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from([i for i, r in enumerate(tale.rows) if isinstance(r, TOLD)]))
    row, name = data.draw(st.sampled_from(false(tale.rows[at])))
    changed = [*tale.rows[:at], row, *tale.rows[at + 1 :]]
    assert name in check(changed, expect_liveness=True, mode="flow").violated


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_fact_that_is_not_told_is_missed(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. The last receipt of a member that lives. 2. The report of a lost receiver of a message
    that was sent. 3. What a merged view reports of a component."""
    ends = {(r.node, r.inc): r for r in tale.rows if isinstance(r, ev.Life)}
    last = {(r.node, r.inc, type(r)): r for r in tale.rows if isinstance(r, ev.Ordered | ev.Stable)}
    sent = {(r.node, r.inc, n) for r in tale.rows if isinstance(r, ev.Send) for n in span(r)}
    owed: list[tuple[ev.Event, str]] = [
        (r, "receipt-liveness") for r in last.values() if ends[r.node, r.inc].reason == "ended"
    ]
    owed += [(r, "merge-report-truth") for r in tale.rows if isinstance(r, ev.MergeSide)]
    owed += [
        (r, "not-sent-liveness")
        for r in tale.rows
        if isinstance(r, ev.NotSent) and (r.node, r.inc, r.first) in sent
    ]
    assume(owed)
    row, name = data.draw(st.sampled_from(owed))
    rows = renumbered([r for r in tale.rows if r is not row])
    assert name in check(rows, expect_liveness=True, mode="flow").violated


def span(row: ev.Send) -> range:
    return range(row.first, row.last + 1)


@settings(deadline=None)
@given(legal_tales())
def test_a_stop_without_a_cause_is_caught(tale: TraceBuilder) -> None:
    """1. Members that left were asked to. 2. A name in use is that of another."""
    for at, row in enumerate(tale.rows):
        if not (isinstance(row, ev.Life) and row.op == "STOP"):
            continue
        views = sum(isinstance(r, ev.ViewInstall) and _same(r, row) for r in tale.rows)
        namesakes = any(r.node == row.node and r.inc != row.inc for r in tale.rows)
        for reason, seen in (("left", views > 1), ("name-in-use", not namesakes)):
            if seen and row.reason == "ended":
                changed = msgspec.structs.replace(row, reason=reason)
                rows = [*tale.rows[:at], changed, *tale.rows[at + 1 :]]
                assert "no-needless-stop" in check(rows, expect_liveness=True).violated


def _same(a: ev.Event, b: ev.Event) -> bool:
    return (a.node, a.inc) == (b.node, b.inc)


# ---------------------------------------------------------------------------- how long it takes


def test_five_thousand_rows_take_well_under_a_second() -> None:
    tale = TraceBuilder("abcde")
    for turn in range(840):
        sender, first = "abcde"[turn % 5], turn // 5 * 10 + 1
        tale.send(sender, first, first + 9)
        tale.deliver("abcde", sender, first, first + 9, pos=turn * 10, batch=turn)
    began = time.process_time()
    report = tale.check()
    took = time.process_time() - began
    assert report.violations == []
    assert report.properties["causal"].evaluated > 10_000
    assert len(tale.rows) > 5000
    assert took < 1
