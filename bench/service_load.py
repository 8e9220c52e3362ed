"""Clients of a tree of the service: their groups, what they are notified of, and what it costs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.join_load import CallFailed, LoadResult
from bench.service_tree import ServiceTree
from bench.view_record import ViewRecord

from phalanx.benchmark.usage import usage
from phalanx.mserver.asyncio_client import ServiceClient, connect
from phalanx.service.calls.call_errors import ServiceError

AT_ONCE = 64
"""Calls under way while the groups are filled."""
CALL_SECONDS = 30.0
SETTLE_SECONDS = 30.0


class ServiceLoad:
    """`members` holds the members of each group that have joined and not begun to leave."""

    def __init__(self, tree: ServiceTree, clients: int) -> None:
        self._tree = tree
        self._clients_wanted = clients
        self._clients: list[ServiceClient] = []
        self._far: ServiceClient | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._turn = 0
        self._uids: dict[str, str] = {}
        self._client_of: dict[str, ServiceClient] = {}
        self._started: dict[str, float] = {}
        """When the join of each member began."""
        self.members: dict[str, list[str]] = {}
        self.record = ViewRecord()

    async def open(self) -> None:
        """Connect: as many clients as wanted at the near interfaces, one at the far one."""
        places = [self._tree.place(each) for each in self._tree.near]
        for at in range(self._clients_wanted):
            self._clients.append(await connect(places[at % len(places)]))
        self._far = await connect(self._tree.place(self._tree.far))
        for client in (*self._clients, self._far):
            self._readers.append(asyncio.create_task(self._read(client)))

    async def close(self) -> None:
        for client in (*self._clients, *([self._far] if self._far else [])):
            await client.close()
        for reader in self._readers:
            reader.cancel()

    async def _read(self, client: ServiceClient) -> None:
        async for notice in client.notices():
            self.record.take(notice)

    # ------------------------------------------------------------------ changes

    async def create(self, name: str, scope: str) -> None:
        """A group without members."""
        made = await self._clients[0].create_group(
            name, properties={"scope": scope}, timeout=CALL_SECONDS
        )
        self._uids[name] = made["uid"]
        self.members[name] = []

    async def join(self, group: str) -> None:
        self._turn += 1
        await self.join_by(group, self._clients[self._turn % len(self._clients)])

    async def join_by(self, group: str, client: ServiceClient) -> None:
        """A member of that client."""
        begun = time.perf_counter()
        try:
            joined = await client.join_group(group, create=False, timeout=CALL_SECONDS)
        except ServiceError as error:
            raise CallFailed(error.code) from error
        self._started[joined["member"]] = begun
        self._client_of[joined["member"]] = client
        self.members[group].append(joined["member"])

    async def leave(self, group: str, member: str) -> None:
        self.members[group].remove(member)
        client = self._client_of.pop(member)
        try:
            await client.leave_group(self._uids[group], member=member, timeout=CALL_SECONDS)
        except ServiceError as error:
            raise CallFailed(error.code) from error

    async def fill(self, groups: int, size: int, scope: str) -> None:
        """Create the groups and let their members join."""
        names = [f"g{number}" for number in range(groups)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def bounded(name: str, number: int) -> None:
            async with gate:
                await (self.join(name) if number else self.create(name, scope))

        for number in range(size + 1):
            await asyncio.gather(*(bounded(name, number) for name in names))

    # ------------------------------------------------------------------ what came of it

    async def settle(self) -> list[str]:
        """Wait until every member has been notified of the last view of its group; the problems
        that are left."""
        until = time.perf_counter() + SETTLE_SECONDS
        while (problems := self.problems()) and time.perf_counter() < until:
            await asyncio.sleep(0.2)
        return problems

    def problems(self) -> list[str]:
        """Views that members lost, and groups whose members are not those that have joined."""
        expected = {self._uids[n]: set(members) for n, members in self.members.items()}
        found = self.record.check(expected)
        return [*found, *(f"{name} has ended" for name in self._tree.ended())]

    def notified_ms(self, since: float) -> list[float]:
        """From the beginning of each join to its notice at each member of the group."""
        return [1000 * s for s in self.record.latencies(self._started, since)]

    async def joins_one_by_one(self, name: str, count: int) -> list[float]:
        """Joins of one group, each followed by a leave; milliseconds."""
        took = []
        for _ in range(count):
            begun = time.perf_counter()
            await self.join(name)
            took.append(1000 * (time.perf_counter() - begun))
            await self.leave(name, self.members[name][-1])
        return took

    async def spanning_group(self, name: str) -> None:
        """A group of the top set, with a member in each local network."""
        assert self._far is not None
        await self.create(name, "top")
        await self.join_by(name, self._far)
        await self.join_by(name, self._clients[0])


@dataclass
class Costs:
    """What the processes of a tree have used so far."""

    cpu: dict[str, float]
    """Seconds of processor time of each process."""
    counts: dict[str, Counter[str]]
    notices: int


def costs_now(tree: ServiceTree, load: ServiceLoad) -> Costs:
    cpu = {name: usage([pid]).cpu_seconds for name, pid in tree.pids().items()}
    return Costs(cpu, tree.counts(), len(load.record.arrivals))


def cost_of(result: LoadResult, before: Costs, after: Costs) -> dict[str, Any]:
    """The cost of each change and of each notice."""
    done = max(1, result.done)
    notices = after.notices - before.notices
    cpu = {name: spent - before.cpu[name] for name, spent in after.cpu.items()}
    counts = {name: each - before.counts[name] for name, each in after.counts.items()}
    packets = {name: each["sent"] + each["received"] for name, each in counts.items()}
    return {
        "notices": notices,
        "cpu_ms_per_change": {name: round(1000 * c / done, 3) for name, c in cpu.items()},
        "messages_per_change": {name: round(n / done, 2) for name, n in packets.items()},
        "writes_per_change": {name: round(c["writes"] / done, 3) for name, c in counts.items()},
        "cpu_ms_per_notice": round(1000 * sum(cpu.values()) / max(1, notices), 4),
        "messages_per_notice": round(sum(packets.values()) / max(1, notices), 3),
    }
