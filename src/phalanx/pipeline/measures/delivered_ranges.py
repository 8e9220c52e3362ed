"""Deliveries, split at the boundaries of their submissions.

Messages submitted together share a time and a mean size; messages delivered together share a time.
Neither range need contain the other. A part is their intersection: the finest rows that measures of
messages need, and still ranges.

Two sorted passes find, for each delivery, the first and the last submission that it overlaps. The
delivery is repeated for each of those submissions, never for each message.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.history.clocks import RUN
from phalanx.pipeline.tables import Tables

SENDER = (*RUN, "sender", "sender_incarnation")


def parts(tables: Tables) -> DataFrame:
    """One row for each delivery and submission that have messages in common. Messages whose
    submission is not known, since the sender's journal or a part of it is missing, are in none.

    cluster, run, group, journal, member, incarnation: who delivered. sender,
    sender_incarnation, service: what. count: how many messages. t_ns, sim_ns: when they were
    delivered. submit_journal, submit_t_ns, submit_sim_ns: when they were submitted, by the sender's
    clock. size: mean bytes of a message of the submission.
    """
    line = Window.partitionBy(*SENDER).orderBy("_first")
    submits = (
        tables["accepted"]
        .select(
            *RUN,
            F.col("member").alias("sender"),
            F.col("incarnation").alias("sender_incarnation"),
            F.col("first").alias("_first"),
            F.col("last").alias("_last"),
            F.col("journal").alias("submit_journal"),
            F.col("t_ns").alias("submit_t_ns"),
            F.col("sim_ns").alias("submit_sim_ns"),
            (F.col("size") / (F.col("last") - F.col("first") + 1)).alias("size"),
        )
        .withColumn("_nth", F.row_number().over(line))
    )
    deliveries = tables["deliver"].select(
        *SENDER, *("journal", "member", "incarnation", "service", "t_ns", "sim_ns", "first", "last")
    )
    found = _nth(_nth(deliveries, submits, "first"), submits, "last")
    touched = F.sequence(F.coalesce("_first_nth", F.lit(1)), F.col("_last_nth"))
    known = found.where(F.col("_last_nth").isNotNull())
    each = known.withColumn("_nth", F.explode(touched)).join(submits, [*SENDER, "_nth"])
    low = F.greatest("first", "_first")
    high = F.least("last", "_last")
    return each.where(high >= low).select(
        *RUN,
        *("journal", "member", "incarnation", "sender", "sender_incarnation", "service"),
        (high - low + 1).alias("count"),
        *("t_ns", "sim_ns", "submit_journal", "submit_t_ns", "submit_sim_ns", "size"),
    )


def _nth(frame: DataFrame, submits: DataFrame, edge: str) -> DataFrame:
    """Which submission of the sender begins at this edge of the delivery or last before it."""
    marks = submits.select(
        *SENDER, F.col("_first").alias(edge), F.col("_nth").alias(f"_{edge}_nth")
    )
    return as_of(frame, marks, SENDER, edge, [f"_{edge}_nth"])
