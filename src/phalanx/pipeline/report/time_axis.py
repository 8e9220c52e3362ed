"""The lives and the time axis of one group in one run.

A run has one axis: simulated time, or the clock of the machine that all its members shared. Members
on several machines have no common clock; they are placed by their wall clocks, which may differ.
Nothing is computed from that placement: no latency, no order.

`place` gives the rows of a table small numbers in place of names and instants: life, lane,
microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from phalanx.pipeline.arrow_columns import Ints, codes, life_codes, own_times
from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import NO_BOOT
from phalanx.pipeline.report.model import Caps, Clock, Ended
from phalanx.pipeline.segment_stats import JournalFacts

REACHING = ("life", "view_installed", "view_change_step", "peer_suspicion", "sent", "deliver")

Member = tuple[str, int]


@dataclass(slots=True)
class JournalSpan:
    """One journal: what is known of it, and where its rows lie on the axis of its run."""

    name: str
    member: str
    incarnation: int
    machine: int
    rows: int
    torn: bool
    ended: Ended
    shift_ns: int
    """Added to the clock of its rows it gives nanoseconds since the run began."""
    begin: int
    end: int


class PlacedRows(NamedTuple):
    """Rows of a table that are of lives that are shown: which they are, and where they lie."""

    rows: Ints
    life: Ints
    lane: Ints
    at: Ints


@dataclass(slots=True)
class RunAxis:
    """One run: its journals, and its lives as the page numbers them."""

    cluster: str
    run: str
    group: str
    mode: str | None
    clock: Clock
    began: str | None
    span: int
    journals: list[JournalSpan]
    lives: dict[Member, int] = field(default_factory=dict)
    lanes: list[str] = field(default_factory=list)
    lanes_left_out: int = 0

    def lane(self, member: str) -> int:
        return self.lanes.index(member)

    def spans(self) -> dict[str, JournalSpan]:
        """The journals that are shown, by name."""
        return {journal.name: journal for journal in self.journals}

    def life_of(self, journal: JournalSpan) -> int:
        return self.lives[journal.member, journal.incarnation]

    def life_lanes(self) -> Ints:
        """The lane of each life."""
        return np.array([self.lane(member) for member, _ in self.lives], np.int64)

    def place(self, group: GroupTables, name: str) -> PlacedRows:
        """The rows of a table that are of lives that are shown."""
        table = group[name]
        journal = codes(table.column("journal"), [one.name for one in self.journals])
        rows = np.flatnonzero(journal >= 0)
        mine = journal[rows]
        life = np.array([self.life_of(one) for one in self.journals], np.int64)[mine]
        shift = np.array([one.shift_ns for one in self.journals], np.int64)[mine]
        lane = self.life_lanes()[life]
        return PlacedRows(rows, life, lane, micros(own_times(table)[rows] + shift))

    def named(self, group: GroupTables, name: str, member: str, incarnation: str) -> Ints:
        """The lives that two columns of a table name; -1 for a life that is not shown."""
        table = group[name]
        return life_codes(table.column(member), table.column(incarnation), list(self.lives))


def micros(ns: Ints) -> Ints:
    return ns // 1000


def open_axis(group: GroupTables, caps: Caps) -> RunAxis:
    """The axis of a group that has journals. Every life with a journal has a place on it, and every
    one that a view names: nobody is left out silently."""
    axis = _axis(group)
    everyone = {(one.member, one.incarnation) for one in axis.journals}
    for names, numbers in each_row(group["view_installed"], "members", "member_incarnations"):
        everyone.update(zip(names, numbers, strict=True))
    lanes = list(dict.fromkeys(member for member, _ in sorted(everyone)))
    axis.lanes, axis.lanes_left_out = lanes[: caps.lanes], len(lanes[caps.lanes :])
    kept = set(axis.lanes)
    axis.lives = {m: i for i, m in enumerate(m for m in sorted(everyone) if m[0] in kept)}
    axis.journals = [one for one in axis.journals if one.member in kept]
    return axis


def row_times(group: GroupTables) -> dict[str, tuple[int, int]]:
    """Of each journal the first and last instant of its rows, by its own clock."""
    names = [facts.journal for facts in group.journals]
    first = np.full(len(names), np.iinfo(np.int64).max)
    last = np.full(len(names), np.iinfo(np.int64).min)
    for name in REACHING:
        journal, at = codes(group[name].column("journal"), names), own_times(group[name])
        np.minimum.at(first, journal, at)
        np.maximum.at(last, journal, at)
    both = zip(names, first.tolist(), last.tolist(), strict=True)
    return {name: (a, b) for name, a, b in both if a <= b}


def _axis(group: GroupTables) -> RunAxis:
    known = group.journals
    clocks = list(dict.fromkeys(map(_clock_of, known)))
    clock: Clock = "wall"
    if all(facts.end_sim_ns is not None for facts in known):
        clock = "simulated"
    elif len(clocks) == 1:
        clock = "machine"
    # All journals of one boot are shifted alike, so that what happened on one machine keeps its
    # order and its distances even where members of others are only placed.
    shifts = dict.fromkeys(clocks, 0)
    if clock == "wall":
        for facts in reversed(known):
            shifts[_clock_of(facts)] = facts.wall_ns - facts.mono_ns
    times = row_times(group)
    reach = {one.journal: _reach(_end(one, clock), times.get(one.journal)) for one in known}
    start = min(reach[facts.journal][0] + shifts[_clock_of(facts)] for facts in known)
    journals = [
        _span(facts, clock, clocks, shifts[_clock_of(facts)] - start, reach)
        for facts in sorted(known, key=lambda one: (one.member, one.incarnation, one.journal))
    ]
    modes = {facts.mode for facts in known}
    return RunAxis(
        *group.key,
        mode=modes.pop() if len(modes) == 1 else None,
        clock=clock,
        began=None if clock == "simulated" else _began(known, start, clock),
        span=max(1, *(one.end for one in journals)),
        journals=journals,
    )


def _span(
    facts: JournalFacts,
    clock: Clock,
    clocks: Sequence[str],
    shift: int,
    reach: Mapping[str, tuple[int, int]],
) -> JournalSpan:
    first, last = reach[facts.journal]
    return JournalSpan(
        name=facts.journal,
        member=facts.member,
        incarnation=facts.incarnation,
        machine=0 if clock == "simulated" else clocks.index(_clock_of(facts)),
        rows=facts.rows,
        torn=bool(facts.torn),
        ended="STOP" if facts.stopped else "OPEN",
        shift_ns=shift,
        begin=(first + shift) // 1000,
        end=(last + shift) // 1000,
    )


def _end(facts: JournalFacts, clock: Clock) -> int:
    if clock == "simulated":
        assert facts.end_sim_ns is not None
        return facts.end_sim_ns
    return facts.end_t_ns


def _reach(end: int, times: tuple[int, int] | None) -> tuple[int, int]:
    """From the first row of a journal that the page shows something of to its end."""
    first, last = times or (end, end)
    return first, max(last, end)


def _clock_of(facts: JournalFacts) -> str:
    return f"journal {facts.journal}" if facts.boot_id in NO_BOOT else facts.boot_id


def _began(known: Sequence[JournalFacts], start: int, clock: Clock) -> str | None:
    if clock == "machine":
        start += known[0].wall_ns - known[0].mono_ns
    try:
        return datetime.fromtimestamp(start / 1e9, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # a clock that was never set to anything
        return None
