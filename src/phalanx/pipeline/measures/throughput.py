"""Messages and bytes delivered over time, per member and service.

Time is cut into equal buckets: of simulated time, or of each member's wall clock as it went on
evenly from the header of its journal, so that a step of the wall clock leaves no hole. Wall clocks
of two machines may differ.
"""

from __future__ import annotations

import math

import numpy as np

from phalanx.journal.schema import ServiceName
from phalanx.pipeline.arrow_columns import codes, ints
from phalanx.pipeline.group_tables import GroupRow, GroupTables
from phalanx.pipeline.measures.delivered_ranges import (
    BucketClock,
    delivered_at,
    journal_codes,
    parts,
    sizes,
)
from phalanx.pipeline.measures.latency import SERVICES

BUCKET_NS = 1_000_000_000


class DeliveredBucket(GroupRow, frozen=True, kw_only=True):
    """A bucket of time in which a member delivered something."""

    member: str
    incarnation: int
    service: ServiceName
    clock: BucketClock
    """SIM or WALL."""
    from_ns: int
    messages: int
    bytes: int
    unsized: int
    """Messages of unknown size, since their sender's journal is missing; `bytes` leaves them
    out."""


def throughput(group: GroupTables, bucket_ns: int = BUCKET_NS) -> list[DeliveredBucket]:
    """All buckets, in the order of members, services and time."""
    assert bucket_ns > 0, "a bucket has no length"
    table = group["deliver"]
    journal = journal_codes(group, "deliver")
    at, simulated = delivered_at(group)
    service = codes(table.column("service"), SERVICES)
    keys = np.stack([journal, service, simulated.astype(np.int64), at // bucket_ns])
    order = np.lexsort(keys[::-1])
    fresh = np.ones(len(order), bool)
    fresh[1:] = (keys[:, order[1:]] != keys[:, order[:-1]]).any(axis=0)
    bucket = np.empty(len(order), np.int64)
    bucket[order] = np.cumsum(fresh) - 1
    number = ints(table.column("last")) - ints(table.column("first")) + 1
    found = parts(group)
    total = int(fresh.sum())
    messages, sized = np.zeros(total, np.int64), np.zeros(total, np.int64)
    np.add.at(messages, bucket, number)
    np.add.at(sized, bucket[found.delivery], found.messages)
    weights = sizes(group)[found.submission] * found.messages
    bytes_ = np.bincount(bucket[found.delivery], weights, minlength=total)
    rows = []
    for place, key in enumerate(keys[:, order[fresh]].T.tolist()):
        facts = group.journals[key[0]]
        one = DeliveredBucket(
            **group.key._asdict(),
            member=facts.member,
            incarnation=facts.incarnation,
            service=SERVICES[key[1]],
            clock="SIM" if key[2] else "WALL",
            from_ns=key[3] * bucket_ns,
            messages=int(messages[place]),
            bytes=math.floor(bytes_[place] + 0.5),
            unsized=int(messages[place] - sized[place]),
        )
        rows.append(one)
    return rows
