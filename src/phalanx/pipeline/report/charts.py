"""Charts of the report page: throughput over time, traffic and loss per link, and latency.

Latencies are those of `phalanx measures` (measures/latency.py), grouped by service and by link.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.measures.latency import percentiles, timed_parts, whole_us
from phalanx.pipeline.measures.links import links, share
from phalanx.pipeline.report.message_flow import bucket_of, bucketed
from phalanx.pipeline.report.model import SERVICES, Latency, LinkLoss, Throughput
from phalanx.pipeline.report.time_axis import Axis
from phalanx.pipeline.tables import Tables

MESSAGES = "sum(last - first + 1)"


def volumes(tables: Tables, axis: Axis, table: str) -> DataFrame:
    """Messages and ranges of `send` or `deliver` by run_no, service and bucket."""
    placed = bucketed(axis, axis.place(tables[table]))
    return placed.groupBy("run_no", "service", "bucket").agg(
        F.expr(MESSAGES).alias("messages"), F.count("*").alias("ranges")
    )


def collect_throughput(tables: Tables, axis: Axis) -> tuple[list[Throughput], list[list[int]]]:
    """Of each run; and how many ranges were sent in each bucket of it."""
    buckets = axis.caps.buckets

    def empty() -> list[list[int]]:
        return [[0] * buckets for _ in SERVICES]

    by_run = [Throughput(width, empty(), empty()) for width in bucket_of(axis)]
    ranges = [[0] * buckets for _ in axis.runs]
    sent = volumes(tables, axis, "sent").withColumn("table", F.lit("sent"))
    up = volumes(tables, axis, "deliver").withColumn("table", F.lit("deliver"))
    for row in sent.unionByName(up).collect():
        chart, bucket = by_run[row.run_no], min(row.bucket, buckets - 1)
        lines = chart.sent if row.table == "sent" else chart.delivered
        lines[SERVICES.index(row.service)][bucket] += row.messages
        if row.table == "sent":
            ranges[row.run_no][bucket] += row.ranges
    return by_run, ranges


def between(tables: Tables, axis: Axis) -> DataFrame:
    """run_no, by, to (lanes) and the messages that `to` delivered of `by`."""
    placed = axis.name(axis.place(tables["deliver"]), "sender", "sender_incarnation", "by")
    return (
        placed.where(F.col("by").isNotNull())
        .groupBy("run_no", F.col("by_lane").alias("by"), F.col("lane").alias("to"))
        .agg(F.expr(MESSAGES).alias("messages"))
    )


def lost(tables: Tables, axis: Axis) -> DataFrame:
    """run_no, by, to (lanes), frames, missed, repeated, loss: what members counted on links."""
    counted = axis.name(axis.of_run(links(tables)), "peer", "peer_incarnation", "by")
    counted = axis.name(counted, "member", "incarnation", "life")
    return (
        counted.where("by is not null and life is not null")
        .groupBy("run_no", F.col("by_lane").alias("by"), F.col("life_lane").alias("to"))
        .agg(*[F.sum(name).alias(name) for name in ("frames", "missed", "repeated")])
        .withColumn("loss", share(F.col("frames"), F.col("missed")))
    )


def timed(tables: Tables, axis: Axis) -> DataFrame:
    """Percentiles of latency in microseconds, per service and per link: run_no, of (SERVICE or
    LINK), a, b (service and whether to the sender itself; or lanes by and to), messages, points,
    most."""
    placed = axis.name(axis.place(timed_parts(tables)), "sender", "sender_incarnation", "by")
    service = F.array_position(F.array(*map(F.lit, SERVICES)), F.col("service")) - 1
    both = _key("SERVICE", service, F.col("own"))
    link = _key("LINK", F.col("by_lane"), F.col("lane"))
    counted = (
        placed.where("by is not null")
        .select(
            "run_no",
            whole_us(F.col("latency_ns")).alias("us"),
            F.array(both, link).alias("keys"),
            "count",
        )
        .groupBy("run_no", "us", "keys")
        .agg(F.sum("count").alias("count"))
    )
    each = counted.select("run_no", "us", "count", F.explode("keys").alias("key"))
    return (
        each.groupBy("run_no", "key")
        .agg(
            F.sum("count").alias("messages"),
            percentiles("us", "count").alias("points"),
            F.max("us").alias("most"),
        )
        .select("run_no", "key.of", "key.a", "key.b", "messages", "points", "most")
    )


def _key(of: str, a: Column, b: Column) -> Column:
    return F.struct(F.lit(of).alias("of"), a.cast("int").alias("a"), b.cast("int").alias("b"))


def collect_speed(tables: Tables, axis: Axis) -> list[tuple[list[Latency], list[LinkLoss]]]:
    """Of each run."""
    by_run: list[tuple[list[Latency], list[LinkLoss]]] = [([], []) for _ in axis.runs]
    took: dict[tuple[int, int, int], tuple[float, float]] = {}
    for row in timed(tables, axis).orderBy("run_no", "of", "a", "b").collect():
        p50, p90, p99, p999 = row.points
        if row.of == "LINK":
            took[row.run_no, row.a, row.b] = p50, p99
            continue
        speed = Latency(row.a, bool(row.b), row.messages, p50, p90, p99, p999, row.most)
        by_run[row.run_no][0].append(speed)
    keys = ["run_no", "by", "to"]
    whole = between(tables, axis).join(lost(tables, axis), keys, "full")
    for row in whole.orderBy(*keys).collect():
        p50, p99 = took.get((row.run_no, row.by, row.to), (None, None))
        link = LinkLoss(
            by=row.by,
            to=row.to,
            messages=row.messages or 0,
            p50=p50,
            p99=p99,
            frames=row.frames,
            loss=row.loss,
            repeated=row.repeated,
        )
        by_run[row.run_no][1].append(link)
    return by_run
