"""Components that a member has merged with (rule N): per member met, where it came from.

A component that was live in a view this member installed must never be live again for it: what was
carried into that view would be carried twice. Epochs grow along every member's way. So a component
is past if it lists a member that has come from a view of the same or a later epoch into a view
installed here. That holds for every component that was live in such a view, and for older ones
whose members have moved on, which need a new view first.

The members met last are remembered, far more than a group has.
"""

from __future__ import annotations

from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId
from phalanx.core.membership.proposals import epoch
from phalanx.core.wire.frames import Component

MEMBERS_MET_MAX = 16 * MEMBERS_MAX
VIEWS_MAX = 256


class MergeHistory:
    __slots__ = ("_came_from", "_views")

    def __init__(self, view: ViewId) -> None:
        self._came_from: dict[MemberId, tuple[int, int]] = {}
        self._views: dict[ViewId, None] = {view: None}
        """Views that this member has been in: a HELLO names no more than that."""

    def add(self, entries: dict[MemberId, ViewId], view: ViewId) -> None:
        """A view was installed, with these entries."""
        self._views[view] = None
        if len(self._views) > VIEWS_MAX:
            del self._views[next(iter(self._views))]
        for member, came_from in entries.items():
            self._came_from.pop(member, None)  # to the end: those met last are kept
            self._came_from[member] = epoch(came_from)
        while len(self._came_from) > MEMBERS_MET_MAX:
            del self._came_from[next(iter(self._came_from))]

    def has_been_in(self, view: ViewId) -> bool:
        """Whether this member was in a view, of the last few hundred."""
        return view in self._views

    def is_past(self, component: Component) -> bool:
        """Whether the component may not be merged any more (rule N.1)."""
        return any(self.has_passed(member, component.view) for member in component.members)

    def has_passed(self, member: MemberId, view: ViewId) -> bool:
        """Whether a member has come here from this view or a later one."""
        known = self._came_from.get(member)
        return known is not None and epoch(view) <= known
