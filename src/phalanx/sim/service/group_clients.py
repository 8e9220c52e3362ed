"""Clients of the simulated service: what they call, one call after another at each interface, and
what came of it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec

from phalanx.service.effects import Answer
from phalanx.service.group_messages import CallKind, CallResult, GroupCall
from phalanx.service.inputs import CallSubmitted
from phalanx.sim.service.simulated_hosts import SimInterface

if TYPE_CHECKING:
    from phalanx.sim.service.service_world import ServiceWorld

NAMES = ("x", "y", "z")
SUBGROUPS = ("xs", "ys")
"""Each of the group whose name it begins with."""
SURVIVE = ("always", "always", "size >= 2", "fraction > 0.5", "fraction >= 0.3")
MERGE = ("always", "always", "size >= 2", "never")
WAITING_MAX = 4


class FinishedCall(msgspec.Struct, frozen=True):
    interface: str
    call: GroupCall
    result: CallResult


class GroupClients:
    """One client at each interface. `results` are the answers, in their order."""

    def __init__(self, world: ServiceWorld, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.results: list[FinishedCall] = []
        self.counts: Counter[str] = Counter()
        self.rules = True
        """Whether groups have partition rules; without, every part goes on."""
        self.all_rights = False
        """Whether every client may split, merge and delete every group."""
        self._queues: dict[str, list[GroupCall]] = {i: [] for i in world.interfaces}
        self._number = 0
        world.answered = self.answered

    # -------------------------------------------------------------- calls

    def create(self, interface: str, name: str, parent: str = "") -> None:
        """A group in a scope that is mostly wide, or a subgroup."""
        path = list(self.world.topology.path(self.world.topology.set_of_interface(interface)))
        scope = self.rng.choice(path[-2:]) if self.rng.random() < 0.8 else self.rng.choice(path)
        properties = {"survive": self.rng.choice(SURVIVE), "merge": self.rng.choice(MERGE)}
        if not self.rules:
            properties = {}
        if self.all_rights:
            properties["default_rights"] = "admin"
        if parent:
            properties["parent_group"] = parent
            scope = scope if self.rng.random() < 0.3 else ""
        arguments = {"properties": _encoded(properties)}
        self._call(interface, "create", name, scope=scope, arguments=arguments)

    def split(self, interface: str, uid: str) -> str:
        """A split into groups of new names."""
        names = {"child_1": f"p{self._number}", "child_2": f"q{self._number}"}
        return self._call(interface, "split", uid, arguments=names)

    def join(self, interface: str, name: str) -> str:
        return self._call(interface, "join", name, arguments={"create": "false"})

    def random_call(self) -> None:
        """One call of some client, as often as in a busy service."""
        rng = self.rng
        interface = rng.choice(sorted(self._queues))
        if len(self._queues[interface]) >= WAITING_MAX:
            return
        name, what = rng.choice(NAMES), rng.random()
        if what < 0.11:
            self.create(interface, name)
        elif what < 0.15:
            name = rng.choice(SUBGROUPS)
            self.create(interface, name, name[0])
        elif what < 0.53:
            self.join(interface, name)
        elif what < 0.6:
            self.join(interface, rng.choice(SUBGROUPS))
        elif what < 0.75:
            self._leave(interface)
        elif what < 0.8:
            self._call(interface, "read", name, arguments={"call": "get_view"})
        elif what < 0.82:
            self._call(interface, "set_group", name, arguments={"properties": '{"tier": "1"}'})
        elif what < 0.84:
            path = list(self.world.topology.path(self.world.topology.set_of_interface(interface)))
            properties = _encoded({"scope": rng.choice(path)})
            self._call(interface, "set_group", name, arguments={"properties": properties})
        elif what < 0.88:
            self._call(interface, "send", name, arguments={"body": "aGk="})
        elif what < 0.91:
            self._call(interface, "delete", name)
        elif what < 0.96:
            arguments = {"child_1": f"{name}a", "child_2": f"{name}b"}
            self._call(interface, "split", name, arguments=arguments)
        else:
            arguments = {"group_2": rng.choice(NAMES), "new": f"{name}m{self._number}"}
            self._call(interface, "merge", name, arguments=arguments)

    def _leave(self, interface: str) -> None:
        views = self.world.group_checks.views
        mine = [m for m, v in sorted(views.items()) if v and m.startswith(f"{interface}/")]
        if mine:
            member = self.rng.choice(mine)
            uid = self.world.group_checks.groups[member]
            self.world.leavers.add(member)
            self._call(interface, "leave", uid, member=member)

    def _call(
        self,
        interface: str,
        kind: CallKind,
        name: str,
        member: str = "",
        scope: str = "",
        arguments: dict[str, str] | None = None,
    ) -> str:
        self._number += 1
        id_ = f"c{interface}/{self._number}"
        uid = f"g{self._number}-"
        queue = self._queues[interface]
        queue.append(GroupCall(id_, kind, interface, name, member, scope, "", arguments or {}, uid))
        if len(queue) == 1:
            self._submit(interface)
        return id_

    # -------------------------------------------------------------- answers

    def _submit(self, interface: str) -> None:
        queue = self._queues[interface]
        if queue:
            call = CallSubmitted(queue[0])
            self.world.at(
                self.world.now, lambda: self.world.submit(self.world.interfaces[interface], call)
            )

    def restarted(self, interface: str) -> None:
        """A client repeats its open call after a restart of its interface."""
        self._submit(interface)

    def answered(self, host: SimInterface, answer: Answer) -> None:
        result = answer.result
        queue = self._queues[host.name]
        if not queue or queue[0].id != result.id:
            return
        call = queue.pop(0)
        outcome = result.error.partition("(")[0] or "done"
        self.counts[f"call {call.kind} {outcome}"] += 1
        self.results.append(FinishedCall(host.name, call, result))
        self._submit(host.name)

    def open(self) -> list[str]:
        """Calls of interfaces that are up and have no answer."""
        return [
            f"{i}: {queue[0].kind} {queue[0].name}"
            for i, queue in sorted(self._queues.items())
            if queue and self.world.interfaces[i].is_up
        ]


def _encoded(properties: dict[str, str]) -> str:
    texts = {key: msgspec.json.encode(value).decode() for key, value in properties.items()}
    return msgspec.json.encode(texts).decode()
