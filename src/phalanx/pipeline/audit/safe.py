"""Safe prefix: who delivers a safe message before the marker knows that everyone in the view has
it, so everyone in the view delivers it there, in either region, or crashes or leaves.

Stability takes a frame of every member that was sent in the view. A member that never installed
the view sent none: then a regular delivery is wrong. The end of the story can be asked only of
members that left the view behind, or of all once the run has settled.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found, lowest, witness
from phalanx.pipeline.audit.messages import SAFE
from phalanx.pipeline.audit.prepare import Prepared

NAME = "safe-prefix"


def safe_prefix(p: Prepared) -> list[DataFrame]:
    cells = p.cells.where(F.col("service") == SAFE)
    if p.banks > 1:  # it may be regular in one bank and missing in another
        way = Window.partitionBy("r", "s", "c1", "v", "pos", "frame", "t")
        cells = cells.withColumns(
            {
                "regular": F.bit_or("regular").over(way),
                "witness": F.min("witness").over(way),
            }
        )
    shown = (
        cells.where("regular != 0")
        .join(F.broadcast(_duties(p)), ["r", "v", "bank"])
        .withColumn("owe", F.col("duty").bitwiseAND(F.col("meant")))
    )
    lack = F.col("owe").bitwiseAND(F.bitwise_not(F.col("have")))
    seen = witness()
    given: dict[str, Any] = {"who": seen[0], "s": "s", "first": "c1", "last": "c2", "v": "v"}
    given |= {"rows": [seen]}
    return [
        asked(shown, {NAME: (F.col("absent") != 0) | (F.col("owe") != 0)}),
        found(
            shown,
            Case(
                f"{NAME}/absent",
                F.col("absent") != 0,
                other=lowest(F.col("absent")),
                **given,
            ),
            Case(f"{NAME}/missing", lack != 0, other=lowest(lack), **given),
        ),
    ]


def _duties(p: Prepared) -> DataFrame:
    """Per view and bank: who must deliver in it what is safe in it, and who is in it without ever
    having installed it, though all that it did is known."""
    inside = p.views.select("r", "v", F.explode("inside").alias("label"))
    people = p.members.where("known and not torn").select("r", "k", "label", "bank", "bit", "whole")
    through = p.stays.where("installed").select("r", "k", "v", F.lit(True).alias("installed"))
    left = p.moves.select("r", "k", F.col("before").alias("v"), F.lit(True).alias("closed"))
    ended = p.living.select("r", "k", "v", F.lit(True).alias("settled"))
    known = inside.join(F.broadcast(people), ["r", "label"])
    for fact in (through, left, ended):
        known = known.join(F.broadcast(fact), ["r", "k", "v"], "left")
    zero = F.lit(0).cast("long")
    duty = F.expr("installed and (closed or settled)")
    absent = F.expr("installed is null and whole")
    return known.groupBy("r", "v", "bank").agg(
        F.bit_or(F.when(duty, F.col("bit")).otherwise(zero)).alias("duty"),
        F.bit_or(F.when(absent, F.col("bit")).otherwise(zero)).alias("absent"),
    )
