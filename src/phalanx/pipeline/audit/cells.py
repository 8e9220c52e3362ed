"""All members' deliveries of the same messages, side by side, next to their sending.

The numbers of a sender are cut at every boundary of every range, sent or delivered: what lies in
one cell has one sending, and every member delivered all of it or none. A row is a cell and one way
in which it was delivered, with the mask of those that did; a cell that nobody delivered has one
row too. So what members have in common is compared once per cell and not once per member.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.messages import AGREED, BASIC, addressed, heard
from phalanx.pipeline.audit.small import Small
from phalanx.pipeline.ranges import cut, grid

SENDER = ["r", "s"]


def cells(deliveries: DataFrame, sends: DataFrame, small: Small, banks: int) -> DataFrame:
    """Columns of the way: see `heard`; `pos` is that of `c1`. Columns of the sending begin with
    `s_`, and are null where there is none. `have` are those who delivered the cell in `v`, `told`
    those who did so in order (not basic), `placed` those who did with an agreed position; `had`
    are those who delivered it in any view. `head`: the cell begins a part, that is a range of one
    delivery and one sending. `once`: the first way of a cell and bank."""
    ways = heard(deliveries, banks).localCheckpoint()
    sent = sends.select(
        "r",
        "s",
        "first",
        "last",
        "home",
        F.col("first").alias("s_first"),
        *[
            F.col(name).alias(f"s_{name}")
            for name in ("lseq", "step", "ns", "service", "v", "phase", "frame", "t")
        ],
    )
    numbers = grid([ways.select(*SENDER, "first", "last"), sent], SENDER).localCheckpoint()
    ways = cut(ways, numbers, SENDER)
    ways = ways.withColumn("pos", F.col("pos") + F.col("c1") - F.col("first"))
    sent = cut(sent, numbers, SENDER).drop("first", "last")
    both = ways.join(sent, [*SENDER, "c1", "c2"], "full")
    every = F.array(*[F.lit(bank) for bank in range(banks)])
    bank = F.explode(F.when(F.col("bank").isNull(), every).otherwise(F.array("bank")))
    together = _together(both.withColumn("bank", bank), banks)
    return _known(_meant(together, small), small)


def _together(both: DataFrame, banks: int) -> DataFrame:
    zero = F.lit(0).cast("long")
    both = both.withColumns({name: F.coalesce(name, zero) for name in ("n", "mask", "regular")})
    cell = Window.partitionBy("r", "s", "c1")
    banked = Window.partitionBy("r", "s", "c1", "bank")
    viewed = Window.partitionBy("r", "s", "c1", "bank", "v")
    shown = F.when(F.col("service") != BASIC, F.col("v"))
    ordered = (F.col("service") >= AGREED) & F.col("pos").isNotNull()
    had = F.bit_or("mask").over(banked)
    way = ["v", "service", "frame", "pos", "batch", "t", "first"]
    columns = {
        "have": F.bit_or("mask").over(viewed),
        "told": F.bit_or(F.when(F.col("service") != BASIC, F.col("mask"))).over(viewed),
        "placed": F.bit_or(F.when(ordered, F.col("mask"))).over(viewed),
        "had": had,
        "had_regular": F.bit_or("regular").over(banked),
        "twice": F.sum("n").over(banked) > F.bit_count(had),
        "several": F.coalesce(F.min(shown).over(cell) != F.max(shown).over(cell), F.lit(False)),
        "head": F.col("c1") == F.greatest("first", F.coalesce("s_first", "first")),
        "once": F.row_number().over(banked.orderBy(*way)) == 1,
    }
    if banks > 1:  # it may be regular in one bank and missing in another
        alike = Window.partitionBy("r", "s", "c1", *way)
        columns["regular"] = F.bit_or("regular").over(alike)
        columns["witness"] = F.min("witness").over(alike)
    return both.withColumns(columns)


def _meant(cells: DataFrame, small: Small) -> DataFrame:
    """With whom the messages were for: `meant` by the delivery, `s_meant` by the sending, and
    whether the sender itself is among them."""
    if not small.rows["sets"]:
        all_ = F.lit(-1).cast("long")
        return cells.withColumns({"meant": all_, "s_meant": all_, "to_self": F.lit(True)})
    sets = small["sets"]
    one = sets.select("r", "t", "masks")
    two = sets.select("r", F.col("t").alias("s_t"), F.col("masks").alias("s_masks"), "ks")
    to_self = F.col("s_t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    return (
        cells.join(F.broadcast(one), ["r", "t"], "left")
        .join(F.broadcast(two), ["r", "s_t"], "left")
        .withColumns(
            {
                "meant": addressed("t", "masks"),
                "s_meant": addressed("s_t", "s_masks"),
                "to_self": to_self,
            }
        )
        .drop("masks", "s_masks", "ks")
    )


def _known(cells: DataFrame, small: Small) -> DataFrame:
    """With what is known of the sender, of the view of the delivery, and of the home: see the
    tables of `small`. `in_v` and `in_o`: the sender is in the view of the delivery and of the
    sending, null where nobody installed it."""
    people = small["people"].select(
        "r",
        F.col("k").alias("s"),
        F.col("journal").isNotNull().alias("s_known"),
        F.col("torn").alias("s_torn"),
        F.col("whole").alias("s_whole"),
        F.col("sent_last").alias("s_sent_last"),
        F.col("bank").alias("own_bank"),
        F.col("bit").alias("own_bit"),
        (F.col("alive") & F.col("settled")).alias("lasting"),
        F.coalesce("mode", F.lit("?")).alias("mode"),
    )
    views = small["views"].select("r", "v", "bank", "ranks", "duty", "absent")
    origins = small["views"].where("bank = 0")
    origins = origins.select("r", F.col("v").alias("o"), F.col("ranks").alias("o_ranks"))
    known = (
        cells.join(F.broadcast(people), SENDER)
        .join(F.broadcast(views), ["r", "v", "bank"], "left")
        .join(F.broadcast(small["owed"]), [*SENDER, "bank", "home"], "left")
        .withColumn("in_v", F.array_contains("ranks", F.col("s")))
        .drop("ranks")
    )
    if all(person["journal"] is not None for person in small.rows["people"]):
        return known.withColumn("in_o", F.lit(True))
    return (
        known.join(F.broadcast(origins), ["r", "o"], "left")
        .withColumn("in_o", F.array_contains("o_ranks", F.col("s")))
        .drop("o_ranks")
    )
