"""Real Spark daemons on this machine, each a process of its own that is stopped by its number."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
def daemon(folder: Path, name: str, command: list[str], ready: str) -> Iterator[None]:
    """A process, from when its log says that it is ready to when the block ends."""
    log = folder / f"{name}.log"
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join([*QUICK, *archive.options()]),
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
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each; the URL of the master."""
    host, port = "127.0.0.1", free_port()
    url = f"spark://{host}:{port}"
    kind = "org.apache.spark.deploy"
    master = ["spark-class", f"{kind}.master.Master", "--host", host, "--port", str(port)]
    worker = ["spark-class", f"{kind}.worker.Worker", "--host", host, "--webui-port", "0"]
    worker += ["--cores", "1", "--memory", "1g", url]
    with ExitStack() as stack:
        stack.enter_context(daemon(folder, "master", [*master, "--webui-port", "0"], "ALIVE"))
        for name in ("worker-1", "worker-2"):
            stack.enter_context(daemon(folder, name, worker, "Successfully registered"))
        yield url


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Connect server on two cores; its URL."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([*QUICK, *archive.options()]),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
    }
    command = ["spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with daemon(folder, "connect", [*command, "spark-internal"], "Spark Connect server started"):
        yield f"sc://127.0.0.1:{port}"
