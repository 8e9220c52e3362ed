"""A simulated network of servers and interfaces of the service, under virtual time.

Messages take a random time and may be lost; parts of the network may be cut; hosts crash, servers
with their disks or without, and come back. A record is on disk when its `Persist` has been carried
out; a server may crash between two effects of one step. What an interface writes and reports to
its clients in one step is one transaction, as in the process of an interface.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random

import msgspec

from phalanx.service import effects
from phalanx.service.effects import SetRecord
from phalanx.service.entries import AddServer, RemoveServer, SetHome
from phalanx.service.inputs import CallSubmitted, MessageReceived, ServerSuspected, TimerDue
from phalanx.service.member_interface import MemberInterface
from phalanx.service.messages import ServiceMessage
from phalanx.service.server_machine import Mserver
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, Vid
from phalanx.sim.service.group_checks import GroupChecks
from phalanx.sim.service.service_checks import LogChecks
from phalanx.sim.service.service_journals import ServiceJournals
from phalanx.sim.service.simulated_hosts import Host, SimInterface, SimServer
from phalanx.sim.service.tree_plan import installed

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class ServiceWorld:
    """See the module. `cut_short` may stop a server in the middle of its effects; `journals` takes
    down what happens."""

    def __init__(
        self,
        rng: Random,
        topology: SetTree,
        times: ServiceTimes,
        journals: ServiceJournals | None = None,
    ) -> None:
        self.rng = rng
        self.journals = journals
        self.topology = topology
        self.times = times
        self.now = 0
        self.loss = 0.0
        self.delay_ns = 20 * MILLISECOND
        self.counts: Counter[str] = Counter()
        self.checks = LogChecks()
        self.group_checks = GroupChecks()
        self.answered: Callable[[SimInterface, effects.Answer], None] = lambda *_: None
        self.cut_short: Callable[[SimServer, effects.StateApplied], bool] = lambda *_: False
        self.servers = {
            name: SimServer(name, records) for name, records in sorted(installed(topology).items())
        }
        self.interfaces = {name: SimInterface(name) for name in sorted(topology.homes)}
        self.hosts: dict[str, Host] = {**self.servers, **self.interfaces}
        self.unheard: dict[tuple[str, str], int] = {}
        self.one_way: dict[tuple[str, str], int] = {}
        """For sender and receiver, until when nothing arrives."""
        self.leavers: set[str] = set()
        """Members that have asked to leave their groups."""
        self._decided: set[tuple[str, Vid]] = set()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._trace = blake2b(digest_size=16)
        for host in self.hosts.values():
            self.start(host)

    # -------------------------------------------------------------- time

    def at(self, when: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, action))

    def run_until(self, end: int) -> None:
        """Let virtual time pass; a run that is broken stops."""
        while self._heap and self._heap[0][0] <= end and not self.is_broken:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = end

    @property
    def is_broken(self) -> bool:
        """Whether a property is violated already."""
        return bool(self.checks.violations or self.group_checks.violations)

    def digest(self) -> str:
        """The same for the same seed, in every process."""
        return self._trace.hexdigest()

    # -------------------------------------------------------------- hosts

    def start(self, host: Host) -> None:
        """Boot, or come back with what is on disk."""
        host.wakes_at = 0
        if self.journals is not None:
            self.journals.started(self, host)
        if isinstance(host, SimServer):
            host.machine = Mserver(host.gid, self.topology, host.disk, self.times, self.now)
            for record in host.disk.values():
                self.checks.begun(host.gid, record.state)
            if host.leaves:
                self.leave(host)
        else:
            records = list(host.disk.values())
            host.machine = MemberInterface(host.name, self.topology, records, self.times, self.now)
        self._sleep(host)

    def crash(self, host: Host, wipe: bool = False) -> None:
        """Stop a host. A server that loses its disk comes back as another one."""
        if isinstance(host, SimInterface) and host.machine is not None:
            host.were_down.update(host.machine.book.members)
        host.machine = None
        if self.journals is not None:
            self.journals.crashed(self, host)
        if wipe and isinstance(host, SimServer):
            host.disk = {}
            host.incarnation += 1

    @property
    def gone(self) -> frozenset[str]:
        """Servers that have left for good and have stopped."""
        return frozenset(s.name for s in self.servers.values() if s.leaves and s.machine is None)

    def leave(self, server: SimServer) -> None:
        """Leave all sets (rule H7)."""
        server.leaves = True
        if server.machine is not None:
            for name in self.topology.sets:
                server.machine.leave(name)

    def stop(self, server: SimServer) -> None:
        """A server that leaves stops for good, whether or not it is out of its sets."""
        self.crash(server)
        server.disk = {}

    def suspect(self, server: SimServer, other: SimServer) -> None:
        if server.machine is not None:
            self._carry_out(server, server.machine.step(self.now, ServerSuspected(other.gid)))

    def submit(self, host: SimInterface, call: CallSubmitted) -> None:
        """A client makes a call."""
        if host.machine is not None:
            if self.journals is not None:
                self.journals.submitted(self, host, call.call)
            self._carry_out(host, host.machine.step(self.now, call))

    def _sleep(self, host: Host) -> None:
        machine = host.machine
        assert machine is not None
        due = max(machine.deadline(), self.now + 1)
        if due == host.wakes_at:
            return
        host.wakes_at = due
        self.at(due, lambda: self._wake(host, machine, due))

    def _wake(self, host: Host, machine: Mserver | MemberInterface, due: int) -> None:
        if host.paused_until > self.now and host.machine is machine:
            self.at(host.paused_until, lambda: self._wake(host, machine, due))
        elif host.machine is machine and host.wakes_at == due:
            host.wakes_at = 0
            self._carry_out(host, machine.step(self.now, TimerDue()))

    def _carry_out(self, host: Host, done: list[effects.ServiceEffect]) -> None:
        if isinstance(host, SimInterface):
            self._transaction(host, done)
        else:
            for effect in done:
                self._effect(host, effect)
                if host.machine is None:
                    return
        self._sleep(host)

    def _transaction(self, host: SimInterface, done: list[effects.ServiceEffect]) -> None:
        """Records and notices first, then messages and answers."""
        if self.journals is not None:
            self.journals.done(self, host, done)
        for effect in done:
            match effect:
                case effects.Persist(record):
                    host.write(record)
                case effects.Notify():
                    self.counts["Notify"] += 1
                    self._trace.update(_encode((self.now, effect.member, effect.previous)))
                    self.group_checks.notified(effect)
                    if effect.view is None:
                        self.counts[self._why_excluded(host, effect)] += 1
                case _:
                    pass
        for effect in done:
            match effect:
                case effects.Send(to, message):
                    self._send(host, to.name, message)
                case effects.Answer():
                    self.counts["Answer"] += 1
                    self.answered(host, effect)
                case _:
                    pass

    def _why_excluded(self, host: SimInterface, notice: effects.Notify) -> str:
        if notice.ended:
            return "excluded: group ended"
        if notice.member in self.leavers:
            return "excluded: asked to leave"
        if notice.member in host.were_down:
            return "excluded: interface was down"
        return "excluded: live"

    def _effect(self, server: SimServer, effect: effects.ServiceEffect) -> None:
        self.counts[type(effect).__name__] += 1
        if self.journals is not None:
            self.journals.done(self, server, (effect,))
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
                server.write(record)
            case effects.Persist(record):
                server.write(record)
                if isinstance(record, effects.SetForgotten):
                    self.checks.left(server.gid, record.set)
            case effects.StateApplied():
                self._trace.update(_encode((self.now, server.gid, effect.state.vid)))
                self._count_commit(effect)
                self.checks.applied(server.gid, effect)
                if effect.commit.id.origin == server.gid:
                    self.group_checks.decided(self, server, effect)
                    if self.journals is not None:
                        self.journals.decided(self, server, effect)
                self.cut_short(server, effect)
            case effects.StateStable():
                self.checks.stable(server.gid, effect)
            case _:
                pass

    def _count_commit(self, effect: effects.StateApplied) -> None:
        commit, state = effect.commit, effect.state
        kind = "commit"
        if len(commit.bases) > 1:
            kind = "union"
        elif state.lineage == state.vid.digest:
            kind = "fork"
        if kind != "commit":
            self.counts[f"{kind} applied"] += 1
        if (state.set, state.vid) in self._decided:
            return
        self._decided.add((state.set, state.vid))
        self.counts["decided"] += 1
        self.counts[f"decided {kind}"] += kind != "commit"
        self.counts["re-homed"] += sum(isinstance(e, SetHome) for e in commit.entries)
        self.counts["server added"] += sum(isinstance(e, AddServer) for e in commit.entries)
        self.counts["server removed"] += sum(isinstance(e, RemoveServer) for e in commit.entries)

    # -------------------------------------------------------------- network

    def hears(self, one: Host, other: Host) -> bool:
        if one.side != other.side:
            return False
        if self.one_way.get((one.name, other.name), 0) > self.now:
            return False
        pair = (min(one.name, other.name), max(one.name, other.name))
        return self.unheard.get(pair, 0) <= self.now

    def _send(self, host: Host, to: str, message: ServiceMessage) -> None:
        other = self.hosts.get(to)
        if other is None or other is host or not self.hears(host, other):
            return
        if self.loss and self.rng.random() < self.loss:
            self.counts["lost"] += 1
            return
        delay = self.rng.randrange(MILLISECOND, self.delay_ns)
        if self.rng.random() < 0.01:
            delay *= 10
        sender = host.gid
        self.at(self.now + delay, lambda: self._arrive(host, sender, other, message))

    def _arrive(self, host: Host, sender: Gid, other: Host, message: ServiceMessage) -> None:
        machine = other.machine
        if other.paused_until > self.now:
            self.at(other.paused_until, lambda: self._arrive(host, sender, other, message))
        elif machine is not None and self.hears(host, other):
            self.counts["arrived"] += 1
            self._carry_out(other, machine.step(self.now, MessageReceived(sender, message)))
