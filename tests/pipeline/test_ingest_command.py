"""`phalanx ingest`: a line of what was done, a line of what is wrong, and kills at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from tests.journal.journal_folder import header, keep, rows, segment
from tests.pipeline.daemons import PACKAGES
from tests.pipeline.lakes import Contents, held, written
from tests.verify.trace_builder import odyssey

from phalanx.cli.ingest import progress
from phalanx.cli.main import main
from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Event
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.lake.lake import Lake, is_lake, tables_in

SECONDS_MAX = 60.0


def phalanx(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_ingest_says_what_it_took_and_which_version_it_is(tmp_path: Path) -> None:
    keep(tmp_path / "j", odyssey().rows)
    lake = tmp_path / "lake"
    first = phalanx("ingest", tmp_path / "j", "--into", lake)
    assert first.exit_code == 0
    assert first.stdout.startswith("5 segments taken (0 again), 200 rows; 0 were there before;")
    assert first.stdout.endswith(f"{lake} is at version 1\n")
    again = json.loads(phalanx("ingest", tmp_path / "j", "--into", lake, "--json").stdout)
    assert (again["version"], again["segments"], again["before"]) == (1, 0, 5)
    late = phalanx("ingest", tmp_path / "j", "--into", tmp_path / "l", "--since", "2100-01-01")
    assert "0 segments taken" in late.stdout
    assert "5 ended before 2100-01-01" in late.stdout
    segment(tmp_path, rows(1, 3))
    newer = phalanx("ingest", tmp_path, "--into", lake, "--since", "1", "--json")
    assert json.loads(newer.stdout)["segments"] == 1


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "-1"])
def test_since_must_be_a_version_or_an_instant(tmp_path: Path, since: str) -> None:
    result = phalanx("ingest", tmp_path, "--into", tmp_path / "lake", f"--since={since}")
    assert result.exit_code == 2
    assert "neither a version nor an instant, for example" in result.stderr


def test_what_cannot_be_taken_is_one_line_and_exit_2(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "x.phj").write_bytes(b"nonsense")
    (tmp_path / "other" / "x").touch()
    red = tmp_path / "red"
    red.mkdir()
    segment(red, rows(1, 3), cluster=red.name, journal=red.name)
    for given, told in [
        ((tmp_path / "empty", "--into", lake), "empty: there are no journals (*.phj) in"),
        ((tmp_path / "x.phj", "--into", lake), "x.phj: not a journal; give *.phj that"),
        ((tmp_path / "absent", "--into", lake), "absent: cannot be read (No such file"),
        ((red, "--into", tmp_path / "other"), "other: it holds something that is no lake"),
        ((red, "--into", lake, "--since", "7"), "lake: there is no table `versions` in it"),
    ]:
        result = phalanx("ingest", *given)
        assert result.exit_code == 2, result.output
        (line,) = result.stderr.splitlines()
        assert told in line
        assert not lake.exists()


def test_only_long_work_tells_of_its_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress("taken") as tell:
        for now in (1.0, 2.5, 5.0, 13.0):
            tell(int(now * 1e6), 20_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["2 of 20 MB taken, 2 s", "13 of 20 MB taken, 13 s"]


def test_of_processes_that_ingest_at_once_each_succeeds_or_is_refused(tmp_path: Path) -> None:
    files = sorted(fleet(tmp_path / "fleet").glob("*.phj"))
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "phalanx", "ingest", "--into", str(lake)]
    processes = [
        subprocess.Popen(
            [*command, *map(str, files[first::4])],
            env=os.environ | {"PYTHONPATH": str(PACKAGES)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in range(4)
    ]
    for process in processes:
        _, told = process.communicate(timeout=SECONDS_MAX)
        errors = [line for line in told.splitlines() if line.startswith("phalanx: ")]
        assert (process.returncode, len(errors)) in ((0, 0), (2, 1)), told
        assert "Traceback" not in told
    assert phalanx("ingest", tmp_path / "fleet", "--into", lake).exit_code == 0
    assert held(lake) == written(tmp_path / "fleet")
    assert phalanx("lake", "vacuum", lake, "--keep", "0h").exit_code == 0
    check_heads(lake)


# ---------------------------------------------------------------------- kill -9

SLOWLY = """
import os, sys, time
from phalanx.journal import parquet_writer
from phalanx.pipeline import ingest
from phalanx.pipeline.lake import lake, lake_file, lake_transaction

def slowly(function):
    def wrapped(*given, **named):
        time.sleep(0.01)
        made = function(*given, **named)
        time.sleep(0.01)
        return made
    return wrapped

for place, name in [(lake_file.PartitionWriter, "finish"),
                    (parquet_writer.ParquetFileWriter, "show"),
                    (lake_transaction.LakeTransaction, "_apply"),
                    (lake_transaction, "create_table"),
                    (lake_transaction.LakeTransaction, "write"), (lake_transaction, "_sweep")]:
    setattr(place, name, slowly(getattr(place, name)))
ingest.TASK_BYTES, ingest.SMALL_BYTES = 1, 0
spark = None
if sys.argv[3] == "workers":
    from phalanx.pipeline import session
    spark = session.session(quick=True, memory="1g")
print("ready", flush=True)
ingest.ingest(sys.argv[1:2], sys.argv[2], spark=None if spark is None else lambda: spark)
if sys.argv[3] == "maintained":
    from phalanx.pipeline.lake import lake_maintenance
    lake_maintenance._remove_files = slowly(lake_maintenance._remove_files)
    lake_maintenance._trim_log = slowly(lake_maintenance._trim_log)
    lake_maintenance.LOG_BYTES = 0
    lake_maintenance.compact(lake.Lake(sys.argv[2]))
    lake_maintenance.vacuum(lake.Lake(sys.argv[2]))
print("done", flush=True)
"""
"""An ingest that spends most of its time between two steps, so that is where it dies."""


def fleet(folder: Path) -> Path:
    """Journals of four members, in segments that are sealed, and one each that is not."""
    folder.mkdir()
    for member in range(4):
        name = {"member": f"m{member}", "journal": f"{member:032x}"}
        for number in (1, 2, 3):
            some = [_of(r, f"m{member}") for r in rows(9 * number - 8, 9 * number)]
            file = SegmentFile(folder, header(number=number, **name))
            file.append(rows_block(some), some)
            file.seal()
        segment(folder, [_of(r, f"m{member}") for r in rows(28, 30)], number=4, **name)
    return folder


def _of(row: Event, member: str) -> Event:
    return msgspec.structs.replace(row, member=member)


def disturbed(journals: Path, lake: Path, by: str, seconds: float | None) -> tuple[bool, float]:
    """Runs an ingest and kills it after so long: whether it was still running, and how long it
    ran."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, "-c", SLOWLY, str(journals), str(lake), by]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_MAX if seconds is None else seconds)
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS_MAX)
    return process.returncode == -signal.SIGKILL, time.monotonic() - began


def survives(folder: Path, seed: int, kills: int, by: str) -> None:
    """After each kill nothing or everything is visible, and the next ingest makes it good."""
    chance = random.Random(seed)
    journals = fleet(folder / "fleet")
    expected = written(journals)
    _, whole = disturbed(journals, folder / "undisturbed", by, None)
    assert held(folder / "undisturbed") == expected
    hits = 0
    for attempt in range(3 * kills):
        lake = folder / f"lake{attempt}"
        hit, _ = disturbed(journals, lake, by, chance.uniform(0.0, whole))
        hits += hit
        if is_lake(lake):
            assert held(lake) in ({}, expected), f"half an ingest is visible (seed {seed})"
        assert phalanx("ingest", journals, "--into", lake).exit_code == 0
        assert held(lake) == expected, f"attempt {attempt} of seed {seed}"
        check_heads(lake)
        if hits == kills:
            return
    raise AssertionError(f"only {hits} of {kills} kills hit a running ingest")


def check_heads(lake: Path) -> None:
    """Each Delta table is, for those who read it without `versions`, what the lake says it is, and
    no files are left over."""
    snapshot = Lake(lake).snapshot()
    for table in tables_in(lake):
        listed = {file.path for file in snapshot.files(table)}
        assert set(DeltaTable(str(lake / table)).file_uris()) == listed, table
        assert {str(path) for path in (lake / table).glob("*.parquet")} == listed, table


def stays_whole(folder: Path, seed: int, rounds: int) -> None:
    """One lake, journals that grow, and a kill in each round while they are ingested and the lake
    is compacted and vacuumed: each row is there once, of what was in the journals at some time."""
    chance = random.Random(seed)
    journals, lake = fleet(folder / "fleet"), folder / "lake"
    states: list[Contents] = [{}]
    for number in range(rounds):
        for member in range(4):
            path = journals / f"g-m{member}-000001-000004.phj"
            first = 31 + 3 * number
            some = [_of(r, f"m{member}") for r in rows(first, first + 2)]
            path.write_bytes(path.read_bytes() + rows_block(some))
        states.append(written(journals))
        disturbed(journals, lake, "maintained", chance.uniform(0.0, 3.0))
        found = held(lake) if is_lake(lake) else {}
        assert found in states, f"round {number} of seed {seed}"
        states = states[states.index(found) :]  # it never goes back
    assert phalanx("ingest", journals, "--into", lake).exit_code == 0
    assert held(lake) == written(journals)
    assert phalanx("lake", "vacuum", lake, "--keep", "0h").exit_code == 0
    check_heads(lake)
    assert held(lake) == written(journals)


def test_a_lake_stays_whole_when_its_maintenance_is_killed(tmp_path: Path) -> None:
    stays_whole(tmp_path, seed=1, rounds=3)


def test_an_ingest_that_was_killed_is_made_good_by_the_next(tmp_path: Path) -> None:
    survives(tmp_path, seed=1, kills=3, by="itself")


@pytest.mark.slow
@pytest.mark.parametrize(("by", "kills"), [("itself", 20), ("workers", 5)])
def test_an_ingest_that_was_killed_at_any_moment_is_made_good_by_the_next(
    tmp_path: Path, by: str, kills: int
) -> None:
    survives(tmp_path, seed=2, kills=kills, by=by)


@pytest.mark.slow
def test_a_lake_stays_whole_when_its_maintenance_is_killed_at_any_moment(tmp_path: Path) -> None:
    stays_whole(tmp_path, seed=2, rounds=20)
