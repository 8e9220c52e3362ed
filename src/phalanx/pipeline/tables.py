"""A set of tables: frames by name, whatever they are stored in.

Audit, history, measures and report take a `Tables` and nothing else, so they work alike on rows in
memory, on exported Parquet and on a lake. The names are those of `journal.schema`, and `journals`;
the columns are those of `schemas`. Each row appears once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession

from phalanx.journal.arrow_schema import arrow
from phalanx.journal.schema import Event
from phalanx.journal.segment import Header
from phalanx.pipeline.schemas import EVENTS, JOURNALS, arrow_schema, spark_schema
from phalanx.pipeline.segment_stats import facts_of


class Tables:
    """Frames by name. A table that nothing was written to is an empty frame."""

    def __init__(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self.spark = spark
        self._frames = dict(frames)

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            assert name in (*EVENTS, JOURNALS), f"there is no table {name!r}"
            self._frames[name] = self.spark.createDataFrame([], spark_schema(name))
        return self._frames[name]


def from_rows(spark: SparkSession, journals: Iterable[tuple[Header, Sequence[Event]]]) -> Tables:
    """Of journals that are in memory: for tests, and for what is small."""
    pa = arrow()
    columns: dict[str, list[dict[str, object]]] = {}
    for header, rows in journals:
        if not rows:
            continue
        facts = msgspec.to_builtins(facts_of(header, rows))
        columns.setdefault(JOURNALS, []).append(facts)
        for row in rows:
            known = msgspec.to_builtins(row)
            name = known.pop("table")
            known |= {"cluster": header.cluster, "journal": header.journal}
            columns.setdefault(name, []).append(known)
    frames = {
        name: spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(name)))
        for name, rows in columns.items()
    }
    return Tables(spark, frames)
