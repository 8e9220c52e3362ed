"""A tree of the membership service as real processes on loopback: three levels, two local networks.

    top    t1 t2          each is the link of a set below
    mid1   t1 m1          mid2   t2 m2
    lan1   m1 l1          lan2   m2 l2
           interfaces a-1, a-2, ... at l1; b-1 at l2

All changes of `lan1` and all notifications of its members go through the LAN mserver `l1`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from phalanx.mserver.host_interface import socket_path
from phalanx.mserver.status_socket import read_status, status_path

SERVERS = ("t1", "t2", "m1", "m2", "l1", "l2")
SETS = (
    ("top", 3, "", "", ("t1", "t2")),
    ("mid1", 2, "top", "t1", ("t1", "m1")),
    ("mid2", 2, "top", "t2", ("t2", "m2")),
    ("lan1", 1, "mid1", "m1", ("m1", "l1")),
    ("lan2", 1, "mid2", "m2", ("m2", "l2")),
)
FORM_SECONDS = 60.0


class ServiceTree:
    """The processes, from the first to the last line of a `with` block."""

    def __init__(self, folder: Path, interfaces: int) -> None:
        self.folder = folder
        self.near = tuple(f"a-{n}" for n in range(1, interfaces + 1))
        self.far = "b-1"
        self._file = folder / "service.toml"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._file.write_text(self._config(free_ports(len(SERVERS))))
        try:
            for name in SERVERS:
                self._start("mserver", name)
            for name in (*self.near, self.far):
                self._start("mi", name)
            self._wait_whole()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def place(self, interface: str) -> str:
        """Where clients of an interface connect."""
        return str(socket_path(self.folder, interface))

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    def counts(self) -> dict[str, Counter[str]]:
        """What each mserver has counted so far."""
        found = {name: read_status(status_path(self.folder, name)) for name in SERVERS}
        return {name: Counter((status or {}).get("counts", {})) for name, status in found.items()}

    def ended(self) -> list[str]:
        """The processes that have ended by themselves."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def complaints(self) -> str:
        """What the processes wrote to stderr."""
        files = sorted(self.folder.glob("*.err"))
        return "\n".join(f"{each.stem}: {each.read_text()[-2000:]}" for each in files)

    def _config(self, ports: int) -> str:
        parts = ['cluster = "bench"']
        for name, level, parent, link, members in SETS:
            lines = [f"[set.{name}]", f"level = {level}"]
            if parent:
                lines += [f'parent = "{parent}"', f'link = "{link}"']
            parts.append("\n".join([*lines, f"members = {list(members)}"]))
        for at, name in enumerate(SERVERS):
            parts.append(f'[mserver.{name}]\naddress = "127.0.0.1:{ports + at}"')
        parts += [f'[interface.{name}]\nhome = "l1"' for name in self.near]
        parts.append(f'[interface.{self.far}]\nhome = "l2"')
        return "\n\n".join(parts) + "\n"

    def _start(self, kind: str, name: str) -> None:
        command = [sys.executable, "-m", "phalanx.cli.main", kind, "--json"]
        where = ["--config", str(self._file), "--name", name, "--state", str(self.folder)]
        with (self.folder / f"{name}.err").open("wb") as errors:
            self._processes[name] = subprocess.Popen(
                command + where, stdout=subprocess.DEVNULL, stderr=errors
            )

    def _wait_whole(self) -> None:
        until = time.monotonic() + FORM_SECONDS
        while not self._is_whole():
            if time.monotonic() > until or self.ended():
                raise RuntimeError(f"the tree does not form: {self.complaints()}")
            time.sleep(0.1)

    def _is_whole(self) -> bool:
        views: dict[str, set[tuple[str, ...]]] = {}
        homes: set[str] = set()
        for name in SERVERS:
            status: dict[str, Any] = read_status(status_path(self.folder, name)) or {"sets": {}}
            for each, row in status["sets"].items():
                views.setdefault(each, set()).add(tuple(row["view"]))
                homes |= row["interfaces"].keys()
        whole = all(
            [sorted(m.partition(".")[0] for m in view) for view in views.get(name, ())]
            == [sorted(members)]
            for name, _, _, _, members in SETS
        )
        return whole and {*self.near, self.far} <= homes

    def _end(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)


def free_ports(count: int) -> int:
    """The first of some ports that nobody uses now."""
    for first in range(20_000 + os.getpid() % 20_000, 60_000, count):
        try:
            for port in range(first, first + count):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    with socket.socket(socket.AF_INET, kind) as probe:
                        probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free ports")
