"""Members that this one was in a view with: a process that starts as one of them reuses its id.

An incarnation is used once (`ids`). If it is used again all the same, because a state directory was
lost and the clock was set back, those that met the first process would ignore the second for ever:
its first view is one that they have merged (rule N.1). They tell it instead (`Reused`), when it
claims its name and when they hear a HELLO from its first view.

No member that is the only process of its id takes this for its own case. A member is met by
another only in a view that the other installed; by then it has issued the proposal for that view
(docs/protocol/membership.md, Lemma 1). So a member that is alone in its first view and has issued
nothing was met by nobody in this life, and only such a member believes that its id was used before.

The members met last are remembered, far more than a group has.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core.ids import MEMBERS_MAX, MemberId

MEMBERS_MET_MAX = 16 * MEMBERS_MAX


class MembersMet:
    __slots__ = ("_met", "me")

    def __init__(self, me: MemberId) -> None:
        self.me = me
        self._met: dict[MemberId, None] = {}

    def __contains__(self, member: MemberId) -> bool:
        return member in self._met

    def add(self, members: Iterable[MemberId]) -> None:
        """A view of these members was installed here."""
        for member in members:
            self._met.pop(member, None)  # to the end: those met last are kept
            if member != self.me:
                self._met[member] = None
        while len(self._met) > MEMBERS_MET_MAX:
            del self._met[next(iter(self._met))]
