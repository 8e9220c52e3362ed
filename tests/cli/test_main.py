"""The command itself: version, help, and errors in one line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("phalanx, version ")


@pytest.mark.parametrize(
    "command", [[], ["sim"], *(["sim", c] for c in ("run", "sweep", "replay", "demo"))]
)
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert "phalanx sim" in result.output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["sim", "bogus"], "No such command 'bogus'"),
        (["sim", "sweep"], "Missing option '--seeds'"),
        (["sim", "sweep", "--seeds", "7"], "'7' is not A:B"),
        (["sim", "sweep", "--seeds", "7:7"], "B follows A"),
        (["sim", "sweep", "--seeds", "0:1", "--members", "0:2"], "A is at least 1"),
        (["sim", "sweep", "--seeds", "0:1", "--jobs", "0"], "--jobs"),
        (["sim", "sweep", "--seeds", "0:1", "--mutant", "nonesuch"], "nonesuch"),
        (["sim", "run"], "Missing argument"),
        (["sim", "replay"], "either a FILE of events or --seed N"),
        (["sim", "replay", "x", "--seed", "1"], "either a FILE of events or --seed N"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(command: list[str], message: str) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("phalanx: ")
    assert message in result.stderr
