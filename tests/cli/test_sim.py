"""`phalanx sim`: exit codes, what is printed, and that files come back as they went."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from phalanx.cli import sim as commands
from phalanx.cli.main import main
from phalanx.cli.sim_output import ProgressLine
from phalanx.core.effects import Deliver, Effect, Input
from phalanx.core.member.member import Member
from phalanx.errors import WorkerDied
from phalanx.sim import mutants
from phalanx.sim import sweep as sweeping
from phalanx.sim.scenario.toml_file import load
from phalanx.sim.sweep import Tally

SMALL = """\
name = "small"
members = ["ada", "bea", "cyd"]
[network]
loss_ppm = 50_000
[[traffic]]
from = "ada"
count = 5
service = "any"
[[traffic]]
from = "bea"
count = 5
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a mutant whose members deliver everything twice."""
    genuine = Member.step

    def repeating(self: Member, now: int, given: Input) -> list[Effect]:
        effects = genuine(self, now, given)
        return [*effects, *(e for e in effects if isinstance(e, Deliver))]

    @contextmanager
    def applied() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Member, "step", repeating)
            yield

    def apply(name: str) -> AbstractContextManager[None]:
        assert name == "repeating"
        return applied()

    monkeypatch.setattr(mutants, "apply", apply)
    return "repeating"


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def the_object(result: Result) -> dict[str, Any]:
    assert result.stdout.count("\n") == 1, "exactly one JSON object"
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


def test_a_run_says_what_held(scenario: Path) -> None:
    result = phalanx("sim", "run", scenario, "--seed", 3)
    assert result.exit_code == 0
    assert "small, seed 3: 3 members" in result.stdout
    assert "holds" in result.stdout
    assert "violated" not in result.stdout


def test_a_run_as_json_has_its_keys(scenario: Path) -> None:
    facts = the_object(phalanx("sim", "run", scenario, "--seed", 3, "--json"))
    assert facts["seed"] == 3
    assert facts["failed"] is False
    assert facts["properties"]["integrity"]["verdict"] == "holds"
    assert facts["simulated_seconds_per_second"] > 0
    assert len(facts["digest"]) == 32
    assert facts["faults"]["loss"] > 0


def test_events_that_were_written_are_judged_the_same_when_read(
    scenario: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    ran = the_object(phalanx("sim", "run", scenario, "--events", events, "--json"))
    again = the_object(phalanx("sim", "replay", events, "--json"))
    assert again["digest"] == ran["digest"]
    assert again["as_recorded"] is True
    assert again["violated"] == []
    assert again["rows"] == ran["rows"]
    assert "as recorded" in phalanx("sim", "replay", events).stdout


def test_events_that_break_a_promise_exit_1_with_a_story(scenario: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    phalanx("sim", "run", scenario, "--events", events)
    lines = events.read_text().splitlines(keepends=True)
    sends = [i for i, line in enumerate(lines) if '"table":"sent"' in line]
    forged = lines[sends[0]].replace('"service":"', '"service":"SAFE", "x":"', 1)
    lines[sends[0]] = forged
    events.write_text("".join(lines))
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 1
    assert "NOT the recorded one" in result.stdout
    assert "violated" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("members = [", ":1: "),
        (SMALL.replace("loss_ppm = 50_000", "loss_ppm = -1"), ":4: network.loss_ppm = -1"),
        (SMALL.replace('from = "bea"', 'from = "eve"'), ":10: unknown member 'eve'; choose among"),
    ],
)
def test_a_bad_scenario_is_one_line_and_exit_2(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    result = phalanx("sim", "run", path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert f"bad.toml{message}" in result.stderr


def test_a_file_that_is_not_events_is_one_line_and_exit_2(scenario: Path) -> None:
    result = phalanx("sim", "replay", scenario)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "small.toml:1: not a file of phalanx events" in result.stderr


@pytest.mark.parametrize("place", ["small.toml/x", "none/x", "."])
@pytest.mark.parametrize("option", ["--events", "--save", "--shrink"])
def test_a_place_that_cannot_be_written_is_one_line_and_exit_2_before_anything_is_played(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, place: str, option: str
) -> None:
    def play(*_: object) -> None:
        raise AssertionError("nothing must be played")

    monkeypatch.setattr(commands, "run", play)
    what = ["run", scenario] if option == "--events" else ["replay", "--seed", 1]
    result = phalanx("sim", *what, option, scenario.parent / place)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "choose a place that can be written" in result.stderr


def test_a_sweep_without_failures_exits_0_with_its_keys() -> None:
    result = phalanx("sim", "sweep", "--seeds", "0:4", "--members", "2:3", "--jobs", 1, "--json")
    assert result.exit_code == 0
    facts = the_object(result)
    assert facts["runs"] == 4
    assert (facts["violations"], facts["stuck"]) == (0, 0)
    assert facts["lowest_failing_seed"] is None
    for key in ("faults", "properties", "wall_seconds", "seeds_per_second", "simulated_seconds"):
        assert facts[key]
    assert "never_evaluated" in facts
    assert result.stderr == ""


def test_a_sweep_that_fails_exits_1_with_seed_replay_line_and_story(broken: str) -> None:
    command = ["sim", "sweep", "--seeds", "0:2", "--members", "2:3", "--jobs", "1"]
    result = phalanx(*command, "--mutant", broken, "--json")
    assert result.exit_code == 1
    facts = the_object(result)
    assert facts["lowest_failing_seed"] == 0
    line = "phalanx sim replay --seed 0 --members 2:3 --mutant repeating"
    assert facts["replay"] == line
    assert f"replay: {line}\n" in result.stderr
    assert "lowest failing seed: 0" in result.stderr
    assert "delivers" in result.stderr


def test_a_replay_saves_and_shrinks_what_failed(broken: str, tmp_path: Path) -> None:
    whole, small = tmp_path / "whole.toml", tmp_path / "small.toml"
    command = ["sim", "replay", "--seed", 8, "--members", "2:3", "--mutant", broken]
    result = phalanx(*command, "--save", whole, "--shrink", small)
    assert result.exit_code == 1
    assert "no-duplication" in result.stdout
    assert len(small.read_text()) < len(whole.read_text())
    assert load(small).seed == 8
    line = f"phalanx sim run {small} --mutant {broken}"
    assert f"run it: {line}\n" in result.stderr
    assert phalanx(*line.split()[1:]).exit_code == 1
    assert phalanx("sim", "run", small).exit_code == 0, "the mutant is gone"


def test_a_sweep_that_shrinks_tells_how_to_run_the_smaller_failure(
    broken: str, tmp_path: Path
) -> None:
    command = ["sim", "sweep", "--seeds", "8:9", "--members", "2:3", "--jobs", "1", "--shrink"]
    result = phalanx(*command, "--mutant", broken)
    assert result.exit_code == 1
    told = result.stderr.partition("# smaller, after ")[2]
    assert f"#   phalanx sim run small.toml --mutant {broken}\n" in told
    small = tmp_path / "small.toml"
    small.write_text("# " + told)
    assert phalanx("sim", "run", small, "--mutant", broken).exit_code == 1


def test_a_seed_that_passes_is_not_shrunk_and_that_is_said(tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    result = phalanx("sim", "replay", "--seed", 8, "--members", "2:3", "--shrink", small)
    assert result.exit_code == 0
    assert result.stderr == "nothing to shrink: seed 8 does not fail\n"
    assert not small.exists()


def test_a_replay_of_a_good_seed_exits_0_and_saves_it(tmp_path: Path) -> None:
    saved = tmp_path / "saved.toml"
    seed = ["--seed", 8, "--members", "2:3"]
    replayed = the_object(phalanx("sim", "replay", *seed, "--save", saved, "--json"))
    assert the_object(phalanx("sim", "run", saved, "--json"))["digest"] == replayed["digest"]


def test_the_demo_shows_views_deliveries_and_verdicts() -> None:
    result = phalanx("sim", "demo")
    assert result.exit_code == 0
    for word in ("views", "basic:", "causal:", "agreed:", "safe:", "holds", "running-prefix"):
        assert word in result.stdout
    assert "violated" not in result.stdout
    agreed = result.stdout.split("agreed:")[1].split("\n\n")[0].splitlines()[1:]
    together = [re.split(" [A-Z]: ", line)[1] for line in agreed if " F: " in line]
    assert len(together) == 5  # all but the second life of dov were in the first common view
    assert len(set(together)) == 1
    assert the_object(phalanx("sim", "demo", "--json"))["failed"] is False


def test_a_worker_that_dies_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> Iterator[None]:
        yield from ()
        raise WorkerDied

    monkeypatch.setattr(sweeping, "in_order", die)
    result = phalanx("sim", "sweep", "--seeds", "0:4")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "a worker process died" in result.stderr


def test_one_member_is_not_called_members(tmp_path: Path) -> None:
    path = tmp_path / "alone.toml"
    path.write_text('members = ["ada"]\nname = "a\\nb"\n')
    result = phalanx("sim", "run", path)
    assert result.stdout.startswith("a\\nb, seed 0: 1 member, ")


def test_the_line_of_progress_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((20, 5)))
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    watch = ProgressLine(1_000_000_000)
    watch(Tally())
    watch.close()
    lines = capsys.readouterr().err.split("\r")
    assert lines[1].startswith("0/1000000000 runs")
    assert {len(line) for line in lines if line} == {19}
