"""One run of the simulated service from a seed: faults, then calm, then the verdict.

At rest (P9): one state of each set at all its servers, all configured servers that are up and no
others in its view, the configured parent of each child set, if it is up, as its only one. With
calls of clients, groups have to be at rest too (`group_rest`), and then every name can be joined
from its scope (P8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import msgspec

from phalanx.service.effects import StateApplied
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.sim.run import without_garbage_collection
from phalanx.sim.service.group_clients import NAMES, GroupClients
from phalanx.sim.service.group_rest import group_unrest, last_states, live_groups
from phalanx.sim.service.service_mutants import service_mutant
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.simulated_hosts import SimServer
from phalanx.sim.service.tree_plan import random_tree

SECOND = 1000 * MILLISECOND
REST_WITHIN = 90 * SECOND
"""The longest time from the last fault to rest."""


KINDS_OF_FAULT = (
    *("crash", "crash", "restart", "restart", "part", "heal", "heal"),
    *("suspect", "set-crash", "wipe", "loss"),
)
KINDS_OF_FAULT_WITH_CALLS = (
    *KINDS_OF_FAULT,
    *("lan-cut", "interface-crash", "interface-crash", "interface-up"),
)
WARM = 8 * SECOND
"""Before the first fault of a run with calls: groups are created and joined."""


class ServicePlan(msgspec.Struct, frozen=True):
    """What a seed draws from. `levels` 0: two or three at random."""

    levels: int = 0
    faults: int = 8
    calls: int = 0
    """Calls of clients; without any there are no groups."""
    seconds: int = 30
    snipe: float = 0.02
    """How often a server that has just decided is stopped before it has reported it."""
    all_rights: bool = False
    """Every client may split, merge and delete every group."""
    single: bool = False
    """Nothing but one crash of a server or an interface, which stays down for ten seconds."""


class ServiceRun(msgspec.Struct, frozen=True):
    """The result of one seed."""

    seed: int
    violations: tuple[tuple[str, str], ...]
    digest: str
    counts: dict[str, int]
    rest_s: float
    """Virtual time from the last fault to rest."""


class _Storm:
    """The faults of one run."""

    def __init__(self, world: ServiceWorld, rng: Random, plan: ServicePlan) -> None:
        self.world = world
        self.rng = rng
        self.snipe = plan.snipe
        self.kinds = KINDS_OF_FAULT_WITH_CALLS if plan.calls else KINDS_OF_FAULT
        self.restarted: Callable[[str], None] = lambda name: None
        self.calm = False
        world.cut_short = self.cut_short

    def cut_short(self, server: SimServer, effect: StateApplied) -> bool:
        """A server that has just decided is lost before the others know."""
        if self.calm or effect.commit.id.origin != server.gid or self.rng.random() >= self.snipe:
            return False
        kind = self.rng.choice(("crash", "crash", "wipe", "cut"))
        self.world.counts[f"snipe {kind}"] += 1
        if kind == "cut":
            server.side = 7
            return False
        self.world.crash(server, kind == "wipe")
        return True

    def strike(self) -> None:
        world, rng = self.world, self.rng
        names = sorted(world.servers)
        up = [n for n in names if world.servers[n].machine is not None]
        down = [n for n in names if world.servers[n].machine is None]
        kind = rng.choice(self.kinds)
        if kind in ("crash", "wipe") and len(up) > 2:
            world.crash(world.servers[rng.choice(up)], kind == "wipe")
        elif kind == "restart" and down:
            world.start(world.servers[rng.choice(down)])
        elif kind == "set-crash":
            share = rng.choice((0.8, 1.0))
            sets = world.topology.sets
            for name in sets[rng.choice([*sorted(sets), "T"])].members:
                if world.servers[name].machine is not None and rng.random() < share:
                    world.crash(world.servers[name])
        elif kind == "part":
            self._part(names)
        elif kind == "heal":
            for host in world.hosts.values():
                host.side = 0
            world.loss = 0.0
        elif kind == "lan-cut":
            lan = rng.choice(sorted(set(world.topology.homes.values())))
            world.servers[lan].side = 5
            for interface in world.interfaces.values():
                if world.topology.homes[interface.name] == lan and rng.random() < 0.7:
                    interface.side = 5
        elif kind == "interface-crash":
            world.crash(world.interfaces[rng.choice(sorted(world.interfaces))])
        elif kind == "interface-up":
            self._interfaces_up(1.0)
        elif kind == "suspect":
            members = world.topology.sets[rng.choice(sorted(world.topology.sets))].members
            one, other = rng.sample(members, 2)
            until = world.now + rng.randrange(SECOND // 2, 5 * SECOND)
            world.unheard[(min(one, other), max(one, other))] = until
            world.suspect(world.servers[one], world.servers[other])
        elif kind == "loss":
            world.loss = rng.choice((0.02, 0.1, 0.3))
        else:
            return
        world.counts[f"fault {kind}"] += 1

    def _part(self, names: list[str]) -> None:
        rng, world = self.rng, self.world
        if rng.random() < 0.5:
            for name in names:
                world.servers[name].side = rng.randrange(2)
            for interface in world.interfaces.values():
                if rng.random() < 0.8:
                    home = world.topology.homes[interface.name]
                    interface.side = world.servers[home].side
            return
        for plan in sorted(world.topology.sets.values(), key=lambda s: s.name):
            if plan.above is not None and rng.random() < 0.4:
                side = rng.randrange(3)
                for name in plan.members:
                    if name != plan.parent or rng.random() < 0.5:
                        world.servers[name].side = side
                for host, home in sorted(world.topology.homes.items()):
                    if home in plan.members and rng.random() < 0.9:
                        world.interfaces[host].side = side

    def _interfaces_up(self, share: float) -> None:
        for name, interface in sorted(self.world.interfaces.items()):
            if not interface.is_up and self.rng.random() < share:
                self.world.start(interface)
                self.restarted(name)

    def end(self) -> None:
        world = self.world
        self.calm = True
        world.loss = 0.0
        world.unheard.clear()
        for host in world.hosts.values():
            host.side = 0
        for server in world.servers.values():
            if server.machine is None:
                world.start(server)
        self._interfaces_up(0.9)


def run_service(seed: int, plan: ServicePlan, mutant: str | None = None) -> ServiceRun:
    """Play one seed."""
    with without_garbage_collection(), service_mutant(mutant):
        return _run(seed, plan)


def _run(seed: int, plan: ServicePlan) -> ServiceRun:
    rng = Random(seed)
    topology = random_tree(rng, plan.levels or rng.choice((2, 2, 3)))
    world = ServiceWorld(rng, topology, ServiceTimes())
    storm = _Storm(world, rng, plan)
    clients = GroupClients(world, rng) if plan.calls else None
    begin = SECOND
    if clients is not None:
        storm.calm = True
        storm.restarted = clients.restarted
        begin = WARM
        clients.rules = not plan.single
        clients.all_rights = plan.all_rights
        _warm_up(world, rng, clients)
        for _ in range(0 if plan.single else plan.calls):
            world.at(rng.randrange(WARM, WARM + plan.seconds * SECOND), clients.random_call)
        storm.calm = plan.single
    if plan.single:
        return _single_crash(seed, world, rng, clients)
    for _ in range(plan.faults):
        world.at(begin + rng.randrange(plan.seconds * SECOND), storm.strike)
    while world.now < begin + plan.seconds * SECOND and not world.is_broken:
        world.run_until(world.now + SECOND)
    storm.end()
    ended = world.now
    violations = _until_rest(world, clients)
    rest_s = (world.now - ended) / SECOND
    if clients is not None and not violations and not world.is_broken:
        violations = _late_calls(world, rng, clients)
    violations = [*world.checks.violations, *world.group_checks.violations, *violations]
    world.counts["commits"] = world.checks.commits
    world.counts.update(world.group_checks.counts)
    if clients is not None:
        world.counts.update(clients.counts)
    return ServiceRun(seed, tuple(violations), world.digest(), dict(world.counts), rest_s)


def _single_crash(
    seed: int, world: ServiceWorld, rng: Random, clients: GroupClients | None
) -> ServiceRun:
    """One host stops; who is told of the end of a membership although it lives is counted."""
    before = world.group_checks.counts["excluded"]
    host = world.hosts[rng.choice(sorted(world.hosts))]
    world.crash(host)
    kind = "server" if isinstance(host, SimServer) else "interface"
    world.counts[f"single crash of {kind}"] += 1
    world.run_until(world.now + 10 * SECOND)
    world.counts["excluded alive"] = world.group_checks.counts["excluded"] - before
    world.start(host)
    violations = _until_rest(world, clients)
    violations = [*world.checks.violations, *world.group_checks.violations, *violations]
    world.counts.update(world.group_checks.counts)
    return ServiceRun(seed, tuple(violations), world.digest(), dict(world.counts), 0.0)


def _warm_up(world: ServiceWorld, rng: Random, clients: GroupClients) -> None:
    """Groups that live: three names, and members at half of the interfaces."""
    interfaces = sorted(world.interfaces)
    for name in NAMES:
        clients.create(rng.choice(interfaces), name)
    world.run_until(2 * SECOND)
    for interface in interfaces:
        for name in NAMES:
            if rng.random() < 0.5:
                clients.join(interface, name)
    world.run_until(WARM)


def _until_rest(world: ServiceWorld, clients: GroupClients | None) -> list[tuple[str, str]]:
    """Let virtual time pass until nothing is left to do; what is left at the end. A run that is
    broken already does not go on: its servers may send without end."""
    ended, why = world.now, ("P9", "not looked")
    while world.now < ended + REST_WITHIN:
        if world.is_broken:
            return []
        world.run_until(world.now + SECOND)
        found = next(_all_unrest(world, clients), None)
        if found is None:
            return []
        why = found
    return [why]


def _all_unrest(world: ServiceWorld, clients: GroupClients | None) -> Iterator[tuple[str, str]]:
    for text in unrest(world):
        yield "P9", text
    if clients is not None:
        yield from group_unrest(world, frozenset())
        for text in clients.open():
            yield "P9", f"call without answer at {text}"


def _late_calls(world: ServiceWorld, rng: Random, clients: GroupClients) -> list[tuple[str, str]]:
    """Every name can be joined from its scope, subgroups aside, and a group can be split by the
    client that created it (P8)."""
    violations = _late_joins(world, rng, clients)
    splits: list[str] = []
    for uid, own in live_groups(last_states(world)).items():
        interface = own.creator.partition(" ")[0]
        if not splits and own.view.members and interface in world.interfaces:
            if world.interfaces[interface].is_up:
                splits.append(clients.split(interface, uid))
    violations += _until_rest(world, clients)
    for done in clients.results:
        if done.call.id in splits and done.result.error:
            text = f"split of {done.call.name} at {done.interface}: {done.result.error}"
            violations.append(("P8", text))
    return violations


def _late_joins(world: ServiceWorld, rng: Random, clients: GroupClients) -> list[tuple[str, str]]:
    late: dict[str, str] = {}
    groups = live_groups(last_states(world))
    for name, state in last_states(world).items():
        spanned = [i for i in sorted(world.interfaces) if world.topology.spans(name, i)]
        for called in sorted(n for n, uid in state.names.items() if uid in state.groups):
            interface = rng.choice(spanned)
            own = groups.get(state.names[called])
            if not world.interfaces[interface].is_up or (own is not None and own.parent_group):
                continue
            path = world.topology.path(world.topology.set_of_interface(interface))
            states = last_states(world)
            if next((s for s in path if called in states[s].names), "") == name:
                late[clients.join(interface, called)] = called
    violations = _until_rest(world, clients)
    for done in clients.results:
        if done.call.id in late and done.result.error:
            text = f"join of {done.call.name} at {done.interface}: {done.result.error}"
            violations.append(("P8", text))
    return violations


def unrest(world: ServiceWorld) -> Iterator[str]:
    """What is not at rest yet."""
    for name, plan in sorted(world.topology.sets.items()):
        states = {}
        for server in world.servers.values():
            machine = server.machine
            assert machine is not None
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
            continue
        state = next(iter(states.values()))
        if sorted(m.name for m in state.view) != sorted(plan.members):
            yield f"{name}: view {','.join(map(str, state.view))}"
        if state.parent is not None and state.parent.name != plan.parent:
            yield f"{name}: parent {state.parent}"
        for child in world.topology.children(name):
            parents = [gid.name for gid in state.kids.get(child, ())]
            if parents != [world.topology.sets[child].parent]:
                yield f"{name}: parents of {child} are {parents}"
