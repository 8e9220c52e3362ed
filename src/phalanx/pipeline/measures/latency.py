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
from typing import NamedTuple, get_args

import msgspec
import numpy as np

from phalanx.journal.schema import ServiceName
from phalanx.pipeline.arrow_columns import Bools, Ints, codes, grouped, ints, is_known
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.measures.delivered_ranges import boot_codes, journal_codes, parts, sizes

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""Upper bounds of the size classes in bytes; larger messages are in a class without a bound."""
SERVICES: tuple[str, ...] = get_args(ServiceName)
POINTS = (0.5, 0.9, 0.99, 0.999)
_US = 1000


class DeliveryLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles by service and size."""

    cluster: str
    run: str
    group: str
    scope: str
    """SELF for deliveries at the sender, OTHERS for those elsewhere."""
    service: str
    size_max: int | None
    """The size class in bytes; None for larger messages."""
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
        taken, count = timed.latency_ns[mine], timed.messages[mine]
        points = [_ns(us) for us in percentiles(whole_us(taken), count)]
        scope, name, limit = (
            key // width // len(SERVICES),
            key // width % len(SERVICES),
            key % width,
        )
        one = DeliveryLatency(
            cluster=group.key.cluster,
            run=group.key.run,
            group=group.key.group,
            scope="SELF" if scope else "OTHERS",
            service=SERVICES[name],
            size_max=SIZES[limit] if limit < len(SIZES) else None,
            count=int(count.sum()),
            p50_ns=points[0],
            p90_ns=points[1],
            p99_ns=points[2],
            p999_ns=points[3],
            max_ns=int(taken.max()),
            mean_ns=float((taken.astype(np.float64) * count).sum() / count.sum()),
        )
        found.append(one)
    return found


def _ns(us: float) -> int:
    """Rounded to a nanosecond, halves away from zero."""
    return int(math.copysign(math.floor(abs(us * _US) + 0.5), us))
