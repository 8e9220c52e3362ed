"""`phalanx sim replay FILE`: what a record of events says about itself when read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from phalanx.cli.main import main

SCENARIO = """\
members = ["ada", "bea", "cyd"]
[[traffic]]
from = "ada"
count = 5
"""
STUCK = """\
members = ["ada", "bea"]
patience_ns = 50_000_000
[network]
loss_ppm = 1_000_000
[[traffic]]
from = "ada"
"""


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def record(folder: Path, scenario: str = SCENARIO) -> Path:
    path, events = folder / "scenario.toml", folder / "events.jsonl"
    path.write_text(scenario)
    phalanx("sim", "run", path, "--events", events)
    return events


def replayed(events: Path) -> dict[str, Any]:
    loaded = json.loads(phalanx("sim", "replay", events, "--json").stdout)
    assert isinstance(loaded, dict)
    return loaded


def test_a_run_that_was_stuck_is_stuck_when_read_again(tmp_path: Path) -> None:
    events = record(tmp_path, STUCK)
    played = json.loads(phalanx("sim", "run", tmp_path / "scenario.toml", "--json").stdout)
    assert played["stuck"] is True
    assert played["violated"]
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 1
    assert "stuck, as recorded: not settled 50000000 ns after" in result.stdout
    facts = replayed(events)
    assert "not settled" in facts["stuck"]
    assert facts["exception"] is None
    assert facts["damage"] == []
    assert facts["violated"] == list(played["violated"])


def test_a_run_that_an_exception_ended_says_so_when_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from phalanx.core.member.member import Member

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Member, "step", fail)
        events = record(tmp_path)
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 1
    assert "exception, as recorded: RuntimeError: a bug\n" in result.stdout
    assert "RuntimeError: a bug" in replayed(events)["exception"]
    assert replayed(events)["violated"] == [], "what an error cut short is not held against it"


Change = Callable[[list[str]], list[str]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[:1], ["there are no rows"]),
        (lambda lines: lines[:3] + lines[4:], ["ada.1: row 3 is missing"]),
        (lambda lines: [lines[0], *lines[3:]], ["ada.1: rows 1 to 2 are missing"]),
        (lambda lines: lines[:2] + lines[1:], ["ada.1: row 1 is there twice"]),
        (lambda lines: lines[:-1], []),
    ],
    ids=["none", "gap", "beginning", "doubled", "end"],
)
def test_rows_that_are_lost_or_doubled_are_damage_and_exit_1(
    tmp_path: Path, change: Change, told: list[str]
) -> None:
    events = record(tmp_path)
    assert phalanx("sim", "replay", events).exit_code == 0
    events.write_text("".join(change(events.read_text().splitlines(keepends=True))))
    told = [*told, "the digest is not the recorded one: rows were changed, lost or moved"]
    assert replayed(events)["damage"] == told
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("damage: ")] == [
        f"damage: {what}" for what in told
    ]


def test_much_damage_is_cut_to_a_screenful(tmp_path: Path) -> None:
    events = record(tmp_path)
    header, *rows = events.read_text().splitlines(keepends=True)
    events.write_text("".join([header, *rows, *rows]))
    lines = phalanx("sim", "replay", events).stdout.splitlines()
    assert len([line for line in lines if line.startswith("damage: ")]) == 21


def test_events_without_a_recorded_digest_are_judged_without_it(tmp_path: Path) -> None:
    events = record(tmp_path)
    _, *rows = events.read_text().splitlines(keepends=True)
    events.write_text('{"phalanx_events":1,"manifest":{}}\n' + "".join(rows))
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 0
    assert "none was recorded" in result.stdout
    assert replayed(events)["as_recorded"] is None


def test_a_manifest_of_another_shape_is_one_line_and_exit_2(tmp_path: Path) -> None:
    events = tmp_path / "x.jsonl"
    events.write_text('{"phalanx_events":1,"manifest":{"stuck":7}}\n')
    result = phalanx("sim", "replay", events)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "x.jsonl:1: a strange manifest" in result.stderr


def test_a_delivery_from_a_stranger_violates_integrity(tmp_path: Path) -> None:
    events = record(tmp_path)
    text = events.read_text()
    assert '"sender":"ada"' in text
    events.write_text(text.replace('"sender":"ada"', '"sender":"eve"', 1))
    assert "integrity" in replayed(events)["violated"]
