"""One run of the simulated service from a seed: faults, then calm, then the verdict.

At rest (P9): one state of each set at all its servers, all configured servers that are up and no
others in its view, the configured parent of each child set, if it is up, as its only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from phalanx.service.effects import StateApplied
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.sim.run import without_garbage_collection
from phalanx.sim.service.service_mutants import service_mutant
from phalanx.sim.service.service_world import ServiceWorld, SimServer
from phalanx.sim.service.tree_plan import random_tree

SECOND = 1000 * MILLISECOND
REST_WITHIN = 90 * SECOND
"""The longest time from the last fault to rest."""


KINDS_OF_FAULT = (
    *("crash", "crash", "restart", "restart", "part", "heal", "heal"),
    *("suspect", "set-crash", "wipe", "loss"),
)


class ServicePlan(msgspec.Struct, frozen=True):
    """What a seed draws from. `levels` 0: two or three at random."""

    levels: int = 0
    faults: int = 8
    seconds: int = 30
    snipe: float = 0.02
    """How often a server that has just decided is stopped before it has reported it."""


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
        kind = rng.choice(KINDS_OF_FAULT)
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
            for server in world.servers.values():
                server.side = 0
            world.loss = 0.0
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
            return
        for plan in sorted(world.topology.sets.values(), key=lambda s: s.name):
            if plan.above is not None and rng.random() < 0.4:
                side = rng.randrange(3)
                for name in plan.members:
                    if name != plan.parent or rng.random() < 0.5:
                        world.servers[name].side = side

    def end(self) -> None:
        world = self.world
        self.calm = True
        world.loss = 0.0
        world.unheard.clear()
        for server in world.servers.values():
            server.side = 0
            if server.machine is None:
                world.start(server)


def run_service(seed: int, plan: ServicePlan, mutant: str | None = None) -> ServiceRun:
    """Play one seed."""
    with without_garbage_collection(), service_mutant(mutant):
        return _run(seed, plan)


def _run(seed: int, plan: ServicePlan) -> ServiceRun:
    rng = Random(seed)
    topology = random_tree(rng, plan.levels or rng.choice((2, 2, 3)))
    world = ServiceWorld(rng, topology, ServiceTimes())
    storm = _Storm(world, rng, plan)
    for _ in range(plan.faults):
        world.at(rng.randrange(SECOND, plan.seconds * SECOND), storm.strike)
    world.run_until(plan.seconds * SECOND)
    storm.end()
    ended = world.now
    why = "not looked"
    while world.now < ended + REST_WITHIN:
        world.run_until(world.now + SECOND)
        why = next(unrest(world), "")
        if not why:
            break
    violations = list(world.checks.violations)
    if why:
        violations.append(("P9", why))
    world.counts["commits"] = world.checks.commits
    rest_s = (world.now - ended) / SECOND
    return ServiceRun(seed, tuple(violations), world.digest(), dict(world.counts), rest_s)


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
