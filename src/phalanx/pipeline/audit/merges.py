"""Merged views report how far each of their components had delivered: the members of it that come
along, when they proposed the view.

A component had delivered the highest number that one of these had. Where a journal does not show
that of one of them, more may be reported than the others show, but not less.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look
from phalanx.pipeline.audit.prepare import Prepared

REPORT = ["r", "by", "side"]


def merges(p: Prepared) -> list[Look]:
    if not p.small.rows["sides"]:
        return []
    sides = p.small["sides"]
    said = sides.select(*REPORT, F.explode("said").alias("s", "told"))
    had = (
        p.rows.select("r", "k", "s", "lseq", "last")
        .join(F.broadcast(p.small["proposed"]), ["r", "k"])
        .where("lseq <= proposal")
        .groupBy(*REPORT, "s")
        .agg(F.max("last").alias("real"))
    )
    zero = F.lit(0).cast("long")
    both = said.withColumn("real", zero).unionByName(had.withColumn("told", zero))
    best = both.groupBy(*REPORT, "s").agg(F.max("told").alias("told"), F.max("real").alias("real"))
    judged = best.join(F.broadcast(sides.drop("said")), REPORT)
    case = Case(
        "merge-report-truth/upto",
        F.expr("told < real or (complete and told > real)"),
        who="by",
        s="s",
        first="real",
        last="real",
        v="v",
        w="w",
        note=F.col("told").cast("string"),
        rows=[("by", "side")],
    )
    return [Look(judged, cases=[case])]
