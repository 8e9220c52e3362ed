"""The faults of one simulated run of the service: of random kinds, at random moments."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from phalanx.service.effects import StateApplied
from phalanx.service.service_times import MILLISECOND
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.simulated_hosts import SimServer

SECOND = 1000 * MILLISECOND
LEAVES_MAX = 2
"""Servers that leave for good in one run."""
LEAVE_WITHIN = 4 * SECOND

KINDS_OF_FAULT = (
    *("crash", "crash", "restart", "restart", "part", "heal", "heal"),
    *("suspect", "set-crash", "wipe", "loss"),
)
KINDS_OF_FAULT_WITH_CALLS = (
    *KINDS_OF_FAULT,
    *("lan-cut", "interface-crash", "interface-crash", "interface-up"),
)
MORE_KINDS = ("one-way", "one-way", "pause", "pause", "leave")
"""Those of a plan with all faults."""


class FaultStorm:
    """The faults of one run. `calm`: servers that have just decided are left alone."""

    def __init__(
        self, world: ServiceWorld, rng: Random, kinds: tuple[str, ...], snipe: float
    ) -> None:
        self.world = world
        self.rng = rng
        self.snipe = snipe
        self.kinds = kinds
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
        down = [n for n in names if world.servers[n].machine is None and n not in world.gone]
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
        elif kind == "one-way":
            one, other = rng.sample(self._neighbours(), 2)
            world.one_way[(one, other)] = world.now + rng.randrange(SECOND // 2, 8 * SECOND)
        elif kind == "pause":
            host = world.hosts[rng.choice(self._neighbours())]
            host.paused_until = world.now + rng.randrange(SECOND // 5, 4 * SECOND)
        elif kind == "leave" and (leavers := self._may_leave(up)):
            self._leave(rng.choice(leavers))
        else:
            return
        world.counts[f"fault {kind}"] += 1

    def _neighbours(self) -> list[str]:
        """The servers of one set and their interfaces."""
        topology = self.world.topology
        members = topology.sets[self.rng.choice(sorted(topology.sets))].members
        return [*members, *sorted(i for i, home in topology.homes.items() if home in members)]

    def _may_leave(self, up: list[str]) -> list[str]:
        """Servers without which each of their sets still has a configured one that stays."""
        world, leaving = self.world, {s.name for s in self.world.servers.values() if s.leaves}
        stay = {
            name: [m for m in plan.members if m not in leaving]
            for name, plan in world.topology.sets.items()
        }
        if len(leaving) >= LEAVES_MAX:
            return []
        return [
            name
            for name in up
            if name not in leaving
            and all(set(stay[s]) - {name} for s in world.topology.sets_of(name))
        ]

    def _leave(self, name: str) -> None:
        """Leave all sets (rule H7), and stop when that is done, or after a while."""
        server = self.world.servers[name]
        self.world.leave(server)

        def stop() -> None:
            left = server.machine is not None and not server.machine.logs
            self.world.counts["left"] += left
            self.world.stop(server)

        self.world.at(self.world.now + LEAVE_WITHIN, stop)

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
        world.one_way.clear()
        for host in world.hosts.values():
            host.side = 0
            host.paused_until = 0
        for server in world.servers.values():
            if server.leaves:
                world.stop(server)
            elif server.machine is None:
                world.start(server)
        self._interfaces_up(0.9)
