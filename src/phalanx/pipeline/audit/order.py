"""Order of agreed and safe messages (running prefix, weak total order), and of batches.

Positions count every ordered message of the view, whether it was addressed to me or not. So a
hole at a member is legal exactly where another member shows that the message there was not for it.
Members that went through a view alike (`routes`) have one order in it. If each message has one
position and positions grow, so do the sequences; only where that fails are sequences compared.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import Case, Look, witness
from phalanx.pipeline.audit.messages import AGREED, BASIC
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.ranges import cut, grid

PREFIX, WEAK, TOTO = "running-prefix", "weak-total-order", "toto-refinement"


def in_order(p: Prepared) -> DataFrame:
    """Deliveries, each next to what its member delivered before in the view: `at` and `cut`,
    position and batch of the last that had one. Basic messages stand outside."""
    rows = p.deliveries.withColumns(
        {"nonbasic": F.col("service") != BASIC, "ordered": F.col("service") >= AGREED}
    ).drop("o", "bank", "bit", "step", "ns", "frame", "t", "digest", "service")
    before = Window.partitionBy("r", "k", "v").orderBy("lseq", "first")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    end = F.struct((F.col("pos") + F.col("last") - F.col("first")).alias("end"), "lseq")
    placed = F.col("ordered") & F.col("pos").isNotNull()
    number = F.when(F.col("nonbasic") & F.col("batch").isNotNull(), F.struct("batch", "lseq"))
    return rows.withColumns(
        {
            "at": F.last(F.when(placed, end), ignorenulls=True).over(before),
            "cut": F.last(number, ignorenulls=True).over(before),
        }
    )


def cases() -> list[Case]:
    """Of deliveries: rising positions and batches of members that are compared with others."""
    compared = F.col("compared") & F.col("nonbasic")
    placed = compared & F.col("ordered") & F.col("pos").isNotNull()
    given: dict[str, Any] = {"who": "k", "s": "s", "first": "first", "last": "last", "v": "v"}
    return [
        Case(
            f"{PREFIX}/placeless",
            compared & F.col("ordered") & F.col("pos").isNull(),
            rows=[("k", "lseq")],
            **given,
        ),
        Case(
            f"{PREFIX}/back",
            placed & (F.col("pos") <= F.col("at.end")),
            note=F.concat("pos", F.lit(" after position "), "at.end"),
            rows=[("k", "at.lseq"), ("k", "lseq")],
            **given,
        ),
        Case(
            f"{TOTO}/back",
            compared & (F.col("batch") < F.col("cut.batch")),
            note=F.concat(F.lit("from batch "), "cut.batch", F.lit(" to "), "batch"),
            rows=[("k", "cut.lseq"), ("k", "lseq")],
            **given,
        ),
    ]


def total_order(p: Prepared) -> list[Look]:
    """Each message has one position and one batch on a route, and each position one message."""
    claims = _claims(p)
    return [_moved(claims), _taken(claims), _skipped(p.small["climbs"], claims)]


def _claims(p: Prepared) -> DataFrame:
    """Cells with a position or a batch, on each route of which somebody delivered them there.
    `lack` are those of the route's ordered members that did not, though it was for them."""
    cells = p.cells.where((F.col("service") != BASIC) & F.coalesce("pos", "batch").isNotNull())
    ways = p.small["ways"].drop("together")
    placed = F.coalesce("placed", F.lit(0))
    lack = F.col("ordered").bitwiseAND(F.col("meant")).bitwiseAND(F.bitwise_not(placed))
    pos = F.when(F.col("service") >= AGREED, F.col("pos"))
    claims = cells.join(F.broadcast(ways), ["r", "v", "bank"]).select(
        "r",
        "v",
        "w",
        "s",
        "c1",
        "c2",
        pos.alias("pos"),
        (pos + F.col("c2") - F.col("c1")).alias("end"),
        "batch",
        "bank",
        (F.col("mask").bitwiseAND(F.col("along")) != 0).alias("here"),
        lack.alias("lack"),
        "witness",
    )
    if p.banks > 1:  # somebody in one bank may have what somebody in another lacks
        cell = Window.partitionBy("r", "v", "w", "s", "c1", "pos", "batch")
        anywhere = {"here": F.max("here").over(cell), "witness": F.min("witness").over(cell)}
        claims = claims.withColumns(anywhere)
    return claims.where("here")


def _moved(claims: DataFrame) -> Look:
    """One message at two positions, or in two batches."""
    places = claims.groupBy("r", "v", "w", "s", "c1", "c2").agg(
        *[
            how(F.when(F.col(what).isNotNull(), F.struct(what, "witness"))).alias(f"{name}_{what}")
            for what in ("pos", "batch")
            for name, how in (("one", F.min), ("two", F.max))
        ]
    )
    cases = []
    for what, kind, note in (
        ("pos", f"{PREFIX}/moved", ""),
        ("batch", f"{TOTO}/apart", "in batch "),
    ):
        a, b = witness(f"one_{what}.witness"), witness(f"two_{what}.witness")
        one, two = f"one_{what}.{what}", f"two_{what}.{what}"
        cases.append(
            Case(
                kind,
                F.col(one) != F.col(two),
                who=a[0],
                other=b[0],
                s="s",
                first="c1",
                last="c2",
                v="v",
                note=F.concat(F.lit(note), one, F.lit(f", another {note or 'at '}"), two),
                rows=[a, b],
            )
        )
    return Look(places, cases=cases)


def _taken(claims: DataFrame) -> Look:
    """Two messages at one position."""
    cells = (
        claims.where("pos is not null")
        .groupBy("r", "v", "w", "s", "c1", "c2", "pos", "end")
        .agg(F.min("witness").alias("witness"))
    )
    along = Window.partitionBy("r", "v", "w").orderBy("pos", "end", "s", "c1")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    seen = cells.withColumn("before", F.max(F.struct("end", "witness")).over(before))
    a, b = witness(), witness("before.witness")
    return Look(
        seen,
        cases=[
            Case(
                f"{PREFIX}/taken",
                F.col("pos") <= F.col("before.end"),
                who=a[0],
                other=b[0],
                s="s",
                first="c1",
                last="c2",
                v="v",
                note=F.concat("pos", F.lit(", where another message is")),
                rows=[b, a],
            )
        ],
    )


def _skipped(climbs: DataFrame, claims: DataFrame) -> Look:
    """A hole below a position that the member has, where another has a message for it."""
    each = climbs.withColumn("w0", F.coalesce("w", F.lit(0))).drop("w")
    lacking = claims.where("lack != 0 and pos is not null").withColumn(
        "w0", F.coalesce("w", F.lit(0))
    )
    holes = lacking.join(F.broadcast(each), ["r", "v", "w0", "bank"])
    seen = witness()
    return Look(
        holes,
        cases=[
            Case(
                f"{PREFIX}/skipped",
                F.expr("lack & bit != 0 and pos < highest"),
                who=seen[0],
                other="k",
                s="s",
                first="c1",
                last="c2",
                v="v",
                note=F.col("pos").cast("string"),
                rows=[seen],
            )
        ],
    )


def weak_total_order(p: Prepared, broken: DataFrame) -> Look:
    """Each two that moved on together delivered what both have in one order. Asked of views that
    are broken already (columns r, v), message by message and pair by pair: where each message has
    one position and positions rise, sequences do not differ."""
    onward = p.small["stays"].where("next is not null and compared")
    onward = onward.select("r", "k", "v", F.col("next").alias("w"))
    members = onward.join(F.broadcast(broken.distinct()), ["r", "v"])
    rows = p.deliveries.where(F.col("service") >= AGREED).join(
        F.broadcast(members), ["r", "k", "v"]
    )
    keys = ["r", "v", "w", "s"]
    small = rows.select(*keys, "k", "lseq", "first", "last")
    cells = cut(small, grid([small], keys), keys).select(*keys, "k", "lseq", "c1", "c2")
    one = cells.withColumnsRenamed({"k": "a", "lseq": "a_lseq"})
    two = cells.withColumnsRenamed({"k": "b", "lseq": "b_lseq"})
    both = one.join(two, [*keys, "c1", "c2"]).where("a < b")
    along = Window.partitionBy("r", "v", "w", "a", "b").orderBy("a_lseq", "c1")
    last = F.lag(F.struct("b_lseq", "c1", "s", "c2")).over(along)
    apart = both.withColumn("last", last).where("struct(b_lseq, c1) < struct(last.b_lseq, last.c1)")
    people = p.small["people"].select("r", F.col("k").alias("_s"), "label")
    named = apart.join(
        F.broadcast(people), (apart["r"] == people["r"]) & (apart["last"]["s"] == people["_s"])
    ).drop(people["r"])
    return Look(
        named,
        cases=[
            Case(
                f"{WEAK}/",
                F.lit(True),
                who="a",
                other="b",
                s="s",
                first="c1",
                last="c2",
                v="v",
                w="w",
                note=F.concat("label", F.lit("#"), "last.c1"),
                rows=[("a", "a_lseq"), ("b", "b_lseq")],
            )
        ],
    )
