"""A simulated network of servers of the service, under virtual time.

Messages take a random time and may be lost; parts of the network may be cut; servers crash, with
their disks or without, and come back. A record is on disk when its `Persist` has been carried out;
a server may crash between two effects of one step.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random

import msgspec

from phalanx.core.ids import MemberId
from phalanx.service import effects
from phalanx.service.effects import SetRecord
from phalanx.service.inputs import MessageReceived, ServerSuspected, TimerDue
from phalanx.service.messages import ServiceMessage
from phalanx.service.server_machine import Mserver
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid
from phalanx.sim.service.service_checks import LogChecks
from phalanx.sim.service.tree_plan import installed

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class SimServer:
    """One server: its machine while it is up, and its disk."""

    def __init__(self, name: str, records: dict[str, SetRecord]) -> None:
        self.name = name
        self.incarnation = 1
        self.disk: dict[str, SetRecord] = dict(records)
        self.machine: Mserver | None = None
        self.side = 0
        self.wakes_at = 0

    @property
    def gid(self) -> Gid:
        return MemberId(self.name, self.incarnation)


class ServiceWorld:
    """See the module. `cut_short` may stop a server in the middle of its effects."""

    def __init__(self, rng: Random, topology: SetTree, times: ServiceTimes) -> None:
        self.rng = rng
        self.topology = topology
        self.times = times
        self.now = 0
        self.loss = 0.0
        self.delay_ns = 20 * MILLISECOND
        self.counts: Counter[str] = Counter()
        self.checks = LogChecks()
        self.cut_short: Callable[[SimServer, effects.StateApplied], bool] = lambda *_: False
        self.servers = {
            name: SimServer(name, records) for name, records in sorted(installed(topology).items())
        }
        self.unheard: dict[tuple[str, str], int] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._trace = blake2b(digest_size=16)
        for server in self.servers.values():
            self.start(server)

    # -------------------------------------------------------------- time

    def at(self, when: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, action))

    def run_until(self, end: int) -> None:
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = end

    def digest(self) -> str:
        """The same for the same seed, in every process."""
        return self._trace.hexdigest()

    # -------------------------------------------------------------- servers

    def start(self, server: SimServer) -> None:
        """Boot, or come back with what is on disk."""
        server.machine = Mserver(server.gid, self.topology, server.disk, self.times, self.now)
        for record in server.disk.values():
            self.checks.begun(server.gid, record.state)
        self._sleep(server)

    def crash(self, server: SimServer, wipe: bool = False) -> None:
        server.machine = None
        if wipe:
            server.disk = {}
            server.incarnation += 1

    def suspect(self, server: SimServer, other: SimServer) -> None:
        if server.machine is not None:
            self._carry_out(server, server.machine.step(self.now, ServerSuspected(other.gid)))

    def _sleep(self, server: SimServer) -> None:
        machine = server.machine
        assert machine is not None
        due = max(machine.deadline(), self.now + 1)
        server.wakes_at = due
        self.at(due, lambda: self._wake(server, machine, due))

    def _wake(self, server: SimServer, machine: Mserver, due: int) -> None:
        if server.machine is machine and server.wakes_at == due:
            self._carry_out(server, machine.step(self.now, TimerDue()))

    def _carry_out(self, server: SimServer, done: list[effects.ServiceEffect]) -> None:
        for effect in done:
            self._effect(server, effect)
            if server.machine is None:
                return
        self._sleep(server)

    def _effect(self, server: SimServer, effect: effects.ServiceEffect) -> None:
        self.counts[type(effect).__name__] += 1
        match effect:
            case effects.Send(to, message):
                self._send(server, to.name, message)
            case effects.Multicast(name, message):
                for other in self.servers.values():
                    machine = other.machine
                    if machine and (name in machine.logs or name in machine.joiners):
                        self._send(server, other.name, message)
            case effects.Persist(SetRecord() as record):
                if record.state.set not in server.disk and not record.commits:
                    self.checks.begun(server.gid, record.state)
                    self.counts["founded"] += 1
                server.disk[record.state.set] = record
            case effects.Persist(effects.SetForgotten(name)):
                server.disk.pop(name, None)
            case effects.StateApplied():
                self._trace.update(_encode((self.now, server.gid, effect.state.vid)))
                self._count_commit(effect)
                self.checks.applied(server.gid, effect)
                if self.cut_short(server, effect):
                    return
            case effects.StateStable():
                self.checks.stable(server.gid, effect)
            case _:
                pass

    def _count_commit(self, effect: effects.StateApplied) -> None:
        if len(effect.commit.bases) > 1:
            self.counts["union applied"] += 1
        elif effect.state.lineage == effect.state.vid.digest:
            self.counts["fork applied"] += 1

    # -------------------------------------------------------------- network

    def hears(self, one: SimServer, other: SimServer) -> bool:
        if one.side != other.side:
            return False
        pair = (min(one.name, other.name), max(one.name, other.name))
        return self.unheard.get(pair, 0) <= self.now

    def _send(self, server: SimServer, to: str, message: ServiceMessage) -> None:
        other = self.servers.get(to)
        if other is None or other is server or not self.hears(server, other):
            return
        if self.loss and self.rng.random() < self.loss:
            self.counts["lost"] += 1
            return
        delay = self.rng.randrange(MILLISECOND, self.delay_ns)
        if self.rng.random() < 0.01:
            delay *= 10
        sender = server.gid
        self.at(self.now + delay, lambda: self._arrive(server, sender, other, message))

    def _arrive(
        self, server: SimServer, sender: Gid, other: SimServer, message: ServiceMessage
    ) -> None:
        machine = other.machine
        if machine is not None and self.hears(server, other):
            self.counts["arrived"] += 1
            self._carry_out(other, machine.step(self.now, MessageReceived(sender, message)))
