"""Members that go from one view to the next together have delivered the same in it (virtual
synchrony, S0 P.2), and passed the marker at the same position.

The marker cuts a view in two: what a member delivers before it is regular, what comes after it is
transitional, and of the agreed order exactly the positions from `at_pos` on come after it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, lowest, witness
from phalanx.pipeline.audit.homes import misplaced
from phalanx.pipeline.audit.messages import BASIC, addressed
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import spell_of


def _together(p: Prepared) -> DataFrame:
    """Routes on which at least two whole journals went on: their members."""
    onward = p.routes.where("w is not null and not torn")
    sizes = onward.groupBy("r", "v", "w").agg(F.count("*").alias("size")).where("size > 1")
    return onward.join(sizes, ["r", "v", "w"])


def virtual_synchrony(p: Prepared) -> list[DataFrame]:
    """Of each cell that somebody on the route delivered in the view: all on it that it was for."""
    together = _together(p)
    masks = together.groupBy("r", "v", "w", "bank").agg(F.bit_or("bit").alias("along"))
    cells = p.cells.where("n > 0 or mask = 0").where(F.col("service") != BASIC)
    sets = p.sets.select("r", "t", "masks")
    shown = (
        cells.where("v is not null")
        .join(F.broadcast(masks), ["r", "v", "bank"])
        .join(F.broadcast(sets), ["r", "t"], "left")
    )
    had = F.col("along").bitwiseAND(F.col("have"))
    lack = F.col("along").bitwiseAND(addressed("t", "masks")).bitwiseAND(
        F.bitwise_not(F.col("have"))
    )
    apart = shown.withColumns({"had_here": had, "lack": lack})
    if p.banks > 1:
        apart = _over_banks(apart)
    else:
        apart = apart.where("had_here != 0 and lack != 0")
    k, lseq = witness()
    return [
        asked(together, "virtual-synchrony"),
        finding(
            apart,
            "virtual-synchrony/",
            who=k,
            other=lowest(F.col("lack")),
            s="s",
            first="c1",
            last="c2",
            v="v",
            w="w",
            rows=[(k, lseq)],
        ),
    ]


def _over_banks(apart: DataFrame) -> DataFrame:
    """Somebody in one bank has what somebody in another lacks."""
    cell = ["r", "s", "c1", "c2", "v", "w", "t"]
    lacks = F.max(F.when(F.col("lack") != 0, F.struct("bank", "lack")))
    joined = apart.groupBy(*cell).agg(
        F.bit_or("had_here").alias("had_here"),
        lacks.alias("found"),
        F.min("witness").alias("witness"),
    )
    found = joined.where("had_here != 0 and found is not null")
    return found.select("*", "found.bank", "found.lack")


def safe_marker(p: Prepared) -> list[DataFrame]:
    return [*_same_marker(p), *_regions(p), *_sides(p)]


def _same_marker(p: Prepared) -> list[DataFrame]:
    marks = p.stays.where("marker_lseq is not null").select(
        "r", "k", "v", "marker_lseq", "marker_pos"
    )
    labels = p.members.select("r", "k", "label")
    known = _together(p).join(marks, ["r", "k", "v"], "left").join(F.broadcast(labels), ["r", "k"])
    said = F.concat("label", F.lit(" at "), F.coalesce(F.col("marker_pos").cast("string"), F.lit("none")))
    routes = (
        known.groupBy("r", "v", "w")
        .agg(
            F.count("marker_lseq").alias("marked"),
            F.count_distinct(F.coalesce("marker_pos", F.lit(-1))).alias("places"),
            F.array_sort(F.collect_list(said)).alias("said"),
            F.min(F.struct("k", "marker_lseq")).alias("one"),
            F.max(F.struct("k", "marker_lseq")).alias("two"),
        )
        .where("marked > 0")
    )
    return [
        asked(routes, "safe-marker"),
        finding(
            routes.where("places > 1"),
            "safe-marker/apart",
            who="one.k",
            other="two.k",
            v="v",
            w="w",
            note=F.concat_ws(", ", "said"),
            rows=[("one.k", "one.marker_lseq"), ("two.k", "two.marker_lseq")],
        ),
    ]


def _regions(p: Prepared) -> list[DataFrame]:
    """A delivery says on which side of the marker it is. A torn journal may lack the marker."""
    rows = p.rows.where("not torn").select(
        "r", "k", "v", "s", "lseq", "first", "last", "regular"
    )
    stays = F.broadcast(p.stays.select("r", "k", "v", "spells"))
    spell = spell_of(F.col("lseq"))
    placed = rows.join(stays, ["r", "k", "v"], "left").where(spell.isNotNull())
    placed = placed.select(*rows.columns, spell.mark.alias("mark"))
    lost = misplaced(p, rows).select(*rows.columns, "mark")
    after = F.coalesce(F.col("lseq") > F.col("mark"), F.lit(False))
    wrong = placed.unionByName(lost).where(F.col("regular") == after)
    side = F.when(after, "after the marker").otherwise("before any marker")
    region = F.when(F.col("regular"), "as REGULAR ").otherwise("as TRANSITIONAL ")
    return [
        asked(wrong, "safe-marker"),
        finding(
            wrong,
            "safe-marker/region",
            who="k",
            s="s",
            first="first",
            last="last",
            v="v",
            note=F.concat(region, side),
            rows=[("k", "mark"), ("k", "lseq")],
        ),
    ]


def _sides(p: Prepared) -> list[DataFrame]:
    """And its position says the same."""
    marks = p.stays.where("marker_lseq is not null").select(
        "r", "k", "v", "marker_lseq", "marker_pos"
    )
    placed = (
        p.deliveries.where("not torn and pos is not null")
        .where(F.col("service") != BASIC)
        .join(F.broadcast(marks), ["r", "k", "v"])
        .withColumn("pos", F.col("pos") + F.col("first") - F.col("row_first"))
    )
    end = F.col("pos") + F.col("last") - F.col("first")
    late = F.col("lseq") > F.col("marker_lseq")
    at = F.col("marker_pos")
    wrong = placed.where((late & (F.col("pos") < at)) | (~late & (end >= at)))
    note = F.concat(
        F.lit("at position "), "pos", F.lit(" on the wrong side of the marker at "), "marker_pos"
    )
    return [
        asked(placed, "safe-marker"),
        finding(
            wrong,
            "safe-marker/side",
            who="k",
            s="s",
            first="first",
            last="last",
            v="v",
            note=note,
            rows=[("k", "marker_lseq"), ("k", "lseq")],
        ),
    ]
