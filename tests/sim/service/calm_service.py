"""A service of three levels without faults, for tests of calls: each call runs until its answer.

T  = t0 t1            (top)
M0 = t0 p0 p1         M1 = t1 q0
L0 = p0 a0 a1         L1 = p1 b0        L2 = q0 c0
m0 at a0, m1 at a1, m2 at b0, m3 at c0
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from phalanx.service.calls.attributes import encoded_attributes
from phalanx.service.effects import Answer, HeldMembership
from phalanx.service.group_messages import CallKind, CallResult, GroupCall
from phalanx.service.inputs import CallSubmitted
from phalanx.service.service_times import MILLISECOND, ServiceTimes
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import NO_RECORD, GroupRecord, ServiceGroup
from phalanx.sim.service.group_rest import last_states
from phalanx.sim.service.service_world import ServiceWorld
from phalanx.sim.service.simulated_hosts import SimInterface

SECOND = 1000 * MILLISECOND
NOTHING: Mapping[str, str] = {}
TREE = SetTree(
    {
        "T": ConfiguredSet("T", 3, ("t0", "t1")),
        "M0": ConfiguredSet("M0", 2, ("t0", "p0", "p1"), "T", "t0"),
        "M1": ConfiguredSet("M1", 2, ("t1", "q0"), "T", "t1"),
        "L0": ConfiguredSet("L0", 1, ("p0", "a0", "a1"), "M0", "p0"),
        "L1": ConfiguredSet("L1", 1, ("p1", "b0"), "M0", "p1"),
        "L2": ConfiguredSet("L2", 1, ("q0", "c0"), "M1", "q0"),
    },
    {"m0": "a0", "m1": "a1", "m2": "b0", "m3": "c0"},
)


class CalmService:
    """See the module. The client of an interface is `c`, unless a call names another one."""

    def __init__(self, seed: int = 1) -> None:
        self.world = ServiceWorld(Random(seed), TREE, ServiceTimes())
        self.world.answered = self._answered
        self.answers: dict[str, CallResult] = {}
        self._number = 0
        self.run(3)

    def _answered(self, host: SimInterface, answer: Answer) -> None:
        self.answers[answer.result.id] = answer.result

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + round(seconds * SECOND))
        assert not self.world.is_broken, self.world.group_checks.violations

    def submit(
        self,
        kind: CallKind,
        interface: str,
        name: str = "",
        member: str = "",
        client: str = "c",
        properties: Mapping[str, str | int | bool] | None = None,
        removed: tuple[str, ...] = (),
        given: Mapping[str, str] = NOTHING,
        **arguments: str,
    ) -> str:
        """Begin a call; returns its id."""
        self._number += 1
        id_ = f"{client}/{self._number}"
        arguments = {**given, **arguments}
        if properties is not None or removed:
            texts = encoded_attributes(properties or {}) | dict.fromkeys(removed, "")
            arguments["properties"] = json.dumps(texts)
        scope = str((properties or {}).get("scope", "")) if kind == "create" else ""
        call = GroupCall(
            id_, kind, interface, name, member, scope, "", arguments, f"u{self._number}-"
        )
        self.world.submit(self.world.interfaces[interface], CallSubmitted(call))
        return id_

    def answer(self, id_: str, within: float = 12.0) -> CallResult:
        """Let time pass until a call is answered."""
        end = self.world.now + round(within * SECOND)
        while id_ not in self.answers and self.world.now < end:
            self.run(0.05)
        assert id_ in self.answers, "no answer"
        return self.answers[id_]

    def call(
        self,
        kind: CallKind,
        interface: str,
        name: str = "",
        member: str = "",
        client: str = "c",
        properties: Mapping[str, str | int | bool] | None = None,
        removed: tuple[str, ...] = (),
        given: Mapping[str, str] = NOTHING,
        **arguments: str,
    ) -> CallResult:
        """Make a call and wait for its answer."""
        arguments = {**given, **arguments}
        id_ = self.submit(kind, interface, name, member, client, properties, removed, arguments)
        return self.answer(id_)

    def read(self, what: str, interface: str, name: str = "", **arguments: str) -> CallResult:
        member = arguments.pop("member", "")
        return self.call("read", interface, name, member, given={"call": what, **arguments})

    def join(self, interface: str, name: str, client: str = "c", **properties: str) -> str:
        """Join a group; returns the member, once it has its view."""
        done = self.call(
            "join", interface, name, client=client, properties=dict(properties), create="false"
        )
        assert not done.error, done.error
        member = done.values["member"]
        for _ in range(100):
            if self.held(member).view is not None:
                return member
            self.run(0.05)
        raise AssertionError(f"{member} gets no view")

    def held(self, member: str) -> HeldMembership:
        machine = self.world.interfaces[member.partition("/")[0]].machine
        assert machine is not None
        return machine.book.members[member]

    def record(self, name: str, uid: str) -> GroupRecord:
        """What a set has of a group."""
        return last_states(self.world)[name].groups.get(uid, NO_RECORD)

    def group(self, uid: str) -> tuple[str, ServiceGroup]:
        """The set that owns a group, and the group, once it is not on its way."""
        for _ in range(100):
            for name, state in last_states(self.world).items():
                own = state.groups.get(uid, NO_RECORD).own
                if own is not None:
                    return name, own
            self.run(0.05)
        raise AssertionError(f"nobody owns {uid}")

    def names(self, name: str) -> dict[str, str]:
        return last_states(self.world)[name].names
