"""Delivery latency: from the submission of a message to its delivery.

A member's own deliveries can always be timed. Those of others only if both clocks are one: in a
simulation, or under one boot of one machine; what cannot be compared is left out.

Percentiles are exact to a microsecond: latencies are rounded down to whole ones and counted
first, so that the memory needed does not grow with the number of messages. Ranges count by their
length; nothing is done per message.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import RUN
from phalanx.pipeline.measures.delivered_ranges import parts
from phalanx.pipeline.tables import Tables

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""A message belongs to the first of these that it does not exceed; larger ones have no limit."""
POINTS = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
_US = 1000


def size_class(size: Column) -> Column:
    """The least of SIZES that is no less; null for more than all of them."""
    return F.least(*[F.when(size <= limit, F.lit(limit).cast("long")) for limit in SIZES])


def latency(tables: Tables) -> DataFrame:
    """Percentiles by service and size.

    cluster, run, group. scope: SELF for deliveries at the sender, OTHERS for those elsewhere.
    service. size_max: the size class in bytes, null for larger ones. count: messages.
    p50_ns, p90_ns, p99_ns, p999_ns, max_ns, mean_ns.
    """
    key = [*RUN, "scope", "service", "size_max"]
    counted = (
        _timed(tables)
        .groupBy(*key, F.floor(F.col("latency_ns") / _US).alias("_us"))
        .agg(
            F.sum("count").alias("count"),
            F.max("latency_ns").alias("max_ns"),
            F.sum(F.col("latency_ns").cast("double") * F.col("count")).alias("_sum"),
        )
    )
    points = [
        F.round(F.percentile("_us", point, F.col("count")) * _US).cast("long").alias(name)
        for name, point in POINTS.items()
    ]
    return counted.groupBy(*key).agg(
        F.sum("count").alias("count"),
        *points,
        F.max("max_ns").alias("max_ns"),
        (F.sum("_sum") / F.sum("count")).alias("mean_ns"),
    )


def _timed(tables: Tables) -> DataFrame:
    """Parts whose two times can be compared."""
    boots = tables["journals"].select("journal", F.col("boot_id").alias("_boot"))
    senders = boots.withColumnsRenamed({"journal": "submit_journal", "_boot": "_sender_boot"})
    own = F.col("journal") == F.col("submit_journal")
    one = (F.col("_boot") == F.col("_sender_boot")) & ~F.col("_boot").isin("", "unknown")
    taken = F.when(F.col("sim_ns").isNotNull(), F.col("sim_ns") - F.col("submit_sim_ns")).when(
        own | one, F.col("t_ns") - F.col("submit_t_ns")
    )
    return (
        parts(tables)
        .join(F.broadcast(boots), "journal", "left")
        .join(F.broadcast(senders), "submit_journal", "left")
        .select(
            *RUN,
            F.when(own, "SELF").otherwise("OTHERS").alias("scope"),
            "service",
            size_class(F.col("size")).alias("size_max"),
            "count",
            taken.alias("latency_ns"),
        )
        .where("latency_ns is not null")
    )
