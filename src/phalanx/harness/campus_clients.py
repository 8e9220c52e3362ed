"""Clients of all hosts of a campus in this process, with all that they are told.

Each client is on the socket of its interface. Calls are repeated while the service cannot answer;
every wait is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from phalanx.harness.notice_check import NoticeVerdict, check_notices
from phalanx.harness.service_processes import ServiceNotReady, ServiceProcesses
from phalanx.mserver.asyncio_client import ServiceClient
from phalanx.mserver.client_messages import MemberNotice
from phalanx.service.calls.call_errors import ServiceError

WAIT_SECONDS = 90.0
CALL_PAUSE = 0.05


@dataclass
class GroupMember:
    """One member of a group, and all that its client was told about it."""

    host: str
    group: str
    id: str
    notices: list[MemberNotice] = field(default_factory=list)

    @property
    def view(self) -> MemberNotice | None:
        """Its last view; None before the first one and after its membership has ended."""
        if not self.notices or self.notices[-1].kind in ("excluded", "ended"):
            return None
        return next((n for n in reversed(self.notices) if n.kind == "view"), None)

    @property
    def end(self) -> str:
        """How its membership has ended; empty if it has not."""
        kind = self.notices[-1].kind if self.notices else ""
        return kind if kind in ("excluded", "ended") else ""


@dataclass
class CallRecord:
    """Calls of a group that no fault concerns."""

    done: int = 0
    refused: list[str] = field(default_factory=list)
    slowest: float = 0.0


class CampusClients:
    """One client for each host, and all members that they have made."""

    def __init__(self, processes: ServiceProcesses) -> None:
        self._processes = processes
        self._clients: dict[str, ServiceClient] = {}
        self.members: dict[str, GroupMember] = {}
        """Of all groups, by id, also those whose membership has ended."""
        self._early: dict[str, list[MemberNotice]] = {}
        """Notices of members whose join is not answered yet."""

    async def open(self, hosts: Iterable[str], undo: AsyncExitStack) -> None:
        """Connect to the interfaces of these hosts; `undo` closes the clients."""
        for host in hosts:
            client = await self._processes.asyncio_client(host)
            self._clients[host] = client
            undo.push_async_callback(client.close)
            reader = asyncio.create_task(self._read(client))
            undo.callback(reader.cancel)

    async def _read(self, client: ServiceClient) -> None:
        async for notice in client.notices():
            member = self.members.get(notice.member)
            if member is not None:
                member.notices.append(notice)
            else:
                self._early.setdefault(notice.member, []).append(notice)

    async def join(self, host: str, group: str) -> GroupMember:
        joined = await self.call(host, "join_group", {"name": group})
        member = GroupMember(host, group, joined["member"])
        member.notices += self._early.pop(member.id, [])
        self.members[member.id] = member
        return member

    async def call(self, host: str, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call that waits while the service cannot answer."""
        return await self._clients[host].call(call, arguments, WAIT_SECONDS)

    def check(self) -> NoticeVerdict:
        """Check the notices of all members. ServiceNotReady if there are others."""
        if self._early:
            raise ServiceNotReady(f"notices of members that no call has made: {self._early}")
        return check_notices({member.id: member.notices for member in self.members.values()})

    def live(self, group: str) -> list[GroupMember]:
        return [m for m in self.members.values() if m.group == group and not m.end]

    async def one_view(self, group: str, members: list[GroupMember]) -> None:
        """All of these members have one view, which holds them and nobody else."""
        wanted = {member.id for member in members}

        def is_one() -> bool:
            views = [member.view for member in members]
            return (
                all(view is not None and set(view.members) == wanted for view in views)
                and len({view.vid for view in views if view is not None}) == 1
            )

        await self.until(is_one, f"one view of {group} with {len(members)} members")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > until:
                ended = ", ".join(self._processes.ended()) or "none"
                raise ServiceNotReady(f"not within {WAIT_SECONDS:g} s: {what}; ended: {ended}")
            await asyncio.sleep(0.02)

    async def keep_calling(self, host: str, group: str, record: CallRecord) -> None:
        """Change an attribute of a group that no fault concerns, as fast as it answers, until
        cancelled."""
        number = 0
        while True:
            number += 1
            began = time.monotonic()
            changed = {"group": group, "properties": {"reading": number}}
            try:
                await self._clients[host].call("set_group_attributes", changed)
                record.done += 1
            except ServiceError as error:
                record.refused.append(f"{group}: {error}")
            record.slowest = max(record.slowest, time.monotonic() - began)
            await asyncio.sleep(CALL_PAUSE)
