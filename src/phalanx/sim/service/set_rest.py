"""What is not at rest about sets, after the last fault of a run (P9).

One state of each set at all its servers; all configured servers in its view, except those that have
left for good, and no others but acting parents of child sets whose configured parent has left; the
parent of each child set entered as its only one, which is the configured one unless that has left.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.service.values import SetState
from phalanx.sim.service.service_world import ServiceWorld


def unrest(world: ServiceWorld) -> Iterator[str]:
    """What is not at rest yet."""
    found = {}
    for name in sorted(world.topology.sets):
        states = {}
        for server in world.servers.values():
            machine = server.machine
            if machine is None:
                continue
            if name in machine.logs:
                states[server.name] = machine.logs[name].state
                if not machine.logs[name].is_idle:
                    yield f"{name}: {server.name} is busy"
            if name in machine.joiners:
                yield f"{name}: {server.name} waits to enter"
        ids = {state.vid for state in states.values()}
        if len(ids) != 1:
            views = sorted({",".join(map(str, state.view)) for state in states.values()})
            yield f"{name}: {len(ids)} states, views {views}"
            return
        found[name] = next(iter(states.values()))
    for state in found.values():
        yield from _unrest_of(world, state, found)


def _unrest_of(world: ServiceWorld, state: SetState, found: dict[str, SetState]) -> Iterator[str]:
    name, plan = state.set, world.topology.sets[state.set]
    parents = {child: _parent(world, found[child]) for child in world.topology.children(name)}
    stay = {m for m in plan.members if m not in world.gone}
    if sorted(m.name for m in state.view) != sorted(stay.union(filter(None, parents.values()))):
        yield f"{name}: view {','.join(map(str, state.view))}"
    mine = state.parent.name if state.parent is not None else None
    if mine != _parent(world, state):
        yield f"{name}: parent {state.parent}"
    for child, parent in parents.items():
        entered = [gid.name for gid in state.kids.get(child, ())]
        if entered != [parent]:
            yield f"{name}: parents of {child} are {entered}"


def _parent(world: ServiceWorld, state: SetState) -> str | None:
    """Who is to be the parent: the configured one, or whoever acts for one that has left."""
    configured = world.topology.sets[state.set].parent
    if configured in world.gone and state.parent is not None:
        return state.parent.name
    return configured
