"""A machine in place of `MemberInterface`: groups of one interface, without any mserver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.durable_rows import DurableRows
from phalanx.mserver.interface_process import ClientPlaces, InterfaceProcess
from phalanx.mserver.record_store import RecordStore, SqliteRecords
from phalanx.service.effects import (
    Answer,
    DurableRecord,
    HeldMembership,
    InterfaceRecord,
    Notify,
    Persist,
    ServiceEffect,
)
from phalanx.service.group_messages import CallResult, GroupCall
from phalanx.service.inputs import CallSubmitted, InterfaceInput
from phalanx.service.message_codec import MessageCodec
from phalanx.service.values import GroupView, Vid


class LocalGroups:
    """Joins and leaves take effect at once; a repeated call gives the same answer. What it keeps is
    in its records, so that it comes back after a restart."""

    def __init__(self, records: Sequence[DurableRecord]) -> None:
        self.record = InterfaceRecord("h", 0, "home")
        self.members: dict[str, HeldMembership] = {}
        for record in records:
            match record:
                case InterfaceRecord():
                    self.record = record
                case HeldMembership(member):
                    self.members[member] = record
                case _:
                    raise AssertionError(record)
        self.seen: list[GroupCall] = []

    def deadline(self) -> int | None:
        return None

    def steps(self, now: int, given: Sequence[InterfaceInput]) -> Sequence[ServiceEffect]:
        return [effect for each in given for effect in self.step(now, each)]

    def step(self, now: int, given: InterfaceInput) -> Sequence[ServiceEffect]:
        assert isinstance(given, CallSubmitted)
        call = given.call
        self.seen.append(call)
        match call.kind:
            case "join":
                return self._join(call)
            case "leave":
                return self._leave(call)
            case "read" if call.name == "silent":
                return []
            case "read":
                names = json.dumps(list(self._members()))
                vid = (
                    self._vid(self.record.last_number)
                    if call.arguments["call"] == "get_view"
                    else None
                )
                return [Answer(CallResult(call.id, "u", vid=vid, values={"members": names}))]
            case _:
                return [Answer(CallResult(call.id, error=f"denied({call.kind})"))]

    def _members(self) -> dict[str, HeldMembership]:
        return {m: held for m, held in self.members.items() if not held.over}

    def _join(self, call: GroupCall) -> list[ServiceEffect]:
        known = next((m for m, held in self.members.items() if held.call == call.id), None)
        if known is not None:
            return [self._answer(call, known)]
        number = self.record.last_number + 1
        member = f"h/{number}"
        self.members[member] = HeldMembership(member, "u", call.id)
        return [*self._view(member, number, "join"), self._answer(call, member)]

    def _leave(self, call: GroupCall) -> list[ServiceEffect]:
        self.members[call.member] = replace(self.members[call.member], over=True)
        number = self.record.last_number + 1
        effects = self._view(call.member, number, "leave")
        over = Notify(call.member, "u", None, None)
        return [*effects, over, Answer(CallResult(call.id, "u", vid=self._vid(number)))]

    def _view(self, changed: str, number: int, cause: str) -> list[ServiceEffect]:
        before = self._vid(self.record.last_number)
        self.record = replace(self.record, last_number=number)
        live = tuple(self._members())
        view = GroupView(self._vid(number), (before,), live, {}, cause)
        saved = [Persist(self.record), Persist(self.members[changed])]
        return [*saved, *(Notify(member, "u", view, before) for member in live)]

    def _answer(self, call: GroupCall, member: str) -> Answer:
        vid = self._vid(self.record.last_number)
        return Answer(CallResult(call.id, "u", vid=vid, values={"member": member}))

    @staticmethod
    def _vid(number: int) -> Vid:
        return Vid(number, number.to_bytes(8, "big"))


class Host:
    """One host with its interface, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = str(folder / "mi.sock")
        self.places = ClientPlaces(Path(self.place))
        self.records: RecordStore | None = None

    async def start(self) -> InterfaceProcess:
        records = SqliteRecords(self.folder / "h.db", {"name": "h"})
        self.records = records
        rows = DurableRows(records.load())
        self.machine = LocalGroups(rows.records)
        self.process = InterfaceProcess(
            MemberId("h", 1),
            self.machine,
            records,
            rows,
            DatagramLink("127.0.0.1:0"),
            MessageCodec("test"),
            {},
            self.places,
        )
        await self.process.start()
        return self.process

    async def stop(self) -> None:
        if self.records is not None:
            await self.process.stop()
            self.records.close()
            self.records = None


Scenario = Callable[[Host], Coroutine[Any, Any, None]]


@pytest.fixture
def host_of() -> Callable[[Path], Host]:
    return Host


@pytest.fixture
def on_a_host(tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario with one host, in at most 30 seconds."""

    async def bounded(scenario: Scenario) -> None:
        host = Host(tmp_path)
        await host.start()
        try:
            async with asyncio.timeout(30):
                await scenario(host)
        finally:
            await host.stop()

    def run(scenario: Scenario) -> None:
        asyncio.run(bounded(scenario))

    return run
