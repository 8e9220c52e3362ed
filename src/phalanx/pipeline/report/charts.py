"""Charts of the report page: throughput over time, traffic and loss per link, and latency.

Latencies are those of `phalanx measures` (measures/latency.py), grouped by service and by link.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.arrow_columns import Ints, codes, grouped, ints
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.measures.latency import percentiles, timed_parts, whole_us
from phalanx.pipeline.measures.links import links, share
from phalanx.pipeline.report.message_flow import bucket_us, buckets_of
from phalanx.pipeline.report.model import SERVICES, Caps, Latency, LinkLoss, Throughput
from phalanx.pipeline.report.time_axis import RunAxis

Lanes = tuple[int, int]
"""The sender's and the receiver's."""


def message_counts(group: GroupTables, name: str) -> Ints:
    """How many messages each row of a table of ranges holds."""
    return ints(group[name].column("last")) - ints(group[name].column("first")) + 1


def collect_throughput(
    group: GroupTables, axis: RunAxis, caps: Caps
) -> tuple[Throughput, list[int]]:
    """And how many ranges were sent in each bucket."""
    lines = {name: np.zeros((len(SERVICES), caps.buckets), np.int64) for name in _TABLES}
    ranges = np.zeros(caps.buckets, np.int64)
    for name, counted in lines.items():
        placed = axis.place(group, name)
        bucket = np.minimum(buckets_of(axis, caps, placed.at), caps.buckets - 1)
        service = codes(group[name].column("service"), SERVICES)[placed.rows]
        np.add.at(counted, (service, bucket), message_counts(group, name)[placed.rows])
        if name == "sent":
            np.add.at(ranges, bucket, 1)
    found = Throughput(bucket_us(axis, caps), *(lines[name].tolist() for name in _TABLES))
    return found, ranges.tolist()


_TABLES = ("sent", "deliver")


def collect_latency(
    group: GroupTables, axis: RunAxis
) -> tuple[list[Latency], dict[Lanes, tuple[float, float]]]:
    """By service and whether to the sender itself; and p50 and p99 by link."""
    timed = timed_parts(group)
    placed = axis.place(group, "deliver")
    lane = np.full(group["deliver"].num_rows, -1, np.int64)
    lane[placed.rows] = placed.lane
    by = axis.named(group, "deliver", "sender", "sender_incarnation")[timed.delivery]
    shown = (by >= 0) & (lane[timed.delivery] >= 0)
    us, messages = whole_us(timed.latency_ns[shown]), timed.messages[shown]
    service = codes(group["deliver"].column("service"), SERVICES)[timed.delivery][shown]
    speeds = []
    for key, mine in grouped(service * 2 + timed.own[shown]):
        p50, p90, p99, p999 = percentiles(us[mine], messages[mine])
        total, most = int(messages[mine].sum()), int(us[mine].max())
        speeds.append(Latency(key // 2, bool(key % 2), total, p50, p90, p99, p999, most))
    width = max(1, len(axis.lanes))
    link = axis.life_lanes()[by[shown]] * width + lane[timed.delivery][shown]
    took = {}
    for key, mine in grouped(link):
        p50, _, p99, _ = percentiles(us[mine], messages[mine])
        took[divmod(key, width)] = p50, p99
    return speeds, took


def collect_links(
    group: GroupTables, axis: RunAxis, took: dict[Lanes, tuple[float, float]]
) -> list[LinkLoss]:
    """All links on which messages were delivered or frames counted."""
    delivered, counted = _delivered(group, axis), _counted(group, axis)
    found = []
    for by, to in sorted({*delivered, *counted}):
        p50, p99 = took.get((by, to), (None, None))
        frames, missed, repeated = counted.get((by, to), (None, None, None))
        link = LinkLoss(
            by=by,
            to=to,
            messages=delivered.get((by, to), 0),
            p50=p50,
            p99=p99,
            frames=frames,
            loss=None if frames is None or missed is None else share(frames, missed),
            repeated=repeated,
        )
        found.append(link)
    return found


def _delivered(group: GroupTables, axis: RunAxis) -> dict[Lanes, int]:
    """The messages that one lane delivered of another."""
    placed = axis.place(group, "deliver")
    by = axis.named(group, "deliver", "sender", "sender_incarnation")[placed.rows]
    known = by >= 0
    width = max(1, len(axis.lanes))
    link = axis.life_lanes()[by[known]] * width + placed.lane[known]
    messages = message_counts(group, "deliver")[placed.rows][known]
    return {divmod(key, width): int(messages[mine].sum()) for key, mine in grouped(link)}


def _counted(group: GroupTables, axis: RunAxis) -> dict[Lanes, tuple[int, int, int | None]]:
    """Frames, missed and repeated, as the members counted them."""
    found: dict[Lanes, tuple[int, int, int | None]] = {}
    for link in links(group):
        ends = (link.peer, link.peer_incarnation), (link.member, link.incarnation)
        if all(life in axis.lives for life in ends):
            lanes = axis.lane(link.peer), axis.lane(link.member)
            frames, missed, repeated = found.get(lanes, (0, 0, None))
            if link.repeated is not None:
                repeated = (repeated or 0) + link.repeated
            found[lanes] = frames + link.frames, missed + link.missed, repeated
    return found
