"""In which view a message goes up: sending view, same view, and initial view.

In mode `hold` a message is delivered in the view it was sent in. In mode `flow` one that was sent
during a change (phase 1) is carried into the next view; members that part ways may then deliver it
in different views, but two that were both in both of these views may not.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, asked, found, witness
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.small import coded, elsewhere, number, spell_of


def homes(p: Prepared) -> list[DataFrame]:
    modes = F.broadcast(p.small["runs"].select("r", F.coalesce("mode", F.lit("?")).alias("mode")))
    parts = p.cells.where("n > 0 and s_lseq is not null").join(modes, "r")
    hold, moved = F.col("mode") == "hold", F.col("v") != F.col("s_v")
    early = moved & ~hold & (F.col("s_phase") == 0) & (F.col("service") != BASIC)
    seen = witness()
    given: dict[str, Any] = {"who": seen[0], "s": "s", "first": "c1", "last": "c2"}
    given |= {"v": "v", "w": "s_v", "rows": [("s", "s_lseq"), seen]}
    held = F.when(hold & F.col("head"), F.col("n"))
    return [
        asked(parts, {"sending-view": held, "same-view": early}),
        found(
            parts,
            Case("sending-view/", moved & hold, **given),
            Case("same-view/moved", early, **given),
        ),
        *_one_view(p, parts.where(F.col("service") != BASIC)),
    ]


def _one_view(p: Prepared, parts: DataFrame) -> list[DataFrame]:
    """Two views of one cell: somebody that delivered it in one installed the other as well, and
    the other way round."""
    each = parts.where("head").groupBy("r", "s", "s_first").agg((F.sum("n") - 1).alias("same"))
    cell = ["r", "s", "c1", "c2", "mode"]
    ways = (
        parts.where("several and mask != 0")
        .groupBy(*cell, "v", "bank")
        .agg(F.bit_or("mask").alias("have"), F.min("witness").alias("witness"))
        .localCheckpoint()
    )
    there = p.small["duties"].select(
        "r", F.col("v").alias("w"), "bank", F.col("installed").alias("in_w")
    )
    pairs = (
        ways.join(ways.select(*cell, F.col("v").alias("w")).distinct(), cell)
        .where("v != w")
        .join(F.broadcast(there), ["r", "w", "bank"], "left")
        .where("mode = 'hold' or have & coalesce(in_w, 0) != 0")
        .groupBy(*cell, "v", "w")
        .agg(F.min("witness").alias("witness"))
    )
    back = pairs.select(
        *cell, F.col("v").alias("w"), F.col("w").alias("v"), F.col("witness").alias("other")
    )
    both = pairs.join(back, [*cell, "v", "w"]).where("v < w")
    a, b = witness(), witness("other")
    return [
        asked(each, {"same-view": F.col("same")}),
        found(
            both,
            Case(
                "same-view/several",
                F.lit(True),
                who=a[0],
                other=b[0],
                s="s",
                first="c1",
                last="c2",
                v="v",
                w="w",
                rows=[a, b],
            ),
        ),
    ]


def initial_view(p: Prepared) -> list[DataFrame]:
    """Everything is sent, delivered and marked in the view that the member is in. A torn journal
    may lack its install."""
    columns = ["r", "k", "lseq", "v", "now", "s", "first", "last", "did"]
    lost = "not torn and spell is null"
    delivered = p.rows.where(lost).withColumn("did", F.lit("delivered"))
    sent = p.sent.where(lost).withColumns({"did": F.lit("sent"), "k": F.col("s")})
    acts = (
        delivered.select(*columns)
        .unionByName(sent.select(*columns))
        .unionByName(_markers(p), allowMissingColumns=True)
    )
    given: dict[str, Any] = {"who": "k", "v": "v", "w": "now", "rows": [("k", "lseq")]}
    what: dict[str, Any] = {"s": "s", "first": "first", "last": "last"}
    did = F.col("did")
    return [
        found(
            acts,
            Case("initial-view/delivered", did == "delivered", **given, **what),
            Case("initial-view/sent", did == "sent", **given, **what),
            Case("initial-view/marked", did == "marked", **given),
        ),
    ]


def _markers(p: Prepared) -> DataFrame:
    """Markers of another view than the member was in."""
    lseq = F.col("lseq")
    marked = coded(p.tables["trans_marker"], p.small).where("not torn")
    marked = marked.withColumn("v", number(F.col("r"), F.col("vid")))
    stays = F.broadcast(p.small["stays"].select("r", "k", "v", "spells"))
    placed = marked.join(stays, ["r", "k", "v"], "left").where(spell_of(lseq).isNull())
    now, did = elsewhere(lseq).v.alias("now"), F.lit("marked").alias("did")
    return placed.select("r", "k", "lseq", "v", now, did)
