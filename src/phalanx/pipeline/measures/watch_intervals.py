"""Watch intervals: who watched whom from when to when, and when the watched member went down.

A member watches another while its view contains it. The time when the watched member went down is
in that member's journal, so it is known by the watcher's clock only in a simulation, or if both ran
under one boot of one machine:

    KNOWN       a simulator recorded the crash
    ESTIMATED   its journal ends without a stop, and the watcher removed it later and never had it
                in a view again. The last row, or the last time that the watcher trusted it again,
                is the latest sign of life; the crash came later, by up to the ten seconds between
                two clock rows if nothing else happened.

A member whose journal ends without a stop and that no member removed is assumed to be running.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import NO_BOOT, own_time
from phalanx.pipeline.history.intervals import (
    IntervalEnd,
    Membership,
    journal_ends,
    memberships,
)
from phalanx.pipeline.segment_stats import JournalFacts


class WatchInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which a member considered another a member of the group."""

    cluster: str
    run: str
    group: str
    member: str
    incarnation: int
    target: str
    target_incarnation: int
    journal: str
    """Of the observer."""
    from_lseq: int
    to_lseq: int
    from_ns: int
    """By the observer's clock, or simulated."""
    to_ns: int
    end: IntervalEnd
    last_view: str
    """The last view with the target."""
    simulated: bool
    comparable: bool
    """Whether the observer's clock shows when the target did something."""
    down_ns: int | None
    """When the target crashed or stopped."""
    crash: Literal["KNOWN", "ESTIMATED"] | None


Watched = tuple[str, str, int]
"""The journal of the observer, and the target."""


class Watches:
    """The watch intervals of a group; finds the one that a row of an observer falls into."""

    def __init__(self, group: GroupTables) -> None:
        held = [one for one in memberships(group) if _is_other(one)]
        by_pair: dict[Watched, list[Membership]] = {}
        for one in held:
            pair = one.journal, one.target, one.target_incarnation
            by_pair.setdefault(pair, []).append(one)
        trusted = _trusted(group, by_pair)
        journals = {facts.journal: facts for facts in group.journals}
        lives = {(facts.member, facts.incarnation): facts for facts in reversed(group.journals)}
        ends = journal_ends(group)
        self.all: list[WatchInterval] = []
        self._of: dict[Watched, list[WatchInterval]] = {}
        for pair, some in by_pair.items():
            target = lives.get((pair[1], pair[2]))
            for one in some:
                how = None if target is None else ends[target.journal]
                sign = trusted.get((*pair, one.from_lseq))
                is_last = one is some[-1]
                made = _watch(one, is_last, journals[one.journal], target, how, sign)
                self._of.setdefault(pair, []).append(made)
                self.all.append(made)

    def at(self, journal: str, lseq: int, target: str, incarnation: int) -> WatchInterval | None:
        """The interval that a row of an observer about a target falls into."""
        mine = self._of.get((journal, target, incarnation), [])
        place = bisect_right(mine, lseq, key=lambda one: one.from_lseq)
        return mine[place - 1] if place and lseq < mine[place - 1].to_lseq else None


def _is_other(held: Membership) -> bool:
    return (held.member, held.incarnation) != (held.target, held.target_incarnation)


def _trusted(
    group: GroupTables, by_pair: dict[Watched, list[Membership]]
) -> dict[tuple[str, str, int, int], int]:
    """When the observer last gave the target a better state, by pair and the row that began the
    interval."""
    found: dict[tuple[str, str, int, int], int] = {}
    columns = ("journal", "target", "target_incarnation", "lseq", "t_ns", "sim_ns", "state")
    for *key, lseq, t_ns, sim_ns, state in each_row(group["peer_suspicion"], *columns):
        if state not in ("OPERATIONAL", "SEMI"):
            continue
        pair = key[0], key[1], key[2]
        for one in by_pair.get(pair, ()):
            if one.from_lseq <= lseq < one.to_lseq:
                at, place = own_time(t_ns, sim_ns), (*pair, one.from_lseq)
                found[place] = max(at, found.get(place, at))
    return found


def _watch(
    held: Membership,
    is_last: bool,
    own: JournalFacts,
    target: JournalFacts | None,
    how: IntervalEnd | None,
    trusted: int | None,
) -> WatchInterval:
    simulated = held.from_sim_ns is not None
    comparable = target is not None and (simulated or _one_boot(own, target))
    down: int | None = None
    crash: Literal["KNOWN", "ESTIMATED"] | None = None
    if target is not None and comparable:
        end = target.end_sim_ns if simulated else target.end_t_ns
        signs = [sign for sign in (end, trusted) if sign is not None]
        if how in ("CRASH", "STOP"):
            down = end
            crash = "KNOWN" if how == "CRASH" and end is not None else None
        elif not simulated and is_last and held.end == "VIEW" and max(signs) < held.to_ns:
            down, crash = max(signs), "ESTIMATED"
    return WatchInterval(
        cluster=held.cluster,
        run=held.run,
        group=held.group,
        member=held.member,
        incarnation=held.incarnation,
        target=held.target,
        target_incarnation=held.target_incarnation,
        journal=held.journal,
        from_lseq=held.from_lseq,
        to_lseq=held.to_lseq,
        from_ns=held.from_ns,
        to_ns=held.to_ns,
        end=held.end,
        last_view=held.last_view,
        simulated=simulated,
        comparable=comparable,
        down_ns=down,
        crash=crash,
    )


def _one_boot(one: JournalFacts, other: JournalFacts) -> bool:
    return one.boot_id == other.boot_id and one.boot_id not in NO_BOOT
