"""One run of the simulated service from a seed: faults, then calm, then the verdict.

At rest sets (`set_rest`) and, with calls of clients, groups (`group_rest`) are as they should be,
and then every name can be joined from its scope (P8).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.sim.run import without_garbage_collection
from phalanx.sim.service.fault_storm import (
    KINDS_OF_FAULT,
    KINDS_OF_FAULT_WITH_CALLS,
    MORE_KINDS,
    FaultStorm,
)
from phalanx.sim.service.group_clients import NAMES, GroupClients
from phalanx.sim.service.group_rest import group_unrest, last_states, live_groups
from phalanx.sim.service.service_journals import ServiceJournals
from phalanx.sim.service.service_mutants import service_mutant
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.set_rest import unrest
from phalanx.sim.service.simulated_hosts import SimServer
from phalanx.sim.service.tree_plan import random_tree

SECOND = 1000 * MILLISECOND
REST_WITHIN = 90 * SECOND
"""The longest time from the last fault to rest."""


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
    all_faults: bool = False
    """Also ways that are cut in one direction, pauses, and servers that leave for good."""
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


def run_service(
    seed: int,
    plan: ServicePlan,
    mutant: str | None = None,
    journals: ServiceJournals | None = None,
) -> ServiceRun:
    """Play one seed; `journals` takes down what its processes would write."""
    with without_garbage_collection(), service_mutant(mutant):
        return _run(seed, plan, journals)


def _run(seed: int, plan: ServicePlan, journals: ServiceJournals | None) -> ServiceRun:
    rng = Random(seed)
    topology = random_tree(rng, plan.levels or rng.choice((2, 2, 3)))
    world = ServiceWorld(rng, topology, ServiceTimes(), journals)
    kinds = KINDS_OF_FAULT_WITH_CALLS if plan.calls else KINDS_OF_FAULT
    storm = FaultStorm(world, rng, (*kinds, *MORE_KINDS) if plan.all_faults else kinds, plan.snipe)
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
    undisturbed = world.now
    if clients is not None and not violations and not world.is_broken:
        violations = _late_calls(world, rng, clients)
    if journals is not None:
        journals.finish(world, undisturbed, settled=not world.is_broken)
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
    before = world.counts["excluded: live"]
    host = world.hosts[rng.choice(sorted(world.hosts))]
    world.crash(host)
    kind = "server" if isinstance(host, SimServer) else "interface"
    world.counts[f"single crash of {kind}"] += 1
    world.run_until(world.now + 10 * SECOND)
    world.counts["excluded alive"] = world.counts["excluded: live"] - before
    world.start(host)
    violations = _until_rest(world, clients)
    if world.journals is not None:
        world.journals.finish(world, world.now, settled=not world.is_broken)
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
        yield from group_unrest(world, world.gone)
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
