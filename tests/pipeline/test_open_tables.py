"""Whatever holds journals becomes the same tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.journal.journal_folder import header, keep, rows, segment
from tests.pipeline.lakes import Contents, held, in_order, written
from tests.verify.trace_builder import odyssey

from phalanx.errors import JournalError, PipelineError
from phalanx.journal import blocks
from phalanx.journal import parquet_export as parquet
from phalanx.journal.segment import header_bytes
from phalanx.pipeline import ingest as ingesting
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.open_tables import open_tables
from phalanx.pipeline.schemas import EVENTS, JOURNALS, spark_schema
from phalanx.pipeline.spark_errors import last_words
from phalanx.pipeline.tables import Tables


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tmp_path_factory.mktemp("fleet"), odyssey().rows)


def contents(tables: Tables) -> Contents:
    """Every table, as Spark tells it."""
    found = {
        name: [row.asDict() for row in tables[name].collect()]
        for name in (*EVENTS, JOURNALS)
        if name in tables._frames
    }
    return in_order(found)


def test_raw_exported_and_ingested_journals_open_as_the_same_tables(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    expected = written(fleet)
    parquet.export([fleet], tmp_path / "export")
    ingest([fleet], tmp_path / "lake")
    for path in (fleet, tmp_path / "export", tmp_path / "lake"):
        with open_tables(spark, [path]) as tables:
            assert contents(tables) == expected
    with open_tables(spark, [fleet], lake=tmp_path / "other") as tables:
        assert tables["deliver"].count() == len(expected["deliver"])
    assert [one.version for one in Lake(tmp_path / "other").versions()] == [1]


def test_large_journals_are_taken_by_workers(
    spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ingesting, "SMALL_BYTES", 0)
    monkeypatch.setattr(ingesting, "TASK_BYTES", 1)
    monkeypatch.setenv("PHALANX_SCRATCH", str(tmp_path))
    seen: list[tuple[int, int]] = []
    with open_tables(spark, [fleet], progress=lambda *told: seen.append(told)) as tables:
        assert len(list(tmp_path.glob("*/deliver/*"))) > 1
        assert contents(tables) == written(fleet)
    total = sum(path.stat().st_size for path in fleet.glob("*.phj"))
    assert seen[-1] == (total, total)
    assert list(tmp_path.iterdir()) == []


def test_workers_write_the_files_of_a_lake_and_the_driver_commits_them(
    spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ingesting, "SMALL_BYTES", 0)
    monkeypatch.setattr(ingesting, "TASK_BYTES", 1)
    ingest([fleet], tmp_path / "lake", spark=lambda: spark)
    assert len(Lake(tmp_path / "lake").snapshot().files("deliver")) > 1
    assert held(tmp_path / "lake") == written(fleet)


def test_a_lake_opens_as_it_was_at_a_version(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    files = sorted(fleet.glob("*.phj"))
    ingest(files[:1], tmp_path)
    ingest(files[1:], tmp_path)
    with open_tables(spark, [tmp_path], at=1) as tables:
        assert tables["journals"].count() == 1
    with pytest.raises(PipelineError, match="only a lake has versions"):
        open_tables(spark, [fleet], at=1).__enter__()
    with pytest.raises(PipelineError, match="a lake among other paths; give the lake alone"):
        open_tables(spark, [fleet, tmp_path]).__enter__()


def test_a_table_without_rows_is_empty_and_has_its_columns(
    spark: SparkSession, fleet: Path
) -> None:
    with open_tables(spark, [fleet]) as tables:
        assert tables["gap"].schema == spark_schema("gap")
        assert tables["gap"].isEmpty()


def test_a_segment_of_which_nothing_can_be_read_is_of_the_run_of_its_journal(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment(tmp_path, rows(1, 3))
    second = segment(tmp_path, rows(4, 6), number=2)
    nonsense = blocks._framed(blocks.ROWS, 1, 1, (4, 6, 0, 0), b"no columns")
    second.write_bytes(header_bytes(header(number=2)) + nonsense)
    with open_tables(spark, [tmp_path]) as tables:
        assert [row.run for row in tables["corrupt"].collect()] == ["r"]
        assert contents(tables) == written(tmp_path)


def test_a_lake_whose_files_are_gone_names_one(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    ingest([fleet], tmp_path)
    victim = next((tmp_path / "life").glob("*.parquet"))
    victim.unlink()
    with pytest.raises(PipelineError, match=f"{victim}: a file of the lake is missing; restore"):
        open_tables(spark, [tmp_path]).__enter__()


def test_what_a_worker_raised_is_told_without_its_traceback() -> None:
    told = PySparkException(
        "Job aborted: Task 0 failed 4 times:\nTraceback (most recent call last):\n"
        '  File "taking.py", line 1\nFileNotFoundError: [Errno 2] No such file: 0.task\n\n\tat Java'
    )
    assert last_words(told) == "FileNotFoundError: [Errno 2] No such file: 0.task"
    assert last_words(PySparkException("no more memory\nat")) == "no more memory"


def test_workers_that_cannot_write_are_explained_in_one_line(
    spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ingesting, "SMALL_BYTES", 0)
    monkeypatch.setattr(ingesting, "TASK_BYTES", 1)
    Lake.create(tmp_path / "lake")
    (tmp_path / "lake" / "deliver").write_text("no folder")
    with pytest.raises(
        JournalError, match=r"deliver.*: cannot be written \((File exists|Not a dir)"
    ):
        ingest([fleet], tmp_path / "lake", spark=lambda: spark)
    assert Lake(tmp_path / "lake").versions() == []
