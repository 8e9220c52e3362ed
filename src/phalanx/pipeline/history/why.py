"""The removals of one member: the evidence, the observers, and the outcome."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.pipeline.group_tables import GroupKey, GroupTables, each_row
from phalanx.pipeline.history.intervals import labels
from phalanx.pipeline.history.lookup import check_member, check_run, lives
from phalanx.pipeline.history.removals import Removal, removals
from phalanx.pipeline.time_window import TimeWindow


class MemberRemovals(msgspec.Struct, frozen=True):
    """The removals of a member from one group in one run, and the members that there were."""

    key: GroupKey
    members: list[str]
    """All that wrote a journal or were in a view, as `ada.2`."""
    removals: list[Removal]


def removals_of(
    member: str, window: TimeWindow, run: str | None, group: GroupTables
) -> MemberRemovals:
    """The kernel of `why`: of a member given as `ada`, or as `ada.2` for one life. Removals count
    if a view without the member was installed in the window."""
    if run not in (None, group.key.run):
        return MemberRemovals(group.key, [], [])
    members = {life.label for life in lives(group)}
    for some in each_row(group["view_installed"], "members", "member_incarnations"):
        members.update(labels(*some))
    window.check_clock(group)
    found = [
        one
        for one in removals(group)
        if member in (one.target, one.label)
        and any(window.overlaps(at, at) for at in _installs(one))
    ]
    return MemberRemovals(group.key, sorted(members), found)


def _installs(removal: Removal) -> list[int]:
    """When views without the member were installed: simulated, or by wall clocks."""
    rows = (proof for proof in removal.chain if proof.kind == "VIEW")
    return [(row.wall_ns or 0) if row.sim_ns is None else row.sim_ns for row in rows]


def why(
    results: Iterable[MemberRemovals], group: str, member: str, run: str | None = None
) -> list[Removal]:
    """All removals of a member, in the order of runs, lives and views. PipelineError for a name
    that was never in a view, with those that were."""
    some = list(results)
    check_run([one.key for one in some], group, run)
    known = [label for one in some for label in one.members]
    named = any(member in (label, label.rpartition(".")[0]) for label in known)
    check_member(named, group, member, known)
    return sorted((removal for one in some for removal in one.removals), key=_order)


def _order(removal: Removal) -> tuple[str, str, str, int, int]:
    """By when it happened at the first observer, as far as that can be compared."""
    first = min(observer.removed_ns for observer in removal.observers)
    return removal.cluster, removal.run, removal.target, removal.target_incarnation, first
