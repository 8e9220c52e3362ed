"""Entries of a proposal that only a time-out can leave out although their members are alive.

In a calm group no time-out may remove a member that is alive and can be reached (JN), but for these
(rule T). An observer of all members knows them; a member does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.core.ids import ViewId
from phalanx.core.membership.proposals import epoch

if TYPE_CHECKING:
    from phalanx.explore.live_group import LiveGroup


def lost_entries(group: LiveGroup, p: int) -> list[int]:
    """The members that p counts from a view that they never come to, or that p would have to
    follow into a view to which it cannot come."""
    counted = group.members[p]._protocol.current.entries
    return [
        q
        for who, view in counted.items()
        if _never_comes(group, q := group.index[who], view)
        or _cannot_come(group, q, view)
        or _cannot_follow(group, p, q, view)
    ]


def _cannot_follow(group: LiveGroup, p: int, q: int, counted: ViewId) -> bool:
    """Whether q has installed a proposal of p that counts it like the current one (R3), and p
    lacks what closed it."""
    view = group.members[q].view.id
    return any(
        own.view.id == view and own.entries.get(group.ids[q]) == counted
        for own in group.members[p]._protocol.issued
    ) and _cannot_come(group, p, view)


def _never_comes(group: LiveGroup, q: int, view: ViewId) -> bool:
    """Whether q issued the proposal of a view that others installed, and went to another view
    of a lower epoch instead. What q says from there looks as if q were still to come (R4), so
    only rule T can leave out this entry of q."""
    member = group.members[q]
    waits = any(own.view.id == view for own in member._protocol.issued)
    lower = epoch(member.view.id) < epoch(view)
    return view in group.issued_views[q] and lower and not waits


def _cannot_come(group: LiveGroup, q: int, view: ViewId) -> bool:
    """Whether q has issued the proposal of a view that others installed, and lacks a frame of
    its base that no live member has: the members that had it crashed, or went to views without
    q. Members that are in the view must have its closing frames and, if they came from
    the base of q, all that these follow."""
    member = group.members[q]
    if not any(own.view.id == view for own in member._protocol.issued):
        return False
    here = [r for r in group.live() if group.reaches(q, r) and group.members[r].view.id == view]
    states = [group.members[r]._active.state for r in here]
    if any(state.origin.entries.get(state.me) == member.view.id for state in states):
        return False
    found = {place for place, _ in group.wanted(q)}
    closings = {
        place for state in states for place in zip(state.view.members, state.openings, strict=True)
    }
    return any(place not in found | closings for place in member.missing())
