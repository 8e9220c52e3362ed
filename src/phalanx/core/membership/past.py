"""Views that a member has been in or has merged: what comes from them is old.

Past are the views that were installed here, the origins of the members of joins that were, and
every view of which a frame of a change lies under such a join (PROTOCOLS B.7: `past`). A
component that is past has been merged, or left, and is not merged again; its members need a
new view first. The newest few are remembered.

That a member was heard from a newer view is believed for a while only: nobody signs what it says,
and what was overtaken by so long is not on its way any more.
"""

from __future__ import annotations

from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId
from phalanx.core.membership.contexts import Reach, covers, epoch

PAST_MAX = 256
COLOURED_MAX = 65_536
BELIEVED_NS = 10_000_000_000
NOWHERE = (-1, 0)


class Past:
    __slots__ = ("_coloured", "_contexts", "_newest", "_views")

    def __init__(self, view: View) -> None:
        self._views: dict[ViewId, None] = {view.id: None}
        self._contexts: dict[bytes, None] = {view.context: None}
        self._newest: dict[MemberId, tuple[int, tuple[int, int]]] = {}
        self._coloured: list[tuple[MemberId, int, ViewId]] = []
        """Frames of changes that are not below a join that was installed."""

    def has_view(self, view: ViewId) -> bool:
        return view in self._views

    def has_context(self, context: bytes) -> bool:
        return context in self._contexts

    def add_view(self, view: ViewId) -> None:
        self._views[view] = None
        while len(self._views) > PAST_MAX:
            del self._views[next(iter(self._views))]

    def add_context(self, context: bytes) -> None:
        self._contexts[context] = None
        while len(self._contexts) > PAST_MAX:
            del self._contexts[next(iter(self._contexts))]

    def coloured(self, member: MemberId, number: int, view: ViewId) -> None:
        """A frame of a change entered."""
        if len(self._coloured) < COLOURED_MAX:
            self._coloured.append((member, number, view))

    def joined(self, closing: Reach) -> None:
        """A join was installed: the views of all changes below it are past."""
        above = []
        for member, number, view in self._coloured:
            if covers(closing, member, number):
                self.add_view(view)
            else:
                above.append((member, number, view))
        self._coloured = above

    def colourers(self, view: ViewId) -> list[MemberId]:
        """Of whom frames of a change of this view entered."""
        return [member for member, _, tag in self._coloured if tag == view]

    def heard(self, now: int, member: MemberId, view: ViewId) -> None:
        """A member speaks from this view, whether the frame enters or not."""
        if epoch(view) > self.newest(now, member):
            if len(self._newest) >= 4 * MEMBERS_MAX:
                self._newest.clear()
            self._newest[member] = (now, epoch(view))

    def newest(self, now: int, member: MemberId) -> tuple[int, int]:
        """The epoch of the newest view that it was heard from of late."""
        heard_ns, newest = self._newest.get(member, (now, NOWHERE))
        return newest if now - heard_ns <= BELIEVED_NS else NOWHERE
