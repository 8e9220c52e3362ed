"""Simulated runs open as the same tables, however they were written."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipeline.lakes import Contents, held, in_order, written

from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.open_tables import open_tables
from phalanx.pipeline.schemas import JOURNALS
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import JournalExporter, write_journals
from phalanx.sim.run import run

SOME = ("sent", "deliver", "view_installed", "life", JOURNALS)


def contents(spark: SparkSession, place: Path) -> Contents:
    with open_tables(spark, [place]) as tables:
        found = {name: [row.asDict() for row in tables[name].collect()] for name in SOME}
    return in_order(found)


def test_runs_that_share_files_open_as_their_journals_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    results = [run(scenario_of(seed, 3, 3, "membership")) for seed in (1, 2)]
    with JournalExporter(tmp_path / "export", "both") as export:
        for result in results:
            write_journals(result, tmp_path / "raw")
            export.add(result)
    whole = written(tmp_path / "raw")
    expected = {name: whole[name] for name in sorted(SOME)}
    assert {row["run"] for row in expected["deliver"]} == {r.rows[0].run for r in results}
    assert contents(spark, tmp_path / "export") == expected
    ingest([tmp_path / "export"], tmp_path / "lake")
    assert held(tmp_path / "lake") == whole
    assert [one.version for one in Lake(tmp_path / "lake").versions()] == [1]
