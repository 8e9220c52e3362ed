"""Loss and retransmissions by link.

A member counts, per view and peer, the frames received, the frames it knew to be missing (whether
they arrived later or not), its retransmission requests, and the packets of its own that it
retransmitted for the peer. A missing frame was lost, or overtaken by later ones; a frame is one
packet unless it is large. So `missed` over `frames` is the loss of the link from the peer as the
member saw it: too high where packets are reordered, too low where a lost frame was never detected
because none followed it. Where more frames were missing than arrived, as on a link that was cut,
all known frames were missing first.

Retransmissions of a third member's frames are not attributed to a link.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import MEMBER, RUN
from phalanx.pipeline.tables import Tables


def links(tables: Tables) -> DataFrame:
    """One row for each link that was in a view: from a peer to the member that counted.

    cluster, run, group. peer, peer_incarnation: from whom. member, incarnation: to whom.
    frames: came. missed: were known to be missing. asked: times that one was asked for.
    repeated: packets that the peer sent again because this member asked, by the peer's journal;
    null where that is missing. loss: missed / frames, at most 1; null if none is known of.
    """
    counted = ("frames", "missed", "asked", "repeated")
    # Rows count from the beginning of the view: the last one is the largest in each column.
    whole = (
        tables["link_stats"]
        .groupBy(*MEMBER, "peer", "peer_incarnation", "view")
        .agg(*[F.max(name).alias(name) for name in counted])
        .groupBy(*RUN, "member", "incarnation", "peer", "peer_incarnation")
        .agg(*[F.sum(name).alias(name) for name in counted])
    )
    answers = whole.select(
        *RUN,
        F.col("member").alias("peer"),
        F.col("incarnation").alias("peer_incarnation"),
        F.col("peer").alias("member"),
        F.col("peer_incarnation").alias("incarnation"),
        "repeated",
    )
    link = [*RUN, "peer", "peer_incarnation", "member", "incarnation"]
    return (
        whole.drop("repeated")
        .join(answers, link, "left")
        .select(
            *link,
            *counted,
            share(F.col("frames"), F.col("missed")).alias("loss"),
        )
    )


def share(frames: Column, missed: Column) -> Column:
    """Of the frames that are known of, those that were missing first."""
    known = F.greatest(frames, missed)
    return F.when(known > 0, missed / known)
