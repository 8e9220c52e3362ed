"""Audits of plans with small and large groups, from raw journals, exports and lakes: the verdicts
and counts are those of groups that are judged as a whole, in this process and on Spark."""

from __future__ import annotations

from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.audit import situations
from tests.pipeline.audit.played import Played

from phalanx.errors import JournalError
from phalanx.journal.blocks import rows_block
from phalanx.journal.parquet_export import export
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline import audit
from phalanx.pipeline.audit import (
    Audit,
    RunVerdicts,
    audit_groups,
    audit_plan,
    plan_audit,
    wanted,
)
from phalanx.pipeline.audit.judge import judge_large_group
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.engine import Engine
from phalanx.pipeline.group_plan import by_group, plan_groups, rows_of
from phalanx.pipeline.group_tables import read_groups
from phalanx.pipeline.ingest import ingest

LARGE_ROWS = 13
"""Some of the groups have more rows, some have less."""
NAMES = ("virtual-synchrony", "causal", "weak-total-order", "fifo")
LEGAL = "calm"


def written(runs: list[Played], folder: Path) -> Path:
    """Raw journals, a few rows in a block. Every second one is not sealed."""
    for run in runs:
        place = folder / run.name
        place.mkdir(parents=True)
        for i, (header, rows) in enumerate(run.journals()):
            journal = blake2b(header.journal.encode(), digest_size=16).hexdigest()
            file = SegmentFile(place, msgspec.structs.replace(header, journal=journal))
            for at in range(0, len(rows), 5):
                some = rows[at : at + 5]
                file.append(rows_block(some), some)
            if i % 2:
                file.seal()
            else:
                file.abandon()
    return folder


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [run for run in situations.broken() if run.name in NAMES]
    runs += [run for run in situations.kept() if run.name == LEGAL]
    return written(runs, tmp_path_factory.mktemp("large") / "journals")


@pytest.fixture(scope="module")
def whole(raw: Path) -> Audit:
    return audit_groups(read_groups([raw]))


@pytest.fixture(params=["raw", "exported", "lake"])
def place(request: pytest.FixtureRequest, raw: Path, tmp_path: Path) -> Path:
    if request.param == "exported":
        export([raw], tmp_path / "exported", cut_short=True)
        return tmp_path / "exported"
    if request.param == "lake":
        ingest([raw], tmp_path / "lake")
        return tmp_path / "lake"
    return raw


def facts(found: Audit) -> dict[str, Any]:
    return {
        run.run: {name: (r.verdict, r.violations) for name, r in run.properties.items()}
        for run in found.runs
    }


def in_parts(path: Path, engine: Engine = "local", large_rows: int = LARGE_ROWS) -> Audit:
    return audit_plan(
        plan_groups([path]),
        wanted(None),
        engine=engine,
        large_rows=large_rows,
        part_rows=7,
    )


def test_large_groups_are_judged_in_parts_and_small_ones_as_a_whole(
    place: Path, whole: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHALANX_SCRATCH", str(place.parent))
    before = set(place.parent.iterdir())
    large: list[str] = []

    def seen(group: GroupFiles, *rest: Any) -> RunVerdicts:
        large.append(group.key.run)
        return judge_large_group(group, *rest)

    monkeypatch.setattr(plan_audit, "judge_large_group", seen)
    found = in_parts(place)
    assert facts(found) == facts(whole)
    assert {run.run for run in found.runs if run.violated} == set(NAMES)
    assert 0 < len(large) < len(found.runs)
    assert {*large} & {*NAMES}, "a violation is found in parts"
    assert set(place.parent.iterdir()) == before, "what was written is removed"


def test_large_groups_are_judged_in_parts_on_spark(
    spark: SparkSession, raw: Path, whole: Audit
) -> None:
    """One of them: each takes four jobs."""
    assert facts(in_parts(raw, "spark", large_rows=20)) == facts(whole)


def test_a_group_that_is_not_large_is_not_written_to_files(
    raw: Path, whole: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are counted by the heads of blocks."""
    monkeypatch.setenv("PHALANX_SCRATCH", str(raw / "missing"))
    found = audit_plan(plan_groups([raw]), wanted(None), engine="local", large_rows=10_000)
    assert facts(found) == facts(whole)


def test_rows_are_counted_without_reading_them(place: Path, raw: Path) -> None:
    counted = {key: rows_of(task) for key, task in by_group(plan_groups([place])).items()}
    assert counted == {group.key: group.rows for group in read_groups([raw])}


def test_a_journal_that_has_gone_since_the_plan_is_named(tmp_path: Path) -> None:
    (played,) = [run for run in situations.kept() if run.name == LEGAL]
    place = written([played], tmp_path / "journals")
    plan = plan_groups([place])
    gone = Path(plan.offers[-1].copies[0].path)
    for rows in (LARGE_ROWS, 0):
        gone.unlink(missing_ok=True)
        with pytest.raises(JournalError, match=gone.name):
            audit_plan(plan, wanted(None), engine="local", large_rows=rows)


def test_the_engine_is_told_once_with_the_number_of_large_groups(raw: Path) -> None:
    told: list[str] = []
    plan = plan_groups([raw])
    audit_plan(plan, wanted(["fifo"]), tell=told.append, large_rows=LARGE_ROWS)
    (line,) = told
    assert line.startswith("engine: local, ")
    assert int(line.rpartition(": ")[2]) > 0


def test_no_exported_name_hides_a_module() -> None:
    assert [name for name in audit.__all__ if find_spec(f"{audit.__name__}.{name}")] == []
