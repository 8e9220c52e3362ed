"""Roles: which operations each member offers to its group (S1 section 2: R_i).

A role is a value that one member sets for itself. Its serial number grows with each change, so that
of two roles of one member the later is the greater: `united` keeps it. Which roles are in force is
agreed by the membership protocol; they are a part of every proposal and of every view
(docs/protocol/membership.md, Roles).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Annotated

import msgspec

from phalanx.core.ids import INCARNATION_MAX, MemberId

OPERATIONS_MAX = 16
OPERATION_BYTES_MAX = 32
SERIALS_AHEAD_MAX = 1 << 20
"""A role whose serial is further above the one in force does not come into force: a forged number
must not leave the member without greater ones."""

Serial = Annotated[int, msgspec.Meta(ge=1, le=INCARNATION_MAX)]
Operation = Annotated[str, msgspec.Meta(min_length=1, max_length=OPERATION_BYTES_MAX)]
Operations = Annotated[tuple[Operation, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]


class Role(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The operations that a member offers, sorted. Roles of one member are ordered by serial."""

    member: MemberId
    serial: Serial
    operations: Operations


Roles = tuple[Role, ...]
"""At most one of each member, in the order of members."""


def problem_with(operations: Collection[str]) -> str | None:
    """Why these are no operations of a role; None if they are."""
    if len(operations) > OPERATIONS_MAX:
        return f"give at most {OPERATIONS_MAX} operations, not {len(operations)}"
    for name in operations:
        size = len(name.encode("utf-8", "replace"))
        if not 0 < size <= OPERATION_BYTES_MAX or not name.isprintable() or " " in name:
            limit = f"1 to {OPERATION_BYTES_MAX} bytes of printable text without blanks"
            return f"an operation is a name of {limit}, not {name!r}"
    return None


def united(*some: Iterable[Role]) -> Roles:
    """Of each member the greatest role."""
    greatest: dict[MemberId, Role] = {}
    for roles in some:
        for role in roles:
            held = greatest.get(role.member)
            if held is None or held < role:
                greatest[role.member] = role
    return tuple(greatest[member] for member in sorted(greatest))


def covers(greater: Roles, less: Roles) -> bool:
    """Whether each role of `less` is at most that of its member in `greater`."""
    held = {role.member: role for role in greater}
    return all(role.member in held and role <= held[role.member] for role in less)


def are_possible(roles: Roles, members: Collection[MemberId]) -> bool:
    """Whether a view of these members can have these roles."""
    if not all(a.member < b.member for a, b in pairwise(roles)):
        return False
    return all(role.member in members and _is_possible(role) for role in roles)


def _is_possible(role: Role) -> bool:
    ordered = all(a < b for a, b in pairwise(role.operations))
    return ordered and problem_with(role.operations) is None


def is_ahead(role: Role, in_force: int) -> bool:
    """Whether a serial is further ahead of the one in force than a member that follows the rules
    goes."""
    return role.serial > in_force + SERIALS_AHEAD_MAX


def role_of(roles: Roles, member: MemberId) -> Role | None:
    return next((role for role in roles if role.member == member), None)
