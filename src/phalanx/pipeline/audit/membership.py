"""Views: who installs what, and after what. All of it on installs, of which there are few."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding
from phalanx.pipeline.audit.prepare import Prepared


def self_inclusion(p: Prepared) -> list[DataFrame]:
    own = p.members.select("r", "k", "label")
    named = p.installs.join(F.broadcast(own), ["r", "k"])
    without = named.where(~F.array_contains("inside", F.col("label")))
    return [
        asked(p.installs, "self-inclusion"),
        finding(without, "self-inclusion/", who="k", v="v", rows=[("k", "lseq")]),
    ]


def local_monotonicity(p: Prepared) -> list[DataFrame]:
    """Epochs grow, and each install names the one before it; a torn journal may lack that one."""
    own = Window.partitionBy("r", "k").orderBy("nth")
    epoch = F.struct("joins", "removals")
    rows = p.installs.select(
        "r",
        "k",
        "v",
        "lseq",
        "prev",
        "torn",
        "nth",
        F.lag("v").over(own).alias("last_v"),
        F.lag("lseq").over(own).alias("last_lseq"),
        (epoch > F.lag(epoch).over(own)).alias("grew"),
    )
    vids = p.vids.select("r", F.col("v").alias("prev"), F.col("vid").alias("said"))
    later = rows.where("nth > 1").join(vids, ["r", "prev"], "left")
    shown = [("k", "last_lseq"), ("k", "lseq")]
    says = later.where("grew and not torn and not (prev <=> last_v)")
    origin = rows.where("nth = 1 and not torn and prev is not null")
    return [
        asked(later, "local-monotonicity"),
        finding(
            later.where("not grew"),
            "local-monotonicity/epoch",
            who="k",
            v="v",
            w="last_v",
            rows=shown,
        ),
        finding(
            says,
            "local-monotonicity/from",
            who="k",
            v="v",
            w="last_v",
            note=F.coalesce("said", F.lit("nowhere")),
            rows=shown,
        ),
        finding(
            origin, "local-monotonicity/origin", who="k", v="v", w="prev", rows=[("k", "lseq")]
        ),
    ]


def vid_sanity(p: Prepared) -> list[DataFrame]:
    """One view id, one view: the first install of it says which."""
    means = F.struct("inside", "joins", "removals", "context", "cause", "components")
    same = Window.partitionBy("r", "v").orderBy("k", "lseq")
    rows = p.installs.select(
        "r",
        "k",
        "v",
        "lseq",
        F.first(F.struct("k", "lseq")).over(same).alias("one"),
        (means != F.first(means).over(same)).alias("differs"),
    )
    shown = [("one.k", "one.lseq"), ("k", "lseq")]
    apart = rows.where("differs")
    return [
        asked(p.installs, "vid-sanity"),
        finding(apart, "vid-sanity/", who="one.k", other="k", v="v", rows=shown),
    ]


def mutual_agreement(p: Prepared) -> list[DataFrame]:
    """S0 P.1: who has each other in the next view has the same next view."""
    own = p.members.select("r", "k", "label")
    inside = p.views.select("r", "v", F.col("inside").alias("here"))
    movers = (
        p.moves.join(F.broadcast(own), ["r", "k"])
        .groupBy("r", "before", "v")
        .agg(F.array_sort(F.collect_list(F.struct("k", "lseq", "label"))).alias("movers"))
        .join(inside, ["r", "v"])
    )
    after = movers.groupBy("r", "before").agg(F.sum(F.size("movers")).alias("size"))
    one = movers.select("r", "before", *_as("one", "v", "movers", "here"))
    two = movers.select("r", "before", *_as("two", "v", "movers", "here"))
    pairs = one.join(two, ["r", "before"]).where("one_v < two_v")
    seen = pairs.select(
        "r",
        "before",
        "one_v",
        "two_v",
        _first_in("one_movers", "two_here").alias("a"),
        _first_in("two_movers", "one_here").alias("b"),
    ).where("a is not null and b is not null")
    named = seen.join(p.vids.select("r", F.col("v").alias("before"), "vid"), ["r", "before"])
    return [
        asked(after, "mutual-agreement", F.col("size") - 1),
        finding(
            named,
            "mutual-agreement/after",
            who="a.k",
            other="b.k",
            v="one_v",
            w="two_v",
            note=F.col("vid"),
            rows=[("a.k", "a.lseq"), ("b.k", "b.lseq")],
        ),
        *_joint_agreement(p),
    ]


def _as(prefix: str, *names: str) -> list[Column]:
    return [F.col(name).alias(f"{prefix}_{name}") for name in names]


def _first_in(movers: str, here: str) -> Column:
    there = F.filter(movers, lambda m: F.array_contains(F.col(here), m.label))
    return F.get(there, F.lit(0))


def _joint_agreement(p: Prepared) -> list[DataFrame]:
    """P.1 over components: two that come from different views, and each join both of these views
    and each other, join them in one view."""
    own = p.members.select("r", "k", "label")
    first = p.moves.select("r", "k", "v", "before", "nth")
    came = first.groupBy("r", "k", "v").agg(F.min_by("before", "nth").alias("came"))
    joins = (
        p.installs.where("size(components) > 0")
        .select("r", "k", "v", "lseq", "components")
        .join(came, ["r", "k", "v"], "left")
        .join(F.broadcast(own), ["r", "k"])
        .join(p.views.select("r", "v", "inside"), ["r", "v"])
    )
    united = (
        joins.select("r", "v", "components", F.explode("components").alias("part"))
        .groupBy("r", "part", "v")
        .agg(F.max("components").alias("united"))
    )
    ps = joins.select("r", F.col("came").alias("part"), *_as("a", *_JOIN))
    us = united.select("r", "part", F.col("v").alias("b_v"), "united")
    qs = joins.select("r", *_as("b", *_JOIN, "came"))
    both = ps.join(us, ["r", "part"]).where("a_v != b_v").join(qs, ["r", "b_v"])
    apart = both.where(
        "not (b_came <=> part) and array_contains(b_inside, a_label)"
        " and array_contains(a_inside, b_label) and array_contains(a_components, b_came)"
        " and array_contains(united, b_came)"
    )
    pair = {"one": F.least("a_v", "b_v"), "two": F.greatest("a_v", "b_v")}
    one = apart.withColumns(pair).dropDuplicates(["r", "one", "two"]).join(
        p.vids.select("r", F.col("v").alias("part"), "vid"), ["r", "part"]
    )
    shown = [("a_k", "a_lseq"), ("b_k", "b_lseq")]
    return [
        finding(
            one,
            "mutual-agreement/joining",
            who="a_k",
            other="b_k",
            v="a_v",
            w="b_v",
            note=F.col("vid"),
            rows=shown,
        )
    ]


_JOIN = ("k", "v", "lseq", "label", "inside", "components")


def transitional_set(p: Prepared) -> list[DataFrame]:
    """Of those that came, a member is told exactly those that came from where it came from; and
    it is told nobody that was not in both views."""
    own = p.members.select("r", "k", "label")
    moves = p.moves.join(F.broadcast(own), ["r", "k"])
    came = moves.groupBy("r", "v").agg(F.collect_set("label").alias("came"))
    along = moves.groupBy("r", "v", "before").agg(F.collect_set("label").alias("along"))
    here = p.views.select("r", "v", F.col("inside").alias("now"))
    there = p.views.select("r", F.col("v").alias("before"), F.col("inside").alias("then"))
    known = (
        moves.join(came, ["r", "v"])
        .join(along, ["r", "v", "before"])
        .join(here, ["r", "v"])
        .join(there, ["r", "before"], "left")
    )
    both = F.array_intersect("now", F.coalesce("then", "now"))
    told = F.array_intersect("trans", "came")
    wrong = F.array_union(
        F.array_except("trans", both),
        F.array_union(F.array_except(told, "along"), F.array_except("along", told)),
    )
    apart = known.select(
        "r", "k", "v", "before", "lseq", "trans", F.array_sort(wrong).alias("wrong")
    ).where("size(wrong) > 0")
    one = F.col("wrong")[0]
    is_in = F.when(F.array_contains("trans", one), "is in").otherwise("is not in")
    note = F.concat(one, F.lit(" "), is_in, F.lit(" its transitional set"))
    return [
        asked(known, "transitional-set", F.size("came")),
        finding(
            apart,
            "transitional-set/",
            who="k",
            v="v",
            w="before",
            note=note,
            rows=[("k", "lseq")],
        ),
    ]
