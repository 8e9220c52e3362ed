"""How changes of membership end: precision, termination, bounded views. Asked of runs that have
settled, of members that live to the end. Components are told by the last topology rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import coded

NAME = "bounded-views"
VIEWS_FREE, VIEWS_PER_MEMBER = 4, 2
"""So many views may follow the last disturbance, and so many more for each member that lives."""


def membership_precision(p: Prepared) -> list[DataFrame]:
    alive = p.living
    all_alive = alive.groupBy("r").agg(
        F.array_sort(F.collect_list(F.struct("k", "node", "label", "reach", "v"))).alias("alive")
    )
    inside = F.broadcast(p.views.select("r", "v", "inside"))
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
    far = F.filter("due", lambda m: (m.k > F.col("k")) & ~m.v.eqNullSafe(F.col("v")))
    judged = judged.withColumn("far", F.get(far, F.lit(0)))
    note = F.concat(
        F.when(F.size("here") == 0, "nobody").otherwise(F.concat_ws(", ", "here")),
        F.lit(", but could reach "),
        F.concat_ws(", ", "labels"),
    )
    shown = [("k", "reach_lseq"), ("k", "lseq")]
    name = "membership-precision"
    clear, wrong = ~F.col("unclear"), F.col("here") != F.col("labels")
    return [
        asked(judged, {name: F.lit(1)}),
        found(
            judged,
            Case(
                f"{name}/namesake",
                F.col("namesake").isNotNull(),
                who="k",
                other="namesake.k",
                rows=shown[:1],
            ),
            Case(f"{name}/others", clear & wrong, who="k", v="v", note=note, rows=shown),
            Case(
                f"{name}/apart",
                clear & ~wrong & F.col("far").isNotNull(),
                who="k",
                other="far.k",
                v="v",
                w="far.v",
                rows=shown,
            ),
        ),
    ]


def bounded_views(p: Prepared) -> list[DataFrame]:
    """After the last disturbance, and where it is known how often there was cause at all."""
    people = p.members.where("known").groupBy("r").agg(
        F.max("changed_ns").alias("changed_ns"), F.count(F.when(F.col("alive"), 1)).alias("living")
    )
    limits = (
        p.runs.where("settled")
        .join(people, "r")
        .select(
            "r",
            F.greatest("undisturbed_ns", "changed_ns").alias("since"),
            (VIEWS_FREE + VIEWS_PER_MEMBER * F.col("living")).alias("bound"),
            "changes_max",
        )
    )
    everyone = (
        p.members.where("known")
        .select("r", "k", (F.col("alive") & F.col("reach").isNotNull()).alias("calm"))
        .join(F.broadcast(limits), "r")
    )
    own = Window.partitionBy("r", "k").orderBy("nth")
    upto = own.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    late = F.count(F.when(F.col("ns") > F.col("since"), 1)).over(upto)
    rows = p.installs.join(F.broadcast(everyone), ["r", "k"]).withColumn("late", late)
    over = F.col("calm") & (F.col("ns") > F.col("since")) & (F.col("late") == F.col("bound") + 1)
    needless = F.col("nth") == F.col("changes_max") + 2
    given: dict[str, Any] = {"who": "k", "v": "v", "rows": [("k", "lseq")]}
    return [
        asked(everyone, {NAME: F.col("calm").cast("int") + F.expr("int(changes_max is not null)")}),
        found(
            rows,
            Case(
                f"{NAME}/late",
                over,
                note=F.concat(
                    F.lit("more than "),
                    "bound",
                    F.lit(" views after the last disturbance, at "),
                    "since",
                ),
                **given,
            ),
            Case(
                f"{NAME}/needless",
                F.coalesce(needless, F.lit(False)),
                note=F.concat(
                    F.lit("more than "),
                    F.col("changes_max") + 1,
                    F.lit(" views, although nothing gave cause for more"),
                ),
                **given,
            ),
        ),
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
    return [
        asked(begun, {"protocol-termination": F.lit(1)}),
        found(
            begun,
            Case(
                "protocol-termination/",
                F.expr("begun.lseq > coalesce(ended, 0)"),
                who="k",
                note=F.concat("begun.action", F.lit(" in "), "begun.context"),
                rows=[("k", "begun.lseq")],
            ),
        ),
    ]
