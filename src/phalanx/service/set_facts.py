"""What the speaker of a set sees when it decides about groups there."""

from __future__ import annotations

import msgspec

from phalanx.service.grace_timers import GraceTimers
from phalanx.service.served_table import ServedTable
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, ServiceGroup, SetState


class SetFacts(msgspec.Struct, frozen=True):
    """For one set, at one moment. `state` is its last state, `stable` the last one that all have
    applied, `above` the last state of the set above, if this server is its parent there. `way` are
    the sets from this one up that the last question has come along. `contested` groups are owned or
    carried above; `leases` says until when pins hold."""

    now: int
    me: Gid
    topology: SetTree
    times: ServiceTimes
    state: SetState
    stable: SetState | None
    above: SetState | None
    table: ServedTable
    grace: GraceTimers
    way: tuple[str, ...]
    contested: frozenset[str]
    leases: dict[str, int]

    @property
    def name(self) -> str:
        return self.state.set

    @property
    def level(self) -> int:
        return self.topology.level(self.name)

    @property
    def is_stable(self) -> bool:
        return self.stable is not None and self.stable.vid == self.state.vid

    @property
    def way_is_whole(self) -> bool:
        """The way ends at the top."""
        return bool(self.way) and self.topology.above(self.way[-1]) is None

    def unserved(self, group: ServiceGroup, sure: bool = False) -> tuple[str, ...]:
        """Members that this component does not serve; nobody of a group that has ended."""
        if group.ended is not None:
            return ()
        return self.table.unserved(self.now, self.state, group, sure)

    def unsettled(self, group: ServiceGroup) -> tuple[str, ...]:
        """Members that stand in the way of a union: those not confirmed just now (rule H4)."""
        return self.unserved(group, sure=True)

    def is_frozen(self, group: ServiceGroup) -> bool:
        """While a member is unserved, nobody is told a view and none is made (rule G2)."""
        return bool(self.unserved(group))

    def believers(self, uid: str) -> tuple[str, ...]:
        """Members served here that have a view of a group."""
        return tuple(
            member
            for entry in self.table.interfaces(self.now, self.state)
            for member, group in sorted(entry.served.groups.items())
            if group == uid and entry.served.positions.get(member) is not None
        )

    def serves_interface(self, interface: str) -> bool:
        return self.table.entry(self.now, self.state, interface) is not None

    def spans(self, interface: str) -> bool:
        """Whether an interface is configured in or below this set."""
        known = interface in self.topology.homes
        return known and self.topology.spans(self.name, interface)

    def is_above(self, name: str) -> bool:
        """Whether this set lies above another one."""
        return name != self.name and self.topology.is_at_or_above(self.name, name)

    def is_sole_owner(self, group: ServiceGroup) -> bool:
        """No set above, up to the scope, owns or carries the group too (rule G7)."""
        if self.name == group.scope:
            return True
        if group.scope not in self.way or self.above is None:
            return False
        record = self.above.groups.get(group.uid)
        if record is not None and (record.own is not None or record.pends):
            return False
        return group.uid not in self.contested
