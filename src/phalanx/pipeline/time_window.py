"""The part of a group's rows between two instants (`--since`, `--until`).

An instant is one of each member's own wall clock, or of simulated time: clocks of two machines are
not compared. The window is `[since, until)`. Inside it a group looks as if its journals began and
ended there:

- the view that a member is in at `since` counts as installed then, by a change that is not in the
  window, and a suspicion that stands at `since` begins then;
- a journal that goes on after `until` ends there without a stop;
- a journal that ends before `since` or begins after `until` is left out.

Submissions, clocks and topology before `since` stay, because rows inside the window refer to them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.schema import TABLES
from phalanx.pipeline.arrow_columns import Bools, Ints, codes, ints, is_known, own_times
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.clocks import WallClock, wall_clocks
from phalanx.pipeline.history.instant import NS_MAX, Instant
from phalanx.pipeline.segment_stats import JournalFacts

_CONTEXT = ("accepted", "topology")
"""Tables whose rows before the window are kept."""
_STATE = ("view_installed", "peer_suspicion", "clock")
"""Tables of which the last row before the window says what holds when it begins."""
_BAD = ("SUSPECTED", "FAULTY")


class TimeWindow(msgspec.Struct, frozen=True):
    """From an instant to another; None is open."""

    since: Instant | None = None
    until: Instant | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Whether something that lasted from `begin_ns` to `end_ns` was there in the window."""
        after = self.since is None or end_ns > self.since.ns or begin_ns >= self.since.ns
        return after and (self.until is None or begin_ns < self.until.ns)

    def check_clock(self, group: GroupTables) -> None:
        """PipelineError if an instant is of another clock than the group."""
        for at in (self.since, self.until):
            for facts in group.journals if at is not None else ():
                check_clock(at, facts.run, facts.end_sim_ns is not None)


def check_clock(at: Instant | None, run: str, simulated: bool) -> None:
    """PipelineError if the instant is of another clock than a run."""
    if at is None or at.simulated == simulated:
        return
    if at.simulated:
        raise PipelineError(f"run {run!r}", "is not simulated", "give an instant of the wall clock")
    problem = "is simulated and has no wall clock"
    raise PipelineError(f"run {run!r}", problem, "give an instant as 12.5s")


def within(group: GroupTables, window: TimeWindow) -> GroupTables:
    """The group inside the window; without journals if nothing of it is there."""
    if not window:
        return group
    window.check_clock(group)
    low, high = _bounds(group, window)
    counts = np.zeros(len(group.journals), np.int64)
    tables: dict[str, Any] = {}
    for name in TABLES:
        table = group[name]
        if not table.num_rows:
            continue
        journal = codes(table.column("journal"), [facts.journal for facts in group.journals])
        at = own_times(table)
        inside = (at >= low[journal]) & (at < high[journal])
        before = (at < low[journal]) & (low[journal] < high[journal])
        carried = _carried(name, table, journal, before)
        counts += np.bincount(journal[inside | carried], minlength=len(counts))
        kept = inside | (before if name in _CONTEXT else carried)
        tables[name] = _moved(name, table, carried, low[journal]).filter(arrow().array(kept))
    journals = [
        _cut_off(facts, int(count), int(until))
        for facts, count, until in zip(group.journals, counts, high, strict=True)
        if count
    ]
    names = arrow().array([facts.journal for facts in journals], arrow().string())
    for name, table in tables.items():
        mine = arrow().compute.is_in(table.column("journal"), value_set=names)
        tables[name] = table.filter(mine)
    return GroupTables(group.key, journals, tables)


def _bounds(group: GroupTables, window: TimeWindow) -> tuple[Ints, Ints]:
    """The window by the own clock of each journal; empty for one that ends before it."""
    clocks = wall_clocks(group)
    found = []
    for facts in group.journals:
        clock = clocks[facts.journal]
        low = -NS_MAX if window.since is None else _own(clock, window.since, 0)
        high = NS_MAX if window.until is None else _own(clock, window.until, -1)
        end = facts.end_t_ns if facts.end_sim_ns is None else facts.end_sim_ns
        found.append((low, high) if low <= end else (NS_MAX, -NS_MAX))
    both = np.array(found, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _own(clock: WallClock, at: Instant, nth: int) -> int:
    return at.ns if at.simulated else clock.own_time_of(at.ns, nth)


def _carried(name: str, table: Any, journal: Ints, before: Bools) -> Bools:
    """The rows before the window whose state lasts into it: of each journal the last view and the
    last clock row, and of each target the last suspicion that was not withdrawn."""
    found = np.zeros(len(before), bool)
    if name not in _STATE:
        return found
    lseq = ints(table.column("lseq"))
    last: dict[tuple[Any, ...], int] = {}
    whom = [()] * len(before)
    if name == "peer_suspicion":
        targets = (table.column(column).to_pylist() for column in ("target", "target_incarnation"))
        whom = list(zip(*targets, strict=True))
    for row in np.flatnonzero(before)[np.argsort(lseq[before], kind="stable")].tolist():
        last[int(journal[row]), *whom[row]] = row
    found[list(last.values())] = True
    if name == "peer_suspicion":
        found &= codes(table.column("state"), _BAD) >= 0
    return found


def _moved(name: str, table: Any, rows: Bools, to: Ints) -> Any:
    """The table with these rows at the beginning of the window. Views and clock rows get a number
    below all others, and a view has no previous one."""
    pa = arrow()
    simulated = is_known(table.column("sim_ns"))
    fresh: dict[str, tuple[Bools, Any]] = {}
    if name != "clock":  # it records what the wall clock showed at its own time
        fresh = {"sim_ns": (simulated, pa.array(to)), "t_ns": (~simulated, pa.array(to))}
    if name != "peer_suspicion":
        fresh["lseq"] = np.ones(len(rows), bool), pa.scalar(0, pa.int64())
    if name == "view_installed":
        fresh["previous"] = np.ones(len(rows), bool), pa.scalar(None, pa.string())
    for column, (where, value) in fresh.items() if rows.any() else ():
        place = table.schema.get_field_index(column)
        values = pa.compute.if_else(pa.array(rows & where), value, table.column(column))
        table = table.set_column(place, table.schema.field(column), values)
    return table


def _cut_off(facts: JournalFacts, rows: int, until: int) -> JournalFacts:
    """A journal that goes on after the window ends there."""
    if facts.end_sim_ns is not None:
        if until > facts.end_sim_ns:
            return msgspec.structs.replace(facts, rows=rows)
        return msgspec.structs.replace(facts, rows=rows, stopped=0, end_sim_ns=until)
    if until > facts.end_t_ns:
        return msgspec.structs.replace(facts, rows=rows)
    return msgspec.structs.replace(facts, rows=rows, stopped=0, end_t_ns=until)
