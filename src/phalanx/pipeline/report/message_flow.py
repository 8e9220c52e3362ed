"""Sends and deliveries of a sample of the messages, and suspicions.

The unit is the range of messages as it was sent. Each stretch of time contributes at most the same
number of ranges, chosen by a hash, so that a quiet hour is as visible as a burst. That number is
the largest that fits, and the model has the total of each stretch. A range is followed by its first
message: where and when it was delivered. No range is exploded: the numbers of the sample are joined
with the delivered ranges in blocks of BLOCK numbers, so that a range is compared with the few of
its block.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from phalanx.pipeline.report.model import SERVICES, DeliveryFlow, SendFlow, Suspicions
from phalanx.pipeline.report.time_axis import Axis
from phalanx.pipeline.tables import Tables

BLOCK = 1024
_SAMPLE = T.StructType(
    [
        T.StructField("run_no", T.IntegerType(), False),
        T.StructField("by", T.IntegerType(), False),
        T.StructField("block", T.LongType(), False),
        T.StructField("number", T.LongType(), False),
        T.StructField("send", T.IntegerType(), False),
    ]
)


def bucket_of(axis: Axis) -> list[int]:
    """How many microseconds one bucket of the axis holds, of each run."""
    return [run.span // axis.caps.buckets + 1 for run in axis.runs]


def bucketed(axis: Axis, frame: DataFrame) -> DataFrame:
    """With the bucket that `at` falls into."""
    widths = F.array(*(F.lit(width) for width in bucket_of(axis)))
    return frame.withColumn("width", F.element_at(widths, F.col("run_no") + 1)).selectExpr(
        "*", "greatest(0, at div width) AS bucket"
    )


def sampled(tables: Tables, axis: Axis, each: int) -> DataFrame:
    """Sent ranges, at most `each` of every bucket: run_no, life, at, first, count, service."""
    bucket = Window.partitionBy("run_no", "bucket")
    chosen = bucket.orderBy(F.xxhash64("life", "first"), "life", "first")
    placed = bucketed(axis, axis.place(tables["sent"]))
    return (
        placed.select(
            "run_no",
            "life",
            "at",
            "first",
            (F.col("last") - F.col("first") + 1).alias("count"),
            "service",
            F.row_number().over(chosen).alias("rank"),
        )
        .where(F.col("rank") <= each)
        .drop("rank")
    )


def delivered(tables: Tables, axis: Axis, sample: DataFrame) -> DataFrame:
    """Where the messages of the sample went up: run_no, send, life, at."""
    block = F.explode(F.expr(f"sequence(first div {BLOCK}, last div {BLOCK})"))
    placed = axis.name(axis.place(tables["deliver"]), "sender", "sender_incarnation", "by")
    ranges = placed.where(F.col("by").isNotNull()).select(
        "run_no", "by", "life", "at", "first", "last", block.alias("block")
    )
    met = ranges.join(F.broadcast(sample), ["run_no", "by", "block"])
    met = met.where(F.col("number").between(F.col("first"), F.col("last")))
    return met.select("run_no", "send", "life", "at")


def share(cells: Sequence[tuple[int, int]], sends: int, deliveries: int) -> int:
    """How many ranges of each cell (a bucket of a run) may be drawn, at least one: the most for
    which all together stay within `sends`, and their deliveries within `deliveries`. A cell is its
    ranges, and the members that may deliver each."""

    def fits(each: int) -> bool:
        kept = [(min(count, each), size) for count, size in cells]
        return sum(n for n, _ in kept) <= sends and sum(n * k for n, k in kept) <= deliveries

    low, high = 1, max((count for count, _ in cells), default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def collect_flows(
    tables: Tables, axis: Axis, ranges: Sequence[list[int]]
) -> list[tuple[SendFlow, DeliveryFlow]]:
    """Of each run. `ranges` are how many were sent in each bucket of it."""
    caps = axis.caps
    sizes = [len(run.lanes) for run in axis.runs]
    cells = [(n, size) for size, counts in zip(sizes, ranges, strict=True) for n in counts if n]
    each = share(cells, caps.sends, caps.deliveries)
    by_run = [
        (SendFlow(total=sum(counts), total_by_bucket=counts), DeliveryFlow()) for counts in ranges
    ]
    sample: list[tuple[int, int, int, int, int]] = []
    rows = sampled(tables, axis, each).orderBy("run_no", "at", "life", "first").collect()
    for row in rows:
        sends, _ = by_run[row.run_no]
        at = (row.run_no, row.life, row.first // BLOCK, row.first, len(sends.at))
        sample.append(at)
        sends.life.append(row.life)
        sends.at.append(row.at)
        sends.first.append(row.first)
        sends.count.append(row["count"])
        sends.service.append(SERVICES.index(row.service))
    if sample:
        frame = tables.spark.createDataFrame(sample, _SAMPLE)
        for row in delivered(tables, axis, frame).orderBy("run_no", "send", "life").collect():
            deliveries = by_run[row.run_no][1]
            deliveries.send.append(row.send)
            deliveries.life.append(row.life)
            deliveries.at.append(row.at)
    return by_run


def collect_suspicions(tables: Tables, axis: Axis) -> list[Suspicions]:
    """Changes of mind of the detectors, a sample by hash where there are too many."""
    each = max(1, axis.caps.marks // len(axis.runs))
    run = Window.partitionBy("run_no")
    placed = axis.name(
        axis.place(tables["peer_suspicion"]), "target", "target_incarnation", "about"
    )
    chosen = run.orderBy(F.xxhash64("life", "lseq"), "life", "lseq")
    found = (
        placed.where(F.col("about").isNotNull())
        .select(
            "run_no",
            "life",
            "about",
            "at",
            "state",
            "evidence",
            F.count("*").over(run).alias("total"),
            F.row_number().over(chosen).alias("rank"),
        )
        .where(F.col("rank") <= each)
    )
    by_run = [Suspicions() for _ in axis.runs]
    for row in found.orderBy("run_no", "at", "life").collect():
        suspicions = by_run[row.run_no]
        suspicions.life.append(row.life)
        suspicions.target.append(row.about)
        suspicions.at.append(row.at)
        suspicions.state.append(row.state)
        suspicions.evidence.append(row.evidence)
        suspicions.total = row.total
    return by_run
