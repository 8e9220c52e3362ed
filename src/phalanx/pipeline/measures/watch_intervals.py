"""Watch intervals: who watched whom from when to when, and when the watched member went down.

A member watches another while its view contains it. The time when the watched member went down is
in that member's journal, so it is known by the watcher's clock only in a simulation, or if both ran
under one boot of one machine:

    KNOWN       a simulator recorded the crash
    ESTIMATED   its journal ends without a stop, and the watcher removed it later and never had it
                in a view again. The last row, or the last time that the watcher trusted it again,
                is the latest sign of life; the crash came later, by up to the ten seconds between
                two clock rows if nothing else happened.

A member whose journal ends without a stop and that no member removed is assumed to be running.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.history.clocks import MEMBER, RUN, own_time
from phalanx.pipeline.history.intervals import own_clock_memberships
from phalanx.pipeline.tables import Tables

PAIR = (*RUN, "member", "incarnation", "target", "target_incarnation")
_WHOM = ["journal", "target", "target_incarnation"]


def watches(tables: Tables) -> DataFrame:
    """One row for each time that a member held another for a member of the group.

    cluster, run, group, journal, member, incarnation: the observer. target,
    target_incarnation: the watched. from_lseq, to_lseq, from_ns, to_ns: from when to when, by the
    observer's clock, or simulated. end: what ended it, see `history.intervals`; last_view: the last
    view with the target. simulated; comparable: whether the observer's clock can tell when the
    target did something. down_ns: when the target crashed or stopped, or null. crash: KNOWN,
    ESTIMATED or null.
    """
    held = (
        own_clock_memberships(tables)
        .where("member != target or incarnation != target_incarnation")
        .select(
            *MEMBER,
            "target",
            "target_incarnation",
            *("from_lseq", "to_lseq", "end", "last_view"),
            F.coalesce("from_sim_ns", "from_t_ns").alias("from_ns"),
            F.coalesce("to_sim_ns", "to_t_ns").alias("to_ns"),
            F.col("from_sim_ns").isNotNull().alias("simulated"),
        )
    )
    spells = Window.partitionBy("journal", "target", "target_incarnation").orderBy("from_lseq")
    held = held.withColumn("_last", F.lead("from_lseq").over(spells).isNull())
    held = held.join(_trusted(tables, held), [*_WHOM, "from_lseq"], "left")
    boots = tables["journals"].select("journal", F.col("boot_id").alias("_boot"))
    both = held.join(F.broadcast(boots), "journal", "left").join(
        F.broadcast(_targets(tables)), [*RUN, "target", "target_incarnation"], "left"
    )
    one_boot = (F.col("_boot") == F.col("_target_boot")) & ~F.col("_boot").isin("", "unknown")
    both = both.withColumn(
        "comparable", F.coalesce(F.col("_known") & (F.col("simulated") | one_boot), F.lit(False))
    )
    end = F.when(F.col("simulated"), F.col("_end_sim")).otherwise(F.col("_end_t"))
    sign = F.greatest(end, "_trusted")
    guessed = ~F.col("simulated") & (F.col("_how") == "OPEN") & F.col("_last")
    guessed = guessed & (F.col("end") == "VIEW") & (sign < F.col("to_ns"))
    known_end = F.when(F.col("_how").isin("CRASH", "STOP"), end).when(guessed, sign)
    down = F.when(F.col("comparable"), known_end)
    crash = F.when(F.col("_how") == "CRASH", "KNOWN").when(guessed, "ESTIMATED")
    return both.select(
        *PAIR,
        *("journal", "from_lseq", "to_lseq", "from_ns", "to_ns", "end", "last_view", "simulated"),
        "comparable",
        down.alias("down_ns"),
        F.when(down.isNotNull(), crash).alias("crash"),
    )


def _trusted(tables: Tables, held: DataFrame) -> DataFrame:
    """Of each watch, when the observer last thought better of the target."""
    rows = (
        tables["peer_suspicion"]
        .where("state in ('OPERATIONAL', 'SEMI')")
        .select(*_WHOM, "lseq", own_time().alias("_at"))
    )
    spells = held.select(*_WHOM, F.col("from_lseq").alias("lseq"), "from_lseq", "to_lseq")
    inside = as_of(rows, spells, _WHOM, "lseq", ["from_lseq", "to_lseq"]).where("lseq < to_lseq")
    return inside.groupBy(*_WHOM, "from_lseq").agg(F.max("_at").alias("_trusted"))


def _targets(tables: Tables) -> DataFrame:
    """How each journal ended, by the member that it is of."""
    crashed = tables["life"].where("op = 'CRASH'").select("journal").distinct()
    crashed = crashed.withColumn("_crashed", F.lit(True))
    how = F.when(F.col("_crashed"), "CRASH").when(F.col("stopped") == 1, "STOP").otherwise("OPEN")
    return (
        tables["journals"]
        .join(F.broadcast(crashed), "journal", "left")
        .select(
            *RUN,
            F.col("member").alias("target"),
            F.col("incarnation").alias("target_incarnation"),
            F.col("boot_id").alias("_target_boot"),
            F.col("end_t_ns").alias("_end_t"),
            F.col("end_sim_ns").alias("_end_sim"),
            how.alias("_how"),
            F.lit(True).alias("_known"),
        )
    )
