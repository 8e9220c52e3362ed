"""Everything that the checks look at, made once: see `small`, `messages` and `cells`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.audit import messages
from phalanx.pipeline.audit.cells import cells
from phalanx.pipeline.audit.chronicle import BANK
from phalanx.pipeline.audit.small import Small
from phalanx.pipeline.ranges import first_wins, overlapping
from phalanx.pipeline.tables import Tables


@dataclass(slots=True)
class Prepared:
    """Frames by what they hold, each computed and stored, so that the plans of checks are short."""

    tables: Tables
    small: Small
    sent: DataFrame
    """Sends as they were written."""
    sends: DataFrame
    """Sends, each message once."""
    resent: DataFrame | None
    submits: DataFrame
    rows: DataFrame
    """Deliveries as they were written."""
    deliveries: DataFrame
    """Deliveries, each message once."""
    repeated: DataFrame | None
    cells: DataFrame
    banks: int


def prepare(tables: Tables, small: Small) -> Prepared:
    banks = 1 + max((m["k"] for m in small.rows["people"]), default=0) // BANK
    sent = keep(messages.sent(tables, small))
    sends, resent = once(sent, ["r", "s"])
    rows = keep(messages.delivered(tables, small))
    found = keep(cells(rows, sends, small, banks))
    deliveries = rows
    repeated: DataFrame | None = None
    doubled = found.where("twice").select("r", "s").distinct()
    if not doubled.isEmpty():
        deliveries, repeated = _once(rows, doubled)
        found = keep(cells(deliveries, sends, small, banks))
    return Prepared(
        tables=tables,
        small=small,
        sent=sent,
        sends=sends,
        resent=resent,
        submits=messages.submitted(tables, small),
        rows=rows,
        deliveries=deliveries,
        repeated=repeated,
        cells=found,
        banks=banks,
    )


def keep(frame: DataFrame) -> DataFrame:
    """Computed now, and stored until nobody refers to it. Its plan forgets where it came from:
    Spark analyses the whole plan of every frame that is made, cached or not."""
    return frame.localCheckpoint()


def once(rows: DataFrame, keys: list[str]) -> tuple[DataFrame, DataFrame | None]:
    """Rows as ranges that share no number; and the rows that repeat something, if any do."""
    bad = overlapping(rows, keys)
    if bad.isEmpty():
        return rows, None
    bad = keep(bad)
    clean = rows.join(F.broadcast(bad), keys, "left_anti")
    doubtful = rows.join(F.broadcast(bad), keys, "left_semi")
    pieces = first_wins(doubtful, keys, "lseq")
    if "pos" in rows.columns:  # it is that of the first message
        pieces = pieces.withColumn("pos", F.expr("pos + first - row_first"))
    pieces = keep(pieces)
    kept = pieces.groupBy(*keys, "lseq").agg(F.sum(F.expr("last - first + 1")).alias("kept"))
    lost = doubtful.join(kept, [*keys, "lseq"], "left")
    again = lost.where("coalesce(kept, 0) < last - first + 1").drop("kept")
    return keep(clean.unionByName(pieces.select(*clean.columns))), keep(again)


def _once(rows: DataFrame, doubled: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Deliveries of senders of which somebody delivered something twice, made unique."""
    doubled = F.broadcast(doubled)
    fine = rows.join(doubled, ["r", "s"], "left_anti")
    pieces, again = once(keep(rows.join(doubled, ["r", "s"], "left_semi")), ["r", "k", "s"])
    return keep(fine.unionByName(pieces.select(*fine.columns))), again
