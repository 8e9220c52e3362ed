"""Which server an interface takes as its home (rules I1, I2), and on which path it is.

It follows the polls of its home. Without one for `rehome` it asks its own LAN server, the parent of
the set and the other servers in turn to become its home; it changes over when one of them polls it
under a higher sequence number, and returns to its own LAN server when that answers. As long as it
hears its home, a server of another component does not take it over: a LAN server that has been
restarted is alone at first, and the rest of the set would remove the members of the interface.
"""

from __future__ import annotations

from phalanx.service.effects import InterfaceRecord
from phalanx.service.group_messages import ChooseHome, Path, PathStep, Query
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import SetTree

RETURN_POLLS = 8
"""Polls between two questions to the own LAN server."""


class HomeChoice:
    """Of one interface. `record` is what must be durable."""

    def __init__(
        self,
        topology: SetTree,
        record: InterfaceRecord,
        times: ServiceTimes,
        now: int,
    ) -> None:
        self._times = times
        self.record = record
        name = record.interface
        self.set = topology.set_of_interface(name)
        self.lan = topology.homes[name]
        plan = topology.sets[self.set]
        others = [s for s in plan.members if s not in (self.lan, plan.parent)]
        parent = [plan.parent] if plan.parent is not None and plan.parent != self.lan else []
        self.candidates: tuple[str, ...] = (self.lan, *parent, *others)
        self.path: Path = ()
        self.since: dict[str, PathStep] = {}
        """For each set on the path the first poll since it is there without interruption."""
        self.heard_at = now
        self._next_at = now + times.rehome_ns
        self._turn = 0
        self._polls = 0

    def deadline(self) -> int:
        return self._next_at

    def polled(self, now: int, sender: str, query: Query) -> bool:
        """A poll. Returns whether it is one of the home, which may be a new one."""
        if query.seq < self.record.seq or not query.path:
            return False
        if query.seq == self.record.seq and sender != self.record.home:
            return False
        self.heard_at = now
        self._next_at = now + self._times.rehome_ns
        self._turn = 0
        self.path = query.path
        since: dict[str, PathStep] = {}
        for step in query.path:
            first = self.since.get(step.set)
            same = first is not None and first.speaker == step.speaker
            since[step.set] = first if first is not None and same else step
        self.since = since
        return True

    def is_on_path(self, step: PathStep) -> bool:
        """Whether a directive of this owner is to be taken: the owner is on the path now, and it
        has been since it asked the question that the directive names."""
        now = next((each for each in self.path if each.set == step.set), None)
        first = self.since.get(step.set)
        if now is None or first is None:
            return False
        return (
            now.lineage == step.lineage
            and now.speaker == step.speaker
            and first.asked <= step.asked
        )

    def questions(self, now: int) -> list[tuple[str, ChooseHome]]:
        """Servers to be asked, because the home is silent or to return to the own one."""
        choose = ChooseHome(self.set, self.record.interface, self.record.seq + 1)
        if now - self.heard_at >= self._times.rehome_ns:
            self.path = ()
            self.since = {}
            to = self.candidates[self._turn % len(self.candidates)]
            self._turn += 1
            self._next_at = now + self._times.reply_ns
            return [(to, choose)]
        self._next_at = self.heard_at + self._times.rehome_ns
        return []

    def returns(self) -> list[tuple[str, ChooseHome]]:
        """After a poll of another server than the own one: now and then ask the own one."""
        self._polls += 1
        if self.record.home == self.lan or self._polls % RETURN_POLLS:
            return []
        home = self.record.home
        return [(self.lan, ChooseHome(self.set, self.record.interface, self.record.seq + 1, home))]
