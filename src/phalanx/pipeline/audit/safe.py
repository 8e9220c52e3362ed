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
        .join(F.broadcast(p.small["duties"]), ["r", "v", "bank"])
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
