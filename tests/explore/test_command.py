"""`phalanx explore`: what it prints, its exit codes, and that a saved way leads there again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.core.membership.protocol import MembershipProtocol


@pytest.fixture
def nobody_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is worth joining."""
    monkeypatch.setattr(MembershipProtocol, "_on_met", lambda self, now, given: [])


def test_the_json_tells_states_completeness_and_violations() -> None:
    result = CliRunner().invoke(main, ["explore", "--attempts", "2", "--json"])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["complete"] is True
    assert facts["violations"] == 0
    assert facts["first"] is None
    assert facts["states"] > 50
    assert facts["start"] == "0|1"
    assert {"transitions", "depth", "seconds", "states_per_second", "ends"} <= facts.keys()


def test_people_are_told_the_same() -> None:
    result = CliRunner().invoke(main, ["explore", "--start", "0,1", "--crashes", "1"])
    assert result.exit_code == 0
    assert "states, all of them" in result.stdout
    assert "0 violations" in result.stdout


def test_a_search_that_was_cut_short_says_so() -> None:
    command = ["explore", "--attempts", "2", "--states", "20"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0
    assert "NOT all of them" in result.stdout


@pytest.mark.usefixtures("nobody_joins")
def test_a_violation_is_shown_saved_and_found_again(tmp_path: Path) -> None:
    file = str(tmp_path / "path.txt")
    command = ["explore", "--start", "0,1", "--suspicions", "1", "--show", "--save", file]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "J8" in result.stdout
    assert "  break 0 1" in result.stdout
    again = CliRunner().invoke(main, ["explore", "--replay", file])
    assert again.exit_code == 1
    assert again.stdout.splitlines()[0] == "break 0 1"
    assert again.stdout.splitlines()[-1].startswith("J8: no two can find each other")
    assert again.stdout.splitlines()[-1].endswith("[membership-precision]")


@pytest.mark.usefixtures("nobody_joins")
def test_the_json_holds_the_way_to_the_first_violation() -> None:
    command = ["explore", "--start", "0,1", "--suspicions", "1", "--until-failure", "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts["violations"] == 1
    assert facts["found"] == {"J8": 1}
    assert facts["first"]["check"] == "J8"
    assert facts["first"]["property"] == "membership-precision"
    assert facts["first"]["path"][0] == "break 0 1"


def test_a_way_on_which_nothing_is_wrong_says_so(tmp_path: Path) -> None:
    file = tmp_path / "path.txt"
    file.write_text("members 2\nattempts 2\n\nattempt 0 1\n")
    result = CliRunner().invoke(main, ["explore", "--replay", str(file)])
    assert result.exit_code == 0
    assert result.stdout.endswith("nothing is wrong\n")


def test_a_mutant_is_named_in_what_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "path.txt"
    command = ["explore", "--attempts", "2", "--data", "1", "--until-failure"]
    result = CliRunner().invoke(
        main, [*command, "--mutant", "sends-while-held", "--save", str(file)]
    )
    assert result.exit_code == 1
    assert "mutant sends-while-held" in file.read_text()
    assert CliRunner().invoke(main, ["explore", "--replay", str(file)]).exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--members", "9"], "'9' is not a whole number from 1 to 8"),
        (["--start", "0,1|2"], "name each of 0 to 1 once, for example 0,1"),
        (["--attempts", "-1"], "'-1' is not a whole number from 0 to 99"),
        (["--mode", "swim"], "'swim' is not one of 'hold', 'flow'"),
        (["--mutant", "nonesuch"], "choose among"),
        (["--replay", "nonesuch"], "nonesuch: cannot be read: No such file or directory"),
        (["--save", "nonesuch/x"], "nonesuch is not a directory"),
        (["--seeds", "0:9"], "--seeds goes with --walk only"),
        (["--walk", "--suspicions", "1"], "--suspicions is for a search"),
        (["--story", "x", "--until-failure"], "--until-failure is for a search"),
        (["--walk", "--corpus", "nonesuch"], "Directory 'nonesuch' does not exist"),
    ],
)
def test_a_bad_option_is_refused_in_one_line(options: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["explore", *options])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_way_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "path.txt"
    file.write_text("members 2\n\ncollect 0\n")
    result = CliRunner().invoke(main, ["explore", "--replay", str(file)])
    assert result.exit_code == 2
    assert "'collect 0' cannot happen here" in result.stderr


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(main, ["explore", "--help"])
    assert result.exit_code == 0
    assert "phalanx explore --members 2" in result.output


def test_a_search_is_the_same_in_every_process() -> None:
    told = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "phalanx.cli.main", "explore", "--json"]
        command += ["--start", "0,1", "--attempts", "2", "--suspicions", "1", "--mode", "flow"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        facts = json.loads(done.stdout)
        told.append({k: v for k, v in facts.items() if "second" not in k})
    assert told[0] == told[1]
