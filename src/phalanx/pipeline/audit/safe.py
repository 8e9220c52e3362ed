"""Safe prefix: who delivers a safe message before the marker knows that everyone in the view has
it, so everyone in the view delivers it there, in either region, or crashes or leaves.

Stability takes a frame of every member that was sent in the view. A member that never installed
the view sent none: then a regular delivery is wrong. The end of the story can be asked only of
members that left the view behind, or of all once the run has settled.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, lowest, witness
from phalanx.pipeline.audit.messages import SAFE, addressed
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.settling import living

NAME = "safe-prefix"


def safe_prefix(p: Prepared) -> list[DataFrame]:
    sets = p.sets.select("r", "t", "masks")
    cells = p.cells.where(F.col("service") == SAFE)
    if p.banks == 1:
        cells = cells.where("regular != 0")
    else:
        cells = _regular_anywhere(cells)
    shown = (
        cells.join(F.broadcast(_duties(p)), ["r", "v", "bank"])
        .join(F.broadcast(sets), ["r", "t"], "left")
        .withColumn("owe", F.col("duty").bitwiseAND(addressed("t", "masks")))
    )
    lack = F.col("owe").bitwiseAND(F.bitwise_not(F.col("have")))
    k, lseq = witness()
    given = {"s": "s", "first": "c1", "last": "c2", "v": "v"}
    rows = [(k, lseq)]
    return [
        asked(shown.where("absent != 0 or owe != 0"), NAME),
        finding(
            shown.where("absent != 0"),
            f"{NAME}/absent",
            who=k,
            other=lowest(F.col("absent")),
            rows=rows,
            **given,
        ),
        finding(
            shown.where(lack != 0),
            f"{NAME}/missing",
            who=k,
            other=lowest(lack),
            rows=rows,
            **given,
        ),
    ]


def _regular_anywhere(cells: DataFrame) -> DataFrame:
    way = ["r", "s", "c1", "c2", "v", "pos", "frame", "t"]
    regular = cells.groupBy(*way).agg(F.bit_or("regular").alias("any")).where("any != 0")
    keys = [cells[n].eqNullSafe(regular[n]) for n in way]
    both = cells.join(regular, keys, "left_semi")
    return both


def _duties(p: Prepared) -> DataFrame:
    """Per view and bank: who must deliver in it what is safe in it, and who is in it without ever
    having installed it, though all that it did is known."""
    inside = p.views.select("r", "v", F.explode("inside").alias("label"))
    people = p.members.where("known and not torn").select(
        "r", "k", "label", "bank", "bit", "whole"
    )
    through = p.stays.where("installed").select("r", "k", "v", F.lit(True).alias("installed"))
    left = p.moves.select("r", "k", F.col("before").alias("v"), F.lit(True).alias("closed"))
    ended = living(p).select("r", "k", "v", F.lit(True).alias("settled"))
    known = (
        inside.join(people, ["r", "label"])
        .join(through, ["r", "k", "v"], "left")
        .join(left, ["r", "k", "v"], "left")
        .join(ended, ["r", "k", "v"], "left")
    )
    zero = F.lit(0).cast("long")
    duty = F.expr("installed and (closed or settled)")
    absent = F.expr("installed is null and whole")
    return known.groupBy("r", "v", "bank").agg(
        F.bit_or(F.when(duty, F.col("bit")).otherwise(zero)).alias("duty"),
        F.bit_or(F.when(absent, F.col("bit")).otherwise(zero)).alias("absent"),
    )
