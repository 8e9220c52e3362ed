"""Members that go from one view to the next together have delivered the same in it (virtual
synchrony, S0 P.2), each on the right side of the marker.

The marker cuts a view in two: what a member delivers before it is regular, what comes after it is
transitional, and of the agreed order exactly the positions from `pos` on come after it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, lowest, witness
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared


def synchrony(p: Prepared) -> list[Look]:
    """Of each cell that somebody on a route delivered in the view: who on it did not, though it
    was for it."""
    masks = p.small["ways"].where("together != 0").drop("along", "ordered")
    cells = p.cells.where(F.col("v").isNotNull()).where(F.col("service") != BASIC)
    along = F.col("together")
    lack = along.bitwiseAND(F.col("meant")).bitwiseAND(F.bitwise_not(F.col("told")))
    shown = cells.join(F.broadcast(masks), ["r", "v", "bank"]).withColumns(
        {"here": along.bitwiseAND(F.col("told")), "lack": lack}
    )
    if p.small.rows["sets"]:
        shown = _of_the_first(shown)
    if p.banks > 1:
        shown = _over_banks(shown)
    seen = witness()
    return [
        Look(
            shown,
            cases=[
                Case(
                    "virtual-synchrony/",
                    (F.col("here") != 0) & (F.col("lack") != 0),
                    who=seen[0],
                    other=lowest(F.col("lack")),
                    s="s",
                    first="c1",
                    last="c2",
                    v="v",
                    w="w",
                    rows=[seen],
                )
            ],
        )
    ]


def _of_the_first(shown: DataFrame) -> DataFrame:
    """Should members not agree on whom messages are for, the first of the route is believed."""
    mine = F.col("mask").bitwiseAND(F.col("together"))
    to = F.coalesce("t", F.lit(0))
    one = F.struct("bank", mine.bitwiseAND(-mine).alias("bit"), to.alias("to"))
    way = Window.partitionBy("r", "s", "c1", "v", "w")
    ranked = shown.withColumn("_first", F.min(F.when(mine != 0, one)).over(way))
    return ranked.where(to == F.col("_first.to"))


def _over_banks(shown: DataFrame) -> DataFrame:
    """Somebody in one bank may have what somebody in another lacks."""
    lacks = F.max(F.when(F.col("lack") != 0, F.struct("bank", "lack")))
    joined = shown.groupBy("r", "s", "c1", "c2", "v", "w", "t").agg(
        F.bit_or("here").alias("here"),
        lacks.alias("lacks"),
        F.min("witness").alias("witness"),
    )
    return joined.select("*", "lacks.bank", F.coalesce("lacks.lack", F.lit(0)).alias("lack"))


def _region() -> Column:
    """It says another side of the marker than it is on. A torn journal may lack the marker."""
    after = F.coalesce(F.col("lseq") > F.col("mark"), F.lit(False))
    return ~F.col("torn") & (F.col("regular") == after)


def _marked() -> Column:
    return ~F.col("torn") & F.expr("marker_lseq is not null and pos is not null and nonbasic")


def times() -> dict[str, Column]:
    """Of deliveries, as `order.in_order` has them."""
    return {"safe-marker": _region().cast("int") + _marked().cast("int")}


def region() -> Case:
    after = F.coalesce(F.col("lseq") > F.col("mark"), F.lit(False))
    side = F.when(after, "after the marker").otherwise("before any marker")
    said = F.when(F.col("regular"), "as REGULAR ").otherwise("as TRANSITIONAL ")
    return Case(
        "safe-marker/region",
        _region(),
        note=F.concat(said, side),
        rows=[("k", "mark"), ("k", "lseq")],
        **_given(),
    )


def side() -> Case:
    """And its position says the same."""
    late = F.expr("lseq > marker_lseq and pos < marker_pos")
    early = F.expr("lseq < marker_lseq and pos + last - first >= marker_pos")
    note = [F.lit("at position "), F.col("pos"), F.lit(" on the wrong side of the marker at ")]
    return Case(
        "safe-marker/side",
        _marked() & (late | early),
        note=F.concat(*note, "marker_pos"),
        rows=[("k", "marker_lseq"), ("k", "lseq")],
        **_given(),
    )


def _given() -> dict[str, Any]:
    return {"who": "k", "s": "s", "first": "first", "last": "last", "v": "v"}
