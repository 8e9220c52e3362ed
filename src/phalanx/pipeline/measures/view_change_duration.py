"""Duration of view changes per member, from the first sign of the change to the view.

    suspicion    from the first suspicion of a member that the view lost, unless it was withdrawn,
                 to the first step; 0 if a change was already under way
    agreement    from the first step of the change (START or FA) to the view; where one change made
                 several views, from the first step that named a member that this view lost. An
                 abandoned change (FORGET) is not counted, nor are the steps before it.

Without a suspicion, as in a join or a leave, only `agreement` is set.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import MEMBER, RUN, own_time
from phalanx.pipeline.history.intervals import own_clock_intervals
from phalanx.pipeline.history.removals import closing, departures, doubts, named
from phalanx.pipeline.tables import Tables


def changes(tables: Tables) -> DataFrame:
    """One row for each view but the first at each member.

    cluster, run, group, member, incarnation, view, previous. cause: removal or join.
    gained, lost: members, as `ada.2`. at_ns: when it was installed, by the member's clock, or
    simulated. steps: of the change. suspicion_ns, agreement_ns: see above, null where there was
    none. took_ns: both, from the first sign to the view.
    """
    installs = (
        own_clock_intervals(tables)
        .where("previous is not null")
        .select(
            *MEMBER,
            *("view", "previous", "cause", "gained", "lost"),
            F.col("from_lseq").alias("_gone"),
            F.coalesce("from_sim_ns", "from_t_ns").alias("at_ns"),
        )
    )
    at = ["journal", "_gone"]
    gone = departures(tables)
    found = installs.join(_steps(tables), at, "left").join(_suspected(tables, gone), at, "left")
    found = found.join(_named(tables, gone), at, "left")
    found = found.withColumn("_stepped", F.least("_stepped", "_named"))
    begin = F.least("_stepped", "_suspected")
    return found.select(
        *RUN,
        *("member", "incarnation", "view", "previous", "cause", "gained", "lost", "at_ns"),
        F.coalesce("steps", F.lit(0)).alias("steps"),
        F.when(
            F.col("_suspected").isNotNull(),
            F.greatest(F.col("_stepped") - F.col("_suspected"), F.lit(0)),
        ).alias("suspicion_ns"),
        (F.col("at_ns") - F.col("_stepped")).alias("agreement_ns"),
        (F.col("at_ns") - begin).alias("took_ns"),
    )


def _steps(tables: Tables) -> DataFrame:
    """Of each install the first step of its change, and how many there were."""
    rows = tables["view_change_step"].select("journal", "lseq", "action", own_time().alias("_at"))
    return (
        closing(tables, rows)
        .where("_given_up = 0 and _closed is not null")
        .groupBy("journal", F.col("_closed").alias("_gone"))
        .agg(F.min("_at").alias("_stepped"), F.count("*").alias("steps"))
    )


def _named(tables: Tables, gone: DataFrame) -> DataFrame:
    """Of each install the first step that named somebody whom it lost."""
    rows = named(tables, gone).where("_given_up = 0")
    return rows.groupBy("journal", "_gone").agg(F.min(own_time()).alias("_named"))


def _suspected(tables: Tables, gone: DataFrame) -> DataFrame:
    """Of each install the first suspicion of somebody whom it lost."""
    rows = doubts(tables, gone).where("stands")
    return rows.groupBy("journal", "_gone").agg(F.min(own_time()).alias("_suspected"))
