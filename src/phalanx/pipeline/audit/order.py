"""Order: of one sender (fifo), of agreed and safe messages (running prefix, weak total order), and
of batches.

Positions count every ordered message of the view, whether it was addressed to me or not. So a
hole at a member is legal exactly where another member shows that the message there was not for it.
Members that went through a view alike (`routes`) have one order in it. If each message has one
position and positions grow, so do the sequences; only where that fails are sequences compared.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.findings import asked, finding, witness
from phalanx.pipeline.audit.messages import AGREED, BASIC, addressed
from phalanx.pipeline.audit.prepare import Prepared
from phalanx.pipeline.audit.views import spell_of

PREFIX, WEAK, TOTO = "running-prefix", "weak-total-order", "toto-refinement"


def fifo(p: Prepared) -> list[DataFrame]:
    """Within one spell in a view a member delivers rising numbers of each sender."""
    stays = F.broadcast(p.stays.select("r", "k", "v", "spells"))
    rows = p.deliveries.where(F.col("service") != BASIC).select(
        "r", "k", "s", "v", "lseq", "first", "last"
    )
    spelt = rows.join(stays, ["r", "k", "v"], "left").withColumn(
        "spell", spell_of(F.col("lseq")).begin
    )
    along = Window.partitionBy("r", "k", "s", "v", "spell").orderBy("lseq", "first")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    seen = spelt.select(
        *rows.columns,
        F.max(F.struct("last", "first", "lseq")).over(before).alias("highest"),
    ).where("highest is not null")
    late = seen.where("first <= highest.last")
    cut = p.cells.where("head and n > 0 and c1 != first").where(F.col("service") != BASIC)
    note = F.concat(F.lit("its "), "highest.first", F.lit(".."), "highest.last")
    return [
        asked(seen, "fifo"),
        asked(cut, "fifo", F.col("n")),
        finding(
            late,
            "fifo/",
            who="k",
            s="s",
            first="first",
            last="last",
            v="v",
            note=note,
            rows=[("k", "highest.lseq"), ("k", "lseq")],
        ),
    ]


def total_order(p: Prepared) -> list[DataFrame]:
    ordered = F.col("service") >= AGREED
    on_route = p.routes.select("r", "k", "v", "w", "bank", "bit", "torn")
    counted = p.served.join(on_route, ["r", "k", "v"])
    placeless = p.deliveries.where(ordered & F.col("pos").isNull()).join(
        F.broadcast(on_route.select("r", "k", "v")), ["r", "k", "v"]
    )
    group = counted.where("ordered > 0")
    claims = _claims(p, group)
    found = [
        finding(
            placeless,
            f"{PREFIX}/placeless",
            who="k",
            s="s",
            first="first",
            last="last",
            v="v",
            rows=[("k", "lseq")],
        ),
        *_moved(claims),
        *_taken(claims),
        *_skipped(p, group, claims),
        *_backwards(p, on_route),
    ]
    return [asked(group, PREFIX, F.col("ordered")), *found, *_weak(p, group)]


def _claims(p: Prepared, group: DataFrame) -> DataFrame:
    """Cells with a position, on each route of which somebody delivered them there. `lack` are
    those of the route's ordered members that did not, though it was for them."""
    masks = group.groupBy("r", "v", "w", "bank").agg(
        F.bit_or("bit").alias("along"),
        F.bit_or(F.when(~F.col("torn"), F.col("bit")).otherwise(0)).alias("whole"),
    )
    cells = p.cells.where((F.col("service") >= AGREED) & F.col("pos").isNotNull()).where("n > 0")
    sets = p.sets.select("r", "t", "masks")
    meant = addressed("t", "masks")
    lack = F.col("whole").bitwiseAND(meant).bitwiseAND(F.bitwise_not(F.col("have")))
    return (
        cells.join(F.broadcast(masks), ["r", "v", "bank"])
        .join(F.broadcast(sets), ["r", "t"], "left")
        .select(
            "r",
            "v",
            "w",
            "s",
            "c1",
            "c2",
            "pos",
            (F.col("pos") + F.col("c2") - F.col("c1")).alias("end"),
            "batch",
            "bank",
            F.col("mask").bitwiseAND(F.col("along")).alias("here"),
            lack.alias("lack"),
            "witness",
        )
    )


def _moved(claims: DataFrame) -> list[DataFrame]:
    """One message at two positions."""
    cell = ["r", "v", "w", "s", "c1", "c2"]
    places = (
        claims.where("here != 0")
        .groupBy(*cell)
        .agg(
            F.min(F.struct("pos", "witness")).alias("one"),
            F.max(F.struct("pos", "witness")).alias("two"),
        )
        .where("one.pos != two.pos")
    )
    a, b = witness("one.witness"), witness("two.witness")
    note = F.concat("one.pos", F.lit(", and another at "), "two.pos")
    return [
        finding(
            places,
            f"{PREFIX}/moved",
            who=a[0],
            other=b[0],
            s="s",
            first="c1",
            last="c2",
            v="v",
            note=note,
            rows=[a, b],
        )
    ]


def _taken(claims: DataFrame) -> list[DataFrame]:
    """Two messages at one position."""
    cells = (
        claims.where("here != 0")
        .groupBy("r", "v", "w", "s", "c1", "c2", "pos", "end")
        .agg(F.min("witness").alias("witness"))
    )
    along = Window.partitionBy("r", "v", "w").orderBy("pos", "end", "s", "c1")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    clash = cells.withColumn("other", F.max(F.struct("end", "witness")).over(before)).where(
        "pos <= other.end"
    )
    a, b = witness(), witness("other.witness")
    return [
        finding(
            clash,
            f"{PREFIX}/taken",
            who=a[0],
            other=b[0],
            s="s",
            first="c1",
            last="c2",
            v="v",
            note=F.concat("pos", F.lit(", where another message is")),
            rows=[b, a],
        )
    ]


def _skipped(p: Prepared, group: DataFrame, claims: DataFrame) -> list[DataFrame]:
    """A hole below a position that the member has, where another has a message for it."""
    lacking = claims.where("lack != 0 and here != 0")
    each = group.where("not torn").select("r", "v", "w", "bank", "bit", "k", "highest")
    route = (lacking["w"].eqNullSafe(each["w"])) & (lacking["bank"] == each["bank"])
    same = (lacking["r"] == each["r"]) & (lacking["v"] == each["v"]) & route
    holes = (
        lacking.join(F.broadcast(each), same)
        .where("lack & bit != 0 and pos < highest")
        .select(lacking["r"], lacking["v"], "s", "c1", "c2", "pos", "k", "witness")
    )
    a, b = witness()
    return [
        finding(
            holes,
            f"{PREFIX}/skipped",
            who=a,
            other="k",
            s="s",
            first="c1",
            last="c2",
            v="v",
            note=F.col("pos").cast("string"),
            rows=[(a, b)],
        )
    ]


def _backwards(p: Prepared, on_route: DataFrame) -> list[DataFrame]:
    """Positions and batches of one member rise in the order of its deliveries."""
    rows = (
        p.deliveries.where((F.col("service") != BASIC) & F.coalesce("pos", "batch").isNotNull())
        .select("r", "k", "v", "s", "lseq", "first", "last", "row_first", "pos", "batch", "service")
        .join(F.broadcast(on_route.select("r", "k", "v")), ["r", "k", "v"])
        .withColumn("pos", F.col("pos") + F.col("first") - F.col("row_first"))
    )
    along = Window.partitionBy("r", "k", "v").orderBy("lseq", "first")
    before = along.rowsBetween(Window.unboundedPreceding, -1)
    end = F.struct((F.col("pos") + F.col("last") - F.col("first")).alias("end"), "lseq")
    placed = (F.col("service") >= AGREED) & F.col("pos").isNotNull()
    number = F.struct("batch", "lseq")
    seen = rows.select(
        *rows.columns,
        F.last(F.when(placed, end), ignorenulls=True).over(before).alias("at"),
        F.last(F.when(F.col("batch").isNotNull(), number), ignorenulls=True)
        .over(before)
        .alias("cut"),
    )
    given = {"who": "k", "s": "s", "first": "first", "last": "last", "v": "v"}
    back = seen.where(placed).where("pos <= at.end")
    again = seen.where("batch < cut.batch")
    pos_note = F.concat("pos", F.lit(" after position "), "at.end")
    cut_note = F.concat(F.lit("from batch "), "cut.batch", F.lit(" to "), "batch")
    return [
        finding(back, f"{PREFIX}/back", note=pos_note, rows=[("k", "at.lseq"), ("k", "lseq")], **given),
        finding(again, f"{TOTO}/back", note=cut_note, rows=[("k", "cut.lseq"), ("k", "lseq")], **given),
    ]


def _weak(p: Prepared, group: DataFrame) -> list[DataFrame]:
    """Of those that moved on together: each two delivered what both have in one order. A pair is
    looked at message by message only if its route is broken, which `broken` says."""
    onward = group.where("w is not null")
    sizes = onward.groupBy("r", "v", "w").agg(F.count("*").alias("size"))
    return [asked(sizes, WEAK, F.expr("size * (size - 1) div 2"))]


def weak_total_order(p: Prepared, broken: DataFrame) -> list[DataFrame]:
    """The pairs of `broken` routes: columns r, v. Quadratic in members, only there."""
    group = p.served.where("ordered > 0").join(p.routes, ["r", "k", "v"]).where("w is not null")
    members = group.join(F.broadcast(broken.distinct()), ["r", "v"]).select("r", "k", "v", "w")
    rows = p.deliveries.where(F.col("service") >= AGREED).join(
        F.broadcast(members), ["r", "k", "v"]
    )
    from phalanx.pipeline.ranges import cut, grid

    keys = ["r", "v", "w", "s"]
    small = rows.select(*keys, "k", "lseq", "first", "last")
    cells = cut(small, grid([small], keys), keys).select(*keys, "k", "lseq", "c1", "c2")
    one = cells.withColumnsRenamed({"k": "a", "lseq": "a_lseq"})
    two = cells.withColumnsRenamed({"k": "b", "lseq": "b_lseq"})
    both = one.join(two, [*keys, "c1", "c2"]).where("a < b")
    along = Window.partitionBy("r", "v", "w", "a", "b").orderBy("a_lseq", "c1")
    last = F.lag(F.struct("b_lseq", "c1", "s", "c2")).over(along)
    apart = both.withColumn("last", last).where(
        "struct(b_lseq, c1) < struct(last.b_lseq, last.c1)"
    )
    people = p.members.select("r", F.col("k").alias("_s"), "label")
    named = apart.join(
        F.broadcast(people), (apart["r"] == people["r"]) & (apart["last"]["s"] == people["_s"])
    ).drop(people["r"])
    note = F.concat("label", F.lit("#"), "last.c1")
    return [
        finding(
            named,
            f"{WEAK}/",
            who="a",
            other="b",
            s="s",
            first="c1",
            last="c2",
            v="v",
            w="w",
            note=note,
            rows=[("a", "a_lseq"), ("b", "b_lseq")],
        )
    ]


def batches(p: Prepared) -> list[DataFrame]:
    """Members that went through a view alike have each message in one batch. What a batch may
    hold is asked in `past`, that batches rise in `total_order`."""
    on_route = p.routes.select("r", "k", "v", "w", "bank", "bit")
    masks = on_route.groupBy("r", "v", "w", "bank").agg(F.bit_or("bit").alias("along"))
    cells = p.cells.where("batch is not null").where(F.col("service") != BASIC)
    here = cells.join(F.broadcast(masks), ["r", "v", "bank"]).where("mask & along != 0")
    apart = (
        here.groupBy("r", "v", "w", "s", "c1", "c2")
        .agg(
            F.min(F.struct("batch", "witness")).alias("one"),
            F.max(F.struct("batch", "witness")).alias("two"),
        )
        .where("one.batch != two.batch")
    )
    a, b = witness("one.witness"), witness("two.witness")
    note = F.concat(F.lit("in batch "), "one.batch", F.lit(", another in batch "), "two.batch")
    counted = p.served.join(on_route.select("r", "k", "v"), ["r", "k", "v"])
    return [
        asked(counted, TOTO, F.col("batched")),
        finding(
            apart,
            f"{TOTO}/apart",
            who=a[0],
            other=b[0],
            s="s",
            first="c1",
            last="c2",
            v="v",
            note=note,
            rows=[a, b],
        ),
    ]
