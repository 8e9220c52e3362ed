"""Corosync as a peer: its daemons in the namespaces of a `Lan`, and clients of a process group.

A member is a daemon and a client (`cpgbench.c`). Each pair sees directories of its own in place of
the few that Corosync always uses, so that many run on one host and leave nothing behind. Settings
are Corosync's defaults (transport knet, token 3000 ms and 650 more for each member over two) but
for two: no encryption, as on our system; and `sched_rr: no`, because with real-time priority the
daemons take both cores of a small machine from the clients and the rate falls to a fifth.

    python bench/peers/corosync/corosync.py [--members 4] [--size 100] [--ahead 262144]
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.namespaces import Lan, LanError, available

from phalanx.benchmark.process_group import ProcessGroup
from phalanx.benchmark.trial import Trial

INSTALL = "apt-get install corosync libcpg-dev gcc libc6-dev"
SOURCE = Path(__file__).with_name("cpgbench.c")
MESSAGE_BYTES_MIN = 8
AHEAD_BYTES = 256 << 10
"""What a flooding client may have on its way: in the middle of where Corosync is fastest, which
is from 128 to 512 kB with messages of 100 bytes to 10 kB (`--ahead` tries others)."""
MEMORY = "/dev/shm"
"""Where the rings between daemons and clients lie."""
PRIVATE = ("/run", "/var/lib/corosync", MEMORY)
"""What Corosync writes to, whatever its configuration says."""


def missing() -> str:
    """Empty if Corosync can be measured here, or else what is missing and how to get it."""
    if shutil.which("corosync") is None:
        return f"Corosync is not installed: {INSTALL}"
    if shutil.which("gcc") is None:
        return f"there is no gcc to build a client of Corosync with: {INSTALL}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(Path(folder))
        except LanError as error:
            return f"{error}: {INSTALL}"
    return ""


def version() -> str:
    said = subprocess.run(["corosync", "-v"], capture_output=True, text=True, check=False)
    return said.stdout.partition("'")[2].partition("'")[0] or "unknown"


def build(folder: Path) -> Path:
    """Compile the client there."""
    client = folder / "cpgbench"
    command = ["gcc", "-std=gnu11", "-O2", "-o", str(client), str(SOURCE), "-lcpg"]
    done = subprocess.run(
        [*command, "-lcorosync_common"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise LanError(f"the client of Corosync cannot be built ({said[0].strip()})")
    return client


def configuration(lan: Lan, i: int, folder: Path) -> str:
    """One node's corosync.conf."""
    nodes = "".join(
        f"    node {{\n        nodeid: {k + 1}\n        name: m{k}\n"
        f"        ring0_addr: {lan.address(k)}\n    }}\n"
        for k in range(lan.n)
    )
    return f"""totem {{
    version: 2
    cluster_name: bench
    transport: knet
    crypto_cipher: none
    crypto_hash: none
}}
nodelist {{
{nodes}}}
system {{
    sched_rr: no
    move_to_root_cgroup: no
}}
logging {{
    to_stderr: no
    to_syslog: no
    to_logfile: yes
    logfile: {folder / f"m{i}.log"}
}}
"""


class CorosyncGroup(ProcessGroup):
    """Clients, each with the daemon that it depends on."""

    def __init__(
        self, lan: Lan, folder: Path, memory: Path, client: Path, task: Trial, ahead: int
    ) -> None:
        super().__init__(lan.n, self._start_client)
        self._lan = lan
        self._folder = folder
        self._memory = memory
        self._client = client
        self._task = task
        self._ahead = ahead
        self._daemons: dict[int, subprocess.Popen[Any]] = {}

    def start(self, i: int) -> None:
        for place in PRIVATE:
            self._own(i, place).mkdir(parents=True, exist_ok=True)
        file = self._folder / f"m{i}.conf"
        file.write_text(configuration(self._lan, i, self._folder), encoding="ascii")
        # The daemon, which knows nothing of us, must not outlive us.
        daemon = ["setpriv", "--pdeathsig", "KILL", "corosync", "-f", "-c", str(file)]
        quiet = subprocess.DEVNULL
        self._daemons[i] = self._run(i, daemon, stdin=quiet, stdout=quiet, stderr=quiet)
        super().start(i)

    def kill(self, i: int) -> int:
        """The daemon dies; its client then finds out and ends."""
        daemon = self._daemons.pop(i)
        at = monotonic_ns()
        daemon.kill()
        daemon.wait()
        super().kill(i)
        return at

    def pids(self, i: int) -> list[int]:
        return [self._daemons[i].pid, *super().pids(i)]

    def close(self, gently: bool = True) -> None:
        super().close(gently)
        for daemon in self._daemons.values():
            daemon.terminate() if gently else daemon.kill()
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def _start_client(self, i: int, **popen: Any) -> subprocess.Popen[str]:
        task = self._task
        size = max(task.size, MESSAGE_BYTES_MIN)
        what = [task.mode, "bench", str(size), str(task.rate_of(i)), str(self._ahead)]
        return self._run(i, [str(self._client), *what], **popen)

    def _run(self, i: int, argv: list[str], **popen: Any) -> subprocess.Popen[Any]:
        mounts = [f"mount --bind {shlex.quote(str(self._own(i, p)))} {p}" for p in PRIVATE]
        script = " && ".join([*mounts, 'exec "$@"'])
        return self._lan.run(i, ["unshare", "-m", "sh", "-c", script, "sh", *argv], **popen)

    def _own(self, i: int, place: str) -> Path:
        """What a member sees in place of one of the directories."""
        folder = self._memory if place == MEMORY else self._folder
        return folder / f"m{i}" / place.strip("/").replace("/", "-")


class Corosync:
    """One system of a benchmark."""

    name = "corosync"
    services = ("agreed",)

    def __init__(self, lan: Lan, ahead: int = AHEAD_BYTES) -> None:
        self.n = lan.n
        self._lan = lan
        self._ahead = ahead

    @contextmanager
    def start_group(self, task: Trial) -> Iterator[ProcessGroup]:
        prefix = "phalanx-corosync-"
        with (
            tempfile.TemporaryDirectory(prefix=prefix) as folder,
            tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY) as memory,
            CorosyncGroup(
                self._lan, Path(folder), Path(memory), build(Path(folder)), task, self._ahead
            ) as group,
        ):
            yield group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--ahead", type=int, default=AHEAD_BYTES, help="bytes on their way")
    args = parser.parse_args()
    if reason := available() or missing():
        sys.exit(f"corosync: {reason}")
    with (
        Lan(args.members) as lan,
        Corosync(lan, args.ahead).start_group(Trial(mode="flood", size=args.size)) as group,
    ):
        group.window(1.0, args.seconds)
        rates = [round(r["messages"] / r["ns"] * 1e9) for r in group.results()]
    print(json.dumps({"corosync": version(), "size": args.size, "messages_per_second": rates}))


if __name__ == "__main__":
    main()
