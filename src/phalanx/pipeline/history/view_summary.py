"""The views of a group: who was in each, why it was installed, and when it was in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.history.intervals import ViewInterval, intervals, labels, without
from phalanx.pipeline.time_window import TimeWindow


class ViewSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A view that anybody installed."""

    cluster: str
    run: str
    group: str
    view: str
    joins: int
    removals: int
    members: list[str]
    member_incarnations: list[int]
    causes: list[str]
    """Why it was installed; more than one if some joined and others lost somebody."""
    gained: list[str]
    """Members that it has more and less than the views before it, as `ada.2`."""
    lost: list[str]
    installed: list[str]
    """Members that installed it."""
    absent: list[str]
    """Members of it that did not install it by their journals, or that have no journal."""
    from_sim_ns: int | None
    """From the first install to the last end of it."""
    to_sim_ns: int | None
    from_wall_ns: int | None
    """The same by the wall clocks of machines, which may differ."""
    to_wall_ns: int | None


class GroupViews(msgspec.Struct, frozen=True):
    """The views of one group in one run."""

    key: GroupKey
    views: list[ViewSummary]


def views(group: GroupTables) -> list[ViewSummary]:
    """All views of the group, in the order of their first installation."""
    by_view: dict[str, list[ViewInterval]] = {}
    for interval in intervals(group):
        by_view.setdefault(interval.view, []).append(interval)
    return sorted(map(_summary, by_view.values()), key=_when)


def views_within(window: TimeWindow, run: str | None, group: GroupTables) -> GroupViews:
    """The kernel of `phalanx history views`: the views that were in use in the window."""
    if run not in (None, group.key.run):
        return GroupViews(group.key, [])
    window.check_clock(group)
    return GroupViews(group.key, [one for one in views(group) if window.overlaps(*_times(one))])


def _summary(some: Sequence[ViewInterval]) -> ViewSummary:
    first = some[0]
    installed = sorted({interval.label for interval in some})
    members = labels(first.members, first.member_incarnations)
    return ViewSummary(
        cluster=first.cluster,
        run=first.run,
        group=first.group,
        view=first.view,
        joins=first.joins,
        removals=first.removals,
        members=first.members,
        member_incarnations=first.member_incarnations,
        causes=sorted({interval.cause for interval in some}),
        gained=sorted({one for interval in some for one in interval.gained or ()}),
        lost=sorted({one for interval in some for one in interval.lost or ()}),
        installed=installed,
        absent=sorted(without(members, installed)),
        from_sim_ns=_of(min, (interval.from_sim_ns for interval in some)),
        to_sim_ns=_of(max, (interval.to_sim_ns for interval in some)),
        from_wall_ns=_of(min, (interval.from_wall_ns for interval in some)),
        to_wall_ns=_of(max, (interval.to_wall_ns for interval in some)),
    )


def _of(choose: Any, values: Iterable[int | None]) -> int | None:
    """The least or the greatest of those that are known."""
    found: int | None = choose((value for value in values if value is not None), default=None)
    return found


def _times(view: ViewSummary) -> tuple[int, int]:
    """From when to when it was in use: simulated, or by wall clocks."""
    if view.from_sim_ns is not None and view.to_sim_ns is not None:
        return view.from_sim_ns, view.to_sim_ns
    return view.from_wall_ns or 0, view.to_wall_ns or 0


def _when(view: ViewSummary) -> tuple[int, int, int, str]:
    return _times(view)[0], view.joins, view.removals, view.view
