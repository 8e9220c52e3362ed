"""Goodbyes: which members a member that leaves need not serve any more (rule LEAVE).

A member that leaves goes on repeating its frames until every other member of its view that it
counts has left it out, is in a view without it, or leaves too.
"""

from __future__ import annotations

from phalanx.core.ids import MemberId, View
from phalanx.core.membership.statements import Statement


class Goodbyes:
    __slots__ = ("_from", "me")

    def __init__(self, me: MemberId) -> None:
        self.me = me
        self._from: set[MemberId] = set()

    def hear(self, said: Statement, entered: bool, view: View) -> None:
        """A member leaves this one out or is in a view without it; or it leaves too, and all that
        it sent in this view is here: its last frame has `entered`, or was sent in another view."""
        gone = said.leaves and (entered or said.view != view.id)
        lists = (said.component.members, said.proposal.entries if said.proposal else ())
        out = any(listed and self.me not in listed for listed in lists)
        if said.member in view.members and (gone or out):
            self._from.add(said.member)

    def cover(self, members: set[MemberId]) -> bool:
        """Whether none of these members needs this one any more."""
        return members <= self._from
