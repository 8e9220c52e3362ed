"""The schemas of the tables for Arrow and for Spark, derived from `journal.schema`.

Every table of events begins with two columns that come from the header of a segment: `cluster`, and
`journal`, the UUID of one life of one member in one group. The table `journals` has one row per
journal: the facts of its headers, and how much of it there is; `segments` has the same per segment.

Arrow and Spark get the same definition, nullability included: Spark rejects a batch whose schema
differs from the declared one. Spark is imported only where its schema is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

from phalanx.journal.arrow_schema import IDENTITY as IDENTITY
from phalanx.journal.arrow_schema import arrow, field, schema
from phalanx.journal.schema import TABLES
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

EVENTS = tuple(TABLES)
JOURNALS = "journals"
SEGMENTS = "segments"
FACTS: dict[str, type[JournalFacts | SegmentFacts]] = {
    JOURNALS: JournalFacts,
    SEGMENTS: SegmentFacts,
}


def arrow_schema(table: str) -> Any:
    """The Arrow schema of a table of events, of `journals` or of `segments`."""
    if table not in FACTS:
        return schema(table).remove_metadata()
    hints = get_type_hints(FACTS[table])
    return arrow().schema([field(name, hints[name]) for name in hints])


def spark_schema(table: str) -> StructType:
    """The Spark schema of the same table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(table))
