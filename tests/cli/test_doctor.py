"""`phalanx doctor`: its lines, its JSON, its exit codes."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from phalanx import blocking
from phalanx.cli import doctor as command
from phalanx.cli import doctor_checks as machine
from phalanx.cli.main import main
from phalanx.config import local
from phalanx.transport.diagnostics import Diagnosis

CHECKS = ["multicast", "broadcast", "receive buffer", "offload", "own name"]
MACHINE = ["python", "clock", "java"]


def test_each_check_is_one_line() -> None:
    result = CliRunner().invoke(main, ["doctor", "--interface", "127.0.0.1"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line[9:24].strip() for line in lines] == CHECKS + MACHINE
    assert {line[:8].strip() for line in lines} <= {"ok", "note", "warning"}


def test_json_has_the_same_checks() -> None:
    result = CliRunner().invoke(main, ["doctor", "--interface", "127.0.0.1", "--json"])
    told = json.loads(result.output)
    assert told["ok"] is True
    assert [check["check"] for check in told["checks"]] == CHECKS + MACHINE
    assert set(told["checks"][0]) == {"check", "verdict", "text", "remedy"}


@pytest.mark.parametrize(("verdict", "code"), [("problem", 1), ("warning", 0), ("note", 0)])
def test_only_a_problem_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, verdict: str, code: int
) -> None:
    found = Diagnosis("multicast", verdict, "broken", "fix it")  # type: ignore[arg-type]
    monkeypatch.setattr(command, "network_findings", lambda config: [found])
    monkeypatch.setattr(command, "machine_findings", list)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == code
    assert result.output == f"{verdict:<8} multicast       broken; fix it\n"
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    assert told["ok"] is (code == 0)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--interface", "nonet9"], "no such interface; choose one of: lo"),
        (["--port", "0"], "whole number from 1 to 65535"),
        (["--bogus"], "No such option"),
        (["--profile", "mesh"], "name at least one as host:port"),
        (["--profile", "mesh", "--peer", "a:1", "--group", "g"], "leave it out with mesh"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], part: str) -> None:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == 2
    assert part in result.output
    assert result.output.count("\n") == 1


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(main, ["doctor", "--help"])
    assert "phalanx doctor --interface eth0" in result.output


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (None, "note"),
        ("", "warning"),
        ('openjdk version "17.0.15" 2025-04-15', "ok"),
        ('java version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_202"', "warning"),
        ('openjdk version "11.0.2"', "warning"),
    ],
)
def test_java_is_judged_by_its_output(said: str | None, verdict: str) -> None:
    assert machine.java(said).verdict == verdict


def test_no_java_at_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert machine.java_version() is None


@pytest.mark.parametrize(
    ("state", "verdict"), [(None, "note"), ((True, 1500), "ok"), ((False, 16_000_000), "warning")]
)
def test_the_clock_is_judged_by_what_the_kernel_says(
    state: tuple[bool, int] | None, verdict: str
) -> None:
    assert machine.clock(state).verdict == verdict


def test_an_old_python_is_a_problem() -> None:
    assert machine.python((3, 10, 1)).verdict == "problem"
    assert machine.python().verdict == "ok"


def test_settings_that_differ_in_a_group_are_a_problem() -> None:
    group = f"doctor-{os.getpid()}"
    with (
        blocking.join(group, name="ada", config=local()),
        blocking.join(group, name="bob", config=local(order="all-ack")),
    ):
        arguments = ["doctor", "--interface", "127.0.0.1", "--group", group]
        result = CliRunner().invoke(main, arguments)
        assert CliRunner().invoke(main, [*arguments, "--cluster", "other"]).exit_code == 0
    assert result.exit_code == 1
    last = result.output.splitlines()[-1]
    assert last.startswith("problem  settings")
    assert "order=all-ack, early=False, mode=hold at bob." in last
    assert "order=toto, early=False, mode=hold at ada." in last


def test_a_mesh_has_checks_of_its_own() -> None:
    given = ["doctor", "--profile", "mesh", "--peer", "127.0.0.1:9", "--address", "127.0.0.1"]
    result = CliRunner().invoke(main, given)
    lines = [line[9:24].strip() for line in result.output.splitlines()]
    assert lines == ["encryption", "port", "peer", "own name", *MACHINE]
