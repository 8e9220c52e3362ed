"""Random legal traces: partitions, merges, crashes and restarts, with every report that is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from tests.verify.trace_builder import (
    TraceBuilder,
    everywhere_at_once,
    life,
)

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

    view: str
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
            self.tale.install(view.members, view.view, view.members)

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
            for member in self.draw(st.lists(st.sampled_from(view.members), max_size=6)):
                self.acknowledge(view, member)
                if self.draw(st.booleans()) and view.basics:
                    at = self.draw(st.integers(0, len(view.basics) - 1))
                    self.tale.deliver(*view.basics.pop(at))
                else:
                    self.advance(view, member)

    def say(
        self, at: View, home: View, sender: str, service: str, to: str | None, phase: int = 0
    ) -> None:
        first = self.numbers.get(sender, 0) + 1
        cut = first + self.draw(st.integers(0, 2))
        last = cut + self.draw(st.integers(0, 2))
        self.numbers[sender] = last
        given: dict[str, Any] = {"service": service, "to": to, "phase": phase, "view": at.view}
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

    def advance(self, view: View, member: str) -> bool:
        at, done = view.cursors.get(member, (0, 0))
        while at < len(view.sequence):
            place = view.sequence[at]
            if addressed(life(member), self.tale.sent[place.sender, place.first]):
                upto = self.draw(st.integers(place.first + done, place.last))
                given: dict[str, Any] = {}
                if place.pos is not None:
                    given = {"pos": place.pos + done, "batch": place.batch}
                self.tale.deliver(member, place.sender, place.first + done, upto, **given)
                whole = upto == place.last
                view.cursors[member] = (at + 1, 0) if whole else (at, upto + 1 - place.first)
                return True
            at, done = at + 1, 0
        view.cursors[member] = (at, 0)
        return False

    def flush(self, view: View) -> None:
        """All that is left goes up at all that are left."""
        for member in view.members:
            while member in self.alive and self.advance(view, member):
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
            self.tale.install(victim.upper(), self.views[-1].view, victim.upper())
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
            components = [v.view for v in self.views if set(v.members) & set(view.members)]
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
                transitional = along(before, view)
                step = self.close(before, m, transitional)
                epoch = view.removals, view.joins, transitional
                self.tale.install(m, view.view, view.members, *epoch, step=step, **given)
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


def held_to(tale: TraceBuilder) -> dict[str, Any]:
    return {"mode": "flow", "inserted": everywhere_at_once(tale)}
