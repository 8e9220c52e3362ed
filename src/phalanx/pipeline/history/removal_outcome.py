"""How a member's time in a view ended, by its own journal.

The journal of the removed member is the best evidence of what became of it, and needs no clock:

    LEFT      it requested to leave in this view or before
    CRASHED   its journal ends with a crash in this view or before it; only a simulator records that
    ENDED     its journal ends without a stop, in this view or before it: it was killed, or the
              journal is cut off. A killed member does not write its last rows, so this view may be
              missing
    STOPPED   its journal ends in this view with a stop, and it had not requested to leave
    APART     it went on to another view: it was alive, and had removed the others as well
    NEVER     its journal is complete, and has other views but not this one
    UNKNOWN   its journal is missing, or lacks rows that might show the outcome
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import RUN
from phalanx.pipeline.history.intervals import own_clock_intervals
from phalanx.pipeline.tables import Tables

LIFE = (*RUN, "member", "incarnation")


def with_fate(
    tables: Tables, frame: DataFrame, member: str, incarnation: str, view: str
) -> DataFrame:
    """The frame, which names a member and a view by these columns, and `fate`, `own_next_view` (the
    view the member went on to), `own_end_sim_ns` and `own_end_t_ns` (the end of its journal if it
    ended there), `own_boot` (whose clock that is)."""
    left = (
        tables["view_change_step"]
        .where("action = 'LEAVE'")
        .groupBy("journal")
        .agg(F.min("lseq").alias("_left"))
    )
    crashed = tables["life"].where("op = 'CRASH'").select("journal").distinct()
    lives = tables["journals"].select(
        *[F.col(name).alias(f"_{name}") for name in LIFE], "journal", "boot_id", "end_t_ns",
        "end_sim_ns",
        *[(F.col(name) == 1).alias(f"_{name}") for name in ("stopped", "torn")],
    )  # fmt: skip
    lives = lives.join(crashed.withColumn("_crash", F.lit(True)), "journal", "left")
    spans = own_clock_intervals(tables).select(
        "journal",
        F.col("view").alias("_view"),
        F.col("next_view").alias("_next"),
        F.col("end").alias("_end"),
        F.col("to_lseq").alias("_to"),
    )
    own = lives.join(left, "journal", "left").withColumnRenamed("journal", "_journal")
    same = [F.col(name) == F.col(f"_{name}") for name in RUN]
    same += [F.col(member) == F.col("_member"), F.col(incarnation) == F.col("_incarnation")]
    found = frame.join(own, same, "left").join(
        spans.withColumnRenamed("journal", "_life"),
        [F.col("_journal") == F.col("_life"), F.col(view) == F.col("_view")],
        "left",
    )
    elsewhere = F.col("_view").isNull()
    fate = (
        F.when(F.col("_journal").isNull(), "UNKNOWN")
        .when(elsewhere & F.col("_left").isNotNull(), "LEFT")
        .when(elsewhere & F.col("_crash").isNotNull(), "CRASHED")
        .when(elsewhere & F.col("_torn"), "UNKNOWN")
        .when(elsewhere & F.col("_stopped"), "NEVER")
        .when(elsewhere, "ENDED")
        .when(F.col("_left") < F.col("_to"), "LEFT")
        .when(F.col("_end") == "VIEW", "APART")
        .when(F.col("_end") == "CRASH", "CRASHED")
        .when(F.col("_end") == "STOP", "STOPPED")
        .otherwise("ENDED")
    )
    ended = F.col("_end") != "VIEW"
    return found.select(
        *frame.columns,
        fate.alias("fate"),
        F.col("_next").alias("own_next_view"),
        F.when(ended, F.col("end_sim_ns")).alias("own_end_sim_ns"),
        F.when(ended, F.col("end_t_ns")).alias("own_end_t_ns"),
        F.col("boot_id").alias("own_boot"),
    )
