"""When each member of a group was in which view: the index by which an audit selects views.

A *stay* is the part of a journal from the row that installs a view to the row that installs the
next one. The index has one entry for each install, and none for messages, so that it can be kept
while a group lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.clocks import WallClock, own_time, wall_clocks
from phalanx.pipeline.history.instant import NS_MAX
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.time_window import TimeWindow

STAY_COLUMNS = (
    *("journal", "lseq", "step", "t_ns", "sim_ns", "view", "previous", "joins", "removals"),
    *("members", "member_incarnations", "components"),
)


class ViewStay(msgspec.Struct, kw_only=True):
    """A member in a view, from row `lseq` on."""

    journal: str
    lseq: int
    step: int
    own_ns: int
    """By the clock of the member, or that of the simulation."""
    view: str
    previous: str | None
    """As the row says. The index does not need it, if no rows are missing."""
    joins: int
    removals: int
    members: frozenset[str]
    """Labels."""
    components: tuple[str, ...]


def stays_of(installs: Any) -> Iterator[ViewStay]:
    """Of rows of `view_installed`."""
    for row in each_row(installs, *STAY_COLUMNS):
        journal, lseq, step, t_ns, sim_ns, view, previous, joins, removals, *lists = row
        names, incarnations, components = lists
        yield ViewStay(
            journal=journal,
            lseq=lseq,
            step=step,
            own_ns=own_time(t_ns, sim_ns),
            view=view,
            previous=previous,
            joins=joins,
            removals=removals,
            members=frozenset(f"{n}.{i}" for n, i in zip(names, incarnations, strict=True)),
            components=tuple(components),
        )


class StayIndex:
    """The stays of all journals of a group."""

    def __init__(self, stays: Iterable[ViewStay] = ()) -> None:
        self.by_journal: dict[str, list[ViewStay]] = {}
        """In the order of rows."""
        self.by_view: dict[str, list[ViewStay]] = {}
        for stay in stays:
            self.add(stay)

    def add(self, stay: ViewStay) -> None:
        mine = self.by_journal.setdefault(stay.journal, [])
        mine.append(stay)
        if len(mine) > 1 and mine[-2].lseq > stay.lseq:
            mine.sort(key=lambda one: one.lseq)
        self.by_view.setdefault(stay.view, []).append(stay)

    def forget(self, stays: Iterable[ViewStay]) -> None:
        """Leaves out stays that no selection needs any more."""
        for stay in stays:
            for found, key in ((self.by_journal, stay.journal), (self.by_view, stay.view)):
                found[key] = [one for one in found[key] if one is not stay]
                if not found[key]:
                    del found[key]

    def before(self, views: Iterable[str]) -> set[str]:
        """The views that members of these came from, or that were merged into them."""
        found: set[str] = set()
        for view in views:
            for stay in self.by_view.get(view, ()):
                mine = self.by_journal[stay.journal]
                at = _place(mine, stay)
                if at:
                    found.add(mine[at - 1].view)
                found.update(stay.components)
        return found

    def after(self, views: Iterable[str]) -> set[str]:
        """The views that members of these went to."""
        found: set[str] = set()
        for view in views:
            for stay in self.by_view.get(view, ()):
                if (then := self.next(stay)) is not None:
                    found.add(then.view)
        return found

    def next(self, stay: ViewStay) -> ViewStay | None:
        mine = self.by_journal[stay.journal]
        at = _place(mine, stay) + 1
        return mine[at] if at < len(mine) else None

    def members(self, views: Iterable[str]) -> set[str]:
        """The labels of all members of these views, as any of them names them."""
        return {label for view in views for s in self.by_view.get(view, ()) for label in s.members}


def _place(stays: list[ViewStay], stay: ViewStay) -> int:
    low, high = 0, len(stays)
    while low < high:
        middle = (low + high) // 2
        if stays[middle].lseq < stay.lseq:
            low = middle + 1
        else:
            high = middle
    return low


def views_in(group: GroupTables, window: TimeWindow, index: StayIndex) -> set[str]:
    """The views that some member was in during the window, by its own wall clock. PipelineError if
    the window is of another clock than the group."""
    window.check_clock(group)
    return views_between(group.journals, wall_clocks(group), window, index)


def views_between(
    journals: Iterable[JournalFacts],
    clocks: Mapping[str, WallClock],
    window: TimeWindow,
    index: StayIndex,
) -> set[str]:
    found: set[str] = set()
    for facts in journals:
        low, high = -NS_MAX, NS_MAX
        clock = clocks[facts.journal]
        if window.since is not None:
            at = window.since
            low = at.ns if at.simulated else clock.own_time_of(at.ns, 0)
        if window.until is not None:
            at = window.until
            high = at.ns if at.simulated else clock.own_time_of(at.ns, -1)
        end = facts.end_t_ns if facts.end_sim_ns is None else facts.end_sim_ns
        stays = index.by_journal.get(facts.journal, [])
        for stay in stays:
            then = index.next(stay)
            until = end if then is None else then.own_ns
            if stay.own_ns < high and until >= low:
                found.add(stay.view)
    return found
