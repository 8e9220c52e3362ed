"""Delivery latency: the time from the submission of a message to its delivery.

`timed_parts` is the only place that decides which clocks are comparable; `phalanx measures` and the
report page both use it. Two times are comparable if they are of one simulation, of one journal, or
of two journals written under the same boot of one machine. Other deliveries are left out. A
negative latency is kept as it is: it shows that the clocks were not what the journals say.

Percentiles are exact to a microsecond: latencies are rounded down to whole microseconds and
counted first, so that the memory needed does not grow with the number of messages. A range counts
by its length; no row is made per message.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import NO_BOOT, RUN
from phalanx.pipeline.measures.delivered_ranges import parts
from phalanx.pipeline.tables import Tables

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""Upper bounds of the size classes in bytes; larger messages are in a class without a bound."""
POINTS = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
_US = 1000


def size_class(size: Column) -> Column:
    """The smallest of SIZES that is at least `size`; null if `size` exceeds them all."""
    return F.least(*[F.when(size <= limit, F.lit(limit).cast("long")) for limit in SIZES])


def whole_us(latency_ns: Column) -> Column:
    """Whole microseconds, rounded down: what percentiles are taken of."""
    return F.floor(latency_ns / _US)


def percentiles(us: str, count: str) -> Column:
    """The percentiles of POINTS as an array, of microseconds that occur `count` times each."""
    return F.percentile(us, F.array(*map(F.lit, POINTS.values())), F.col(count))


def latency(tables: Tables) -> DataFrame:
    """Percentiles by service and size.

    cluster, run, group. scope: SELF for deliveries at the sender, OTHERS for those elsewhere.
    service. size_max: the size class in bytes, null for larger ones. count: messages.
    p50_ns, p90_ns, p99_ns, p999_ns, max_ns, mean_ns.
    """
    key = [*RUN, "scope", "service", "size_max"]
    counted = (
        timed_parts(tables)
        .withColumn("scope", F.when(F.col("own"), "SELF").otherwise("OTHERS"))
        .withColumn("size_max", size_class(F.col("size")))
        .groupBy(*key, whole_us(F.col("latency_ns")).alias("_us"))
        .agg(
            F.sum("count").alias("count"),
            F.max("latency_ns").alias("max_ns"),
            F.sum(F.col("latency_ns").cast("double") * F.col("count")).alias("_sum"),
        )
    )
    found = counted.groupBy(*key).agg(
        F.sum("count").alias("count"),
        percentiles("_us", "count").alias("_points"),
        F.max("max_ns").alias("max_ns"),
        (F.sum("_sum") / F.sum("count")).alias("mean_ns"),
    )
    points = [
        F.round(F.col("_points")[nth] * _US).cast("long").alias(name)
        for nth, name in enumerate(POINTS)
    ]
    return found.select(*key, "count", *points, "max_ns", "mean_ns")


def timed_parts(tables: Tables) -> DataFrame:
    """The columns of `parts`, for deliveries whose latency is known; with own (whether the member
    that delivered is the sender) and latency_ns."""
    boots = tables["journals"].select("journal", F.col("boot_id").alias("_boot"))
    senders = boots.withColumnsRenamed({"journal": "submit_journal", "_boot": "_sender_boot"})
    own = F.col("journal") == F.col("submit_journal")
    one = (F.col("_boot") == F.col("_sender_boot")) & ~F.col("_boot").isin(*NO_BOOT)
    taken = F.when(F.col("sim_ns").isNotNull(), F.col("sim_ns") - F.col("submit_sim_ns")).when(
        own | one, F.col("t_ns") - F.col("submit_t_ns")
    )
    found = parts(tables)
    return (
        found.join(F.broadcast(boots), "journal", "left")
        .join(F.broadcast(senders), "submit_journal", "left")
        .select(*found.columns, own.alias("own"), taken.alias("latency_ns"))
        .where("latency_ns is not null")
    )
