"""`phalanx node`, `phalanx chat` and `phalanx demo`, as processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

import phalanx
from phalanx import blocking

SECONDS = 30
PHALANX = [sys.executable, "-c", "from phalanx.cli.main import main; main()"]


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PHALANX, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], word: str) -> str:
    """The first line with the word; the process is ended if it does not come."""
    assert process.stdout is not None
    killer = threading.Timer(SECONDS, process.kill)
    killer.start()
    try:
        for line in process.stdout:
            if word in line:
                return line
    finally:
        killer.cancel()
    assert process.stderr is not None
    raise AssertionError(f"no {word!r}: {process.stderr.read()}")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"cli-{os.getpid()}-{abs(hash(request.node.name)) % 10_000}"


def test_lines_of_one_node_are_messages_at_another(group: str) -> None:
    ada = started("node", group, "--local", "--name", "ada", "--json")
    bob = started("node", group, "--local", "--name", "bob", "--service", "safe", "--until-eof")
    try:
        until(bob, "ada bob")
        assert bob.stdin is not None
        bob.stdin.write("hello\n")
        bob.stdin.flush()
        told: dict[str, Any] = json.loads(until(ada, '"message"'))
        assert (told["body"], told["service"]) == ("hello", "safe")
        assert told["sender"].startswith("bob.")
        out, errors = bob.communicate(timeout=SECONDS)
        assert "bob#1 safe: hello" in out
        # A crowded machine may be late, and the log says so.
        problems = [line for line in errors.splitlines() if "ran late" not in line]
        assert (bob.returncode, problems) == (0, [])
        assert json.loads(until(ada, '"left": ["bob'))["event"] == "view"
        ada.send_signal(signal.SIGTERM)
        ada.communicate(timeout=SECONDS)
        assert ada.returncode == -signal.SIGTERM
    finally:
        for process in (ada, bob):
            process.kill()
            process.communicate()


def test_ctrl_c_leaves_and_exits_as_interrupted(group: str) -> None:
    ada = started("node", group, "--local", "--name", "ada")
    until(ada, "view")
    ada.send_signal(signal.SIGINT)
    try:
        _, errors = ada.communicate(timeout=SECONDS)
    finally:
        ada.kill()
    assert ada.returncode == 130
    assert errors.strip() == "phalanx: interrupted"


def test_chat_shows_who_is_here_and_what_they_say(group: str) -> None:
    ada, bob = (started("chat", group, "--local", "--name", name) for name in ("ada", "bob"))
    try:
        for process in (ada, bob):
            until(process, "* here now: ada, bob")
        assert ada.stdin is not None
        ada.stdin.write("lunch?\n")
        ada.stdin.flush()
        assert until(bob, "lunch") == "ada: lunch?\n"
        for process in (ada, bob):
            process.communicate("", timeout=SECONDS)
            assert process.returncode == 0
    finally:
        for process in (ada, bob):
            process.kill()
            process.communicate()


def _bodies(member: blocking.Group, sender: str) -> list[bytes]:
    """What a member delivered from another, until that one left."""
    out: list[bytes] = []
    here = False
    while True:
        event = member.receive(SECONDS)
        if isinstance(event, phalanx.Message):
            out.append(event.body)
        elif isinstance(event, phalanx.View):
            names = [m.name for m in event.members]
            if here and sender not in names:
                return out
            here = sender in names


def _piped(*arguments: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PHALANX, *arguments], input=data, capture_output=True, timeout=SECONDS, check=False
    )


def test_lines_from_a_pipe_reach_the_group_that_runs(group: str) -> None:
    lines = [b"%d" % i for i in range(1000)]
    with blocking.join(group, name="ada", config=phalanx.local()) as ada:
        arguments = ["node", group, "--local", "--name", "bob", "--service", "safe", "--until-eof"]
        done = _piped(*arguments, data=b"\n".join(lines) + b"\n")
        assert (done.returncode, done.stderr) == (0, b"")
        assert _bodies(ada, "bob") == lines


def test_a_line_of_any_bytes_is_sent_as_it_is(group: str) -> None:
    lines = [b"caf\xe9", b"", b"\xff\xfe\x00", b"\xc3\xa9", b"no newline"]
    with blocking.join(group, name="ada", config=phalanx.local()) as ada:
        for command in ("node", "chat"):
            more = ["--until-eof"] if command == "node" else []
            arguments = [command, group, "--local", "--name", "bob", "--members", "2", *more]
            done = _piped(
                *arguments, data=b"\r\n".join(lines[:2]) + b"\r\n" + b"\n".join(lines[2:])
            )
            assert (done.returncode, done.stderr) == (0, b"")
            assert b"caf\\xe9" in done.stdout
            assert _bodies(ada, "bob") == lines


def test_members_that_do_not_come_are_one_line_and_exit_2(group: str) -> None:
    arguments = ["node", group, "--local", "--members", "2", "--timeout", "0.5"]
    done = _piped(*arguments, data=b"hello\n")
    assert done.returncode == 2
    assert b"members = 2: not within 0.5 s" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert b"hello" not in done.stdout


@pytest.mark.parametrize("stdin", ["closed", "not readable"])
def test_an_input_that_cannot_be_read_does_not_hang(group: str, stdin: str) -> None:
    redirect = {"closed": "<&-", "not readable": "0>/dev/null"}[stdin]
    line = shlex.join([*PHALANX, "node", group, "--local", "--until-eof"])
    done = subprocess.run(
        ["sh", "-c", f"{line} {redirect}"], capture_output=True, timeout=SECONDS, check=False
    )
    if stdin == "closed":
        assert (done.returncode, done.stderr) == (0, b"")
    else:
        assert done.returncode == 2
        assert b"phalanx: standard input: Bad file descriptor; give a file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--interface", "nope0"], "interface = 'nope0'"),
        (["--network", "fanout"], "peers"),
        (["--peer", "nonsense"], "peers"),
        (["--address", "10.1.2.3"], "address = '10.1.2.3'"),
        (["--name", ""], "name ="),
        (["--state", "/proc/nope"], "state ="),
        (["--journal", "/proc/nope"], "/proc/nope"),
        (["--profile", "mesh"], "peers = ()"),
        (["--profile", "mesh", "--peer", "192.0.2.1:7117"], "tls = None"),
        (["--profile", "mesh", "--peer", "a:1", "--shared-key", "/nope"], "/nope cannot be read"),
        (["--peer", "127.0.0.1:1", "--shared-key", "/nope"], "only network = 'mesh' has it"),
        (["--certificate", "a.pem"], "--private-key"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_2(arguments: list[str], names: str) -> None:
    done = subprocess.run(
        [*PHALANX, "node", "g", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert names in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_nodes_of_a_mesh_meet_over_tls(group: str, tmp_path: Path) -> None:
    key = tmp_path / "group.key"
    key.write_text("0123456789abcdef" * 4)
    with socket.create_server(("127.0.0.1", 0)) as free:
        peer = f"127.0.0.1:{free.getsockname()[1]}"
    talks = ["--members", "2", "--until-eof"]
    shared = ["--profile", "mesh", "--peer", peer, "--shared-key", str(key), "--local"]
    ada = subprocess.Popen(
        [*PHALANX, "node", group, "--name", "ada", *shared, "--port", peer.rpartition(":")[2]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        done = subprocess.run(
            [*PHALANX, "node", group, "--name", "bea", *shared, "--port", "0", *talks],
            input="hello\n",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "bea#1 agreed: hello" in done.stdout
    finally:
        ada.terminate()
        out, _ = ada.communicate(timeout=SECONDS)
    assert "bea#1 agreed: hello" in out


def test_a_port_in_use_is_named_with_a_remedy(group: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*PHALANX, "node", group, "--peer", "127.0.0.1:7990", "--port", port],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 2
    assert f"port = {port}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_operations_that_cannot_be_are_refused_before_the_member_joins(group: str) -> None:
    done = subprocess.run(
        [*PHALANX, "node", group, "--local", "--operation", "a b"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("phalanx: operations = ('a b',): ")


def test_the_demo_keeps_the_journals_of_each_run_apart(tmp_path: Path) -> None:
    for name in ("demo-1", "demo-2"):
        folder = tmp_path / "journals" / name
        keep(folder, odyssey().rows)
    demo = [*PHALANX, "demo", "--json", "--keep", str(tmp_path)]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["violations"] == 0


@pytest.mark.parametrize("profile", ["local", "mesh"])
def test_the_demo_plays_and_proves(tmp_path: Path, profile: str) -> None:
    done = subprocess.run(
        [*PHALANX, "demo", "--profile", profile, "--json", "--keep", str(tmp_path / "kept")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == 0
    assert found["properties"]["virtual-synchrony"]["verdict"] == "holds"
    assert found["properties"]["safe-prefix"]["checked"] > 0
    assert found["seconds"]["kill"] < 5
    checked = subprocess.run(
        [*PHALANX, "check", str(tmp_path / "kept"), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    why = [*PHALANX, "history", "why", "demo", "dov", str(tmp_path / "kept")]
    shown = subprocess.run(why, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0, shown.stderr  # as in the example of its help
    assert "was removed" in shown.stdout
