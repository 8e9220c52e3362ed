"""Components of the group over time.

A component is a view in use: from the last installation by a member that ever installed it, to
when the first of these members installs another, or to the last end of their journals. Between two
views a member is in no component, so an orderly change shows no second one. Two views in use at
the same time are a partition, or members that have started and not yet discovered each other.

This needs one clock: simulated time; the clock of the machine, if all journals of the run are of
one boot of one machine; otherwise wall clocks, which may differ, and the result is approximate.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import RUN
from phalanx.pipeline.history.intervals import intervals, labels
from phalanx.pipeline.tables import Tables


def partitions(tables: Tables) -> DataFrame:
    """One row for each stretch of time with the same components, in which somebody held a view.

    cluster, run, group. clock: SIM, BOOT or WALL; approximate: 1 for WALL.
    from_ns, to_ns: from when to when. components: how many views were held.
    views: array of view and members (as `ada.2`), in the order of members.
    """
    held = _held(tables)
    key = [*RUN, "clock"]
    edges = held.select(*key, F.explode(F.array("from_ns", "to_ns")).alias("at_ns")).distinct()
    line = Window.partitionBy(*key).orderBy("at_ns")
    edges = edges.withColumn("_nth", F.row_number().over(line))
    spans = edges.select(
        *key, "_nth", F.col("at_ns").alias("from_ns"), F.lead("at_ns").over(line).alias("to_ns")
    )
    first = edges.select(*key, F.col("at_ns").alias("from_ns"), F.col("_nth").alias("_first"))
    last = edges.select(*key, F.col("at_ns").alias("to_ns"), F.col("_nth").alias("_last"))
    covered = held.join(first, [*key, "from_ns"]).join(last, [*key, "to_ns"])
    each = covered.select(
        *key,
        F.explode(F.sequence("_first", F.col("_last") - 1)).alias("_nth"),
        F.struct("members", "view").alias("_view"),
    )
    found = each.groupBy(*key, "_nth").agg(F.sort_array(F.collect_list("_view")).alias("_views"))
    turned = F.transform(
        "_views", lambda v: F.struct(v["view"].alias("view"), v["members"].alias("members"))
    )
    return found.join(spans, [*key, "_nth"]).select(
        *key,
        (F.col("clock") == "WALL").cast("int").alias("approximate"),
        "from_ns",
        "to_ns",
        F.size("_views").alias("components"),
        turned.alias("views"),
    )


def _held(tables: Tables) -> DataFrame:
    """Each view from when all that installed it had it to when the first went on."""
    boots = (
        tables["journals"]
        .groupBy(*RUN)
        .agg(
            F.count_distinct("boot_id").alias("_boots"),
            F.min("boot_id").alias("_boot"),
            F.min(F.col("end_sim_ns").isNotNull()).alias("_simulated"),
        )
    )
    one = (F.col("_boots") == 1) & ~F.col("_boot").isin("", "unknown")
    clock = F.when(F.col("_simulated"), "SIM").when(one, "BOOT").otherwise("WALL")

    def by(side: str) -> Column:
        return (
            F.when(F.col("clock") == "SIM", F.col(f"{side}_sim_ns"))
            .when(F.col("clock") == "BOOT", F.col(f"{side}_t_ns"))
            .otherwise(F.col(f"{side}_wall_ns"))
        )

    went_on = F.when(F.col("end") == "VIEW", F.col("_to"))
    return (
        intervals(tables)
        .join(F.broadcast(boots.select(*RUN, clock.alias("clock"))), [*RUN])
        .select(
            *RUN, *("clock", "view", "end"),
            labels("members", "member_incarnations").alias("members"),
            by("from").alias("_from"), by("to").alias("_to"),
        )
        .groupBy(*RUN, "clock", "view", "members")
        .agg(
            F.max("_from").alias("from_ns"),
            F.coalesce(F.min(went_on), F.max("_to")).alias("to_ns"),
        )
        .where("from_ns < to_ns")
    )  # fmt: skip
