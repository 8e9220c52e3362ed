"""A set of tables: frames by name, whatever they are stored in.

For own queries with Spark on journals, exported Parquet and lakes alike (`open_tables`). The names
are those of `journal.schema`, and `journals`; the columns are those of `schemas`. Each row appears
once.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from phalanx.pipeline.schemas import EVENTS, JOURNALS, spark_schema


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
