"""Derived tables about messages and links: latency and throughput over time, links by view."""

from __future__ import annotations

from datetime import datetime

import msgspec

from phalanx.pipeline.derived.derived_views import instant
from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import wall_clocks
from phalanx.pipeline.lake.lake_schema import instant_of
from phalanx.pipeline.measures.latency import LatencyBucket, latency_over_time
from phalanx.pipeline.measures.links import LinkInView, links_by_view
from phalanx.pipeline.measures.throughput import DeliveredBucket, throughput


class LatencyRow(LatencyBucket, frozen=True, kw_only=True):
    """From submission to delivery, by service and bucket of time, over all members whose clocks
    can be compared. Wall clocks of two machines may differ, so that a bucket is not exact."""

    bucket_ns: int
    """The length of the bucket."""
    from_at: datetime | None
    """`from_ns` as a timestamp."""


class ThroughputRow(DeliveredBucket, frozen=True, kw_only=True):
    """Messages and bytes that a member delivered in a bucket of time, by service."""

    bucket_ns: int
    """The length of the bucket."""
    from_at: datetime | None
    """`from_ns` as a timestamp."""


class LinkRow(LinkInView, frozen=True, kw_only=True):
    """A link during one view: from a peer to the member that counted."""

    at: datetime | None
    """The instant of its last row."""


def latency_rows(group: GroupTables, bucket_ns: int) -> list[LatencyRow]:
    """All scopes, services and buckets."""
    return [
        LatencyRow(
            **msgspec.structs.asdict(one), bucket_ns=bucket_ns, from_at=instant_of(one.from_ns)
        )
        for one in latency_over_time(group, bucket_ns)
    ]


def throughput_rows(group: GroupTables, bucket_ns: int) -> list[ThroughputRow]:
    """All members, services and buckets."""
    return [
        ThroughputRow(
            **msgspec.structs.asdict(one), bucket_ns=bucket_ns, from_at=instant_of(one.from_ns)
        )
        for one in throughput(group, bucket_ns)
    ]


def link_rows(group: GroupTables) -> list[LinkRow]:
    """All links in all views."""
    clocks = wall_clocks(group)
    times = {}
    for journal, lseq, t_ns, sim_ns in each_row(
        group["link_stats"], "journal", "lseq", "t_ns", "sim_ns"
    ):
        times[journal, lseq] = instant(sim_ns, clocks[journal].at(lseq, t_ns, sim_ns))
    return [
        LinkRow(**msgspec.structs.asdict(one), at=times[one.journal, one.lseq])
        for one in links_by_view(group)
    ]
