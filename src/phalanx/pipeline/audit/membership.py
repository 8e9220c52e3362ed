"""Views: who installs what, and after what. All of it on installs, of which there are few."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found
from phalanx.pipeline.audit.prepare import Prepared


def installing(p: Prepared) -> list[DataFrame]:
    """Self inclusion, local monotonicity and vid sanity: each install, the one before it at the
    same member, and the first one of the same view. A torn journal may lack the one before."""
    own = Window.partitionBy("r", "k").orderBy("nth")
    same = Window.partitionBy("r", "v").orderBy("k", "lseq")
    epoch = F.struct("joins", "removals")
    means = F.struct("inside", "joins", "removals", "context", "cause", "components")
    labels = p.members.select("r", "k", "label")
    vids = p.vids.select("r", F.col("v").alias("prev"), F.col("vid").alias("said"))
    rows = p.installs.withColumns(
        {
            "last_v": F.lag("v").over(own),
            "last_lseq": F.lag("lseq").over(own),
            "grew": epoch > F.lag(epoch).over(own),
            "one": F.first(F.struct("k", "lseq")).over(same),
            "differs": means != F.first(means).over(same),
        }
    )
    rows = rows.join(F.broadcast(labels), ["r", "k"]).join(F.broadcast(vids), ["r", "prev"], "left")
    later = F.col("nth") > 1
    elsewhere = ~F.col("torn") & ~F.col("prev").eqNullSafe(F.col("last_v"))
    mine, both = [("k", "lseq")], [("k", "last_lseq"), ("k", "lseq")]
    name = "local-monotonicity"
    where = {"who": "k", "v": "v"}
    said = F.coalesce("said", F.lit("nowhere"))
    return [
        asked(rows, {"self-inclusion": F.lit(1), "vid-sanity": F.lit(1), name: later}),
        found(
            rows,
            Case(
                "self-inclusion/",
                ~F.array_contains("inside", F.col("label")),
                rows=mine,
                **where,
            ),
            Case(f"{name}/epoch", later & ~F.col("grew"), w="last_v", rows=both, **where),
            Case(
                f"{name}/from",
                later & F.col("grew") & elsewhere,
                w="last_v",
                note=said,
                rows=both,
                **where,
            ),
            Case(
                f"{name}/origin",
                ~later & F.col("prev").isNotNull() & ~F.col("torn"),
                w="prev",
                rows=mine,
                **where,
            ),
            Case(
                "vid-sanity/",
                F.col("differs"),
                who="one.k",
                other="k",
                v="v",
                rows=[("one.k", "one.lseq"), ("k", "lseq")],
            ),
        ),
    ]


def mutual_agreement(p: Prepared) -> list[DataFrame]:
    """S0 P.1: who has each other in the next view has the same next view."""
    own = p.members.select("r", "k", "label")
    inside = p.views.select("r", "v", F.col("inside").alias("here"))
    movers = (
        p.moves.join(F.broadcast(own), ["r", "k"])
        .groupBy("r", "before", "v")
        .agg(F.array_sort(F.collect_list(F.struct("k", "lseq", "label"))).alias("movers"))
        .join(F.broadcast(inside), ["r", "v"])
    )
    ways = movers.groupBy("r", "before").agg(
        F.sum(F.size("movers")).alias("size"),
        F.array_sort(F.collect_list(F.struct("v", "movers", "here"))).alias("ways"),
    )
    several = ways.where("size(ways) > 1").select("r", "before", "ways", F.explode("ways").alias("one"))
    pairs = several.select("r", "before", "one", F.explode("ways").alias("two")).where("one.v < two.v")
    seen = pairs.select(
        "r",
        "before",
        "one.v",
        F.col("two.v").alias("w"),
        _first_in("one.movers", "two.here").alias("a"),
        _first_in("two.movers", "one.here").alias("b"),
    ).where("a is not null and b is not null")
    named = seen.join(
        F.broadcast(p.vids.select("r", F.col("v").alias("before"), "vid")), ["r", "before"]
    )
    return [
        asked(ways, {"mutual-agreement": F.col("size") - 1}),
        found(
            named,
            Case(
                "mutual-agreement/after",
                F.lit(True),
                who="a.k",
                other="b.k",
                v="v",
                w="w",
                note="vid",
                rows=[("a.k", "a.lseq"), ("b.k", "b.lseq")],
            ),
        ),
        *_joint_agreement(p),
    ]


def _first_in(movers: str, here: str) -> Column:
    there = F.filter(movers, lambda m: F.array_contains(F.col(here), m.label))
    return F.get(there, F.lit(0))


def _as(prefix: str, *names: str) -> list[Column]:
    return [F.col(name).alias(f"{prefix}_{name}") for name in names]


def _joint_agreement(p: Prepared) -> list[DataFrame]:
    """P.1 over components: two that come from different views, and each join both of these views
    and each other, join them in one view. Only views that share a component are looked at, so
    only those that one component went into twice."""
    own = p.members.select("r", "k", "label")
    came = p.moves.groupBy("r", "k", "v").agg(F.min_by("before", "nth").alias("came"))
    merged = p.installs.where("size(components) > 0")
    united = (
        merged.select("r", "v", "components", F.explode("components").alias("part"))
        .groupBy("r", "part", "v")
        .agg(F.max("components").alias("united"))
    )
    several = united.withColumn("_n", F.count("*").over(Window.partitionBy("r", "part")))
    several = several.where("_n > 1").drop("_n")
    joins = (
        merged.select("r", "k", "v", "lseq", "components")
        .join(F.broadcast(several.select("r", "v").distinct()), ["r", "v"])
        .join(F.broadcast(came), ["r", "k", "v"], "left")
        .join(F.broadcast(own), ["r", "k"])
        .join(F.broadcast(p.views.select("r", "v", "inside")), ["r", "v"])
    )
    ps = joins.select("r", F.col("came").alias("part"), *_as("a", *_JOIN))
    us = several.select("r", "part", F.col("v").alias("b_v"), "united")
    qs = joins.select("r", *_as("b", *_JOIN, "came"))
    both = ps.join(us, ["r", "part"]).where("a_v != b_v").join(qs, ["r", "b_v"])
    apart = both.where(
        "not (b_came <=> part) and array_contains(b_inside, a_label)"
        " and array_contains(a_inside, b_label) and array_contains(a_components, b_came)"
        " and array_contains(united, b_came)"
    )
    pair = {"one": F.least("a_v", "b_v"), "two": F.greatest("a_v", "b_v")}
    told = apart.withColumns(pair).dropDuplicates(["r", "one", "two"])
    named = told.join(F.broadcast(p.vids.select("r", F.col("v").alias("part"), "vid")), ["r", "part"])
    return [
        found(
            named,
            Case(
                "mutual-agreement/joining",
                F.lit(True),
                who="a_k",
                other="b_k",
                v="a_v",
                w="b_v",
                note="vid",
                rows=[("a_k", "a_lseq"), ("b_k", "b_lseq")],
            ),
        )
    ]


_JOIN = ("k", "v", "lseq", "label", "inside", "components")


def transitional_set(p: Prepared) -> list[DataFrame]:
    """Of those that came, a member is told exactly those that came from where it came from; and
    it is told nobody that was not in both views."""
    own = p.members.select("r", "k", "label")
    into, along = Window.partitionBy("r", "v"), Window.partitionBy("r", "v", "before")
    here = p.views.select("r", "v", F.col("inside").alias("now"))
    there = p.views.select("r", F.col("v").alias("before"), F.col("inside").alias("then"))
    known = (
        p.moves.join(F.broadcast(own), ["r", "k"])
        .join(F.broadcast(here), ["r", "v"])
        .join(F.broadcast(there), ["r", "before"], "left")
        .withColumns(
            {
                "came": F.collect_set("label").over(into),
                "along": F.collect_set("label").over(along),
            }
        )
    )
    both = F.array_intersect("now", F.coalesce("then", "now"))
    told = F.array_intersect("trans", "came")
    wrong = F.array_union(
        F.array_except("trans", both),
        F.array_union(F.array_except(told, "along"), F.array_except("along", told)),
    )
    judged = known.withColumn("wrong", F.get(F.array_sort(wrong), F.lit(0)))
    is_in = F.when(F.array_contains("trans", F.col("wrong")), " is in").otherwise(" is not in")
    return [
        asked(judged, {"transitional-set": F.size("came")}),
        found(
            judged,
            Case(
                "transitional-set/",
                F.col("wrong").isNotNull(),
                who="k",
                v="v",
                w="before",
                note=F.concat("wrong", is_in, F.lit(" its transitional set")),
                rows=[("k", "lseq")],
            ),
        ),
    ]
