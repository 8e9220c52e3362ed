"""Kernels on every group: in this process and on Spark, with the same results and errors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.journal.journal_folder import segment
from tests.pipeline.made import Hand

from phalanx.errors import JournalError, PipelineError
from phalanx.journal.parquet_export import export
from phalanx.pipeline import engine, group_plan
from phalanx.pipeline.engine import LOCAL_BYTES, Engine, choose, run_groups
from phalanx.pipeline.group_plan import plan_groups, read_task, split
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.ingest import ingest


class Counted(msgspec.Struct, frozen=True):
    """The result of the kernel of these tests."""

    key: GroupKey
    rows: int
    views: list[str]


def counted(group: GroupTables) -> Counted:
    return Counted(
        group.key, group.rows, sorted(group["view_installed"].column("view").to_pylist())
    )


def above(least: int, group: GroupTables) -> bool:
    return group.rows > least


def dies_once(marker: str, group: GroupTables) -> GroupKey:
    """The first time, the process that runs it ends as if it was killed."""
    with suppress(FileExistsError):
        Path(marker).touch(exist_ok=False)
        os._exit(9)
    return group.key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two groups; one of them in two runs."""
    hands = [
        *(Hand(who, "one", "g").view(0, "v1", "ada.1 bea.1") for who in ("ada.1", "bea.1")),
        Hand("ada.1", "two", "g").view(0, "v2", "ada.1").view(5, "v3", "ada.1"),
        Hand("ada.1", "one", "h").view(0, "w1", "ada.1"),
    ]
    place = tmp_path / "journals"
    place.mkdir()
    for nth, (header, rows) in enumerate(hand.journal for hand in hands):
        (place / rows[0].run).mkdir(exist_ok=True)
        facts = msgspec.structs.asdict(header) | {"journal": str(nth) * 32}
        segment(place / rows[0].run, list(rows), **facts)
    return place


EXPECTED = [
    Counted(GroupKey("c", "one", "g"), 2, ["v1", "v1"]),
    Counted(GroupKey("c", "one", "h"), 1, ["w1"]),
    Counted(GroupKey("c", "two", "g"), 2, ["v2", "v3"]),
]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_kernel_runs_once_on_each_group_wherever_its_rows_are(
    spark: SparkSession, folder: Path, tmp_path: Path, engine: Engine
) -> None:
    export([folder], tmp_path / "exported", cut_short=True)
    ingest([folder], tmp_path / "lake")
    for place in (folder, tmp_path / "exported", tmp_path / "lake"):
        assert list(run_groups([place], counted, engine=engine)) == EXPECTED, place


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_group_can_be_chosen_and_a_kernel_may_have_parameters(
    spark: SparkSession, folder: Path, engine: Engine
) -> None:
    assert list(run_groups([folder], counted, engine=engine, group="h")) == EXPECTED[1:2]
    assert list(run_groups([folder], partial(above, 1), engine=engine)) == [True, False, True]
    with pytest.raises(PipelineError, match="groups in these journals: g, h"):
        run_groups([folder], counted, engine=engine, group="x")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_file_that_cannot_be_read_is_the_same_error_in_both(
    spark: SparkSession, folder: Path, tmp_path: Path, engine: Engine
) -> None:
    lake = tmp_path / "lake"
    ingest([folder], lake)
    file = next((lake / "view_installed").glob("*.parquet"))
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(PipelineError, match="cannot be read as Parquet"):
        list(run_groups([lake], counted, engine=engine))
    with pytest.raises(JournalError):
        run_groups([tmp_path / "missing"], counted, engine=engine)


def test_a_worker_that_dies_costs_a_repetition(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    kernel = partial(dies_once, str(tmp_path / "died"))
    found = list(run_groups([folder], kernel, engine="spark"))
    assert found == [one.key for one in EXPECTED]
    assert (tmp_path / "died").exists()


def fails(group: GroupTables) -> None:
    raise ZeroDivisionError("a kernel is wrong")


def test_a_kernel_that_fails_is_one_line_about_spark(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(PipelineError, match=r"tasks failed .*ZeroDivisionError: a kernel is wrong"):
        list(run_groups([folder], fails, engine="spark"))


def slow(group: GroupTables) -> int:
    time.sleep(1)
    return group.rows


def test_progress_is_reported_by_both_engines(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    monkeypatch.setattr(engine, "PROGRESS_SECONDS", 0.1)
    size = plan_groups([folder]).bytes
    list(run_groups([folder], slow, engine="spark", progress=progress))
    assert seen
    assert {total for _, total in seen} == {size}
    list(run_groups([folder], counted, engine="local", progress=progress))
    assert seen[-1] == (size, size)


def test_tasks_have_whole_groups_and_small_groups_share_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest([folder], tmp_path / "lake")
    for place in (folder, tmp_path / "lake"):
        plan = plan_groups([place])
        (task,) = split(plan)
        assert [group.key for group in read_task(task)] == [found.key for found in EXPECTED]
        monkeypatch.setattr(group_plan, "TASK_BYTES_MIN", 1)
        monkeypatch.setattr(group_plan, "TASKS", 1 << 40)
        tasks = split(plan)
        monkeypatch.undo()
        assert [counted(group) for task in tasks for group in read_task(task)] == EXPECTED
        assert len(tasks) == len(EXPECTED)


def test_small_journals_are_read_here_and_a_master_means_spark() -> None:
    assert choose("auto", None, LOCAL_BYTES) == "local"
    assert choose("auto", None, LOCAL_BYTES + 1) == "spark"
    assert choose("auto", "spark://here:7077", 0) == "spark"
    assert choose("spark", None, 0) == "spark"
    with pytest.raises(PipelineError, match="has no master"):
        choose("local", "spark://here:7077", 0)


def test_the_engine_that_auto_took_is_reported(folder: Path) -> None:
    lines: list[str] = []
    assert list(run_groups([folder], counted, tell=lines.append)) == EXPECTED
    assert lines[0].startswith("engine: local, ")
    list(run_groups([folder], counted, engine="local", tell=lines.append))
    assert len(lines) == 1


def test_versions_are_those_of_a_lake(folder: Path, tmp_path: Path) -> None:
    ingest([folder], tmp_path / "lake")
    assert list(run_groups([tmp_path / "lake"], counted, at=1)) == EXPECTED
    assert list(run_groups([tmp_path / "lake"], counted, at=0)) == []
    with pytest.raises(PipelineError, match="only a lake has versions"):
        run_groups([folder], counted, at=1)
    with pytest.raises(PipelineError, match="a lake among other paths"):
        run_groups([folder, tmp_path / "lake"], counted)


def test_kernels_import_neither_spark_nor_pandas() -> None:
    """A worker imports what a kernel imports, each time that one starts."""
    modules = ("history.view_at", "history.view_summary", "history.why", "measures.registry")
    more = ("report.collect", "derived.derive_group")
    wanted = ", ".join(f"phalanx.pipeline.{name}" for name in (*modules, *more))
    check = "print([name for name in ('pyspark', 'pandas', 'click') if name in sys.modules])"
    code = f"import sys, phalanx.pipeline.engine, {wanted}; {check}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
