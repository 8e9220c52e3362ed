"""Mutants of rule Roles of docs/protocol/membership.md."""

from __future__ import annotations

from phalanx.core.membership import proposals
from phalanx.core.membership.proposals import Proposal
from phalanx.core.roles import Roles, united
from phalanx.sim.mutants.mutant import Mutant


def unnamed(roles: Roles) -> tuple[bytes, ...]:
    """Proposals and views that differ in roles alone have one name."""
    return ()


def lost_in_joins(self: Proposal) -> Roles:
    """A view that unites several has the roles that its proposal changes, and no others."""
    if len(self.live) < 2:
        return _UNITED_ROLES(self)
    return united(role for role in self.assigned if role.member in self.entries)


_UNITED_ROLES = Proposal._united_roles

MUTANTS: dict[str, Mutant] = {
    "roles-not-named": Mutant(
        "Roles: let proposals and views that differ in roles alone have one id",
        ((proposals, "named_roles", unnamed),),
        "mesh",
    ),
    "roles-stay-behind": Mutant(
        "Roles: let a view that unites several forget the roles of their members",
        ((Proposal, "_united_roles", lost_in_joins),),
        "mesh",
    ),
}
