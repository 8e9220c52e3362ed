"""Options that commands of the pipeline share."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main

WINDOWED = (
    ["audit", "journals"],
    ["history", "views", "g", "journals"],
    ["history", "why", "g", "ada", "journals"],
    ["measures", "journals"],
    ["report", "journals"],
    ["lake", "derive", "lake"],
)


@pytest.mark.parametrize("command", WINDOWED, ids=" ".join)
@pytest.mark.parametrize(
    ("since", "until", "problem"),
    [
        ("2026-11-15T12:00:01Z", "2026-11-15T12:00:00Z", "the window is empty"),
        ("12.5s", "12.5s", "the window is empty"),
        ("1", "2s", "one is of a wall clock, the other is simulated"),
        ("yesterday", "2s", "not an instant"),
    ],
)
def test_a_window_in_which_no_instant_lies_is_refused(
    command: list[str], since: str, until: str, problem: str
) -> None:
    done = CliRunner().invoke(main, [*command, "--since", since, "--until", until])
    assert done.exit_code == 2, done.output
    assert problem in done.stderr
