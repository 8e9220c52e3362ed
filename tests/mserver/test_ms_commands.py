"""`phalanx ms CALL` and `phalanx ms watch` against an interface in another thread."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from phalanx.cli.main import main
from phalanx.mserver.blocking_client import connect_blocking
from phalanx.service.calls.call_table import CALLS

if TYPE_CHECKING:
    from tests.mserver.conftest import Host

COMMAND = [sys.executable, "-m", "phalanx.cli.main"]


@pytest.fixture
def place(tmp_path: Path, host_of: Any) -> Iterator[str]:
    """The socket of an interface that runs in a thread."""
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    host: Host = host_of(tmp_path)

    async def serve() -> None:
        await host.start()
        started.set()
        await stop.wait()
        await host.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(20)
    yield host.place
    loop.call_soon_threadsafe(stop.set)
    thread.join(20)
    loop.close()


def ms(*words: str) -> Result:
    return CliRunner().invoke(main, ["ms", *words])


def test_a_query_prints_its_result(place: str) -> None:
    with connect_blocking(place) as client:
        client.join_group("orders")
        text = ms("get_list", "--interface", place, "orders")
        assert (text.exit_code, text.output) == (0, 'members    ["h/1"]\nuid        u\n')
        shown = ms("get_list", "--interface", place, "--json", "orders", "--selector", "tier >= 1")
        assert json.loads(shown.output) == {"members": ["h/1"], "uid": "u"}


def test_the_interface_can_come_from_the_environment(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHALANX_INTERFACE", place)
    assert ms("get_list", "orders").exit_code == 0
    monkeypatch.delenv("PHALANX_INTERFACE")
    missing = ms("get_list", "orders")
    assert missing.exit_code == 2
    assert "Missing option '--interface'" in missing.stderr


def test_a_refused_call_is_one_line_and_exit_2(place: str) -> None:
    result = ms("delete_group", "--interface", place, "orders")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("phalanx: denied(delete): ")
    assert result.stderr.count("\n") == 1
    shown = ms("delete_group", "--interface", place, "--json", "orders")
    assert shown.exit_code == 2
    assert json.loads(shown.stdout) == {"ok": False, "error": "denied", "detail": "delete"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create_group", "a~b"], "bad-argument(name must not contain ~"),
        (["create_group", "a", "--properties", "survive=size"], "bad-rule: 1:5: expected <"),
        (["create_group", "a", "--properties", "tier"], "'tier' is not KEY=VALUE"),
        (["get_groups", "x"], "'x' is not a valid integer"),
        (["get_groups", "99"], "level must be a whole number from 1 to 16"),
        (["get_sites"], "Missing argument"),
        (["leave_group", "orders"], "either member or selector"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(words: list[str], message: str, place: str) -> None:
    result = ms(words[0], "--interface", place, *words[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interface_that_is_not_there_is_one_line_and_exit_2(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.sock")
    result = ms("get_view", "--interface", nowhere, "--timeout", "0.2", "orders")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unavailable" in result.stderr
    assert "none.sock" in result.stderr


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_a_command_whose_help_shows_the_table(call: str) -> None:
    result = ms(call, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"phalanx ms {call} " in result.output
    shown = " ".join(result.output.split())
    assert CALLS[call].meaning.split(".")[0] in shown
    for argument in CALLS[call].arguments:
        assert argument.name.upper() in shown or f"--{argument.name.replace('_', '-')}" in shown


def test_join_group_follows_its_member_and_leaves_when_interrupted(place: str) -> None:
    joined = subprocess.Popen(
        [*COMMAND, "ms", "join_group", "--interface", place, "--json", "orders"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert joined.stdout is not None
    try:
        result = json.loads(joined.stdout.readline())
        view = json.loads(joined.stdout.readline())
        assert result["member"] == "h/1"
        assert (view["kind"], view["members"], view["number"]) == ("view", ["h/1"], 1)
        with connect_blocking(place) as client:
            client.join_group("orders")
            assert json.loads(joined.stdout.readline())["members"] == ["h/1", "h/2"]
            os.kill(joined.pid, signal.SIGINT)
            _, complaint = joined.communicate(timeout=20)
            assert (joined.returncode, complaint.strip()) == (130, "phalanx: interrupted")
            members = next(n.members for n in client.notices(timeout=10) if n.cause == "leave")
            assert members == ("h/2",)
    finally:
        joined.kill()
        joined.communicate(timeout=20)


def test_watch_prints_each_new_view_of_a_group(place: str) -> None:
    with connect_blocking(place) as client:
        client.join_group("orders")
        words = ["watch", "--interface", place, "--every", "0.05", "--count", "1", "--json"]
        result = ms(*words, "orders")
        assert result.exit_code == 0
        assert json.loads(result.output)["members"] == ["h/1"]
