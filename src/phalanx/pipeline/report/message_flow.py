"""Sends and deliveries of a sample of the messages, and suspicions.

The unit is the range of messages as it was sent. Each stretch of time contributes at most the same
number of ranges, chosen by a hash, so that a quiet hour is as visible as a burst. That number is
the largest that fits, and the model has the total of each stretch. A range is followed by its first
message: where and when it was delivered. No range is exploded: the numbers of the sample are sorted
by sender, and two binary searches find those that a delivery holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from phalanx.pipeline.arrow_columns import Ints, codes, ints
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.report.model import SERVICES, Caps, DeliveryFlow, SendFlow, Suspicions
from phalanx.pipeline.report.time_axis import RunAxis


def bucket_us(axis: RunAxis, caps: Caps) -> int:
    """How many microseconds one bucket of the axis holds."""
    return axis.span // caps.buckets + 1


def buckets_of(axis: RunAxis, caps: Caps, at: Ints) -> Ints:
    """The bucket that each instant falls into."""
    return np.maximum(0, at // bucket_us(axis, caps))


def hashed(*columns: Ints) -> npt.NDArray[np.uint64]:
    """A hash of each row: the finaliser of SplitMix64, column by column."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = found * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found


def share(cells: Sequence[tuple[int, int]], sends: int, deliveries: int) -> int:
    """How many ranges of each cell (a bucket of a run) may be drawn, at least one: the most for
    which all together stay within `sends`, and their deliveries within `deliveries`. A cell is its
    ranges, and the members that may deliver each."""

    def fits(each: int) -> bool:
        kept = [(min(count, each), size) for count, size in cells]
        return sum(n for n, _ in kept) <= sends and sum(n * k for n, k in kept) <= deliveries

    low, high = 1, max((count for count, _ in cells), default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def collect_flows(
    group: GroupTables, axis: RunAxis, caps: Caps, ranges: list[int]
) -> tuple[SendFlow, DeliveryFlow]:
    """`ranges` are how many were sent in each bucket."""
    table, placed = group["sent"], axis.place(group, "sent")
    first, last = (ints(table.column(name))[placed.rows] for name in ("first", "last"))
    bucket = buckets_of(axis, caps, placed.at)
    each = share([(n, len(axis.lanes)) for n in ranges if n], caps.sends, caps.deliveries)
    order = np.lexsort((first, placed.life, hashed(placed.life, first), bucket))
    rank = np.arange(len(order)) - np.searchsorted(bucket[order], bucket[order])
    kept = order[rank < each]
    kept = kept[np.lexsort((first[kept], placed.life[kept], placed.at[kept]))]
    service = codes(table.column("service"), SERVICES)[placed.rows]
    sends = SendFlow(
        placed.life[kept].tolist(),
        placed.at[kept].tolist(),
        first[kept].tolist(),
        (last - first + 1)[kept].tolist(),
        service[kept].tolist(),
        sum(ranges),
        ranges,
    )
    return sends, _deliveries(group, axis, placed.life[kept], first[kept])


def _deliveries(group: GroupTables, axis: RunAxis, lives: Ints, numbers: Ints) -> DeliveryFlow:
    """Where the sampled messages, given by the life of their sender and their number, were
    delivered."""
    table, placed = group["deliver"], axis.place(group, "deliver")
    by = axis.named(group, "deliver", "sender", "sender_incarnation")[placed.rows]
    first, last = (ints(table.column(name))[placed.rows] for name in ("first", "last"))
    found: list[npt.NDArray[np.int64]] = [np.zeros((3, 0), np.int64)]
    for life in range(len(axis.lives)):
        sample = np.flatnonzero(lives == life)
        sample = sample[np.argsort(numbers[sample], kind="stable")]
        rows = np.flatnonzero(by == life)
        low = np.searchsorted(numbers[sample], first[rows])
        times = np.searchsorted(numbers[sample], last[rows], side="right") - low
        which = np.repeat(np.arange(len(rows)), times)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times) + low[which]
        mine = rows[which]
        found.append(np.stack([sample[nth], placed.life[mine], placed.at[mine]]))
    sends, receivers, at = np.concatenate(found, axis=1)
    order = np.lexsort((at, receivers, sends))
    return DeliveryFlow(*(column[order].tolist() for column in (sends, receivers, at)))


def collect_suspicions(group: GroupTables, axis: RunAxis, caps: Caps) -> Suspicions:
    """Changes of mind of the detectors, a sample by hash where there are too many."""
    table, placed = group["peer_suspicion"], axis.place(group, "peer_suspicion")
    about = axis.named(group, "peer_suspicion", "target", "target_incarnation")[placed.rows]
    known = np.flatnonzero(about >= 0)
    lseq = ints(table.column("lseq"))[placed.rows]
    chosen = np.lexsort((lseq, placed.life, hashed(placed.life, lseq)))
    kept = chosen[np.isin(chosen, known)][: caps.marks]
    kept = kept[np.lexsort((lseq[kept], placed.life[kept], placed.at[kept]))]
    some = table.take(placed.rows[kept])
    return Suspicions(
        placed.life[kept].tolist(),
        about[kept].tolist(),
        placed.at[kept].tolist(),
        some.column("state").to_pylist(),
        some.column("evidence").to_pylist(),
        len(known),
    )
