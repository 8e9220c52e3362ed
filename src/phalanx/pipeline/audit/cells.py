"""All members' deliveries of the same messages, side by side, next to their sending.

The numbers of a sender are cut at every boundary of every range, sent or delivered: what lies in
one cell has one sending, and every member delivered all of it or none. A row is a cell and one way
in which it was delivered, with the mask of those that did; a cell that nobody delivered has one
row too. So what members have in common is compared once per cell and not once per member.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from phalanx.pipeline.audit.messages import BASIC, addressed, heard
from phalanx.pipeline.ranges import cut, grid

SENDER = ["r", "s"]


def cells(deliveries: DataFrame, sends: DataFrame, sets: DataFrame, banks: int) -> DataFrame:
    """Columns of the way: see `heard`; `pos` is that of `c1`, `meant` are those that it is for.
    Columns of the sending begin with `s_`, and are null where there is none. `have` are those who
    delivered the cell in `v`, `had` those who did in any view. `head`: the cell begins a part,
    that is a range of one delivery and one sending."""
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
    return _meant(_together(both.withColumn("bank", bank)), sets)


def _together(both: DataFrame) -> DataFrame:
    zero = F.lit(0).cast("long")
    both = both.withColumns({name: F.coalesce(name, zero) for name in ("n", "mask", "regular")})
    cell = Window.partitionBy("r", "s", "c1")
    banked = Window.partitionBy("r", "s", "c1", "bank")
    viewed = Window.partitionBy("r", "s", "c1", "bank", "v")
    told = F.when(F.col("service") != BASIC, F.col("v"))
    had = F.bit_or("mask").over(banked)
    way = F.struct("v", "service", "frame", "pos", "batch", "t", "first")
    return both.withColumns(
        {
            "have": F.bit_or("mask").over(viewed),
            "had": had,
            "had_regular": F.bit_or("regular").over(banked),
            "twice": F.sum("n").over(banked) > F.bit_count(had),
            "several": F.coalesce(F.min(told).over(cell) != F.max(told).over(cell), F.lit(False)),
            "head": F.col("c1") == F.greatest("first", F.coalesce("s_first", "first")),
            "once": F.row_number().over(banked.orderBy(way)) == 1,
        }
    )


def _meant(cells: DataFrame, sets: DataFrame) -> DataFrame:
    """With whom the messages were for: `meant` by the delivery, `s_meant` by the sending, and
    whether the sender itself is among them."""
    one = F.broadcast(sets.select("r", "t", "masks"))
    two = F.broadcast(
        sets.select("r", F.col("t").alias("s_t"), F.col("masks").alias("s_masks"), "ks")
    )
    to_self = F.col("s_t").isNull() | F.coalesce(F.array_contains("ks", F.col("s")), F.lit(False))
    return (
        cells.join(one, ["r", "t"], "left")
        .join(two, ["r", "s_t"], "left")
        .withColumns(
            {
                "meant": addressed("t", "masks"),
                "s_meant": addressed("s_t", "s_masks"),
                "to_self": to_self,
            }
        )
        .drop("masks", "s_masks", "ks")
    )
