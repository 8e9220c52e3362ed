"""In which view a message goes up: sending view, same view, and initial view.

In mode `hold` a message is delivered in the view it was sent in. In mode `flow` one that was sent
during a change (phase 1) is carried into the next view; members that part ways may then deliver it
in different views, but two that were both in both of these views may not.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, witness
from phalanx.pipeline.audit.lives import view
from phalanx.pipeline.audit.messages import BASIC
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import coded, spell_of


def homes(p: Prepared) -> list[DataFrame]:
    modes = F.broadcast(p.runs.select("r", F.coalesce("mode", F.lit("?")).alias("mode")))
    parts = p.cells.where("n > 0 and s_lseq is not null").join(modes, "r")
    k, lseq = witness()
    shown = [("s", "s_lseq"), (k, lseq)]
    given = {"s": "s", "first": "c1", "last": "c2", "v": "v", "w": "s_v"}
    moved = parts.where("v != s_v")
    early = moved.where("mode != 'hold' and s_phase = 0").where(F.col("service") != BASIC)
    return [
        asked(parts.where("mode = 'hold' and head"), "sending-view", F.col("n")),
        finding(moved.where("mode = 'hold'"), "sending-view/", who=k, rows=shown, **given),
        asked(early, "same-view"),
        finding(early, "same-view/moved", who=k, rows=shown, **given),
        *_one_view(p, parts.where(F.col("service") != BASIC)),
    ]


def _one_view(p: Prepared, parts: DataFrame) -> list[DataFrame]:
    """Two views of one cell: somebody that delivered it in one installed the other as well, and
    the other way round."""
    each = parts.where("head").groupBy("r", "s", "s_first").agg((F.sum("n") - 1).alias("same"))
    several = parts.where("several and mask != 0")
    cell = ["r", "s", "c1", "c2", "mode"]
    pairs = (
        several.select(*cell, "v")
        .distinct()
        .join(several.select(*cell, F.col("v").alias("w")).distinct(), cell)
        .where("v < w")
    )
    had = several.select("r", "s", "c1", "v", "bank", "have", "witness").dropDuplicates(
        ["r", "s", "c1", "v", "bank"]
    )
    in_w = _installed(p).select("r", F.col("v").alias("w"), "bank", F.col("installed").alias("in_w"))
    in_v = _installed(p).select("r", "v", "bank", F.col("installed").alias("in_v"))
    ones = (
        pairs.join(had, ["r", "s", "c1", "v"])
        .join(F.broadcast(in_w), ["r", "w", "bank"], "left")
        .where("mode = 'hold' or have & coalesce(in_w, 0) != 0")
        .groupBy(*cell, "v", "w")
        .agg(F.min("witness").alias("a"))
    )
    others = (
        pairs.join(had.withColumnRenamed("v", "w"), ["r", "s", "c1", "w"])
        .join(F.broadcast(in_v), ["r", "v", "bank"], "left")
        .where("mode = 'hold' or have & coalesce(in_v, 0) != 0")
        .groupBy(*cell, "v", "w")
        .agg(F.min("witness").alias("b"))
    )
    both = ones.join(others, [*cell, "v", "w"])
    a, b = witness("a"), witness("b")
    return [
        asked(each, "same-view", F.col("same")),
        finding(
            both,
            "same-view/several",
            who=a[0],
            other=b[0],
            s="s",
            first="c1",
            last="c2",
            v="v",
            w="w",
            rows=[a, b],
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
    delivered = p.rows.select("r", "k", "torn", "lseq", "v", "s", "first", "last")
    sent = p.sends.select("r", F.col("s").alias("k"), "lseq", "v", "s", "row_first", "row_last")
    sent = sent.withColumnsRenamed({"row_first": "first", "row_last": "last"}).distinct()
    again = p.resent.select("r", F.col("s").alias("k"), "lseq", "v", "s", "first", "last")
    marked = coded(p.tables["trans_marker"], p.members).select(
        "r", "k", "lseq", view(F.col("r"), F.col("vid")).alias("v")
    )
    torn = p.members.select("r", "k", "torn")
    sent = sent.unionByName(again).distinct().join(F.broadcast(torn), ["r", "k"])
    marked = marked.join(F.broadcast(torn), ["r", "k"])
    whole = "not torn"
    found = [
        asked(delivered.where(whole), "initial-view"),
        asked(sent.where(whole), "initial-view"),
    ]
    for rows, way in ((delivered, "delivered"), (sent, "sent"), (marked, "marked")):
        lost = misplaced(p, rows.where(whole))
        messages = {n: n for n in ("s", "first", "last") if n in rows.columns}
        shown = [("k", "lseq")]
        found.append(
            finding(lost, f"initial-view/{way}", who="k", v="v", w="in", rows=shown, **messages)
        )
    return found


def misplaced(p: Prepared, rows: DataFrame) -> DataFrame:
    """Rows of another view than the member was in, with that one as `in`, and its marker."""
    stays = F.broadcast(p.stays.select("r", "k", "v", "spells"))
    outside = rows.join(stays, ["r", "k", "v"], "left").where(spell_of(F.col("lseq")).isNull())
    spells = (
        p.stays.select("r", "k", F.col("v").alias("in"), F.explode("spells").alias("spell"))
        .groupBy("r", "k")
        .agg(F.collect_list(F.struct("in", "spell")).alias("lived"))
    )
    lseq = F.col("lseq")
    here = F.filter("lived", lambda x: (lseq > x.spell.begin) & (lseq < x.spell.until))
    now = F.get(here, F.lit(0))
    return outside.drop("spells").join(F.broadcast(spells), ["r", "k"], "left").select(
        *rows.columns, now["in"].alias("in"), now["spell"]["mark"].alias("mark")
    )
