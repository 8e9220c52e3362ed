"""The processes of a membership service on this machine: mservers and interfaces, one process each.

For the demo and for tests. A process is started where `spawn` says, by default here, else in a
network namespace, and killed by SIGKILL. Status and clients go over Unix sockets of the state
directory, which reach into every namespace. Every wait is bounded.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.mserver.asyncio_client import ServiceClient, connect
from phalanx.mserver.blocking_client import BlockingServiceClient, connect_blocking
from phalanx.mserver.host_interface import socket_path
from phalanx.mserver.service_config import read_service_config
from phalanx.mserver.status_socket import read_status, status_path
from phalanx.service.calls.call_errors import Unavailable

WAIT_SECONDS = 60.0
END_SECONDS = 10.0
START_SECONDS = 30.0

SpawnAt = Callable[..., "subprocess.Popen[bytes]"]
"""`spawn(name, command, stdout=..., stderr=...)` starts the process of that name."""


class ServiceNotReady(PhalanxError):
    """A condition did not come true in time."""


def spawn_here(name: str, command: list[str], **popen: Any) -> subprocess.Popen[bytes]:
    """Start a process without a namespace of its own."""
    return subprocess.Popen(command, **popen)


class ServiceProcesses:
    """All processes of one configuration; `close` kills those that live."""

    def __init__(self, file: Path, state: Path, spawn: SpawnAt = spawn_here) -> None:
        self.file = file
        self.state = state
        self.config = read_service_config(file)
        state.mkdir(parents=True, exist_ok=True)
        self._spawn = spawn
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    # ------------------------------------------------------------------ life

    @property
    def names(self) -> list[str]:
        """All mservers and interfaces, in the order of the file."""
        return [*self.config.servers, *self.config.interfaces]

    def start(self, *names: str) -> None:
        """Start processes; their output goes to NAME.log in the state directory."""
        for name in names:
            kind = "mserver" if name in self.config.servers else "mi"
            command = [sys.executable, "-m", "phalanx", kind, "--config", str(self.file)]
            command += ["--name", name, "--state", str(self.state)]
            with (self.state / f"{name}.log").open("ab") as log:
                self.processes[name] = self._spawn(name, command, stdout=log, stderr=log)

    def kill(self, *names: str) -> None:
        """SIGKILL to all of them at once, and wait for their ends."""
        for name in names:
            self.processes[name].send_signal(signal.SIGKILL)
        for name in names:
            self.processes.pop(name).wait(END_SECONDS)

    def ended(self) -> list[str]:
        """Processes that were started and have ended without being killed."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def complaint(self, name: str) -> str:
        """The last lines that a process has printed."""
        try:
            return (self.state / f"{name}.log").read_text(errors="replace")[-2000:]
        except OSError:
            return ""

    def close(self) -> None:
        """Safe to call twice."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(END_SECONDS)
        self.processes.clear()

    # ------------------------------------------------------------------ status

    def status(self, server: str) -> dict[str, Any] | None:
        """What a mserver reports; None if it does not answer."""
        return read_status(status_path(self.state, server))

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of every mserver that lives and answers."""
        found = {name: self.status(name) for name in self.config.servers if name in self.processes}
        return {name: status for name, status in found.items() if status is not None}

    def views(self, set_name: str) -> dict[str, tuple[str, ...]]:
        """The view of a set at each of its live members, by name of the member."""
        found = {}
        for name, status in self.statuses().items():
            seen = status["sets"].get(set_name)
            if seen is not None and name in self.config.sets[set_name].members:
                found[name] = tuple(sorted(each.rpartition(".")[0] for each in seen["view"]))
        return found

    def is_whole(self, down: Collection[str] = ()) -> bool:
        """Whether each set has one component with all members but those that are down, and each
        live interface a home. Where some are down, acting parents may be members too."""
        statuses = self.statuses()
        homes: set[str] = set()
        for own in self.config.sets.values():
            expected = {name for name in own.members if name not in down}
            states = set()
            for name in expected:
                seen = statuses.get(name, {"sets": {}})["sets"].get(own.name)
                if seen is None:
                    return False
                view = {each.rpartition(".")[0] for each in seen["view"]}
                if not view >= expected or (view != expected and (not down or view & {*down})):
                    return False
                states.add(seen["vid"])
                homes |= {
                    mi for mi, at in seen["interfaces"].items() if at.rpartition(".")[0] not in down
                }
            if len(states) > 1:
                return False
        return homes >= {name for name in self.config.interfaces if name not in down}

    def wait_whole(self, down: Collection[str] = (), seconds: float = WAIT_SECONDS) -> float:
        """Wait until `is_whole`; returns the seconds that it took."""
        return self.wait(lambda: self.is_whole(down), "all sets are whole", seconds)

    def wait(
        self, condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS
    ) -> float:
        """Wait for a condition; returns the seconds that it took. ServiceNotReady, with what the
        mservers see, if it does not come true."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > seconds:
                raise ServiceNotReady(f"not within {seconds:g} s: {what}; {self._seen()}")
            time.sleep(0.05)
        return time.monotonic() - began

    def _seen(self) -> str:
        lines = [f"ended: {', '.join(self.ended()) or 'none'}"]
        lines += [f"{name} printed {self.complaint(name)!r}" for name in self.ended()]
        for name in self.config.sets:
            lines.append(f"{name}: {self.views(name)}")
        return "; ".join(lines)

    # ------------------------------------------------------------------ clients

    def place(self, interface: str) -> str:
        """Where the clients of an interface connect."""
        return str(socket_path(self.state, interface))

    def client(self, interface: str, seconds: float = START_SECONDS) -> BlockingServiceClient:
        """A client, also of an interface that is just starting."""
        return connect_blocking(self.place(interface), timeout=seconds)

    async def asyncio_client(self, interface: str) -> ServiceClient:
        """A client, also of an interface that is just starting."""
        return await connect(self.place(interface), timeout=START_SECONDS)


def repeated(
    client: BlockingServiceClient, call: str, arguments: dict[str, Any], seconds: float = 30.0
) -> dict[str, Any]:
    """A call that is repeated while the service cannot answer yet."""
    until = time.monotonic() + seconds
    while True:
        try:
            return client.call(call, arguments, 10.0)
        except Unavailable:
            if time.monotonic() > until:
                raise
