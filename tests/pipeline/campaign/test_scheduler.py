"""Campaigns on Spark: the rows are those that one process would make, however often they are
interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from subprocess import run as run_process
from sys import executable
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from phalanx.cli.main import main
from phalanx.errors import PipelineError
from phalanx.pipeline.campaign import scheduler as waves
from phalanx.pipeline.campaign import store
from phalanx.pipeline.campaign.code_version import code_version
from phalanx.pipeline.campaign.scheduler import (
    FIRST_SEEDS,
    GROWTH_MAX,
    SPREAD,
    WaveSize,
    play_wave,
    run_campaign,
)
from phalanx.pipeline.campaign.seed_task import Campaign, play
from phalanx.pipeline.campaign.summary import summaries, summary
from phalanx.sim.sweep import Seeds, sweep

SMALL = Campaign("fixed", 2, 2)
MUTANT = "causal-without-waiting"


class Killed(Exception):
    """The driver is gone."""


class Resumed(NamedTuple):
    """A campaign of seeds 0 to 8 that was killed after its first wave, seeds 2 to 5."""

    folder: Path
    first_wave: bytes
    waves: list[store.Wave]


@pytest.fixture(scope="module")
def resumed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    def die(rows: Any) -> None:
        raise Killed

    folder = tmp_path_factory.mktemp("campaign")
    with pytest.raises(Killed):
        run_campaign(spark, SMALL, (2, 9), folder, wave=4, progress=die)
    (wave,) = store.waves_in(folder)
    kept = (folder / wave.file).read_bytes()
    return Resumed(folder, kept, run_campaign(spark, SMALL, (0, 9), folder))


def test_a_campaign_that_was_killed_goes_on_and_ends_with_what_one_process_makes(
    spark: SparkSession, resumed: Resumed
) -> None:
    folder, first_wave, waves = resumed
    assert [(w.first, w.end) for w in waves] == [(0, 2), (2, 6), (6, 9)]
    assert (folder / waves[1].file).read_bytes() == first_wave
    rows = store.rows(folder, waves).to_pylist()
    alone = [play(SMALL, waves[0].code, seed) for seed in range(9)]
    assert [row["digest"] for row in rows] == [row.digest for row in alone]
    assert [dict(row["counts"]) for row in rows] == [row.counts for row in alone]
    assert run_campaign(spark, SMALL, (1, 8), folder) == waves


def test_a_campaign_adds_up_to_what_a_sweep_does(resumed: Resumed) -> None:
    found = summary(resumed.folder, resumed.waves)
    tally = sweep(Seeds(0, 9, 2, 2), jobs=1)
    assert (found.seeds, found.steps, found.failed) == (tally.runs, tally.steps, False)
    assert (found.cases, found.faults) == (tally.cases, tally.faults)
    assert found.properties == {name: row["evaluated"] for name, row in tally.properties.items()}
    assert found.never_evaluated == tally.never_evaluated


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cluster", "connect"])
def test_seeds_come_to_the_same_on_a_cluster_and_through_connect(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue(place)
    command = [executable, "-m", "phalanx.cli.main", "campaign", "run", "--seeds", "0:9"]
    command += ["--kind", "fixed", "--members", "2:2", "--master", url, "--into", str(tmp_path)]
    done = run_process(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = store.rows(tmp_path, store.waves_in(tmp_path)).to_pylist()
    code = code_version()
    alone = [msgspec.to_builtins(play(SMALL, code, seed)) for seed in range(9)]
    for row, expected in zip(rows, alone, strict=True):
        row["counts"] = dict(row["counts"])
        assert row == expected | {"cpu_ms": row["cpu_ms"]}


def test_an_executor_with_other_code_plays_nothing(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"seeds 0:1: .*this executor has phalanx"):
        play_wave(spark, SMALL, "another", 0, 1, 1)


def test_the_pace_follows_what_a_wave_took() -> None:
    pace = WaveSize()
    assert (pace.tasks(1), pace.tasks(10), pace.tasks(500)) == (1, 2, SPREAD)
    assert pace.tasks(10_000) == 333
    slower = pace.after(FIRST_SEEDS, cpu_s=FIRST_SEEDS * 2.0, wall_s=360.0)
    assert slower.seeds == FIRST_SEEDS // 4
    assert slower.tasks(999) == 333
    assert pace.after(FIRST_SEEDS, 1.0, 0.1).seeds == FIRST_SEEDS * GROWTH_MAX


def test_the_command_lists_failing_seeds_with_the_line_that_replays_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.pipeline.session.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    arguments = ["campaign", "run", "--seeds", "0:8", "--kind", "fixed", "--members", "3:4"]
    arguments += ["--mutant", MUTANT, "--into", str(tmp_path)]
    told = CliRunner().invoke(main, [*arguments, "--json"])
    assert told.exit_code == 1, told.output
    facts = json.loads(told.stdout)
    assert facts["seeds"] == 8
    first = facts["failing"][0]
    line = f"phalanx sim replay --seed {first['seed']} --members 3:4 --kind fixed --mutant {MUTANT}"
    assert first["replay"] == line
    replayed = CliRunner().invoke(main, [*line.split()[1:], "--json"])
    assert replayed.exit_code == 1
    shown = CliRunner().invoke(main, ["campaign", "show", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"replay: {line}" in shown.stdout
    monkeypatch.setattr(
        "phalanx.pipeline.session.session", lambda *_, **__: pytest.fail("not needed")
    )
    assert CliRunner().invoke(main, arguments).stdout == shown.stdout
    assert summary(tmp_path, store.waves_in(tmp_path)) == summaries(tmp_path)[0]


def test_a_folder_without_rows_is_named(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["campaign", "show", str(tmp_path / "none")])
    assert told.exit_code == 2
    assert str(tmp_path / "none") in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_worker_that_dies_is_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(batches: Iterable[Any], campaign: dict[str, Any], code: str) -> Iterator[Any]:
        for _ in batches:
            os._exit(9)
        yield

    monkeypatch.setattr(waves, "_work", dies)
    told = r"^seeds 0:2: workers could not play them \(.*worker.*\); give them this phalanx"
    with pytest.raises(PipelineError, match=told) as caught:
        waves.play_wave(spark, Campaign("fixed", 2, 2), "code", 0, 2, 1)
    assert len(str(caught.value).splitlines()) == 1
