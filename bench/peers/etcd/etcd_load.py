"""etcd with the pattern of the service: a member is a key with a lease under its group's prefix.

A join is a lease and a put with that lease; a leave revokes the lease. Each member that was there
at the beginning watches the prefix of its group. One etcd of one member, started with its defaults
in a folder of its own; requests go to its HTTP gateway on kept connections, each watch on one of
its own, as the gateway asks for.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.join_load import CallFailed

PROGRAM = "/usr/bin/etcd"
LEASE_SECONDS = 600
CONNECTIONS = 64
START_SECONDS = 20.0
LINE_BYTES_MAX = 1 << 20


class EtcdProcess:
    """etcd from the first to the last line of a `with` block."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        mine, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.port + 1}"
        places = ["--listen-client-urls", mine, "--advertise-client-urls", mine]
        peer = ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command = [PROGRAM, "--name", "n1", "--data-dir", str(self._folder / "etcd")]
        names = ["--initial-cluster", f"n1={peers}", "--log-level", "error"]
        self._process = subprocess.Popen(
            [*command, *places, *peer, *names],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)


class EtcdLoad:
    """The groups as prefixes. `members` holds the keys of each; `notified_ms` the time from the
    beginning of each join to its event at each watcher."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: asyncio.Queue[_Connection] = asyncio.Queue()
        self._all: list[_Connection] = []
        self._watches: list[asyncio.Task[None]] = []
        self._watching = 0
        self._number = 0
        self._leases: dict[str, str] = {}
        self._started: dict[str, float] = {}
        self._arrivals: list[tuple[str, float]] = []
        self.members: dict[str, list[str]] = {}

    async def open(self) -> None:
        until = time.perf_counter() + START_SECONDS
        while True:
            try:
                for _ in range(CONNECTIONS):
                    connection = await _Connection.opened(self._port)
                    self._all.append(connection)
                    self._idle.put_nowait(connection)
                await self._call("/v3/maintenance/status", {})
                return
            except (OSError, CallFailed):
                if time.perf_counter() > until:
                    raise
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for connection in self._all:
            connection.close()

    async def fill(self, groups: int, size: int) -> None:
        """Members join, and each watches the prefix of its group."""
        gate = asyncio.Semaphore(CONNECTIONS)
        self.members = {f"g{number}": [] for number in range(groups)}

        async def one(group: str) -> None:
            async with gate:
                await self.join(group)
                self._watches.append(asyncio.create_task(self._watch(group)))

        for _ in range(size):
            await asyncio.gather(*(one(group) for group in self.members))
        until = time.perf_counter() + START_SECONDS
        while self._watching < groups * size and time.perf_counter() < until:
            await asyncio.sleep(0.05)

    async def join(self, group: str) -> None:
        begun = time.perf_counter()
        self._number += 1
        member = f"{group}/{self._number}"
        self._started[member] = begun
        lease = (await self._call("/v3/lease/grant", {"TTL": LEASE_SECONDS}))["ID"]
        put = {"key": _text(member), "value": _text(member), "lease": lease}
        await self._call("/v3/kv/put", put)
        self._leases[member] = lease
        self.members[group].append(member)

    async def leave(self, group: str, member: str) -> None:
        self.members[group].remove(member)
        await self._call("/v3/lease/revoke", {"ID": self._leases.pop(member)})

    def notified_ms(self, since: float) -> list[float]:
        starts = self._started
        return [1000 * (at - starts[m]) for m, at in self._arrivals if starts[m] >= since]

    @property
    def notices(self) -> int:
        return len(self._arrivals)

    # ------------------------------------------------------------------ requests

    async def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = await self._idle.get()
        try:
            return await connection.call(path, body)
        finally:
            self._idle.put_nowait(connection)

    async def _watch(self, group: str) -> None:
        connection = await _Connection.opened(self._port)
        self._all.append(connection)
        end = _text(f"{group}0")  # 0 follows /
        request = {"create_request": {"key": _text(f"{group}/"), "range_end": end}}
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async for answer in connection.stream("/v3/watch", request):
                at = time.perf_counter()
                result = answer["result"]
                self._watching += 1 if result.get("created") else 0
                for event in result.get("events", ()):
                    if event.get("type", "PUT") == "PUT":
                        key = base64.b64decode(event["kv"]["key"]).decode()
                        self._arrivals.append((key, at))


class _Connection:
    """One kept HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def opened(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES_MAX))

    def close(self) -> None:
        self._writer.close()

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer."""
        status, length = await self._ask(path, body)
        data = await self._reader.readexactly(length) if length >= 0 else await self._chunk()
        if length < 0:
            while await self._chunk():
                pass
        if status != 200:
            raise CallFailed(f"http-{status}")
        found: dict[str, Any] = json.loads(data)
        return found

    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """One request and its answers, until the connection ends."""
        status, _ = await self._ask(path, body)
        if status != 200:
            raise CallFailed(f"http-{status}")
        while data := await self._chunk():
            yield json.loads(data)

    async def _ask(self, path: str, body: dict[str, Any]) -> tuple[int, int]:
        """Send a request. The status of the answer and its length; -1 if it comes in chunks."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (each.partition(":") for each in lines[1:])}
        return int(lines[0].split()[1]), int(fields.get("content-length", "-1"))

    async def _chunk(self) -> bytes:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        data = await self._reader.readexactly(size + 2)
        return data[:-2]


def _text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
