"""What this member wants its own role to be, and the role to propose for that (rule Roles).

The application sets operations; the member proposes them with a serial of its own until a view has
them. It adds one role from one base at most, so serials run ahead of the views by no more than the
changes that were lost with proposals that nobody installed.
"""

from __future__ import annotations

from phalanx.core.ids import INCARNATION_MAX, MemberId, ViewId
from phalanx.core.membership.proposals import Proposal
from phalanx.core.roles import SERIALS_AHEAD_MAX, Role, role_of
from phalanx.core.wire.frames import Component


class OwnRole:
    __slots__ = ("_base", "_serial", "me", "operations")

    def __init__(self, me: MemberId) -> None:
        self.me = me
        self.operations: tuple[str, ...] = ()
        """As the application set them last; none before that."""
        self._serial = 0
        """The highest that this member has used."""
        self._base: ViewId | None = None
        """The view from which it was proposed."""

    def due(self, base: Component, current: Proposal) -> Role | None:
        """The role to add to the current proposal of this base; None if it has the operations that
        were set, or a role of this member's from this base already."""
        if not self.operations and not current.roles:
            return None
        role = role_of(current.roles, self.me)
        if (role.operations if role else ()) == self.operations:
            return None
        if self._base == base.view and (role is None or role.serial <= self._serial):
            return None
        held, limit = role.serial if role else 0, self._limit(base)
        serial = 1 + max(self._serial, held)
        if serial > limit:  # it was raised above a forged one, which the view does not have
            serial = 1 + held
        return Role(self.me, serial, self.operations) if serial <= limit else None

    def proposed(self, base: Component, proposal: Proposal) -> None:
        """This proposal is issued."""
        role = role_of(proposal.assigned, self.me) if proposal.assigned else None
        if role is not None and role.operations == self.operations:
            if role.serial > self._serial or self._serial >= self._limit(base):
                self._serial, self._base = role.serial, base.view

    def _limit(self, base: Component) -> int:
        """The greatest serial that may come into force."""
        before = role_of(base.roles, self.me)
        return min((before.serial if before else 0) + SERIALS_AHEAD_MAX, INCARNATION_MAX)

    def is_in_force(self, base: Component, current: Proposal) -> bool:
        """Whether the view has the operations that were set, and no change of them is under way."""
        found = [role_of(roles, self.me) for roles in (base.roles, current.roles)]
        return all((role.operations if role else ()) == self.operations for role in found)
