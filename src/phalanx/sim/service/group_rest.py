"""What is not at rest about groups, after the last fault of a run.

- P5: one owner of each group, whose set spans all members.
- P6: one name for each live group, in its scope.
- P7: every member of a view has it, and every member that believes in one is in it.
- P9: no hand-over, pin or call is left, and every interface has a home.
- PG: every member of a subgroup has its member in the parent group.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.service.values import ServiceGroup, SetState, interface_of
from phalanx.sim.service.service_world import ServiceWorld

Unrest = tuple[str, str]


def group_unrest(world: ServiceWorld, gone: frozenset[str]) -> Iterator[Unrest]:
    """Properties that do not hold yet."""
    states = last_states(world)
    owners: dict[str, list[tuple[str, ServiceGroup]]] = {}
    for name, state in states.items():
        for uid, record in sorted(state.groups.items()):
            if record.pends:
                yield "P9", f"{uid} is on its way in {name}: {record.pends[0].to}"
            if record.own is not None:
                owners.setdefault(uid, []).append((name, record.own))
    for uid, found in sorted(owners.items()):
        if len(found) > 1:
            yield "P5", f"owners of {uid}: {', '.join(name for name, _ in found)}"
        name, own = found[0]
        if own.ended is None:
            yield from _group(world, states, name, own)
    for interface, host in sorted(world.interfaces.items()):
        if host.machine is None:
            continue
        if host.machine.record.home in gone or not host.machine.home.path:
            yield "P9", f"{interface} has no home"
        for member, held in sorted(host.machine.book.members.items()):
            if held.over or held.view is None:
                continue
            parent = host.machine.book.members.get(held.parent)
            if held.parent and (parent is None or parent.over):
                yield "PG", f"{member} of {held.uid} has lost {held.parent} in the parent group"
            live = [own for _, own in owners.get(held.uid, []) if own.ended is None]
            if not any(member in own.view.members for own in live):
                yield "P7", f"{member} believes in {held.view.vid} of {held.uid}, nobody else does"


def _group(
    world: ServiceWorld, states: dict[str, SetState], name: str, own: ServiceGroup
) -> Iterator[Unrest]:
    scope = states.get(own.scope)
    if scope is not None and list(scope.names.values()).count(own.uid) != 1:
        names = [n for n, u in scope.names.items() if u == own.uid]
        yield "P6", f"{own.uid} has names {names} in {own.scope}"
    if own.pin is not None:
        yield "P9", f"{own.uid} is pinned by {own.pin}"
    for member in own.view.members:
        interface = interface_of(member)
        if not world.topology.spans(name, interface):
            yield "P5", f"{member} of {own.uid} is outside {name}"
        host = world.interfaces[interface].machine
        held = host.book.members.get(member) if host is not None else None
        if held is None or held.over or held.view is None or held.view.vid != own.view.vid:
            has = held.view.vid if held is not None and held.view is not None else None
            over = " (over)" if held is not None and held.over else ""
            up = "" if host is not None else " (down)"
            text = f"{member} is in {own.view.vid} of {own.uid} at {name} but has {has}"
            yield "P7", f"{text}{over}{up}"


def live_groups(states: dict[str, SetState]) -> dict[str, ServiceGroup]:
    """The groups that have not ended, by uid, as their owners have them."""
    owned = {u: r.own for s in states.values() for u, r in s.groups.items() if r.own is not None}
    return {uid: own for uid, own in sorted(owned.items()) if own.ended is None}


def last_states(world: ServiceWorld) -> dict[str, SetState]:
    """One state of each set: the latest that a server which is up has."""
    out: dict[str, SetState] = {}
    for server in world.servers.values():
        if server.machine is None:
            continue
        for name, state in server.machine.states().items():
            if name not in out or state.vid > out[name].vid:
                out[name] = state
    return dict(sorted(out.items()))
