"""Trees of the service for benchmarks, and a simulated network that counts what they send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from phalanx.service import effects, messages
from phalanx.service import group_messages as gm
from phalanx.service.inputs import CallSubmitted
from phalanx.service.member_interface import MemberInterface
from phalanx.service.messages import ServiceMessage
from phalanx.service.server_machine import Mserver
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import GroupView
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.simulated_hosts import Host, SimInterface

SECOND = 1_000 * MILLISECOND
SHAPES = {
    10: (2, 1, 1, 1, 5),
    100: (2, 1, 2, 5, 5),
    1_000: (2, 2, 5, 5, 10),
    10_000: (4, 5, 5, 5, 20),
}
"""Servers of the top set; children of each of its servers and so on: sets of level 3 have that many
servers besides their parent, then those of level 2 and of level 1; interfaces of each LAN."""


# ---------------------------------------------------------------------------- the tree


def tree_of(shape: Sequence[int]) -> SetTree:
    """Four levels of sets. Each server of a set, its parent apart, is the parent of one below;
    those of level 1 are homes."""
    top, *widths, interfaces = shape
    servers = tuple(f"t{i}" for i in range(top))
    sets = {"T": ConfiguredSet("T", 4, servers)}
    layer = [("T", name) for name in servers]
    for level, width in zip((3, 2, 1), widths, strict=True):
        below = []
        for above, parent in layer:
            name = f"{'-LBC'[level]}{len(sets)}"
            own = tuple(f"{name.lower()}.{i}" for i in range(width))
            sets[name] = ConfiguredSet(name, level, (parent, *own), above, parent)
            below += [(name, server) for server in own]
        layer = below
    homes = {f"{server}.{i}": server for _, server in layer for i in range(interfaces)}
    return SetTree(sets, homes)


def spanned(topology: SetTree, kind: str) -> list[str]:
    """The interfaces of a group: those of the first LAN, those of the last building, or one of each
    LAN, which is in no other group."""
    lans: dict[str, list[str]] = {}
    for name in sorted(topology.homes):
        lans.setdefault(topology.homes[name], []).append(name)
    if kind == "all":
        return [names[-1] for names in lans.values()]
    last = list(lans.values())[-1][0]
    building = list(topology.path(topology.set_of_interface(last)))[1]
    if kind == "LAN":
        return next(n[:-1] for n in lans.values() if not topology.spans(building, n[0]))
    return [n for names in lans.values() for n in names[:-1] if topology.spans(building, n)]


# ---------------------------------------------------------------------------- counting

POLLS = (gm.Ask, gm.Query, gm.QueryReply, messages.AnnounceState)
EITHER = (gm.Tell, messages.Monitor, messages.MonitorReply)
"""Polls if they follow from a poll or from a timer while the set is at rest."""


class CountingWorld(ServiceWorld):
    """Counts messages as polls or as cost of a change, and notices by group."""

    def __init__(self, rng: Random, topology: SetTree) -> None:
        self.polls: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.changed_at = 0
        self.load: Counter[str] = Counter()
        """Messages that each server sends or takes."""
        self.noticed: dict[str, tuple[int, GroupView | None]] = {}
        self.answers: dict[str, effects.Answer] = {}
        self._is_poll: bool | None = None
        self._has_news: set[str] = set()
        """Servers whose next report carries more than answers to polls."""
        super().__init__(rng, topology, ServiceTimes())
        self.answered = self._answer

    def _answer(self, host: SimInterface, answer: effects.Answer) -> None:
        self.answers[answer.result.id] = answer

    def _transaction(self, host: SimInterface, done: list[effects.ServiceEffect]) -> None:
        for effect in done:
            if isinstance(effect, effects.Notify):
                self.noticed[effect.member] = (self.now, effect.view)
        super()._transaction(host, done)

    def _wake(self, host: Host, machine: Mserver | MemberInterface, due: int) -> None:
        self._is_poll = None
        super()._wake(host, machine, due)
        self._has_news.discard(host.name)

    def submit(self, host: SimInterface, call: CallSubmitted) -> None:
        self._is_poll = None
        super().submit(host, call)

    def _send(self, host: Host, to: str, message: ServiceMessage) -> None:
        other = self.hosts.get(to)
        if other is None or other is host:
            return
        is_poll = self._counts_as_poll(host, message)
        kind = type(message).__name__
        (self.polls if is_poll else self.changes)[kind] += 1
        if not is_poll:
            self.changed_at = self.now
        self.load[host.name] += 1
        self.load[to] += 1
        if not self.hears(host, other):
            return
        delay = 100_000 + self.rng.randrange(100_000)
        sender = host.gid

        def arrive() -> None:
            machine = other.machine
            if machine is not None and self.hears(host, other):
                self._is_poll = is_poll
                if not is_poll and isinstance(message, gm.DirectiveAck | gm.Tell):
                    self._has_news.add(other.name)
                self._arrive(host, sender, other, message)

        self.at(self.now + delay, arrive)

    def _counts_as_poll(self, host: Host, message: ServiceMessage) -> bool:
        if isinstance(message, POLLS):
            return True
        if not isinstance(message, EITHER):
            return False
        if self._is_poll is not None:
            return self._is_poll
        if isinstance(message, gm.Tell) or not isinstance(host.machine, Mserver):
            return host.name not in self._has_news
        log = host.machine.logs[message.set]
        return log.stable is not None and log.stable.vid == log.state.vid

    def reset(self) -> None:
        self.polls.clear()
        self.load.clear()
        self.changes.clear()
        self.noticed.clear()
