"""In which view a message goes up: sending view, same view, and initial view.

In mode `hold` a message is delivered in the view it was sent in. In mode `flow` one that was sent
during a change (phase 1) is carried into the next view; members that part ways may then deliver it
in different views, but two that were both in both of these views may not.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, witness
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.small import coded, elsewhere, number, spell_of


def _moved() -> tuple[Column, Column]:
    """Delivered in another view than it was sent in: where that is forbidden, and where it is if
    no change had begun."""
    sent = (F.col("n") > 0) & F.col("s_lseq").isNotNull()
    moved, hold = sent & (F.col("v") != F.col("s_v")), F.col("mode") == "hold"
    early = moved & ~hold & (F.col("s_phase") == 0) & (F.col("service") != BASIC)
    return moved & hold, early


def times() -> dict[str, Column]:
    sent = F.col("s_lseq").isNotNull() & F.col("head") & (F.col("mode") == "hold")
    return {"sending-view": F.when(sent, F.col("n")), "same-view": _moved()[1]}


def cases() -> list[Case]:
    """Of cells."""
    held, early = _moved()
    seen = witness()
    given: dict[str, Any] = {"who": seen[0], "s": "s", "first": "c1", "last": "c2"}
    given |= {"v": "v", "w": "s_v", "rows": [("s", "s_lseq"), seen]}
    return [Case("sending-view/", held, **given), Case("same-view/moved", early, **given)]


def one_view(p: Prepared) -> list[Look]:
    """Two views of one cell: somebody that delivered it in one installed the other as well, and
    the other way round."""
    parts = p.cells.where("n > 0 and s_lseq is not null").where(F.col("service") != BASIC)
    each = parts.where("head").groupBy("r", "s", "s_first").agg((F.sum("n") - 1).alias("same"))
    cell = ["r", "s", "c1", "c2", "mode"]
    ways = (
        parts.where("several and mask != 0")
        .groupBy(*cell, "v", "bank")
        .agg(F.bit_or("mask").alias("have"), F.min("witness").alias("witness"))
    )
    there = p.small["views"].select(
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
        Look(each, {"same-view": F.col("same")}),
        Look(
            both,
            cases=[
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
                )
            ],
        ),
    ]


def misplaced(did: str) -> Case:
    """Everything is sent, delivered and marked in the view that the member is in. A torn journal
    may lack its install."""
    what: dict[str, Any] = {"s": "s", "first": "first", "last": "last"}
    return Case(
        f"initial-view/{did}",
        ~F.col("torn") & F.col("spell").isNull(),
        who="s" if did == "sent" else "k",
        v="v",
        w="now",
        rows=[("s" if did == "sent" else "k", "lseq")],
        **({} if did == "marked" else what),
    )


def markers(p: Prepared) -> DataFrame:
    """Markers, and where in the life of their member they lie."""
    lseq = F.col("lseq")
    marked = coded(p.tables["transitional"], p.small)
    marked = marked.withColumn("v", number(F.col("r"), F.col("view")))
    stays = F.broadcast(p.small["stays"].select("r", "k", "v", "spells"))
    spell, now = spell_of(lseq).begin.alias("spell"), elsewhere(lseq).v.alias("now")
    placed = marked.join(stays, ["r", "k", "v"], "left")
    return placed.select("r", "k", "torn", "lseq", "v", spell, now)
