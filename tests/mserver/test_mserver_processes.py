"""Mservers as real processes on loopback: they form their sets, lose members and come back."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.mserver.example_config import ExampleShape, example_config
from phalanx.mserver.status_socket import read_status, status_path

pytestmark = pytest.mark.xdist_group("mserver-processes")
WAIT_SECONDS = 90
"""For views that take a few seconds on an idle machine."""


class Cluster:
    """Two levels: top-1 and top-2, each the link of a set with one more mserver."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "s"
        self.file = folder / "service.toml"
        shape = ExampleShape(levels=2, top=2, servers=1, hosts=1, port=free_port(4))
        self.file.write_text(example_config(shape))
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            command = [sys.executable, "-m", "phalanx.cli.main", "mserver", "--json"]
            where = ["--config", str(self.file), "--name", name, "--state", str(self.state)]
            self.processes[name] = subprocess.Popen(
                command + where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

    def end(self, name: str, number: int) -> tuple[int, str]:
        """Signal a process and wait for its end: its exit code, and what it complained of."""
        process = self.processes.pop(name)
        os.kill(process.pid, number)
        _, complaint = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, complaint

    def view(self, at: str, name: str) -> list[str]:
        """The names of the members of a set, as a server sees it."""
        status = read_status(status_path(self.state, at))
        seen = (status or {}).get("sets", {}).get(name)
        return [] if seen is None else [each.partition(".")[0] for each in seen["view"]]

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < until, self.tree()
            time.sleep(0.1)

    def wait_whole(self, *down: str) -> None:
        """Each set has one component, with all members but those that are down."""

        def whole() -> bool:
            rows = self.tree()["sets"]
            return all(
                len(row["components"]) == 1
                and sorted(row["components"][0]["at"])
                == sorted(each.partition(".")[0] for each in row["components"][0]["view"])
                == sorted(set(row["members"]) - set(down))
                for row in rows
            )

        self.wait(whole)

    def tree(self) -> dict[str, Any]:
        words = ["ms", "tree", "--config", str(self.file), "--state", str(self.state), "--json"]
        found: dict[str, Any] = json.loads(CliRunner().invoke(main, words).output)
        return found

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=WAIT_SECONDS)


def free_port(count: int) -> int:
    """The first of some UDP ports that nobody uses now."""
    for first in range(20_000 + os.getpid() % 20_000, 60_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def test_sets_form_lose_a_killed_member_and_take_it_back_as_itself(cluster: Cluster) -> None:
    cluster.start("top-1", "top-2", "s1-1", "s2-1")
    cluster.wait_whole()
    first = read_status(status_path(cluster.state, "s1-1"))
    assert first is not None
    code, complaint = cluster.end("s1-1", signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert re.fullmatch("cluster example has no key: packets are neither encrypted .*\n", complaint)
    cluster.wait(lambda: cluster.view("top-1", "s1") == ["top-1"])
    assert sorted(cluster.view("top-1", "top")) == ["top-1", "top-2"]
    cluster.start("s1-1")
    cluster.wait_whole()
    again = read_status(status_path(cluster.state, "s1-1"))
    assert again is not None
    assert again["incarnation"] == first["incarnation"]
    for name in tuple(cluster.processes):
        assert cluster.end(name, signal.SIGTERM)[0] == 0


def test_a_server_without_its_disk_is_another_incarnation_and_joins(cluster: Cluster) -> None:
    cluster.start("top-1", "top-2", "s1-1", "s2-1")
    cluster.wait_whole()
    first = read_status(status_path(cluster.state, "s2-1"))
    assert first is not None
    cluster.end("s2-1", signal.SIGKILL)
    for path in cluster.state.glob("mserver-s2-1.db*"):
        path.unlink()
    cluster.start("s2-1")
    cluster.wait_whole()
    again = read_status(status_path(cluster.state, "s2-1"))
    assert again is not None
    assert again["incarnation"] > first["incarnation"]


def test_a_whole_set_comes_back_from_its_disks(cluster: Cluster) -> None:
    """All are killed at once. The states go on from where they were: numbers only grow."""
    cluster.start("top-1", "top-2", "s1-1", "s2-1")
    cluster.wait_whole()
    number = int(cluster.tree()["sets"][0]["components"][0]["vid"].partition(":")[0])
    for name in tuple(cluster.processes):
        cluster.end(name, signal.SIGKILL)
    cluster.start("top-1", "top-2", "s1-1", "s2-1")
    cluster.wait_whole()
    assert int(cluster.tree()["sets"][0]["components"][0]["vid"].partition(":")[0]) >= number


def test_damaged_packets_are_counted_and_change_nothing(cluster: Cluster) -> None:
    cluster.start("top-1", "top-2", "s1-1", "s2-1")
    cluster.wait_whole()
    before = cluster.tree()["sets"]
    status = read_status(status_path(cluster.state, "top-1"))
    assert status is not None
    host, _, port = status["address"].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for size in (0, 1, 15, 40, 1300):
            stranger.sendto(b"\xa5" * size, (host, int(port)))
            stranger.sendto(
                (b"PM\x01" + bytes(8) + b"\0\0\1\0" + b"\x5a" * size)[:1200], (host, int(port))
            )

    def counted() -> bool:
        found = read_status(status_path(cluster.state, "top-1"))
        return found is not None and found["counts"].get("foreign", 0) >= 5

    cluster.wait(counted)
    assert cluster.tree()["sets"] == before


def test_a_second_process_of_the_same_name_is_refused(cluster: Cluster) -> None:
    cluster.start("top-1")
    cluster.wait(lambda: read_status(status_path(cluster.state, "top-1")) is not None)
    first = cluster.processes.pop("top-1")
    try:
        cluster.start("top-1")
        second = cluster.processes.pop("top-1")
        _, complaint = second.communicate(timeout=WAIT_SECONDS)
        assert second.returncode == 2
        assert re.fullmatch(r"phalanx: name = 'top-1': another live process .*\n", complaint)
        assert read_status(status_path(cluster.state, "top-1")) is not None
    finally:
        cluster.processes["top-1"] = first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "nobody", "--state", "STATE"], "name = 'nobody': no such mserver"),
        (["--name", "top-1"], "give --name and --state, or --check"),
        (["--name", "top-1", "--state", "FILE"], "state = "),
    ],
)
def test_a_wrong_start_is_one_line_and_exit_2(
    words: list[str], message: str, cluster: Cluster
) -> None:
    places = {"STATE": str(cluster.state), "FILE": str(cluster.file)}
    words = ["mserver", "--config", str(cluster.file), *(places.get(w, w) for w in words)]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_damaged_database_is_refused_with_one_line(cluster: Cluster) -> None:
    cluster.state.mkdir()
    (cluster.state / "mserver-top-1.db").write_bytes(b"damaged" * 1000)
    cluster.start("top-1")
    process = cluster.processes.pop("top-1")
    _, complaint = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 2
    assert "the database is damaged" in complaint
    assert complaint.count("\n") == 1


def test_the_tree_without_processes_is_the_configuration(cluster: Cluster) -> None:
    words = ["ms", "tree", "--config", str(cluster.file)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert result.output.splitlines()[:3] == [
        "top (level 2): top-1, top-2",
        "  s1 (level 1, link top-1): top-1, s1-1",
        "    interfaces s1-1-host-1",
    ]
    shown = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert sorted(shown["not_asked"]) == ["s1-1", "s2-1", "top-1", "top-2"]


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from phalanx.cli.main import main
main(sys.argv[1:])
"""


def test_a_full_disk_ends_an_mserver_with_one_line(cluster: Cluster) -> None:
    """Its files may not grow, as on a full disk. The others go on, and it comes back afterwards."""
    cluster.start("top-1", "top-2", "s2-1")
    words = ["mserver", "--config", str(cluster.file), "--name", "s1-1", "--state"]
    limited = subprocess.run(
        [sys.executable, "-c", LIMITED, "30000", *words, str(cluster.state)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert limited.returncode == 2, limited.stderr
    warning, complaint = limited.stderr.splitlines()
    assert "has no key" in warning
    assert "make room on the disk" in complaint
    cluster.start("s1-1")
    cluster.wait_whole()
