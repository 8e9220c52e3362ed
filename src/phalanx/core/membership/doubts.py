"""What a member makes of what others say: whether it is old, can be, and concerns it.

Nobody signs what it says. What comes from a view that was left or overtaken is not acted upon;
components that were merged or left before are not merged again; an epoch out of sight, a name
twice, a fault set with strangers are not believed.
"""

from __future__ import annotations

from phalanx.core.frames import Component, Fault, Said
from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId
from phalanx.core.membership.contexts import (
    EPOCH_MAX,
    NOBODY,
    Members,
    epoch,
    members_of,
    names_twice,
    normal,
    united,
)
from phalanx.core.membership.views import Views

JOINS_AHEAD_MAX = 1 << 20
"""A component whose epoch is further ahead than this is not believed."""


class Doubts(Views):
    """The part of the protocol that judges what it is told."""

    def heard(self, member: MemberId, view: ViewId) -> None:
        """A frame of this member came, whether it enters or not: where it is now."""
        self._past.heard(self.now, member, view)

    def _is_old(self, member: MemberId, view: ViewId) -> bool:
        """This view was left or merged, or its member has spoken from a newer one since."""
        return self._past.has_view(view) or epoch(view) < self._past.newest(self.now, member)

    def is_absurd(self, said: Said | None) -> bool:
        """Whether an FA names somebody who has no part in its context."""
        if not isinstance(said, Fault):
            return False
        context = self.proposal if said.context == self.proposal_id else self.context
        if context is None or said.context not in (self.proposal_id, self.context_id):
            return False
        return not frozenset(said.faulty) <= members_of(context)

    def _strays(self, components: tuple[Component, ...]) -> Members:
        """Members of my view that stand in a newer one without me: they have moved."""
        inside = frozenset(self.view.members) - {self.me}
        away = NOBODY
        for component in components:
            if self.me not in component.members and component.view != self.view.id:
                if epoch(component.view) > epoch(self.view.id):
                    away |= inside & frozenset(component.members)
        return away

    def _acceptable(self, components: tuple[Component, ...]) -> bool:
        """Nothing of it was merged or left before, and it counts me where I am."""
        if not self._believable(components):
            return False
        for component in normal((*self.components, *components)):
            if component.view != self.view.id and self._past.has_view(component.view):
                return False
        mine = [c.view for c in components if self.me in c.members]
        return not mine or (self.view.id in mine and all(map(self._past.has_view, mine)))

    def _believable(self, components: tuple[Component, ...]) -> bool:
        """It can be: not too many, one holder of each name, no epoch out of sight."""
        both = normal((*self.components, *components))
        if len(united(both)) > MEMBERS_MAX or names_twice(both, self.before | self.after):
            return False
        ahead = min(self.view.id.joins + JOINS_AHEAD_MAX, EPOCH_MAX - 1)
        return all(c.view.joins <= ahead for c in components)
