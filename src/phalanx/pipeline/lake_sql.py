"""Make the tables of a lake available to SQL, in DuckDB and in Spark.

    database = duckdb.connect()
    register_duckdb(database, "lake/")
    database.sql("select member, count(*) from deliver group by member")

All tables are those of one version of the lake, derived ones included. A table that nothing was
written to is empty. Rows are read when a query needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.derived.derived_tables import DERIVED
from phalanx.pipeline.lake.lake import Lake, Snapshot, files_of, open_table
from phalanx.pipeline.lake.lake_schema import OWN_TABLES, VERSIONS, lake_schema
from phalanx.pipeline.verdict_tables import FINDINGS, VERDICTS, verdict_schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession


def register_duckdb(
    database: DuckDBPyConnection, lake: str | Path, version: int | None = None
) -> list[str]:
    """Gives a connection a view of each table of a lake, and returns their names. PipelineError
    for a lake that cannot be read."""
    import pyarrow.dataset

    names = []
    for name, schema, files in _tables(lake, version):
        found = pyarrow.dataset.dataset(files, schema=schema, format=_format())
        database.register(name, found if files else schema.empty_table())
        names.append(name)
    return names


def _format() -> Any:
    """Parquet with checksums verified."""
    import pyarrow.dataset

    options = pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=options)


def register_spark(spark: SparkSession, lake: str | Path, version: int | None = None) -> list[str]:
    """Gives a session a temporary view of each table of a lake, and returns their names. The
    executors must see the files under the same paths."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from phalanx.pipeline.open_tables import literal_path

    names = []
    for name, schema, files in _tables(lake, version):
        kind = from_arrow_schema(schema)
        paths = [literal_path(path) for path in files]
        frame = (
            spark.read.schema(kind).parquet(*paths) if files else spark.createDataFrame([], kind)
        )
        frame.createOrReplaceTempView(name)
        names.append(name)
    return names


def _tables(lake: str | Path, version: int | None) -> Iterator[tuple[str, Any, list[str]]]:
    """The name, the schema and the files of each table."""
    snapshot = Lake(lake).snapshot(version)
    for name in sorted({*OWN_TABLES, *DERIVED, VERDICTS, FINDINGS, *snapshot.delta_versions}):
        if name == VERSIONS:
            listed = files_of(open_table(snapshot.place, VERSIONS), snapshot.place, VERSIONS)
        else:
            listed = snapshot.files(name)
        yield name, _schema(snapshot, name), [file.path for file in listed]


def _schema(snapshot: Snapshot, name: str) -> Any:
    pa = arrow()
    if name in OWN_TABLES:
        found = lake_schema(name)
    elif name in snapshot.delta_versions:
        delta = open_table(snapshot.place, name, snapshot.delta_versions[name])
        found = pa.schema(delta.schema().to_arrow())
    else:
        found = DERIVED[name].schema if name in DERIVED else verdict_schema(name)
    return pa.schema([field.with_nullable(True) for field in found])
