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
from phalanx.pipeline.audit.lives import view
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import coded, elsewhere, spell_of, spelt


def homes(p: Prepared) -> list[DataFrame]:
    modes = F.broadcast(p.runs.select("r", F.coalesce("mode", F.lit("?")).alias("mode")))
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
        .join(F.broadcast(_installed(p)), ["r", "v", "bank"], "left")
        .localCheckpoint()
    )
    one = ways.groupBy(*cell).agg(F.collect_list(F.struct("v", "bank", "have", "witness")).alias("all"))
    other = F.broadcast(
        _installed(p).withColumnsRenamed({"v": "w", "installed": "in_w"})
    )
    pairs = (
        ways.select(*cell, "v", "bank", "have", "witness")
        .join(one.select(*cell, F.explode(F.array_distinct(F.transform("all", lambda x: x.v))).alias("w")), cell)
        .where("v != w")
        .join(other, ["r", "w", "bank"], "left")
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


def _installed(p: Prepared) -> DataFrame:
    """Who installed a view, per bank."""
    bits = p.members.select("r", "k", "bank", "bit")
    return (
        p.stays.where("installed")
        .join(F.broadcast(bits), ["r", "k"])
        .groupBy("r", "v", "bank")
        .agg(F.bit_or("bit").alias("installed"))
    )


def initial_view(p: Prepared) -> list[DataFrame]:
    """Everything is sent, delivered and marked in the view that the member is in. A torn journal
    may lack its install."""
    columns = ["r", "k", "lseq", "v", "now", "s", "first", "last", "did"]
    late = p.rows.where("not torn and spell is null").withColumns(
        {"did": F.lit("delivered"), "now": F.when(F.col("now") != F.col("v"), F.col("now"))}
    )
    lost = late.select(*columns).unionByName(_acts(p).select(*columns))
    given: dict[str, Any] = {"who": "k", "v": "v", "w": "now", "rows": [("k", "lseq")]}
    what: dict[str, Any] = {"s": "s", "first": "first", "last": "last"}
    did = F.col("did")
    return [
        asked(p.counted, {"initial-view": F.col("whole")}),
        found(
            lost,
            Case("initial-view/delivered", did == "delivered", **given, **what),
            Case("initial-view/sent", did == "sent", **given, **what),
            Case("initial-view/marked", did == "marked", **given),
        ),
    ]


def _acts(p: Prepared) -> DataFrame:
    """Sends and markers of another view than the member was in."""
    sent = p.sent.select("r", F.col("s").alias("k"), "lseq", "v", "s", "first", "last")
    marked = coded(p.tables["trans_marker"], p.members).select(
        "r", "k", "lseq", view(F.col("r"), F.col("vid")).alias("v")
    )
    acts = sent.withColumn("did", F.lit("sent")).unionByName(
        marked.withColumn("did", F.lit("marked")), allowMissingColumns=True
    )
    torn = p.members.where("not torn").select("r", "k")
    stays = p.stays.select("r", "k", "v", "spells")
    placed = acts.join(F.broadcast(torn), ["r", "k"]).join(
        F.broadcast(stays), ["r", "k", "v"], "left"
    )
    lost = placed.where(spell_of(F.col("lseq")).isNull())
    return lost.join(F.broadcast(spelt(p.stays)), ["r", "k"], "left").withColumn(
        "now", elsewhere(F.col("lseq")).now
    )
