"""The order of trials and what is made of them, with systems that answer from a list."""

from __future__ import annotations

import json
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from phalanx.benchmark import journal_verdict as verify
from phalanx.benchmark import suite as suites
from phalanx.benchmark.measure import Change, Flood, Times, percentile
from phalanx.benchmark.phalanx_system import Loopback, PhalanxSystem
from phalanx.benchmark.process_group import ProcessGroup, TrialFailed
from phalanx.benchmark.suite import Suite, SuiteRow, summary, warning
from phalanx.benchmark.tables_text import closing, number, table
from phalanx.benchmark.trial import Trial
from phalanx.benchmark.usage import Cost


class Pretended:
    n = 4

    def __init__(self, name: str, *answers: Any, services: tuple[str, ...] = ("agreed",)) -> None:
        self.name = name
        self.answers = list(answers)
        self.services = services

    def start_group(self, task: Trial) -> AbstractContextManager[ProcessGroup]:
        raise AssertionError("nothing is started here")

    def next(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def flooded(rate: float, views: int = 0) -> Flood:
    return Flood(rate, rate * 100, 0.5, 40_000_000, views, 0.1, [])


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def shown() -> list[tuple[str, list[SuiteRow]]]:
    return []


@pytest.fixture
def suite(
    monkeypatch: pytest.MonkeyPatch, said: list[str], shown: list[tuple[str, list[SuiteRow]]]
) -> Suite:
    for name in ("flood", "latency", "idle"):
        monkeypatch.setattr(suites, name, lambda system, *_: system.next())
    monkeypatch.setattr(suites, "failover", lambda system, *_: iter(system.answers))
    return Suite(
        seconds=1,
        warm=0.5,
        trials=3,
        say=said.append,
        show=lambda title, rows: shown.append((title, rows)),
    )


def test_sides_take_turns_and_ratios_are_those_of_medians(suite: Suite, said: list[str]) -> None:
    ours = Pretended("phalanx", flooded(800), flooded(100), flooded(600))
    theirs = Pretended("corosync", flooded(30), flooded(20), flooded(40))
    suite.throughput([ours, theirs], 100, "agreed")
    assert [line.rpartition(": ")[2] for line in said] == [
        f"{name}, trial {k} of 3" for k in (1, 2, 3) for name in ("phalanx", "corosync")
    ]
    first, second = suite.rows
    assert (first.median, second.median) == (600, 30)
    assert first.ratios == {"corosync": 20.0}
    assert first.more["mb_per_s"] == pytest.approx(0.06)


def test_a_side_is_not_asked_for_what_it_does_not_offer(suite: Suite) -> None:
    ours = Pretended("phalanx", *[flooded(1)] * 3, services=("safe", "agreed"))
    suite.throughput([ours, Pretended("corosync")], 100, "safe")
    assert [row.side for row in suite.rows] == ["phalanx"]


def test_a_trial_that_fails_is_told_and_the_others_count(suite: Suite, said: list[str]) -> None:
    suite.throughput([Pretended("p", flooded(5), TrialFailed("no"), flooded(7))], 10, "agreed")
    assert suite.rows[0].values == [5, 7]
    assert suite.failures == ["throughput, 4 members, agreed, 10 B: p: no"]
    assert any(line.startswith("FAILED") for line in said)
    suite.throughput([Pretended("p", *[TrialFailed("no")] * 3)], 10, "agreed")
    assert len(suite.rows) == 1


def test_latencies_are_percentiles_of_each_trial(suite: Suite) -> None:
    times = Times(list(range(1000, 101_000, 1000)), 0.1)
    suite.latency([Pretended("p", times, times, times)], 100, "agreed", 200, senders=1)
    assert [(row.measure, row.median) for row in suite.rows] == [
        ("p50 us", 51.0),
        ("p99 us", 100.0),
    ]


def test_a_percentile_of_few_values_is_one_of_them() -> None:
    assert [percentile([7], share) for share in (0.0, 0.5, 0.99, 1.0)] == [7] * 4


def test_changes_of_view_are_gathered_by_kind(suite: Suite) -> None:
    changes = [Change("kill", 1.0), Change("cut", 2.0), Change("heal", 0.2)] * 2
    ours, theirs = Pretended("p", *changes), Pretended("c", *changes[:3])
    suite.failover([ours, theirs], 2, None)
    assert [(row.side, row.measure, row.values) for row in suite.rows] == [
        ("p", "kill s", [1.0, 1.0]),
        ("c", "kill s", [1.0]),
        ("p", "cut s", [2.0, 2.0]),
        ("c", "cut s", [2.0]),
        ("p", "heal s", [0.2, 0.2]),
        ("c", "heal s", [0.2]),
    ]


def test_traffic_is_told_only_where_it_can_be_seen(suite: Suite) -> None:
    suite.idle([Pretended("p", Cost(0.01, 30_000_000, 0.0, 0.0))], 5)
    assert [row.measure for row in suite.rows] == ["cpu %", "rss MB"]


def test_every_trial_with_journals_is_checked_once(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = PhalanxSystem("phalanx", Loopback(4), journal=tmp_path)
    answers = {"a": "holds", "b": "VIOLATED (fifo): see b"}
    monkeypatch.setattr(suites, "verdict", lambda folder: answers[folder.name])
    monkeypatch.setattr(suites, "idle", lambda *_: Cost(0, 0, 0, 0))
    system.journals = [tmp_path / "a"]
    suite.idle([system], 1)
    system.journals = [tmp_path / "a", tmp_path / "b"]
    answers.pop("a")
    suite.idle([system], 1)
    assert suite.violated
    suite.calibrations = [0.1, 0.129]
    assert closing(suite) == [
        "journals of 2 trials checked:",
        "  1: holds",
        "  1: VIOLATED (fifo): see b",
        "a fixed loop took 100 to 129 ms before the trials: steady machine",
    ]
    suite.calibrations = [0.1, 0.208]
    assert closing(suite)[-1].endswith("100 to 208 ms before the trials: UNSTEADY machine")


def test_a_summary_holds_all_values(suite: Suite) -> None:
    suite.throughput([Pretended("p", flooded(3), flooded(1), flooded(2))], 10, "agreed")
    row = summary(suite, {"cores": 2})["rows"][0]
    assert (row["values"], row["median"], row["low"], row["high"]) == ([3, 1, 2], 2, 1, 3)


def test_a_busy_machine_is_told() -> None:
    assert warning(0.1) == warning(None) == ""
    assert "load 1.50" in warning(1.5)


def test_a_table_shows_medians_ranges_and_ratios() -> None:
    more = {
        "mb_per_s": 79.4,
        "cpu_share": 0.43,
        "rss_mb": 40.21,
        "views_changed": 2,
        "others": 0.66,
    }
    rows = [
        SuiteRow(
            what="throughput",
            side="phalanx",
            measure="messages/s",
            values=[794_000.4, 735_000.0, 929_000.0],
            members=4,
            more=more,
            ratios={"corosync": 22.43},
        )
    ]
    marks = " VIEWS CHANGED 2 times; OTHERS TOOK 0.66 CORES"
    assert table("title", rows, "corosync") == [
        "title",
        "                                               median         low        high  x corosync",
        "  phalanx                   messages/s        794,000     735,000     929,000  22.4",
        f"{'':28}79.4 MB/s, 43% of a core and 40.2 MB a member;{marks}",
    ]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (2, None),
        (3, "0 1 2"),
        (11, "0 1 2 3 4 5 6 7 8 9 10"),
        (101, "0 10 20 30 40 50 60 70 80 90 100"),
    ],
)
def test_a_table_shows_how_changes_of_view_are_spread(count: int, told: str | None) -> None:
    values = [float(k) for k in reversed(range(count))]
    row = SuiteRow(what="failover", side="phalanx", measure="kill s", values=values, members=4)
    last = table("title", [row], "corosync")[2:]
    assert [line.strip() for line in last[1:]] == ([told] if told else [])


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (1234.5, "1,234")]
)
def test_numbers_have_the_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def answer(**verdicts: str) -> str:
    properties = {name: {"verdict": verdict} for name, verdict in verdicts.items()}
    return json.dumps({"groups": [{"properties": properties}]})


@pytest.mark.parametrize(
    ("code", "out", "err", "text"),
    [
        (0, answer(fifo="holds", safe="unverifiable"), "", "holds (1 properties checked)"),
        (0, "{}", "", "holds"),
        (1, answer(fifo="violated", safe="holds"), "", "VIOLATED (fifo): see"),
        (1, "what?", "", "VIOLATED: see"),
        (2, "", "phalanx: no journals", "not verified: no journals"),
        (2, "", "", "not verified: no message"),
    ],
)
def test_a_verdict_says_what_the_checkers_said(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, text: str
) -> None:
    done = subprocess.CompletedProcess([], code, out, err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert verify.verdict(Path("x")).startswith(text)
