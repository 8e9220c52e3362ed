"""Groups over real processes on loopback: mservers of two levels, interfaces and clients."""

from __future__ import annotations

import json
import os
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
from phalanx.mserver.blocking_client import BlockingServiceClient, connect_blocking
from phalanx.mserver.example_config import ExampleShape, example_config
from phalanx.mserver.host_interface import socket_path
from phalanx.mserver.status_socket import read_status, status_path
from phalanx.service.calls.call_errors import NoSuchGroup, ServiceError, Unavailable

pytestmark = pytest.mark.xdist_group("mserver-processes")
WAIT_SECONDS = 60
SERVERS = ("top-1", "top-2", "s1-1", "s1-2", "s2-1", "s2-2")
HOSTS = ("s1-1-host-1", "s1-2-host-1", "s2-1-host-1")


class Campus:
    """Two levels: top-1 and top-2, each the link of a set with two more mservers, which have an
    interface each."""

    def __init__(self, folder: Path, journals: Path | None = None) -> None:
        self.state = folder / "s"
        self.file = folder / "service.toml"
        self.journals = journals
        shape = ExampleShape(levels=2, top=2, servers=2, hosts=1, port=free_port(6))
        self.file.write_text(example_config(shape))
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.clients: list[BlockingServiceClient] = []

    def start(self, name: str, kind: str) -> None:
        command = [sys.executable, "-m", "phalanx.cli.main", kind, "--json"]
        where = ["--config", str(self.file), "--name", name, "--state", str(self.state)]
        if self.journals is not None:
            where += ["--journal", str(self.journals)]
        self.processes[name] = subprocess.Popen(
            command + where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def start_all(self) -> None:
        for name in SERVERS:
            self.start(name, "mserver")
        for name in HOSTS:
            self.start(name, "mi")
        wait_for(self.is_whole, self.complaints)

    def is_whole(self) -> bool:
        """Each set has one component with all of its members, and each interface a home."""
        rows = json.loads(self.run("ms", "tree", "--json"))["sets"]
        homes: dict[str, str] = {}
        for name in SERVERS:
            status = read_status(status_path(self.state, name)) or {"sets": {}}
            for each in status["sets"].values():
                homes |= each["interfaces"]
        return set(HOSTS) <= homes.keys() and all(
            len(row["components"]) == 1
            and sorted(row["components"][0]["at"]) == sorted(row["members"])
            for row in rows
        )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_SECONDS)

    def client(self, host: str) -> BlockingServiceClient:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                found = connect_blocking(str(socket_path(self.state, host)), timeout=5.0)
            except (Unavailable, OSError):
                assert time.monotonic() < until, self.complaints()
                time.sleep(0.2)
                continue
            self.clients.append(found)
            return found

    def call(
        self, client: BlockingServiceClient, called: str, /, **arguments: Any
    ) -> dict[str, Any]:
        """A call that is repeated while the service cannot answer yet."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return client.call(called, arguments, 10.0)
            except Unavailable:
                assert time.monotonic() < until, self.complaints()

    def complaints(self) -> str:
        ended = [name for name, process in self.processes.items() if process.poll() is not None]
        return f"ended: {ended}; {self.run('ms', 'tree')[-3000:]}"

    def run(self, *words: str) -> str:
        where = ["--config", str(self.file), "--state", str(self.state)]
        return CliRunner().invoke(main, [*words, *where]).output

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=WAIT_SECONDS)


def free_port(count: int) -> int:
    """The first of some UDP ports that nobody uses now."""
    for first in range(20_000 + (os.getpid() * 7) % 20_000, 60_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def campus(tmp_path: Path) -> Iterator[Campus]:
    campus = Campus(tmp_path)
    campus.start_all()
    yield campus
    campus.close()


def wait_for(condition: Callable[[], bool], why: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < until, why()
        time.sleep(0.1)


def test_members_of_two_sets_see_one_group_through_the_kill_of_a_home_and_an_interface(
    campus: Campus,
) -> None:
    one, two, three = (campus.client(host) for host in HOSTS)
    created = campus.call(one, "create_group", name="orders", properties={"tier": 1})
    first = campus.call(one, "join_group", name="orders")
    campus.call(two, "join_group", name="orders")
    third = campus.call(three, "join_group", name="orders", properties={"role": "db"})
    assert first["uid"] == created["uid"]

    def members(client: BlockingServiceClient) -> list[str]:
        found: list[str] = campus.call(client, "get_view", group="orders")["members"]
        return found

    assert members(one) == members(three)
    assert len(members(two)) == 3
    found = campus.call(one, "get_gsites", group="orders", selector="role = db")["sites"]
    assert [(site["member"], site["set"]) for site in found] == [(third["member"], "s2")]
    with pytest.raises(NoSuchGroup):
        one.call("get_view", {"group": "nobody"}, 10.0)

    campus.kill("s1-2")  # the home of the second interface: its member stays
    fourth = campus.call(two, "join_group", name="orders")
    assert len(members(one)) == 4
    assert fourth["member"] in members(three)

    campus.kill(HOSTS[2])  # an interface: its members are removed
    wait_for(lambda: third["member"] not in members(one), lambda: members(one))
    assert len(members(two)) == 3
    campus.call(one, "leave_group", name="orders", member=first["member"])
    assert first["member"] not in members(two)


def test_an_interface_that_restarts_at_once_keeps_its_members(campus: Campus) -> None:
    one, two = (campus.client(host) for host in HOSTS[:2])
    campus.call(one, "create_group", name="orders")
    first = campus.call(one, "join_group", name="orders")["member"]
    campus.call(two, "join_group", name="orders")
    before = campus.call(two, "get_view", group="orders")
    campus.kill(HOSTS[0])
    killed = time.monotonic()
    campus.start(HOSTS[0], "mi")
    restarted = campus.processes[HOSTS[0]].stdout
    assert restarted is not None
    assert json.loads(restarted.readline())["event"] == "started"
    if time.monotonic() - killed > 1.2:
        pytest.skip("this machine is too busy: members are removed after the grace")
    second = campus.call(one, "join_group", name="orders")["member"]
    after = campus.call(two, "get_view", group="orders")
    assert after["members"] == [*before["members"], second]
    assert first in after["members"]


def test_the_commands_create_join_and_show_a_group(campus: Campus) -> None:
    campus.call(campus.client(HOSTS[0]), "create_group", name="bills")
    place = ["--interface", str(socket_path(campus.state, HOSTS[0]))]
    command = [sys.executable, "-m", "phalanx.cli.main", "ms", "join_group", "bills", "--json"]
    member = subprocess.Popen(command + place, stdout=subprocess.PIPE, text=True)
    try:
        assert member.stdout is not None
        joined = json.loads(member.stdout.readline())
        assert json.loads(member.stdout.readline())["kind"] == "view"
        shown = CliRunner().invoke(main, ["ms", "get_view", "bills", "--json", *place])
        assert json.loads(shown.output)["members"] == [joined["member"]]
        watched = CliRunner().invoke(main, ["ms", "watch", "bills", "--count", "1", *place])
        assert joined["member"] in watched.output
    finally:
        member.send_signal(signal.SIGINT)
        member.communicate(timeout=WAIT_SECONDS)
    client = campus.client(HOSTS[0])
    try:
        wait_for(
            lambda: not campus.call(client, "get_view", group="bills")["members"],
            campus.complaints,
        )
    except ServiceError as error:
        raise AssertionError(campus.complaints()) from error
