"""The script of `phalanx ms demo`: a campus of LANs and buildings as processes on this machine.

Every mserver and every interface is a process of its own, on the machine that it has in S3's figure
3: a network namespace. Clients of all hosts are in the process of the script, on the Unix sockets
of their interfaces. Three groups: `sensors` within the first building, `orders`, of which only a
part with a majority goes on (`survive = "fraction > 0.5"`), and `chat`, of which every part does.

A LAN mserver is killed, the last building is cut off, and both are repaired. While that happens
one client calls `sensors` all the time, which no fault concerns. At the end the notices that
all clients got are checked (`notice_check.py`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from phalanx.harness.campus_clients import WAIT_SECONDS, CallRecord, CampusClients, GroupMember
from phalanx.harness.campus_config import Campus, campus_config, set_of
from phalanx.harness.campus_network import CampusNetwork
from phalanx.harness.notice_check import NoticeVerdict
from phalanx.harness.service_processes import ServiceNotReady, ServiceProcesses

RULES = {"sensors": "always", "orders": "fraction > 0.5", "chat": "always"}
Print = Callable[[str], None]


class CampusScript:
    """One run. `facts` has what was measured."""

    def __init__(
        self, campus: Campus, folder: Path, network: CampusNetwork, print_line: Print
    ) -> None:
        self.campus = campus
        self._network = network
        (folder / "cluster.key").write_text(secrets.token_hex(32))
        file = folder / "service.toml"
        fan_out = campus.buildings[-1]  # reached by copies, in sets that use multicast
        text = campus_config(campus, network.address, key=_key(), multicast=True, fan_out=fan_out)
        file.write_text(text)
        self.processes = ServiceProcesses(file, folder / "state", self._spawn)
        self._print = print_line
        self._began = time.monotonic()
        self.clients = CampusClients(self.processes)
        self.calls = CallRecord()
        self.seconds: dict[str, float] = {}
        self.down: set[str] = set()
        self.cut: set[str] = set()
        self.step = "starting"

    def _spawn(self, name: str, command: list[str], **popen: Any) -> Any:
        return self._network.spawn(self.campus.machine_of(name), command, **popen)

    def print(self, line: str) -> None:
        self.step = line
        self._print(f"{time.monotonic() - self._began:6.1f} s  {line}")

    # ------------------------------------------------------------------ the run

    async def run(self) -> NoticeVerdict:
        """Carry out the script. Raises ServiceNotReady if a step does not come to its end."""
        async with AsyncExitStack() as undo:
            undo.callback(self.processes.close)
            await self._start(undo)
            await self._join_all()
            caller = asyncio.create_task(
                self.clients.keep_calling(self.campus.hosts[0], "sensors", self.calls)
            )
            undo.callback(caller.cancel)
            victim = self._victim()
            await self._kill(victim)
            await self._cut_off(self.campus.buildings[-1])
            await self._repair(victim)
            caller.cancel()
            return await self._end()

    def _victim(self) -> str:
        """The second LAN mserver of the last building but one."""
        lans = self.campus.lans_of(self.campus.buildings[-2])
        return lans[min(1, len(lans) - 1)]

    async def _start(self, undo: AsyncExitStack) -> None:
        began = time.monotonic()
        self.processes.start(*self.processes.names)
        servers, hosts = len(self.campus.machines), len(self.campus.hosts)
        self.print(f"{servers} mservers and {hosts} interfaces are starting, one process each")
        await asyncio.to_thread(self.processes.wait_whole, (), WAIT_SECONDS)
        self.seconds["start"] = time.monotonic() - began
        levels = f"{len(self.campus.buildings)} buildings and the campus"
        self.print(f"all sets are whole: {levels}, {hosts} hosts have a home")
        await self.clients.open(self.campus.hosts, undo)

    async def _join_all(self) -> None:
        hosts = self.campus.hosts
        for group, rule in RULES.items():
            scope = set_of(self.campus.buildings[0]) if group == "sensors" else "campus"
            properties = {"survive": rule, "scope": scope}
            await self.clients.call(
                hosts[0], "create_group", {"name": group, "properties": properties}
            )
        first = self.campus.lans[0]
        for host in hosts:
            for group in RULES if host in hosts[:first] else ("orders", "chat"):
                await self.clients.join(host, group)
        for group in RULES:
            await self.clients.one_view(group, self.clients.live(group))
        self.print(
            f"three groups: sensors within {self.campus.buildings[0]} "
            f"({first} members), orders and chat on the whole campus ({len(hosts)} members)"
        )

    # ------------------------------------------------------------------ faults

    async def _kill(self, victim: str) -> None:
        began = time.monotonic()
        self.processes.kill(victim)
        self.down.add(victim)
        self.print(f"{victim} is killed (kill -9)")
        await asyncio.to_thread(self.processes.wait_whole, self.down, WAIT_SECONDS)
        took = self.seconds["new home"] = time.monotonic() - began
        host = victim.replace("lan-", "host-")
        lost = [m.id for m in self.clients.members.values() if m.host == host and m.view is None]
        kept = "its members stay in their groups" if not lost else f"{len(lost)} members are lost"
        self.print(
            f"its set goes on without it after {took:.1f} s; {host} has another home, {kept}"
        )

    async def _cut_off(self, building: str) -> None:
        inside = [building, *self.campus.lans_of(building)]
        there = {each.replace("lan-", "host-") for each in inside}
        before = {
            group: {m.id: m for m in self.clients.live(group) if m.host in there}
            for group in ("orders", "chat")
        }
        began = time.monotonic()
        self._network.cut(inside)
        self.cut = set(inside)
        self.print(f"{building} is cut off from the campus")

        async def rest_goes_on(group: str) -> None:
            rest = [m for m in self.clients.live(group) if m.id not in before[group]]
            await self.clients.one_view(group, rest)

        await asyncio.gather(rest_goes_on("orders"), rest_goes_on("chat"))
        self.seconds["orders goes on"] = time.monotonic() - began
        await self.clients.one_view("chat", list(before["chat"].values()))
        ended = list(before["orders"].values())
        await self.clients.until(lambda: all(m.end for m in ended), "orders ends in the lost part")
        took = self.seconds["both parts"] = time.monotonic() - began
        rest = len(self.clients.live("orders"))
        self.print(
            f"orders goes on with {rest} members, its part in {building} has ended; "
            f"chat goes on in both parts; {took:.1f} s"
        )
        for member in self._both_parts():
            changed = {"group": "chat", "member": member.id, "properties": {"note": member.host}}
            await self.clients.call(member.host, "set_member_attributes", changed)
        self.print("a member of each part of chat has changed an attribute")

    def _both_parts(self) -> list[GroupMember]:
        """The members of chat on the first and on the last host."""
        hosts = (self.campus.hosts[0], self.campus.hosts[-1])
        return [m for m in self.clients.live("chat") if m.host in hosts]

    async def _repair(self, victim: str) -> None:
        began = time.monotonic()
        self._network.heal()
        self.cut = set()
        self.print("the building is connected again")
        await self.clients.one_view("chat", self.clients.live("chat"))
        took = self.seconds["merge"] = time.monotonic() - began
        size = len(self.clients.live("chat"))
        self.print(f"chat is one group again after {took:.1f} s, with {size} members")
        for member in self._both_parts():
            asked = {"group": "chat", "member": member.id}
            found = await self.clients.call(self.campus.hosts[0], "get_member_attributes", asked)
            if found["properties"].get("note") != member.host:
                raise ServiceNotReady(f"the attribute of {member.id} is lost: {found}")
        self.processes.start(victim)
        self.down.discard(victim)
        await asyncio.to_thread(self.processes.wait_whole, (), WAIT_SECONDS)
        self.seconds["repair"] = time.monotonic() - began
        gone = sorted(
            (m.host for m in self.clients.members.values() if m.group == "orders" and m.end),
            key=self.campus.hosts.index,
        )
        for host in gone:
            await self.clients.join(host, "orders")
        await self.clients.one_view("orders", self.clients.live("orders"))
        self.print(f"{victim} is back; {', '.join(gone)} have joined orders again")

    async def _end(self) -> NoticeVerdict:
        for group in RULES:
            member = self.clients.live(group)[0]
            shown = (await self.clients.call(member.host, "get_view", {"group": group}))["vid"]
            assert member.view is not None
            if shown != member.view.vid:
                raise ServiceNotReady(f"{group}: {shown}, its members have {member.view.vid}")
        return self.clients.check()


def _key() -> str:
    """The key file, if sealed packets are possible here."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return ""
    return "cluster.key"
