"""Deliveries, split at the boundaries of their submissions.

Messages submitted together share a time and a mean size; messages delivered together share a time.
Neither range need contain the other. A part is their intersection: the finest rows that measures of
messages need, and still ranges.

Two binary searches find, for each delivery, the first and the last submission that it overlaps. The
delivery is repeated for each of those submissions, never for each message.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from phalanx.pipeline.arrow_columns import Bools, Ints, codes, ints, is_known, life_codes
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.clocks import NO_BOOT

BucketClock = Literal["SIM", "WALL"]
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class DeliveredParts(NamedTuple):
    """One row for each delivery and submission that have messages in common. Messages whose
    submission is not known, since the sender's journal or a part of it is missing, are in none."""

    delivery: Ints
    """The row of `deliver`."""
    submission: Ints
    """The row of `accepted`."""
    messages: Ints
    """How many messages."""


def parts(group: GroupTables) -> DeliveredParts:
    """All parts of the deliveries of a group."""
    delivered, accepted = group["deliver"], group["accepted"]
    lives = sorted({(facts.member, facts.incarnation) for facts in group.journals})
    begins, ends = ints(accepted.column("first")), ints(accepted.column("last"))
    by = life_codes(accepted.column("member"), accepted.column("incarnation"), lives)
    firsts, lasts = ints(delivered.column("first")), ints(delivered.column("last"))
    of = life_codes(delivered.column("sender"), delivered.column("sender_incarnation"), lives)
    found = [DeliveredParts(*(np.zeros(0, np.int64) for _ in range(3)))]
    submissions = np.lexsort((begins, by))
    deliveries = np.argsort(of, kind="stable")
    lanes = range(len(lives))
    edges = [np.searchsorted(by[submissions], lanes, side=side) for side in _SIDES]
    others = [np.searchsorted(of[deliveries], lanes, side=side) for side in _SIDES]
    for a, b, c, d in zip(*edges, *others, strict=True):
        mine, rows = submissions[a:b], deliveries[c:d]
        if len(mine) and len(rows):
            found.append(_overlaps(rows, firsts[rows], lasts[rows], mine, begins[mine], ends[mine]))
    return DeliveredParts(*map(np.concatenate, zip(*found, strict=True)))


def _overlaps(
    rows: Ints, firsts: Ints, lasts: Ints, submissions: Ints, begins: Ints, ends: Ints
) -> DeliveredParts:
    """Of deliveries firsts..lasts of one sender and its submissions begins..ends, which are in
    order."""
    low = np.maximum(np.searchsorted(begins, firsts, side="right") - 1, 0)
    high = np.searchsorted(begins, lasts, side="right") - 1
    times = np.maximum(high - low + 1, 0)
    which = np.repeat(np.arange(len(rows)), times)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times) + low[which]
    messages = np.minimum(lasts[which], ends[nth]) - np.maximum(firsts[which], begins[nth]) + 1
    met = messages > 0
    return DeliveredParts(rows[which[met]], submissions[nth[met]], messages[met])


def sizes(group: GroupTables) -> npt.NDArray[np.float64]:
    """The mean bytes of a message of each submission."""
    accepted = group["accepted"]
    number = ints(accepted.column("last")) - ints(accepted.column("first")) + 1
    return ints(accepted.column("size")) / number


def delivered_at(group: GroupTables) -> tuple[Ints, Bools]:
    """When each row of `deliver` happened, for buckets of time, and whether that time is simulated:
    else it is the wall clock of the member as it went on evenly from the header of its journal, so
    that a step of the wall clock leaves no hole. Wall clocks of two machines may differ."""
    table = group["deliver"]
    offsets = np.array([facts.wall_ns - facts.mono_ns for facts in group.journals], np.int64)
    simulated = is_known(table.column("sim_ns"))
    wall = ints(table.column("t_ns")) + offsets[journal_codes(group, "deliver")]
    return np.where(simulated, ints(table.column("sim_ns")), wall), simulated


def journal_codes(group: GroupTables, table: str) -> Ints:
    """Per row of a table, the place of its journal in `group.journals`."""
    return codes(group[table].column("journal"), [facts.journal for facts in group.journals])


def boot_codes(group: GroupTables) -> Ints:
    """Per journal, a number of the boot that it was written under: different for journals whose
    boot is not known."""
    names = [
        f"journal {facts.journal}" if facts.boot_id in NO_BOOT else facts.boot_id
        for facts in group.journals
    ]
    known = list(dict.fromkeys(names))
    return np.array([known.index(name) for name in names], np.int64)
