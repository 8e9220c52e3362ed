"""Members that go from one view to the next together have delivered the same in it (virtual
synchrony, S0 P.2), each on the right side of the marker.

The marker cuts a view in two: what a member delivers before it is regular, what comes after it is
transitional, and of the agreed order exactly the positions from `at_pos` on come after it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found, lowest, witness
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared


def synchrony(p: Prepared) -> list[DataFrame]:
    """Of each cell that somebody on a route delivered in the view: who on it did not, though it
    was for it."""
    masks = p.small["ways"].where("together != 0").drop("along", "ordered")
    cells = p.cells.where(F.col("v").isNotNull()).where(F.col("service") != BASIC)
    along = F.col("together")
    lack = along.bitwiseAND(F.col("meant")).bitwiseAND(F.bitwise_not(F.col("have")))
    shown = cells.join(F.broadcast(masks), ["r", "v", "bank"]).withColumns(
        {"here": along.bitwiseAND(F.col("have")), "lack": lack}
    )
    if p.banks > 1:
        shown = _over_banks(shown)
    seen = witness()
    return [
        found(
            shown,
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
            ),
        )
    ]


def _over_banks(shown: DataFrame) -> DataFrame:
    """Somebody in one bank may have what somebody in another lacks."""
    lacks = F.max(F.when(F.col("lack") != 0, F.struct("bank", "lack")))
    joined = shown.groupBy("r", "s", "c1", "c2", "v", "w", "t").agg(
        F.bit_or("here").alias("here"),
        lacks.alias("lacks"),
        F.min("witness").alias("witness"),
    )
    return joined.select("*", "lacks.bank", F.coalesce("lacks.lack", F.lit(0)).alias("lack"))


def sides(p: Prepared) -> list[DataFrame]:
    """A delivery says on which side of the marker it is, and its position says the same. A torn
    journal may lack the marker."""
    rows = p.deliveries.where("not torn")
    after = F.coalesce(F.col("lseq") > F.col("mark"), F.lit(False))
    wrong = F.col("regular") == after
    side = F.when(after, "after the marker").otherwise("before any marker")
    region = F.when(F.col("regular"), "as REGULAR ").otherwise("as TRANSITIONAL ")
    pos = F.col("pos") + F.col("first") - F.col("row_first")
    marked = F.col("marker_lseq").isNotNull() & pos.isNotNull() & (F.col("service") != BASIC)
    late, at = F.col("lseq") > F.col("marker_lseq"), F.col("marker_pos")
    end = pos + F.col("last") - F.col("first")
    astray = marked & ((late & (pos < at)) | (~late & (end >= at)))
    given: dict[str, Any] = {"who": "k", "s": "s", "first": "first", "last": "last", "v": "v"}
    astray_region = Case(
        "safe-marker/region",
        wrong,
        note=F.concat(region, side),
        rows=[("k", "mark"), ("k", "lseq")],
        **given,
    )
    return [
        asked(rows, {"safe-marker": wrong.cast("int") + F.coalesce(marked.cast("int"), F.lit(0))}),
        found(p.repeated.where("not torn"), astray_region),
        found(
            rows,
            astray_region,
            Case(
                "safe-marker/side",
                F.coalesce(astray, F.lit(False)),
                note=F.concat(
                    F.lit("at position "),
                    pos,
                    F.lit(" on the wrong side of the marker at "),
                    "marker_pos",
                ),
                rows=[("k", "marker_lseq"), ("k", "lseq")],
                **given,
            ),
        ),
    ]
