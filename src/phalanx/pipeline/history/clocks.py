"""Conversion between a member's own clock and its wall clock.

Rows carry `t_ns`, a monotonic clock that means nothing on another machine. The header of a journal
and its `clock` rows record the wall clock at some of these times; between two records it is assumed
to advance evenly, so steps of the wall clock are followed. A simulated row has the simulator's one
clock, `sim_ns`, and no wall clock.

    WALL(row) = t_ns + offset of the last clock row at or before it, else of the header

`moments` is the inverse: the member's own times at which its wall clock showed an instant. There
is none before the journal begins and after it ends, and there are two where the clock was set back.
Where the clock was set forward over the instant, the moment is that of the step.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.tables import Tables

RUN = ("cluster", "run", "group")
MEMBER = (*RUN, "journal", "member", "incarnation")
NO_BOOT = ("", "unknown")
"""Boot ids of machines that could not tell theirs: equal to no other."""


def own_time() -> Column:
    """The clock by which durations at one member are measured: simulated time if there is any."""
    return F.coalesce("sim_ns", "t_ns")


def with_wall(tables: Tables, frame: DataFrame) -> DataFrame:
    """The frame (with `journal`, `lseq`, `t_ns` and `sim_ns`) and `wall_ns`: what the wall clock of
    the member said; null in a simulation."""
    marks = tables["clock"].select(
        "journal", "lseq", (F.col("wall_ns") - F.col("t_ns")).alias("_set")
    )
    heads = tables["journals"].select(
        "journal", (F.col("wall_ns") - F.col("mono_ns")).alias("_began")
    )
    found = as_of(frame, marks, ["journal"], "lseq", ["_set"]).join(
        F.broadcast(heads), "journal", "left"
    )
    wall = F.when(F.col("sim_ns").isNull(), F.col("t_ns") + F.coalesce("_set", "_began"))
    return found.select(*frame.columns, wall.alias("wall_ns"))


def moments(tables: Tables, wall_ns: int) -> DataFrame:
    """Columns: `journal`, and `t_ns` at which its wall clock showed the instant."""
    offset = F.col("wall_ns") - F.col("t_ns")
    own = tables["clock"].select("journal", "t_ns", offset.alias("_offset"))
    # Rows of the first step may be older than the header of the file that they are in.
    first = tables["view_installed"].groupBy("journal").agg(F.min("t_ns").alias("_first"))
    head = (
        tables["journals"]
        .join(first, "journal", "left")
        .select(
            "journal",
            F.least("mono_ns", "_first").alias("t_ns"),
            (F.col("wall_ns") - F.col("mono_ns")).alias("_offset"),
        )
    )
    ends = tables["journals"].select("journal", F.col("end_t_ns").alias("_end"))
    line = Window.partitionBy("journal").orderBy("t_ns")
    spans = (
        head.unionByName(own)
        .withColumn("_next", F.lead("t_ns").over(line))
        .withColumn("_next_offset", F.lead("_offset").over(line))
        .join(F.broadcast(ends), "journal")
    )
    at = F.lit(wall_ns).cast("long")
    begin = F.col("t_ns") + F.col("_offset")
    end = F.coalesce("_next", F.col("_end") + 1) + F.col("_offset")
    skipped = (at >= end) & (at < F.col("_next") + F.col("_next_offset"))
    moment = F.when((at >= begin) & (at < end), at - F.col("_offset")).when(skipped, F.col("_next"))
    return spans.select("journal", moment.alias("t_ns")).where(F.col("t_ns").isNotNull()).distinct()
