"""`phalanx watch`: options, output and exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from tests.pipeline.watch.live_journals import (
    LiveJournals,
    simulated_journals,
    with_a_lost_message,
)
from tests.pipeline.watch.test_alerts import Receiver, check_open_metrics

from phalanx.cli.main import main
from phalanx.errors import PipelineError
from phalanx.pipeline.watch.open_metrics import MetricFamily, write_metrics

NUMBERS = (
    *("--every", "--for", "--grace", "--open-every"),
    *("--silent", "--view-changes", "--p99-ms", "--loss"),
)


def watch(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["watch", *map(str, arguments)])


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journals in which a message is lost."""
    folder = tmp_path_factory.mktemp("watch") / "journals"
    live = LiveJournals(folder, with_a_lost_message(simulated_journals(1)))
    live.grow(1)
    live.close()
    return folder


def test_once_tells_of_a_violation_everywhere(broken: Path, tmp_path: Path) -> None:
    receiver = Receiver()
    metrics, lake = tmp_path / "metrics.txt", tmp_path / "lake"
    done = watch(
        *(broken, "--into", lake, "--once", "--json", "--view-changes", "0.1"),
        *("--webhook", receiver.url, "--metrics", metrics),
    )
    receiver.close()
    assert done.exit_code == 1, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    verdicts = [line["unit"]["verdict"] for line in lines if line["event"] == "verdict"]
    (violated,) = [v for v in verdicts if v["verdict"] == "violated"]
    assert "virtual-synchrony" in violated["violated"]
    alerts = [line["alert"] for line in lines if line["event"] == "raised"]
    assert {alert["kind"] for alert in alerts} == {"violation", "view-changes"}
    assert [body["alert"] for _, body in receiver.bodies] == alerts
    found = check_open_metrics(metrics.read_text())
    assert found["phalanx_watch_alert"] == len(alerts) - 1, "a violation does not stand"
    again = watch(lake, "--once", "--json")
    assert (again.exit_code, again.stdout) == (0, ""), "it was judged before"


def test_other_alerts_fail_only_if_asked(tmp_path: Path) -> None:
    live = LiveJournals(tmp_path / "journals", simulated_journals(1))
    live.grow(1)
    live.close()
    options = ["--once", "--view-changes", "0.1"]
    mild = watch(tmp_path / "journals", "--into", tmp_path / "one", *options)
    hard = watch(tmp_path / "journals", "--into", tmp_path / "two", *options, "--fail-on-alert")
    assert (mild.exit_code, hard.exit_code) == (0, 4), mild.output + hard.output
    assert "view-changes of group g1" in mild.stdout


def test_it_ends_after_the_given_time(tmp_path: Path) -> None:
    live = LiveJournals(tmp_path / "journals", simulated_journals(1))
    live.grow(0.3)
    live.close()
    done = watch(tmp_path / "journals", "--into", tmp_path / "lake", "--for", 0.1, "--every", 0)
    assert done.exit_code == 0, done.output


def test_metrics_that_cannot_be_written_do_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveJournals(tmp_path / "journals", simulated_journals(1))
    live.grow(1)
    live.close()
    metrics, full = tmp_path / "metrics.txt", [True]

    def write(path: Path, families: Iterable[MetricFamily]) -> None:
        if full:
            full.pop()
            raise PipelineError(str(path), "No space left on device", "make room")
        write_metrics(path, families)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("phalanx.pipeline.watch.open_metrics.write_metrics", write)
    options = ["--metrics", metrics, "--every", 0, "--for", 60]
    done = watch(tmp_path / "journals", "--into", tmp_path / "lake", *options)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("No space left on device; make room; trying again") == 1
    assert "phalanx_watch_problems_total 1\n" in metrics.read_text()


def test_groups_of_one_name_in_several_runs_have_samples_of_their_own(tmp_path: Path) -> None:
    for seed in (1, 2):
        made = [
            (replace(header, group="g"), [replace(row, group="g") for row in rows])
            for header, rows in simulated_journals(seed)
        ]
        live = LiveJournals(tmp_path / "journals" / str(seed), made)
        live.grow(1)
        live.close()
    metrics = tmp_path / "metrics.txt"
    done = watch(tmp_path / "journals", "--into", tmp_path / "lake", "--once", "--metrics", metrics)
    assert done.exit_code == 0, done.output
    check_open_metrics(metrics.read_text())


def test_alerts_that_could_not_be_sent_are_reported(broken: Path, tmp_path: Path) -> None:
    done = watch(broken, "--into", tmp_path / "lake", "--once", "--webhook", "http://127.0.0.1:9/")
    assert done.exit_code == 1
    assert "1 alerts could not be sent" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere", "--once"], "nowhere"),
        (["one", "two"], "--into"),
        (["nowhere", "--into", "lake", "--once"], "nowhere"),
        (["nowhere", "--webhook", "ftp://x"], "webhook"),
        (["nowhere", "--alerts", "missing.toml"], "missing.toml"),
        (["nowhere", "--webhook", "http://[x"], "webhook"),
        (["nowhere", "--metrics", "missing/metrics.txt"], "missing/metrics.txt"),
        (["nowhere", "--metrics", ""], "is a directory"),
        *((["nowhere", option, "nan"], "is not a number") for option in NUMBERS),
    ],
)
def test_bad_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = watch(*arguments)
    assert done.exit_code == 2, done.output
    assert problem in done.stderr
