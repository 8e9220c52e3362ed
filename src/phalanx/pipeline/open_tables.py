"""Open raw journals, exported Parquet or a lake as a set of tables.

All commands use `open_tables`, so that each accepts the same paths. Raw journals are first
converted to Parquet in a temporary folder, which is removed afterwards; exported files are read in
place. Workers on other machines must be able to read that folder: PHALANX_SCRATCH sets another
place than the system's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.ingest import TableFiles, gather, ingest
from phalanx.pipeline.lake.lake import Lake, Snapshot, is_lake
from phalanx.pipeline.lake.lake_schema import INSTALLS, KEYS, MEMBERS, VIEWS
from phalanx.pipeline.schemas import EVENTS, JOURNALS, arrow_schema, spark_schema
from phalanx.pipeline.scratch import scratch_folder
from phalanx.pipeline.spark_errors import explained
from phalanx.pipeline.tables import Tables
from phalanx.pipeline.task_runner import Progress


@contextmanager
def open_tables(
    spark: SparkSession,
    paths: Sequence[str | Path],
    lake: Path | None = None,
    *,
    at: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Tables]:
    """The tables of all journals in these files and folders, or of a lake, as it was `at` a
    version. With `lake` journals are ingested into that one first, and the tables are its. The
    frames can be used until the end of the block. JournalError for what cannot be read,
    PipelineError for what does not go together."""
    lakes = [Path(path) for path in paths if is_lake(Path(path))]
    if lakes and len(paths) > 1:
        remedy = "give the lake alone, or ingest the rest into it"
        raise PipelineError(str(lakes[0]), "a lake among other paths", remedy)
    if at is not None and not lakes:
        problem = "only a lake has versions"
        raise PipelineError(str(paths[0]), problem, "leave out the version, or give a lake")
    with explained():
        if lakes:
            yield lake_tables(spark, Lake(lakes[0]).snapshot(at))
        elif lake is not None:
            ingest(paths, lake, spark=lambda: spark, progress=progress)
            yield lake_tables(spark, Lake(lake).snapshot())
        else:
            with scratch_folder() as place:
                yield _tables_of_files(spark, gather(paths, place, lambda: spark, progress))


def lake_tables(spark: SparkSession, snapshot: Snapshot) -> Tables:
    """The tables of events of a lake, and `journals`, with the columns that raw journals give."""
    frames = {}
    for table in (*EVENTS, JOURNALS):
        paths = [file.path for file in snapshot.files(table)]
        if paths and table == INSTALLS:
            views = [file.path for file in snapshot.files(VIEWS)]
            frames[table] = _with_members(_read(spark, paths), _read(spark, views))
        elif paths:
            frames[table] = _read(spark, paths, spark_schema(table))
    return Tables(spark, _with_runs(frames))


def _tables_of_files(spark: SparkSession, found: TableFiles) -> Tables:
    frames = {
        table: _read(spark, [file.path for file in files], spark_schema(table))
        for table, files in found.files.items()
    }
    facts = [msgspec.structs.asdict(journal) for journal in found.journals]
    rows = arrow().Table.from_pylist(facts, schema=arrow_schema(JOURNALS))
    frames[JOURNALS] = spark.createDataFrame(rows)
    return Tables(spark, _with_runs(frames))


def _read(spark: SparkSession, paths: Sequence[str], schema: StructType | None = None) -> DataFrame:
    for path in paths:
        if not Path(path).is_file():
            remedy = "restore it, or ingest the journals into a new lake"
            raise PipelineError(path, "a file of the lake is missing", remedy)
    read = spark.read if schema is None else spark.read.schema(schema)
    return read.parquet(*map(literal_path, paths))


def _with_members(installs: DataFrame, views: DataFrame) -> DataFrame:
    """Rows of `view_installed` as members wrote them: the lake has the members in `views`."""
    members = F.broadcast(views.select(*KEYS, *MEMBERS))
    return installs.join(members, list(KEYS), "left").select(*spark_schema(INSTALLS).names)


def _with_runs(frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """A segment of which nothing can be read does not have its run; its journal may."""
    if "corrupt" in frames:
        known = frames[JOURNALS].select("journal", F.col("run").alias("of_journal"))
        run = F.when(F.col("run") == "", F.col("of_journal")).otherwise(F.col("run"))
        frames["corrupt"] = (
            frames["corrupt"]
            .join(F.broadcast(known), "journal", "left")
            .withColumn("run", F.coalesce(run, F.lit("")))
            .select(*spark_schema("corrupt").names)
        )
    return frames


def literal_path(path: str) -> str:
    """A path as it is: Spark would take brackets and stars for a pattern."""
    return re.sub(r"[][{}*?\\]", r"\\\g<0>", path)
