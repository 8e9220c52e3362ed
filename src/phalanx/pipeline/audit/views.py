"""Views: who installed what after what, what a view is, and who went through it alike.

The first install of a view, in the order of members, says who is in it; `vid-sanity` asks
whether the others say the same. Of a torn journal the row itself must say what came before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.lives import labels, view
from phalanx.pipeline.tables import Tables

LAST = (1 << 62) - 1


def coded(frame: DataFrame, members: DataFrame) -> DataFrame:
    """Rows with the run and the rank of the member that wrote them, instead of their names."""
    own = members.where("known").select("journal", "r", "k", "torn", "settled")
    bare = frame.drop("cluster", "run", "group", "node", "inc", "profile", "t_ns")
    return bare.join(F.broadcast(own), "journal")


def installs(tables: Tables, members: DataFrame) -> DataFrame:
    """Every install, with the view before it and the number of the row that ends its view."""
    rows = coded(tables["view_install"], members)
    own = Window.partitionBy("r", "k").orderBy("lseq")
    r = F.col("r")
    numbered = rows.select(
        "r",
        "k",
        "torn",
        "lseq",
        "step",
        F.when(F.col("settled"), F.col("sim_ns")).alias("ns"),
        "vid",
        view(r, F.col("vid")).alias("v"),
        "joins",
        "removals",
        F.array_sort(labels("members", "member_incs")).alias("inside"),
        "context",
        "cause",
        view(r, F.col("prev_vid")).alias("prev"),
        F.array_sort(F.array_distinct(labels("trans", "trans_incs"))).alias("trans"),
        F.array_sort(F.transform("components", lambda vid: F.xxhash64(r, vid))).alias("components"),
        F.row_number().over(own).alias("nth"),
        F.lead("lseq", 1, LAST).over(own).alias("until"),
    )
    again = Window.partitionBy("r", "k").orderBy("nth")
    before = F.when(F.col("torn"), F.col("prev")).otherwise(F.lag("v").over(again))
    return numbered.withColumn("before", before)


def views(installs: DataFrame) -> DataFrame:
    """What each view is: its name, and who is in it."""
    first = F.min_by(F.struct("vid", "inside"), F.struct("k", "lseq"))
    return installs.groupBy("r", "v").agg(first.alias("view")).select("r", "v", "view.*")


def moves(installs: DataFrame) -> DataFrame:
    """The first step of each member out of each view: from `before` to `v`."""
    first = Window.partitionBy("r", "k", "before").orderBy("nth")
    ranked = installs.where("before is not null").withColumn("_n", F.row_number().over(first))
    return ranked.where("_n = 1").drop("_n")


def stays(tables: Tables, members: DataFrame, installs: DataFrame) -> DataFrame:
    """Per member and view: the spells in which it was there, as numbers of rows between which
    its own rows lie, with the marker in each; and the first marker of the view."""
    markers = coded(tables["trans_marker"], members).select(
        "r", "k", view(F.col("r"), F.col("vid")).alias("v"), "lseq", "at_pos"
    )
    spells = installs.select("r", "k", "v", F.col("lseq").alias("begin"), "until")
    inside = markers.select("r", "k", F.col("lseq").alias("mark")).join(
        spells.drop("v"), ["r", "k"]
    )
    inside = inside.where("mark > begin and mark < until")
    marked = inside.groupBy("r", "k", "begin").agg(F.min("mark").alias("mark"))
    spelt = (
        spells.join(marked, ["r", "k", "begin"], "left")
        .groupBy("r", "k", "v")
        .agg(F.array_sort(F.collect_list(F.struct("begin", "until", "mark"))).alias("spells"))
    )
    first = markers.groupBy("r", "k", "v").agg(F.min(F.struct("lseq", "at_pos")).alias("marker"))
    return spelt.join(first, ["r", "k", "v"], "full").select(
        "r",
        "k",
        "v",
        F.col("spells").isNotNull().alias("installed"),
        F.coalesce("spells", F.array().cast(SPELLS)).alias("spells"),
        F.col("marker.lseq").alias("marker_lseq"),
        F.col("marker.at_pos").alias("marker_pos"),
    )


SPELLS = "array<struct<begin: bigint, until: bigint, mark: bigint>>"


def spell_of(lseq: Column) -> Column:
    """The spell that a row lies in, null if in none."""
    here = F.filter("spells", lambda s: (lseq > s.begin) & (lseq < s.until))
    return F.get(here, F.lit(0))


def spelt(stays: DataFrame) -> DataFrame:
    """Per member, all spells with their views."""
    each = stays.select("r", "k", F.col("v").alias("now"), F.explode("spells").alias("spell"))
    return each.groupBy("r", "k").agg(F.collect_list(F.struct("now", "spell")).alias("all_spells"))


def elsewhere(lseq: Column) -> Column:
    """The view and spell that a row lies in, whatever it says; null before the first."""
    here = F.filter("all_spells", lambda x: (lseq > x.spell.begin) & (lseq < x.spell.until))
    return F.get(here, F.lit(0))


def lived(installs: DataFrame, views: DataFrame) -> DataFrame:
    """Per member, as `s`, all it installed in order, and who was in it."""
    inside = views.select("r", "v", F.col("inside").alias("here"))
    known = installs.join(F.broadcast(inside), ["r", "v"])
    return known.groupBy("r", F.col("k").alias("s")).agg(
        F.array_sort(F.collect_list(F.struct("lseq", "step", "here"))).alias("lived")
    )


def routes(
    members: DataFrame, stays: DataFrame, moves: DataFrame, served: DataFrame
) -> DataFrame:
    """Who went through a view alike: those that came from `v` to the same next view `w`, and those
    that ended in it (`w` is null). One row a member on a route.

    Agreed is not uniform: of those that ended in a view that anybody left behind, only the living
    are compared. A torn journal may lack the install that says where its member went.
    """
    through = stays.where("installed").select("r", "k", "v")
    onward = moves.select("r", "k", F.col("before").alias("v"), F.col("v").alias("w"))
    ways = through.join(onward, ["r", "k", "v"], "left")
    strangers = served.select("r", "k", "v")
    uninstalled = strangers.join(through, ["r", "k", "v"], "left_anti").withColumn(
        "w", F.lit(None).cast("long")
    )
    fates = members.select("r", "k", "bank", "bit", "torn", "alive", "whole")
    known = ways.unionByName(uninstalled).join(fates, ["r", "k"])
    of_view = Window.partitionBy("r", "v")
    none, some = F.max(F.col("w").isNull()).over(of_view), F.count("w").over(of_view)
    several = (some > 0) & (none | (F.min("w").over(of_view) != F.max("w").over(of_view)))
    counted = known.withColumn("several", several)
    compared = F.col("w").isNotNull() | (
        ~F.col("torn") & (~F.col("several") | (F.col("alive") & F.col("whole")))
    )
    return counted.where(compared).select("r", "k", "v", "w", "bank", "bit", "torn")


def living(members: DataFrame, installs: DataFrame) -> DataFrame:
    """Who lives at the end of a settled run, and the view it is in."""
    own = installs.groupBy("r", "k").agg(F.max_by(F.struct("v", "lseq"), "nth").alias("end"))
    known = members.where("known and settled and alive").join(own, ["r", "k"], "left")
    return known.select(
        "r", "k", "node", "label", "bank", "bit", "reach", "reach_lseq", "end.v", "end.lseq"
    )
