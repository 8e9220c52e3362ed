"""Loss and repeats by link: what a member missed of a peer's frames, and sent again for it.

A member counts, view by view, how many frames of each peer have come, how many it knew to be
missing, whether they came in the end or not, how often it asked, and how many of its own packets
it sent again because the peer asked. A frame that was missing was lost on the way, or overtaken by
later ones; frames are one packet each unless they are large. So `missed` over `frames` is the loss
of the link from the peer as the member saw it: too high where packets overtake each other, too low
where a lost frame was never known to exist, since nothing followed it. Where more were missing than
came, as on a link that was cut, everything that is known of was missing first.

What others repeat of a third member's frames is not counted to a link.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from phalanx.pipeline.history.clocks import MEMBER, RUN
from phalanx.pipeline.tables import Tables


def links(tables: Tables) -> DataFrame:
    """One row for each link that was in a view: from a peer to the member that counted.

    cluster, run, group. peer, peer_inc: from whom. node, inc: to whom.
    frames: came. missed: were known to be missing. asked: times that one was asked for.
    repeated: packets that the peer sent again because this member asked, by the peer's journal;
    null where that is missing. loss: missed / frames, at most 1; null if none is known of.
    """
    counted = ("frames", "missed", "asked", "repeated")
    # Rows count from the beginning of the view: the last one is the largest in each column.
    whole = (
        tables["link"]
        .groupBy(*MEMBER, "peer", "peer_inc", "vid")
        .agg(*[F.max(name).alias(name) for name in counted])
        .groupBy(*RUN, "node", "inc", "peer", "peer_inc")
        .agg(*[F.sum(name).alias(name) for name in counted])
    )
    answers = whole.select(
        *RUN,
        F.col("node").alias("peer"),
        F.col("inc").alias("peer_inc"),
        F.col("peer").alias("node"),
        F.col("peer_inc").alias("inc"),
        "repeated",
    )
    link = [*RUN, "peer", "peer_inc", "node", "inc"]
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
