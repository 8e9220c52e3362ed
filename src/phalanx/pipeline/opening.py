"""Whatever holds journals becomes a set of tables: raw journals, exported Parquet, or a lake.

All commands open what they are given with `open_tables`, so that each takes the same paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from phalanx.journal.reader import read_all
from phalanx.pipeline.tables import Tables, from_rows


@contextmanager
def open_tables(
    spark: SparkSession, paths: Sequence[str | Path], lake: Path | None = None
) -> Iterator[Tables]:
    """The tables of all journals in these files and folders; what they need of temporary files is
    gone afterwards. JournalError for what cannot be read."""
    reading = read_all(paths)
    headers = reading.headers
    yield from_rows(spark, [(headers[name], rows) for name, rows in reading.journals.items()])
