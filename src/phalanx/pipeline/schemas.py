"""The schemas of the tables for Arrow and for Spark, derived from `journal.events`.

Every table of events has two columns in front of its own, `cluster` and `journal` (the UUID that
names one life of one member in one group), which the header of a segment knows and a row does not.
The table `journals` has one row a journal: what its headers say, and how much of it is there.

Arrow and Spark are given the same definition, nullability included: Spark takes a batch of another
schema than the declared one for an error.
"""

from __future__ import annotations

from typing import Any, get_type_hints

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from phalanx.journal import parquet
from phalanx.journal.events import TABLES
from phalanx.pipeline.facts import JournalFacts

IDENTITY = ("cluster", "journal")
EVENTS = tuple(TABLES)
JOURNALS = "journals"


def arrow_schema(table: str) -> Any:
    """The Arrow schema of a table of events, or of `journals`."""
    pa = parquet.arrow()
    if table == JOURNALS:
        hints = get_type_hints(JournalFacts)
        return pa.schema([parquet.field(name, hints[name]) for name in hints])
    own = parquet.schema(table).remove_metadata()
    front = [pa.field(name, pa.string(), nullable=False) for name in IDENTITY]
    return pa.schema([*front, *own])


def spark_schema(table: str) -> StructType:
    """The Spark schema of the same table."""
    return from_arrow_schema(arrow_schema(table))
