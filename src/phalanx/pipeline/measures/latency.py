"""Delivery latency: the time from the submission of a message to its delivery.

`timed_parts` is the only place that decides which clocks are comparable; `phalanx measures` and the
report page both use it. Two times are comparable if they are of one simulation, of one journal, or
of two journals written under the same boot of one machine. Other deliveries are left out. A
negative latency is kept as it is: it shows that the clocks were not what the journals say.

Percentiles are exact to a microsecond: latencies are rounded down to whole microseconds and
counted first. A range counts by its length; no row is made per message.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from phalanx.journal.schema import ServiceName
from phalanx.pipeline.arrow_columns import Bools, Ints, codes, grouped, ints, is_known
from phalanx.pipeline.group_tables import GroupRow, GroupTables
from phalanx.pipeline.measures.delivered_ranges import (
    BucketClock,
    boot_codes,
    delivered_at,
    journal_codes,
    parts,
    sizes,
)

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""Upper bounds of the size classes in bytes; larger messages are in a class without a bound."""
SERVICES: tuple[ServiceName, ...] = get_args(ServiceName)
Scope = Literal["SELF", "OTHERS"]
POINTS = (0.5, 0.9, 0.99, 0.999)
_US = 1000


class DeliveryLatency(GroupRow, frozen=True, kw_only=True):
    """Percentiles by service and size."""

    scope: Scope
    """SELF for deliveries at the sender, OTHERS for those elsewhere."""
    service: ServiceName
    size_max: int | None
    """The size class in bytes; None for larger messages."""
    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    mean_ns: float


class LatencyBucket(GroupRow, frozen=True, kw_only=True):
    """Percentiles by service, of the messages that were delivered in a bucket of time."""

    scope: Scope
    """SELF for deliveries at the sender, OTHERS for those elsewhere."""
    service: ServiceName
    clock: BucketClock
    """SIM or WALL."""
    from_ns: int
    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    mean_ns: float


class TimedParts(NamedTuple):
    """The parts of deliveries whose latency is known."""

    delivery: Ints
    submission: Ints
    messages: Ints
    own: Bools
    """Whether the member that delivered is the sender."""
    latency_ns: Ints


def timed_parts(group: GroupTables) -> TimedParts:
    """All of them."""
    found = parts(group)
    delivered, accepted = group["deliver"], group["accepted"]
    here = journal_codes(group, "deliver")[found.delivery]
    there = journal_codes(group, "accepted")[found.submission]
    boots = boot_codes(group)
    own = here == there
    simulated = is_known(delivered.column("sim_ns"))[found.delivery]
    both = simulated & is_known(accepted.column("sim_ns"))[found.submission]
    known = np.where(simulated, both, boots[here] == boots[there])
    clock = [
        ints(delivered.column(name))[found.delivery] - ints(accepted.column(name))[found.submission]
        for name in ("sim_ns", "t_ns")
    ]
    latency_ns = np.where(simulated, *clock)
    delivery, submission, messages = (column[known] for column in found)
    return TimedParts(delivery, submission, messages, own[known], latency_ns[known])


def whole_us(latency_ns: Ints) -> Ints:
    """Whole microseconds, rounded down: what percentiles are taken of."""
    return latency_ns // _US


def percentiles(values: Ints, counts: Ints) -> list[float]:
    """The percentiles of POINTS, of values that occur so many times each; between two values by
    linear interpolation."""
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(counts[order])
    places = [point * (int(upto[-1]) - 1) for point in POINTS]
    low, high = (
        values[order[np.searchsorted(upto, [edge(place) for place in places], side="right")]]
        for edge in (math.floor, math.ceil)
    )
    return [
        float(a) + (float(b) - float(a)) * (place - math.floor(place))
        for a, b, place in zip(low, high, places, strict=True)
    ]


def latency(group: GroupTables) -> list[DeliveryLatency]:
    """All scopes, services and size classes that occur, in their order."""
    timed = timed_parts(group)
    service = codes(group["deliver"].column("service"), SERVICES)[timed.delivery]
    size = np.searchsorted(SIZES, sizes(group)[timed.submission])
    width = len(SIZES) + 1
    keys = (timed.own * len(SERVICES) + service) * width + size
    found = []
    for key, mine in grouped(keys):
        scope, name, limit = (
            key // width // len(SERVICES),
            key // width % len(SERVICES),
            key % width,
        )
        one = DeliveryLatency(
            **group.key._asdict(),
            scope="SELF" if scope else "OTHERS",
            service=SERVICES[name],
            size_max=SIZES[limit] if limit < len(SIZES) else None,
            **_summary(timed.latency_ns[mine], timed.messages[mine]),
        )
        found.append(one)
    return found


def latency_over_time(group: GroupTables, bucket_ns: int) -> list[LatencyBucket]:
    """All scopes, services and buckets of time that occur, in their order."""
    assert bucket_ns > 0, "a bucket has no length"
    timed = timed_parts(group)
    service = codes(group["deliver"].column("service"), SERVICES)[timed.delivery]
    at, simulated = (column[timed.delivery] for column in delivered_at(group))
    buckets, bucket = np.unique(at // bucket_ns, return_inverse=True)
    keys = ((timed.own * len(SERVICES) + service) * 2 + simulated) * len(buckets) + bucket
    found = []
    for key, mine in grouped(keys):
        kind, place = divmod(key, len(buckets))
        lane, is_simulated = divmod(kind, 2)
        scope, name = divmod(lane, len(SERVICES))
        one = LatencyBucket(
            **group.key._asdict(),
            scope="SELF" if scope else "OTHERS",
            service=SERVICES[name],
            clock="SIM" if is_simulated else "WALL",
            from_ns=int(buckets[place]) * bucket_ns,
            **_summary(timed.latency_ns[mine], timed.messages[mine]),
        )
        found.append(one)
    return found


def _summary(latency_ns: Ints, messages: Ints) -> dict[str, Any]:
    """Count, percentiles, maximum and mean."""
    count = int(messages.sum())
    points = map(_ns, percentiles(whole_us(latency_ns), messages))
    return {
        "count": count,
        **dict(zip(("p50_ns", "p90_ns", "p99_ns", "p999_ns"), points, strict=True)),
        "max_ns": int(latency_ns.max()),
        "mean_ns": float((latency_ns.astype(np.float64) * messages).sum() / count),
    }


def _ns(us: float) -> int:
    """Rounded to a nanosecond, halves away from zero."""
    return int(math.copysign(math.floor(abs(us * _US) + 0.5), us))
