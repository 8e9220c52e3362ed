"""`kill -9` of the membership service, with clients that call all the time.

    python bench/service_kills.py each      kill every mserver in turn, and start it again
    python bench/service_kills.py level     kill the whole level of building mservers at once
    python bench/service_kills.py lans      kill all LAN mservers of a building at once
    python bench/service_kills.py host      kill a LAN mserver and the interface of its host at once
    python bench/service_kills.py restart   kill and start every process in turn

A campus on the loopback interface, with sealed packets: by default three buildings of two LANs,
nine mservers and six interfaces, each a process. A group within each building, one that spans all.
During a fault one client of each group that it does not concern changes an attribute of that group
as fast as it answers; it looks at each answer when it comes. `all_refused` has what the group that
spans all answered before it worked again. At the end the notices of all members
are checked (`phalanx.harness.notice_check`), and that no name, member or view is lost. Exit code 1
if a call was refused or a check failed. `--json` prints one object. Close other programs first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from phalanx.harness.campus_clients import CallRecord, CampusClients
from phalanx.harness.campus_config import Campus, campus_config, set_of
from phalanx.harness.loopback_host import loopback_host
from phalanx.harness.service_processes import ServiceProcesses
from phalanx.service.calls.call_errors import ServiceError

WAIT_SECONDS = 90.0
ALL = "all"
SCENARIOS = ("each", "level", "lans", "host", "restart")


class KillRun:
    """One campus with its groups; each scenario is a method. `found` has what was measured."""

    def __init__(self, campus: Campus, folder: Path) -> None:
        self.campus = campus
        (folder / "cluster.key").write_text(secrets.token_hex(32))
        file = folder / "service.toml"
        file.write_text(
            campus_config(
                campus,
                lambda name: loopback_host(campus.machines.index(name)),
                key="cluster.key",
                multicast=True,
            )
        )
        self.processes = ServiceProcesses(file, folder / "s")
        self.clients = CampusClients(self.processes)
        self.found: list[dict[str, Any]] = []

    async def run(self, scenario: str) -> dict[str, Any]:
        """Start the campus, carry out a scenario, and check everything at the end."""
        async with AsyncExitStack() as undo:
            undo.callback(self.processes.close)
            self.processes.start(*self.processes.names)
            await self._whole()
            await self.clients.open(self.campus.hosts, undo)
            await self._make_groups()
            await getattr(self, f"_{scenario}")()
            await self._whole()
            await self._nothing_lost()
            verdict = self.clients.check()
        violations = [str(each) for each in verdict.violations]
        return {
            "scenario": scenario,
            "faults": self.found,
            "refused": [text for each in self.found for text in each["refused"]],
            "notices": verdict.notices,
            "views": verdict.views,
            "violations": violations,
        }

    # ------------------------------------------------------------------ the groups

    def group_of(self, building: str) -> str:
        return f"in-{set_of(building)}"

    def hosts_of(self, building: str) -> list[str]:
        return [lan.replace("lan-", "host-") for lan in self.campus.lans_of(building)]

    async def _make_groups(self) -> None:
        for building in self.campus.buildings:
            group, hosts = self.group_of(building), self.hosts_of(building)
            made = {"name": group, "properties": {"scope": set_of(building)}}
            await self.clients.call(hosts[0], "create_group", made)
            for host in hosts:
                await self.clients.join(host, group)
        for host in self.campus.hosts:
            await self.clients.join(host, ALL)
        for group in self.groups:
            await self.clients.one_view(group, self.clients.live(group))

    @property
    def groups(self) -> list[str]:
        return [*map(self.group_of, self.campus.buildings), ALL]

    # ------------------------------------------------------------------ scenarios

    async def _each(self) -> None:
        for victim in self.campus.machines:
            await self._fault([victim], [self._building_of(victim)])

    async def _level(self) -> None:
        await self._fault(self.campus.buildings, [])

    async def _lans(self) -> None:
        first = self.campus.buildings[0]
        await self._fault(self.campus.lans_of(first), [first])

    async def _host(self) -> None:
        first = self.campus.buildings[0]
        lan = self.campus.lans_of(first)[-1]
        await self._fault([lan, lan.replace("lan-", "host-")], [first])

    async def _restart(self) -> None:
        for name in self.processes.names:
            began = time.monotonic()
            self.processes.kill(name)
            self.processes.start(name)
            await self._whole()
            seconds = time.monotonic() - began
            self.found.append({"killed": [name], "whole_s": round(seconds, 2), "refused": []})

    def _building_of(self, server: str) -> str:
        return next(
            each
            for each in self.campus.buildings
            if server == each or server in self.campus.lans_of(each)
        )

    async def _fault(self, victims: list[str], affected: list[str]) -> None:
        """Kill, wait until the rest works, start again. Groups of the other buildings are called
        all the time by the client that made them. The first host stays."""
        records = {}
        callers = []
        for building in self.campus.buildings:
            if building not in affected:
                group = self.group_of(building)
                records[group] = CallRecord()
                host = self.hosts_of(building)[0]
                call = self.clients.keep_calling(host, group, records[group])
                callers.append(asyncio.create_task(call))
        hosts = [each for each in victims if each.startswith("host-")]
        gone = [m for m in self.clients.members.values() if m.host in hosts and not m.end]
        began = time.monotonic()
        self.processes.kill(*victims)
        row: dict[str, Any] = {"killed": victims}
        if gone:
            for group in {m.group for m in gone}:
                rest = [m for m in self.clients.live(group) if m not in gone]
                await self.clients.one_view(group, rest)
            row["new_view_s"] = round(time.monotonic() - began, 2)
        asked = {"group": ALL, "properties": {"fault": len(self.found)}}
        row["all_refused"] = await self._until_answered(asked)
        row["all_answers_s"] = round(time.monotonic() - began, 2)
        await self._whole(victims)
        row["rest_whole_s"] = round(time.monotonic() - began, 2)
        self.processes.start(*victims)
        await self._whole()
        row["whole_again_s"] = round(time.monotonic() - began, 2)
        for caller in callers:
            caller.cancel()
        row |= {
            "calls": sum(each.done for each in records.values()),
            "slowest_s": round(max(each.slowest for each in records.values()), 2),
            "refused": [text for each in records.values() for text in each.refused],
        }
        self.found.append(row)

    async def _until_answered(self, asked: dict[str, Any]) -> list[str]:
        """Call the group that spans all until it answers: what it was refused with before."""
        refused: list[str] = []
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                await self.clients.call(self.campus.hosts[0], "set_group_attributes", asked)
                return refused
            except ServiceError as error:
                if time.monotonic() > until:
                    raise
                refused.append(str(error))
                await asyncio.sleep(0.05)

    # ------------------------------------------------------------------ what holds afterwards

    async def _whole(self, down: list[str] | None = None) -> None:
        await asyncio.to_thread(self.processes.wait_whole, down or [], WAIT_SECONDS)

    async def _nothing_lost(self) -> None:
        """Every name resolves at every host to a group whose members all have its view."""
        for group in self.groups:
            live = self.clients.live(group)
            await self.clients.one_view(group, live)
            for member in live:
                shown = await self.clients.call(member.host, "get_view", {"group": group})
                assert member.view is not None
                assert set(shown["members"]) == {each.id for each in live}, (group, shown)


def killed(scenario: str, lans: tuple[int, ...] = (2, 2, 2)) -> dict[str, Any]:
    """Run one scenario."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(KillRun(Campus(lans), Path(folder)).run(scenario))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--lans", default="2,2,2", help="LANs of each building; default 2,2,2")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = killed(given.scenario, tuple(int(part) for part in given.lans.split(",")))
    if given.json:
        print(json.dumps(found))
    else:
        for row in found.pop("faults"):
            print(", ".join(f"{name} {value}" for name, value in row.items()))
        for name, value in found.items():
            print(f"{name}: {value}")
    sys.exit(1 if found["refused"] or found["violations"] else 0)


if __name__ == "__main__":
    main()
