"""Servers and interfaces of the simulated service: a machine while the host is up, and its disk."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.service.effects import (
    DurableRecord,
    HeldHistory,
    HeldMembership,
    InterfaceRecord,
    OpenCall,
    RecordRemoved,
    SetForgotten,
    SetRecord,
)
from phalanx.service.member_interface import MemberInterface
from phalanx.service.server_machine import Mserver
from phalanx.service.values import Gid


class SimServer:
    """One server: its machine while it is up, and its disk."""

    def __init__(self, name: str, records: dict[str, SetRecord]) -> None:
        self.name = name
        self.incarnation = 1
        self.disk: dict[str, SetRecord] = dict(records)
        self.machine: Mserver | None = None
        self.leaves = False
        """Whether it is to leave its sets for good."""
        self.side = 0
        self.wakes_at = 0
        self.paused_until = 0

    @property
    def gid(self) -> Gid:
        return MemberId(self.name, self.incarnation)

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    def write(self, record: DurableRecord) -> None:
        match record:
            case SetRecord(state=state):
                self.disk[state.set] = record
            case SetForgotten(name):
                self.disk.pop(name, None)
            case _:
                raise AssertionError(f"a server writes {type(record).__name__}")


class SimInterface:
    """One interface."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.disk: dict[str, DurableRecord] = {}
        self.machine: MemberInterface | None = None
        self.were_down: set[str] = set()
        """Members that it had when it stopped."""
        self.side = 0
        self.wakes_at = 0
        self.paused_until = 0

    @property
    def gid(self) -> Gid:
        return MemberId(self.name)

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    def write(self, record: DurableRecord) -> None:
        match record:
            case InterfaceRecord():
                self.disk["interface"] = record
            case HeldMembership(member):
                self.disk[f"member {member}"] = record
            case HeldHistory(group):
                self.disk[f"history {group.uid}"] = record
            case OpenCall(call):
                self.disk[f"open {call.id}"] = record
            case RecordRemoved(kind, id_):
                self.disk.pop(f"{kind} {id_}", None)
            case _:
                raise AssertionError(f"an interface writes {type(record).__name__}")


Host = SimServer | SimInterface
