"""Runs, members and their fates: who lived until when, and who could reach whom.

Names become numbers once: `r` names a run, `k` a member by its rank among all that its run
names, `v` a view. `r` and `v` are 64-bit hashes, so two of a million views are taken for one with
probability 1 in 40 million. Sets of members are bit masks: member k is bit k % 62 of bank k / 62.

A run is *settled* if its simulator says so in every journal. Of any other run no clock is believed
across members (`ns` is null), nothing is expected to have happened in the end, and whoever stopped
counts as having left.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.tables import Tables

BANK = 62
"""Members a mask holds."""
ROW_NS = "struct<lseq: bigint, sim_ns: bigint>"
REACH = "struct<lseq: bigint, component: array<string>>"


def label(node: Column, inc: Column) -> Column:
    """The member as people write it, `ada.2`."""
    return F.concat(node, F.lit("."), inc.cast("string"))


def labels(nodes: str, incs: str) -> Column:
    return F.zip_with(F.col(nodes), F.col(incs), label)


def view(r: Column, vid: Column) -> Column:
    """The number of a view; null for none."""
    return F.when(vid.isNotNull(), F.xxhash64(r, vid))


def runs(tables: Tables) -> DataFrame:
    """One row a run. `mode` is null where headers do not agree on it."""
    journals = tables["journals"].where("rows > 0")
    mode = F.when(F.count_distinct(F.coalesce("mode", F.lit("?"))) == 1, F.max("mode"))
    return journals.groupBy("cluster", "run", "group").agg(
        F.xxhash64("cluster", "run", "group").alias("r"),
        (F.min("settled") == 1).alias("settled"),
        F.max("undisturbed_ns").alias("undisturbed_ns"),
        F.max("changes_max").alias("changes_max"),
        F.when(mode.isin("hold", "flow"), mode).alias("mode"),
        F.max("end_sim_ns").alias("end_ns"),
    )


def journals_of(tables: Tables, of: DataFrame) -> DataFrame:
    """One row a journal: its member, and what became of it."""
    journals = tables["journals"].where("rows > 0")
    known = journals.select("cluster", "run", "group", "journal", "node", "inc", "torn").join(
        F.broadcast(of.select("cluster", "run", "group", "r", "settled", "end_ns")),
        ["cluster", "run", "group"],
    )
    told = _told(tables)
    stop_ns = F.when(F.col("settled"), F.col("stop.sim_ns"))
    stopped = F.col("stop").isNotNull()
    early = stopped & (stop_ns.isNull() | (stop_ns < F.col("end_ns")))
    left = F.col("leave").isNotNull()
    left_ns = F.when(left, F.col("leave.sim_ns")).when(early, stop_ns)
    crashed = F.coalesce("crashed", F.lit(False))
    torn = F.col("torn") == 1
    zero = F.lit(0).cast("long")
    changed = [F.coalesce(when, zero) for when in (F.col("told_ns"), left_ns)]
    return known.join(told, "journal", "left").select(
        "journal",
        "r",
        "node",
        "inc",
        "settled",
        torn.alias("torn"),
        stopped.alias("stopped"),
        (~torn & ~crashed & ~left & ~early).alias("alive"),
        (~torn & (stopped | (F.col("settled") & ~crashed))).alias("whole"),
        F.col("reach.component").alias("reach"),
        F.col("reach.lseq").alias("reach_lseq"),
        F.greatest(*changed).alias("changed_ns"),
    )


def _told(tables: Tables) -> DataFrame:
    """What journals say of fates, put together: one row a journal that says anything."""
    nothing = {"crashed": "boolean", "stop": ROW_NS, "leave": ROW_NS, "reach": REACH}
    rows = [
        (tables["life"], {"crashed": F.col("op") == "CRASH", "stop": _when("op = 'STOP'")}),
        (tables["ctx_step"].where("action = 'LEAVE'"), {"leave": _when("true")}),
        (tables["topology"], {"reach": F.struct("lseq", "component")}),
    ]
    frames = [
        frame.select(
            "journal",
            *[given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in nothing.items()],
            (F.lit(None) if "leave" in given else F.when(_lasting(given), F.col("sim_ns")))
            .cast("long")
            .alias("told_ns"),
        )
        for frame, given in rows
    ]
    return (
        reduce(DataFrame.unionByName, frames)
        .groupBy("journal")
        .agg(
            F.max("crashed").alias("crashed"),
            F.max("stop").alias("stop"),
            F.min("leave").alias("leave"),
            F.max("reach").alias("reach"),
            F.max("told_ns").alias("told_ns"),
        )
    )


def _when(condition: str) -> Column:
    return F.when(F.expr(condition), F.struct("lseq", "sim_ns"))


def _lasting(given: dict[str, Column]) -> Column:
    """Rows that change the truth about who is there: all but a STOP, which may be the end."""
    return F.col("op") != "STOP" if "stop" in given else F.lit(True)


def members(journals: DataFrame, named: DataFrame) -> DataFrame:
    """Everybody that a run names, ranked. `known`: there is a journal of it. The fates of others
    are null, and no question that is asked of fates is asked of them."""
    everybody = journals.select("r", "node", "inc").unionByName(named).distinct()
    rank = F.row_number().over(Window.partitionBy("r").orderBy("node", "inc")) - 1
    ranked = everybody.select("r", "node", "inc", rank.alias("k"))
    return ranked.join(journals, ["r", "node", "inc"], "left").select(
        "r",
        "k",
        "node",
        "inc",
        label(F.col("node"), F.col("inc")).alias("label"),
        (F.col("k") / BANK).cast("int").alias("bank"),
        F.expr(f"shiftleft(1L, k % {BANK})").alias("bit"),
        F.col("journal").isNotNull().alias("known"),
        *[column for column in journals.columns if column not in ("r", "node", "inc")],
    )
