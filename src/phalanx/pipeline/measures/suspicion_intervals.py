"""Suspicions as intervals, and whether each was right.

A member suspects another from a row with SUSPECTED or FAULTY to the first with OPERATIONAL or SEMI
(TRUST), or to the view without it (REMOVAL), or to the end of the journal (END). Whether it was
right is judged by what is known of the suspected member:

    RIGHT     it was down
    APART     it was up and the two could not reach each other, as a simulator knows; or, in real
              journals, it was up, was removed, and went on in a view of its own: whether the
              network or the detector was at fault is not known
    MISTAKE   it was up, and reachable as far as is known: a simulator says so, or packets of it
              arrived again
    UNKNOWN   there is no evidence
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.core.effects import PROTOCOL_EVIDENCE
from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.history.clocks import own_time
from phalanx.pipeline.history.removal_outcome import with_fate
from phalanx.pipeline.measures.watch_intervals import PAIR, watches
from phalanx.pipeline.tables import Tables

_WATCH = (
    *("_began", "to_lseq", "to_ns", "end", "last_view", "simulated", "comparable", "down_ns"),
    *("cluster", "run", "group", "member", "incarnation"),
)


def suspicions(tables: Tables) -> DataFrame:
    """One row for each suspicion of a member of the view.

    cluster, run, group, member, incarnation: who suspected. target, target_incarnation: whom.
    spell: numbers the time that it was watched, by the row that began it.
    from_lseq, from_ns, to_ns: from when to when. evidence: what it began with.
    faulty: 1 if it came to FAULTY. ended_by: TRUST, REMOVAL or END. kind: see the module.
    mistake_ns: its length as a mistake, up to when the target went down; null if it was none.
    """
    intervals = _intervals(tables)
    intervals = with_fate(tables, intervals, "target", "target_incarnation", "last_view")
    kind = _kind()
    until = F.least("to_ns", F.coalesce("down_ns", "to_ns"))
    mistaken = F.when(F.col("kind") == "MISTAKE", until - F.col("from_ns"))
    return intervals.withColumn("kind", kind).select(
        *PAIR,
        F.col("_began").alias("spell"),
        *("from_lseq", "from_ns", "to_ns", "evidence", "faulty", "ended_by", "kind"),
        mistaken.alias("mistake_ns"),
    )


def _intervals(tables: Tables) -> DataFrame:
    whom = ["journal", "target", "target_incarnation"]
    spells = watches(tables).withColumn("_began", F.col("from_lseq"))
    spells = spells.withColumnRenamed("from_lseq", "lseq")
    bad = F.col("state").isin("SUSPECTED", "FAULTY")
    own = tables["peer_suspicion"].where(~F.col("evidence").isin(*PROTOCOL_EVIDENCE))
    rows = own.select(
        *whom,
        "lseq",
        own_time().alias("at_ns"),
        bad.alias("bad"),
        (F.col("state") == "FAULTY").cast("int").alias("faulty"),
        "evidence",
    )
    inside = as_of(rows, spells, whom, "lseq", list(_WATCH)).where("lseq < to_lseq")
    spell = [*whom, *_WATCH]
    line = Window.partitionBy(*spell).orderBy("lseq")
    turned = (F.col("bad") != F.coalesce(F.lag("bad").over(line), F.lit(False))).cast("int")
    runs = (
        inside.withColumn("_turned", turned)
        .withColumn("_run", F.sum("_turned").over(line.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*spell, "_run", "bad")
        .agg(
            F.min("lseq").alias("from_lseq"),
            F.min("at_ns").alias("from_ns"),
            F.min_by("evidence", "lseq").alias("evidence"),
            F.max("faulty").alias("faulty"),
        )
    )
    after = F.lead("from_ns").over(Window.partitionBy(*spell).orderBy("_run"))
    found = runs.withColumn("_trusted", after).where("bad")
    ended = F.when(F.col("_trusted").isNotNull(), "TRUST").when(F.col("end") == "VIEW", "REMOVAL")
    found = found.select(
        *spell, *("from_lseq", "from_ns", "evidence", "faulty"),
        F.coalesce(ended, F.lit("END")).alias("ended_by"),
        F.coalesce("_trusted", "to_ns").alias("_until"),
    )  # fmt: skip
    reach = tables["topology"].select("journal", F.col("lseq").alias("from_lseq"), "component")
    return (
        as_of(found, reach, ["journal"], "from_lseq", ["component"])
        .withColumn("to_ns", F.col("_until"))
        .withColumn("reached", F.array_contains("component", F.col("target")))
    )


def _kind() -> Column:
    trusted = F.col("ended_by") == "TRUST"
    removed = F.col("ended_by") == "REMOVAL"
    ended = F.col("fate").isin("LEFT", "CRASHED", "ENDED", "STOPPED")
    simulated = F.col("simulated") & F.col("comparable")
    return (
        F.when(F.col("down_ns") <= F.col("from_ns"), "RIGHT")
        .when(simulated & ~F.coalesce("reached", F.lit(True)), "APART")
        .when(simulated | trusted, "MISTAKE")
        .when(removed & (F.col("fate") == "APART"), "APART")
        .when(removed & F.col("comparable") & F.col("down_ns").isNotNull(), "MISTAKE")
        .when(removed & ~F.col("comparable") & ended, "RIGHT")
        .otherwise("UNKNOWN")
    )
