"""The checkers against random legal traces, of which no part may ever be called a violation, and
in which every change of a delivery must be seen. And how long they take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sim.tale import Tale, everywhere_at_once, incs, names, renumbered

from phalanx.journal import events as ev
from phalanx.sim.checkers import check


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
    cursors: dict[str, tuple[int, int]] = field(default_factory=dict)

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
        self.tale = Tale(members, boot="")
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
        self.tale.send(sender, first, cut, **given)
        if last > cut:  # the same frame, told in two rows
            self.tale.send(sender, cut + 1, last, frame=self.tale.frames[sender], **given)
        home.add(sender, first, last, service, to)

    def advance(self, view: View, node: str) -> bool:
        at, done = view.cursors.get(node, (0, 0))
        while at < len(view.sequence):
            place = view.sequence[at]
            to = self.tale.sent[place.sender, place.first].to
            if to is None or names(node)[0] in to:
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

    def crash(self) -> None:
        victim = self.draw(st.sampled_from(self.alive))
        if len(self.alive) > 1:
            self.tale.life(victim, "CRASH")
            self.alive = self.alive.replace(victim, "")
            if victim.islower() and self.draw(st.booleans()):
                self.alive += victim.upper()
                self.made += 1
                self.views.append(View(f"boot{self.made}", victim.upper()))
                self.tale.install(victim.upper(), self.views[-1].vid, victim.upper())

    def regroup(self) -> None:
        """Every view ends; the living are dealt out anew. Some speak in the middle of it."""
        side = {m: self.draw(st.integers(0, 1)) for m in self.alive}
        after: list[View] = []
        for group in (0, 1):
            here = "".join(m for m in sorted(self.alive) if side[m] == group)
            origins = [v for v in self.views if set(v.members) & set(here)]
            if here:
                after.append(self.next_view(here, origins))
        homes = {m: view for view in after for m in view.members}
        for view in self.views:
            for m in [m for m in view.members if m in self.alive and self.draw(st.booleans())]:
                service = self.draw(st.sampled_from(["BASIC", "CAUSAL", "SAFE"]))
                self.say(view, homes[m], m, service, None, phase=1)
                homes[m].batches += 1
            self.flush(view)
        for view in after:
            components = [v.vid for v in self.views if set(v.members) & set(view.members)]
            self.install(view, components if view.removals == 0 else [])
        self.views = after

    def next_view(self, members: str, origins: list[View]) -> View:
        self.made += 1
        if len(origins) == 1:
            old = origins[0]
            return View(f"v{self.made}", members, old.joins, old.removals + 1)
        return View(f"v{self.made}", members, 1 + max(v.joins for v in origins))

    def install(self, view: View, components: list[str]) -> None:
        given: dict[str, Any] = {"components": components} if components else {}
        for before in self.views:
            along = "".join(m for m in view.members if m in before.members)
            self.tale.install(along, view.vid, view.members, view.removals, view.joins, **given)

    def end(self) -> Tale:
        for view in self.views:
            self.flush(view)
        self.tale.topology(*("".join(v.members) for v in self.views))
        return self.tale.stop()


@st.composite
def legal_tales(draw: st.DrawFn) -> Tale:
    """Up to four members, up to three changes, a crash here and there, a life after it."""
    members = "abcd"[: draw(st.integers(1, 4))]
    groups = Groups(draw, members, alone=draw(st.booleans()))
    for change in range(draw(st.integers(0, 3)) + 1):
        if change:
            if draw(st.integers(0, 3)) == 0:
                groups.crash()
            groups.regroup()
        for view in groups.views:
            groups.talk(view, draw(st.integers(0 if change else 1, 2)))
    return groups.end()


def deliveries(tale: Tale) -> list[int]:
    return [i for i, row in enumerate(tale.rows) if isinstance(row, ev.Deliver)]


def held_to(tale: Tale) -> dict[str, Any]:
    return {"mode": "flow", "inserted": everywhere_at_once(tale)}


@settings(deadline=None)
@given(legal_tales())
def test_a_legal_trace_breaks_nothing(tale: Tale) -> None:
    report = tale.check(settled=True, **held_to(tale))
    assert report.violations == []
    assert report.properties["membership-precision"].verdict == "holds"


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_no_loss_of_evidence_makes_a_violation(tale: Tale, data: st.DataObject) -> None:
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
def test_any_delivery_left_out_is_missed(tale: Tale, data: st.DataObject) -> None:
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
    if mine[1] == "end" or (mine[1] != "crash" and along and row.service != "BASIC"):
        assert check(rows, expect_liveness=True, mode="flow").violated != ()


def _route(rows: list[ev.Event], member: tuple[str, int], vid: str) -> tuple[str, str]:
    """The view, and what came after it for this member: a view, a crash or the end of the run."""
    here = [r for r in rows if (r.node, r.inc) == member]
    after = [r.vid for r in here if isinstance(r, ev.ViewInstall) and r.prev_vid == vid]
    crashed = any(isinstance(r, ev.Life) and r.op == "CRASH" for r in here)
    return vid, (*after, "crash" if crashed else "end")[0]


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_repeated_or_changed_is_caught(tale: Tale, data: st.DataObject) -> None:
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


def test_five_thousand_rows_take_well_under_a_second() -> None:
    tale = Tale("abcde")
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
