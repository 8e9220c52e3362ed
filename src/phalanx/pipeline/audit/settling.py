"""How changes of membership end: precision, termination, bounded views. Asked of runs that have
settled, of members that live to the end. Components are told by the last topology rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import coded

VIEWS_FREE, VIEWS_PER_MEMBER = 4, 2
"""So many views may follow the last disturbance, and so many more for each member that lives."""


def living(p: Prepared) -> DataFrame:
    """Who lives at the end of a settled run, and the view it is in."""
    own = p.installs.groupBy("r", "k").agg(F.max_by(F.struct("v", "lseq"), "nth").alias("end"))
    return (
        p.members.where("known and settled and alive")
        .join(own, ["r", "k"], "left")
        .select("r", "k", "node", "label", "bank", "bit", "reach", "reach_lseq", "end.v", "end.lseq")
    )


def membership_precision(p: Prepared) -> list[DataFrame]:
    alive = living(p)
    all_alive = alive.groupBy("r").agg(
        F.array_sort(F.collect_list(F.struct("k", "node", "label", "reach", "v"))).alias("alive")
    )
    inside = p.views.select("r", "v", "inside")
    asked_of = (
        alive.where("reach is not null")
        .join(F.broadcast(all_alive), "r")
        .join(inside, ["r", "v"], "left")
    )
    due = F.filter(
        "alive",
        lambda m: F.array_contains("reach", m.node)
        & (m.reach.isNull() | (m.reach == F.col("reach"))),
    )
    rows = asked_of.select("*", due.alias("due"))
    labels = F.array_sort(F.transform("due", lambda m: m.label))
    here = F.coalesce("inside", F.array().cast("array<string>"))
    names = F.transform("due", lambda m: m.node)
    namesake = F.filter("due", lambda m: (m.k != F.col("k")) & (m.node == F.col("node")))
    judged = rows.select(
        "*",
        labels.alias("labels"),
        here.alias("here"),
        (F.size(F.array_distinct(names)) < F.size(names)).alias("unclear"),
        F.get(namesake, F.lit(0)).alias("namesake"),
    )
    told = judged.where("not unclear")
    others = told.where("here != labels")
    apart = told.where("here = labels").select(
        "*",
        F.explode(
            F.filter("due", lambda m: (m.k > F.col("k")) & ~m.v.eqNullSafe(F.col("v")))
        ).alias("far"),
    )
    note = F.concat(
        F.when(F.size("here") == 0, "nobody").otherwise(F.concat_ws(", ", "here")),
        F.lit(", but could reach "),
        F.concat_ws(", ", "labels"),
    )
    shown = [("k", "reach_lseq"), ("k", "lseq")]
    name = "membership-precision"
    return [
        asked(judged, name),
        finding(
            judged.where("namesake is not null"),
            f"{name}/namesake",
            who="k",
            other="namesake.k",
            rows=[("k", "reach_lseq")],
        ),
        finding(others, f"{name}/others", who="k", v="v", note=note, rows=shown),
        finding(apart, f"{name}/apart", who="k", other="far.k", v="v", w="far.v", rows=shown),
    ]


def bounded_views(p: Prepared) -> list[DataFrame]:
    run = p.members.where("known").groupBy("r").agg(F.max("changed_ns").alias("changed_ns"))
    bound = living(p).groupBy("r").agg(
        (VIEWS_FREE + VIEWS_PER_MEMBER * F.count("*")).alias("bound")
    )
    since = F.greatest("undisturbed_ns", "changed_ns")
    limits = p.runs.where("settled").join(run, "r").join(bound, "r", "left")
    limits = limits.select("r", since.alias("since"), "bound", "changes_max")
    alive = living(p).where("reach is not null").select("r", "k").join(limits, "r")
    late = p.installs.join(limits.select("r", "since"), "r").where("ns > since")
    nth = Window.partitionBy("r", "k").orderBy("nth")
    late = late.select("r", "k", "lseq", "v", F.row_number().over(nth).alias("late"))
    over = late.join(alive, ["r", "k"]).where("late = bound + 1")
    everyone = p.members.where("known").select("r", "k").join(limits, "r")
    everyone = everyone.where("changes_max is not null")
    needless = p.installs.join(everyone, ["r", "k"]).where("nth = changes_max + 2")
    late_note = F.concat(
        F.lit("more than "), "bound", F.lit(" views after the last disturbance, at "), "since"
    )
    note = F.concat(
        F.lit("more than "), F.col("changes_max") + 1, F.lit(" views, although nothing gave cause")
    )
    shown = [("k", "lseq")]
    return [
        asked(alive, "bounded-views"),
        asked(everyone, "bounded-views"),
        finding(over, "bounded-views/late", who="k", v="v", note=late_note, rows=shown),
        finding(needless, "bounded-views/needless", who="k", v="v", note=note, rows=shown),
    ]


def protocol_termination(p: Prepared) -> list[DataFrame]:
    """A change begins with a step and ends with FORGET or with an install, unless a join goes on
    through it: then the step before the install closed the view outside of IDLE."""
    steps = coded(p.tables["ctx_step"], p.members.where("alive and settled"))
    events = steps.select("r", "k", "lseq", "action", "stage", "context").unionByName(
        p.installs.select("r", "k", "lseq", F.lit("INSTALL").alias("action")),
        allowMissingColumns=True,
    )
    own = Window.partitionBy("r", "k").orderBy("lseq")
    earlier = own.rowsBetween(Window.unboundedPreceding, -1)
    installed = F.coalesce(
        F.count(F.when(F.col("action") == "INSTALL", 1)).over(earlier), F.lit(0)
    )
    spelt = events.withColumn("spell", installed)
    here = Window.partitionBy("r", "k", "spell").orderBy("lseq")
    here = here.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    closed = F.when(F.col("action") == "CLOSED", F.col("stage") != "IDLE")
    through = F.coalesce(F.last(closed, ignorenulls=True).over(here), F.lit(False))
    marked = spelt.withColumn("through", through)
    ends = (F.col("action") == "FORGET") | ((F.col("action") == "INSTALL") & ~F.col("through"))
    begins = ~F.col("action").isin("FORGET", "INSTALL", "CLOSED", "LEAVE")
    last = marked.groupBy("r", "k").agg(
        F.max(F.when(begins, F.struct("lseq", "action", "context"))).alias("begun"),
        F.max(F.when(ends, F.col("lseq"))).alias("ended"),
    )
    begun = last.where("begun is not null")
    stuck = begun.where("begun.lseq > coalesce(ended, 0)")
    note = F.concat("begun.action", F.lit(" in "), "begun.context")
    return [
        asked(begun, "protocol-termination"),
        finding(stuck, "protocol-termination/", who="k", note=note, rows=[("k", "begun.lseq")]),
    ]
