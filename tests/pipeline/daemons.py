"""Real Spark daemons on this machine, each a process of its own that is stopped by its number."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from phalanx.pipeline import class_archive as archive
from phalanx.pipeline.session import QUICK

HOME = Path(pyspark.__file__).parent
START_SECONDS = 120.0
STOP_SECONDS = 20.0
PACKAGES = Path(__file__).resolve().parents[2] / "src"


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


@contextmanager
def daemon(
    folder: Path, name: str, command: list[str], ready: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, from when its log says that it is ready to when the block ends."""
    log = folder / f"{name}.log"
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join([*QUICK, *archive.use_options()]),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)  # workers have what they are sent
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(HOME / "bin" / command[0]), *command[1:]],
            env=environment,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while ready not in log.read_text(errors="replace"):
            said = f"{name} is not ready:\n{log.read_text(errors='replace')[-2000:]}"
            assert process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


class Standalone:
    """A master and two workers of one core each. Workers can be killed, and replaced by others."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        host, port = "127.0.0.1", free_port()
        self.url = f"spark://{host}:{port}"
        self.folder, self._stack = folder, stack
        kind = "org.apache.spark.deploy"
        master = ["spark-class", f"{kind}.master.Master", "--host", host, "--port", str(port)]
        worker = ["spark-class", f"{kind}.worker.Worker", "--host", host, "--webui-port", "0"]
        self._worker = [*worker, "--cores", "1", "--memory", "1g", self.url]
        stack.enter_context(daemon(folder, "master", [*master, "--webui-port", "0"], "ALIVE"))
        self._started = 0
        self._workers = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        made = daemon(
            self.folder, f"worker-{self._started}", self._worker, "Successfully registered"
        )
        return self._stack.enter_context(made)

    def below(self, worker: int) -> list[str]:
        """The commands of the processes below a worker: its executor, and what that started."""
        return commands_below(self._workers[worker].pid)

    def kill(self, worker: int) -> list[str]:
        """SIGKILL to a worker and all below it; the commands of those."""
        top = self._workers[worker].pid
        killed = self.below(worker)
        # The worker first: it would start another executor.
        for pid in (top, *_descendants(top)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._workers[worker].wait(STOP_SECONDS)
        return killed

    def replace(self) -> None:
        """Workers in place of those that were killed."""
        self._workers = [self._start() if w.poll() is not None else w for w in self._workers]


def commands_below(pid: int) -> list[str]:
    """Of the processes that it started, and of theirs."""
    return [_command(below) for below in _descendants(pid)]


def _descendants(top: int) -> list[int]:
    """Parents come before their children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(children.get(top, []))
    for pid in found:  # it grows
        found += children.get(pid, [])
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    with ExitStack() as stack:
        yield Standalone(folder, stack)


@contextmanager
def connect_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Connect server on two cores; its URL, and its process."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([*QUICK, *archive.use_options()]),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
    }
    command = ["spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    ready = "Spark Connect server started"
    with daemon(folder, "connect", [*command, "spark-internal"], ready) as process:
        yield f"sc://127.0.0.1:{port}", process
