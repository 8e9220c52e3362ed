"""The quality of the detectors, by observer and target (Chen, Toueg, Aguilera, IEEE TC 51(5)).

    T_D    detection time: from the crash to the last suspicion, the one that stays; 0 if it began
           before; to the removal where the observer learned of it from others
    T_M    length of a mistake; T_MR: from the beginning of one mistake to that of the next;
    T_G    good period: from the end of a mistake to the beginning of the next
    rate   lambda_M: mistakes per second in which the target was watched and up
    P_A    query accuracy: the part of that time in which the observer was not mistaken
    T_FG   forward good period: E(T_G) / 2 * (1 + V(T_G) / E(T_G)^2), how long, from a random
           moment at which the observer is right, it stays so

In the long run the rate is 1/E(T_MR) and P_A is 1 - E(T_M)/E(T_MR); both are counted here over the
time that was watched, so that they are defined for few mistakes, and for none. Mistakes of one
spell of watching are chained, across spells they are not. What counts as a mistake: `suspicions`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.measures.suspicion_intervals import suspicions
from phalanx.pipeline.measures.watch_intervals import PAIR, watches
from phalanx.pipeline.tables import Tables

NS = 1_000_000_000


def detector(tables: Tables) -> DataFrame:
    """One row for each observer and target that it ever watched.

    cluster, run, group, member, incarnation, target, target_incarnation. watched_ns: for how
    long, target up. suspicions, mistakes, apart: how many of each kind. mistake_ns, recurrence_ns,
    good_ns: means of T_M, T_MR, T_G; mistake_ns_max. rate: per second. accuracy: P_A.
    forward_good_ns: E(T_FG). crash: KNOWN or ESTIMATED if the target crashed while it was watched.
    detected: 1 if it ended suspected or removed. detection_ns: T_D. removal_ns: from the crash to
    the view without it. after_ns: for how long the observer watched on after the crash, to the
    removal or to the end of its journal; a crash that was not detected within a short time proves
    nothing.
    """
    found = suspicions(tables)
    counted = _watched(tables).join(_mistakes(found), [*PAIR], "left")
    result = counted.join(_detections(tables, found), [*PAIR], "left")
    seconds = F.col("watched_ns") / NS
    some = F.col("watched_ns") > 0
    return result.select(
        *PAIR,
        "watched_ns",
        *[F.coalesce(name, F.lit(0)).alias(name) for name in ("suspicions", "mistakes", "apart")],
        *("mistake_ns", "mistake_ns_max", "recurrence_ns", "good_ns"),
        F.when(some, F.coalesce("mistakes", F.lit(0)) / seconds).alias("rate"),
        F.when(some, 1 - F.coalesce("_mistaken", F.lit(0)) / F.col("watched_ns")).alias("accuracy"),
        "forward_good_ns",
        *("crash", "detected", "detection_ns", "removal_ns", "after_ns"),
    )


def _watched(tables: Tables) -> DataFrame:
    up = F.greatest(F.least("to_ns", F.coalesce("down_ns", "to_ns")) - F.col("from_ns"), F.lit(0))
    return watches(tables).groupBy(*PAIR).agg(F.sum(up).alias("watched_ns"))


def _mistakes(found: DataFrame) -> DataFrame:
    wrong = F.col("kind") == "MISTAKE"
    line = Window.partitionBy(*PAIR, "spell").orderBy("from_ns")
    chained = found.select(
        *PAIR,
        "spell",
        "kind",
        "from_ns",
        "mistake_ns",
        F.when(wrong, F.struct("from_ns", "to_ns")).alias("_one"),
    )
    before = F.last("_one", ignorenulls=True).over(line.rowsBetween(Window.unboundedPreceding, -1))
    chained = chained.withColumn("_before", before)
    good = F.when(wrong, F.col("from_ns") - F.col("_before.to_ns"))
    chained = chained.withColumn("_good", good)
    mean, spread = F.avg("_good"), F.var_pop("_good")
    return chained.groupBy(*PAIR).agg(
        F.count("*").alias("suspicions"),
        F.count_if(wrong).alias("mistakes"),
        F.count_if(F.col("kind") == "APART").alias("apart"),
        F.sum("mistake_ns").alias("_mistaken"),
        F.avg("mistake_ns").alias("mistake_ns"),
        F.max("mistake_ns").alias("mistake_ns_max"),
        F.avg(F.when(wrong, F.col("from_ns") - F.col("_before.from_ns"))).alias("recurrence_ns"),
        mean.alias("good_ns"),
        F.when(mean > 0, mean / 2 * (1 + spread / (mean * mean))).alias("forward_good_ns"),
    )


def _detections(tables: Tables, found: DataFrame) -> DataFrame:
    """Of crashes that happened while the target was watched, or a moment before."""
    crashes = watches(tables).where("crash is not null and down_ns <= to_ns")
    last = (
        found.where("ended_by != 'TRUST'")
        .groupBy(*PAIR, F.col("spell").alias("from_lseq"))
        .agg(F.max("from_ns").alias("_suspected"))
    )
    removed = F.when(F.col("end") == "VIEW", F.col("to_ns"))
    seen = F.coalesce("_suspected", removed)
    return crashes.join(last, [*PAIR, "from_lseq"], "left").select(
        *PAIR,
        "crash",
        seen.isNotNull().cast("int").alias("detected"),
        F.when(seen.isNotNull(), F.greatest(seen - F.col("down_ns"), F.lit(0))).alias(
            "detection_ns"
        ),
        (removed - F.col("down_ns")).alias("removal_ns"),
        (F.col("to_ns") - F.col("down_ns")).alias("after_ns"),
    )
