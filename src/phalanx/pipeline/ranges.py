"""Sets of message numbers as ranges: a small algebra of frames.

A frame of ranges has key columns and two bounds, `first` and `last`, both included. Nothing here
looks at single messages, and nothing joins ranges with ranges: every function sorts boundaries
once or twice, so the cost is that of sorting the ranges.

islands     the unique maximal ranges
sweep       disjoint segments, with the sum of the weights that cover them
grid        the cells between all boundaries of several frames
cut         ranges as cells of a grid
first_wins  disjoint pieces, each of the range that comes first in some order
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

Keys = Sequence[str]


def islands(ranges: DataFrame, keys: Keys) -> DataFrame:
    """Ranges that touch or overlap, merged. Columns: keys, first, last."""
    before = Window.partitionBy(*keys).orderBy("first", "last")
    until_now = before.rowsBetween(Window.unboundedPreceding, -1)
    apart = F.coalesce(F.col("first") > F.max("last").over(until_now) + 1, F.lit(True))
    marked = ranges.select(*keys, "first", "last", apart.cast("int").alias("_new"))
    upto = before.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = marked.withColumn("_island", F.sum("_new").over(upto))
    merged = numbered.groupBy(*keys, "_island").agg(
        F.min("first").alias("first"), F.max("last").alias("last")
    )
    return merged.select(*keys, "first", "last")


def sweep(ranges: DataFrame, keys: Keys, weights: Sequence[str]) -> DataFrame:
    """Disjoint segments with the sum of each weight over the ranges that cover them."""
    begins = F.struct(F.col("first").alias("x"), *[F.col(w).cast("long").alias(w) for w in weights])
    ends = F.struct(
        (F.col("last") + 1).alias("x"), *[(-F.col(w).cast("long")).alias(w) for w in weights]
    )
    edges = ranges.select(*keys, F.explode(F.array(begins, ends)).alias("_edge"))
    summed = (
        edges.select(*keys, "_edge.*")
        .groupBy(*keys, "x")
        .agg(*[F.sum(w).alias(w) for w in weights])
    )
    along = Window.partitionBy(*keys).orderBy("x")
    upto = along.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    segments = summed.select(
        *keys,
        F.col("x").alias("first"),
        (F.lead("x").over(along) - 1).alias("last"),
        *[F.sum(w).over(upto).alias(w) for w in weights],
    )
    return segments.where(F.col("last").isNotNull())


def grid(frames: Sequence[DataFrame], keys: Keys) -> DataFrame:
    """All boundaries of the frames: cells that none of their ranges cuts. Columns: keys, cell,
    first, last. There are cells between ranges too."""
    edges = [
        ranges.select(
            *keys, F.explode(F.array(F.col("first"), F.col("last") + 1)).alias("first")
        ).distinct()
        for ranges in frames
    ]
    points = reduce(DataFrame.unionByName, edges).distinct()
    along = Window.partitionBy(*keys).orderBy("first")
    return points.select(
        *keys,
        F.row_number().over(along).alias("cell"),
        "first",
        (F.lead("first").over(along) - 1).alias("last"),
    )


def cut(ranges: DataFrame, cells: DataFrame, keys: Keys) -> DataFrame:
    """Each range as the cells that it is made of: its columns, and `c1` and `c2`, the bounds of a
    cell. Nearly all ranges are one cell; only the others are looked up twice."""
    starts = cells.select(
        *keys, F.col("first"), F.col("cell").alias("_from"), F.col("last").alias("_until")
    )
    begun = ranges.join(starts, [*keys, "first"])
    one = begun.where(F.col("_until") == F.col("last"))
    ends = cells.select(*keys, (F.col("first") - 1).alias("last"), F.col("cell").alias("_to"))
    many = begun.where(F.col("_until") != F.col("last")).join(ends, [*keys, "last"])
    many = many.withColumn("_cell", F.explode(F.sequence("_from", F.col("_to") - 1)))
    bounds = cells.select(
        *keys, F.col("cell").alias("_cell"), F.col("first").alias("c1"), F.col("last").alias("c2")
    )
    many = many.join(bounds, [*keys, "_cell"])
    columns = [*ranges.columns, "c1", "c2"]
    single = one.withColumn("c1", F.col("first")).withColumn("c2", F.col("last"))
    return single.select(*columns).unionByName(many.select(*columns))


def overlapping(ranges: DataFrame, keys: Keys) -> DataFrame:
    """The keys under which two ranges share a number."""
    before = Window.partitionBy(*keys).orderBy("first", "last")
    until_now = before.rowsBetween(Window.unboundedPreceding, -1)
    highest = F.max("last").over(until_now)
    shared = ranges.select(*keys, (F.col("first") <= highest).alias("_shared"))
    return shared.where("_shared").select(*keys).distinct()


def first_wins(ranges: DataFrame, keys: Keys, order: str) -> DataFrame:
    """Disjoint pieces: each number belongs to the range that has it and is first in `order`,
    which is unique under the keys. The columns of the ranges, with the bounds of the piece in
    `first` and `last` and those of the range in `row_first` and `row_last`."""
    cells = grid([ranges], keys)
    small = ranges.select(*keys, order, "first", "last")
    owned = cut(small, cells, keys).groupBy(*keys, "c1", "c2").agg(F.min(order).alias(order))
    pieces = islands(
        owned.select(*keys, order, F.col("c1").alias("first"), F.col("c2").alias("last")),
        [*keys, order],
    )
    whole = ranges.withColumnsRenamed({"first": "row_first", "last": "row_last"})
    return whole.join(pieces, [*keys, order])
