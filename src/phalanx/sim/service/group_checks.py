"""Checks of groups over the whole of a run (listed in docs/service/rules.md).

- P1 chain: a member installs a view only from the one that the view names, and none after the end.
- P2 agreement: if p goes from v to w, and q from v to u, with q in w and p in u, then w is u.
- P3: the numbers of the views of a member grow, through restarts too.
- P4: no member is served by two owners.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from phalanx.service.effects import Notify, StateApplied
from phalanx.service.entries import AdvanceGroup, PutGroup
from phalanx.service.values import GroupView, ServiceGroup, Vid, interface_of

if TYPE_CHECKING:
    from phalanx.sim.service.service_world import ServiceWorld
    from phalanx.sim.service.simulated_hosts import SimServer


class GroupChecks:
    """Sees every notice and every decision about groups; `violations` are (property, text)."""

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.views: dict[str, GroupView | None] = {}
        """For each member its view; None after the end of its membership."""
        self.groups: dict[str, str] = {}
        """The group of each member."""
        self._next: dict[tuple[str, Vid], list[tuple[str, GroupView]]] = {}

    def notified(self, notice: Notify) -> None:
        """A member is told of a view, or of the end of its membership."""
        member, view = notice.member, notice.view
        last = self.views.get(member)
        if member in self.views and last is None:
            self._bad("P1", f"{member} gets {view} after the end")
            return
        if view is None:
            self.views[member] = None
            self.counts["excluded"] += 1
            return
        before = last.vid if last is not None else None
        if member not in view.parts or view.parts[member] != before:
            self._bad("P1", f"{member} goes {before} -> {view.vid}, which is not its next")
        if last is not None and view.vid.number <= last.vid.number:
            self._bad("P3", f"{member} gets {view.vid} after {last.vid}")
        self.counts["views"] += 1
        self.views[member] = view
        self.groups[member] = notice.uid
        if before is None:
            return
        known = self._next.setdefault((notice.uid, before), [])
        self.counts["successions"] += 1
        for other, theirs in known:
            if theirs.vid != view.vid and other in view.members and member in theirs.members:
                text = f"from {before} of {notice.uid} {member} goes to {view.vid} {view.cause}"
                self._bad("P2", f"{text}, {other} to {theirs.vid} {theirs.cause}")
        known.append((member, view))

    def decided(self, world: ServiceWorld, server: SimServer, effect: StateApplied) -> None:
        """A server has decided a change of a set. The owners are compared if it has not decided
        another one in the same step."""
        log = server.machine.logs.get(effect.state.set) if server.machine is not None else None
        is_last = log is not None and log.state.vid == effect.state.vid
        for entry in effect.commit.entries:
            if isinstance(entry, PutGroup | AdvanceGroup):
                self.counts[f"entry {entry.cause}"] += 1
                record = effect.state.groups.get(entry.uid)
                if record is None or record.own is None or record.own.ended is not None:
                    continue
                if is_last:
                    self._two_owners(world, server, effect.state.set, record.own)

    def _two_owners(
        self, world: ServiceWorld, server: SimServer, name: str, own: ServiceGroup
    ) -> None:
        mine = served_by(world, server, name, own)
        if not mine:
            return
        for other in world.servers.values():
            if other.machine is None:
                continue
            for place in sorted(other.machine.groups.speakers):
                if place not in other.machine.logs or (other is server and place == name):
                    continue
                record = other.machine.logs[place].state.groups.get(own.uid)
                if record is None or record.own is None or record.own.ended is not None:
                    continue
                both = mine & served_by(world, other, place, record.own)
                if both:
                    text = f"{name} and {place} own {own.uid} and serve {sorted(both)}"
                    self._bad("P4", text)

    def _bad(self, name: str, text: str) -> None:
        self.violations.append((name, text))


def served_by(
    world: ServiceWorld, server: SimServer, name: str, own: ServiceGroup
) -> frozenset[str]:
    """Members that a speaker serves by fresh answers, and whose interfaces are on its path."""
    machine = server.machine
    if machine is None or name not in machine.groups.speakers or name not in machine.logs:
        return frozenset()
    state = machine.logs[name].state
    table = machine.groups.speakers[name].table
    out = []
    for member in own.view.members:
        host = world.interfaces[interface_of(member)].machine
        if host is None or not any(
            s.set == name and s.lineage == state.lineage for s in host.home.path
        ):
            continue
        if table.serves(world.now, state, own, member, sure=True):
            out.append(member)
    return frozenset(out)
