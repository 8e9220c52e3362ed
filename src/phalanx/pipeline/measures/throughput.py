"""Messages and bytes delivered over time, per member and service.

Time is cut into equal buckets: of simulated time, or of each member's wall clock as it went on
evenly from the header of its journal, so that a step of the wall clock leaves no hole. Wall clocks
of two machines may differ.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import RUN
from phalanx.pipeline.measures.delivered_ranges import parts
from phalanx.pipeline.tables import Tables

BUCKET_NS = 1_000_000_000


def throughput(tables: Tables, bucket_ns: int = BUCKET_NS) -> DataFrame:
    """Only buckets in which something was delivered.

    cluster, run, group, member, incarnation, service. clock: SIM or WALL. from_ns: the
    bucket's beginning. messages, bytes: delivered in it; unsized: messages among them of unknown
    size, since their sender's journal is missing, which `bytes` leaves out.
    """
    assert bucket_ns > 0, "a bucket has no length"
    key = [*RUN, "member", "incarnation", "service", "clock", "from_ns"]
    count = F.col("last") - F.col("first") + 1
    all_of_them = _bucketed(tables, tables["deliver"].withColumn("count", count), bucket_ns)
    sized = (
        _bucketed(tables, parts(tables), bucket_ns)
        .groupBy(*key)
        .agg(
            F.sum("count").alias("_sized"),
            F.round(F.sum(F.col("size") * F.col("count"))).cast("long").alias("_bytes"),
        )
    )
    messages = all_of_them.groupBy(*key).agg(F.sum("count").alias("messages"))
    return messages.join(sized, key, "left").select(
        *key,
        "messages",
        F.coalesce("_bytes", F.lit(0)).alias("bytes"),
        (F.col("messages") - F.coalesce("_sized", F.lit(0))).alias("unsized"),
    )


def _bucketed(tables: Tables, rows: DataFrame, bucket_ns: int) -> DataFrame:
    """The rows with `clock` and `from_ns`, the bucket that they fall into."""
    offset = F.col("wall_ns") - F.col("mono_ns")
    began = tables["journals"].select("journal", offset.alias("_offset"))
    at = F.coalesce(F.col("sim_ns"), F.col("t_ns") + F.col("_offset"))
    clock = F.when(F.col("sim_ns").isNotNull(), "SIM").otherwise("WALL")
    return rows.join(F.broadcast(began), "journal", "left").withColumns(
        {"clock": clock, "from_ns": at - F.pmod(at, F.lit(bucket_ns).cast("long"))}
    )
