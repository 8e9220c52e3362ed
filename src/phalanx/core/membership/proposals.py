"""Proposals: the values that the membership protocol agrees on (docs/protocol/membership.md).

An *entry* (m, c) is member m as it stands in view c. A *proposal* names components, which are
views, entries of them that are left out, and roles of members. The entries that remain are the
members of the view that the proposal makes; a proposal and that view are one value. Proposals are
ordered by inclusion of both sets and by the serials of the roles, and a member that changes its
proposal only ever moves up.

A component is *live* in a proposal if one of its entries remains. The epoch of a view is above
those of its live components: epochs grow along every member's way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

import msgspec

from phalanx.core.ids import (
    MEMBERS_MAX,
    MemberId,
    View,
    ViewId,
    boot_digest,
    digest_of,
    view_digest,
)
from phalanx.core.roles import Roles, are_possible, covers, is_ahead, united
from phalanx.core.wire.frames import (
    PROPOSAL_BYTES_MAX,
    Component,
    ProposalBody,
    encode_proposal,
)

Entry = tuple[MemberId, ViewId]
"""A member as it stands in a view."""

EPOCH_MAX = (1 << 32) - 1
"""The largest number that an epoch has on the wire."""
COMPONENTS_MAX = MEMBERS_MAX
LISTED_MAX = 4 * MEMBERS_MAX
"""A proposal names at most so many components, and so many members of them, left out or not."""
SMALL = 256
"""So many members are listed in less than `PROPOSAL_BYTES_MAX`, whatever their names and roles."""
LEFT_OUT_BYTES = 7
"""What a left-out entry takes at most. Room is kept for all: normal forms leave out more."""
CACHED = 256
"""So many proposals and components are kept decoded: in a change every frame repeats them."""

CACHED_BYTES = 1 << 15
"""... unless they are larger than any of a usual group."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ProposalBody).decode


def epoch(view: ViewId) -> tuple[int, int]:
    """What orders the views of one member: joins, then removals since the last join."""
    return view.joins, view.removals


def named_roles(roles: Roles) -> tuple[bytes, ...]:
    """What the name of a proposal or view has of its roles; nothing if there are none."""
    return (b"roles", *map(_encode, roles)) if roles else ()


def component_of(view: View, roles: Roles = ()) -> Component:
    return Component(view.id, view.members, view.context, roles)


class Proposal:
    """Components, left-out entries and assigned roles. Immutable; equal by value."""

    __slots__ = (
        "assigned",
        "components",
        "digest",
        "encoded",
        "entries",
        "left_out",
        "live",
        "roles",
        "view",
    )

    def __init__(
        self,
        components: Mapping[ViewId, Component],
        left_out: frozenset[Entry],
        assigned: Roles = (),
    ) -> None:
        order = sorted(components)
        self.components = {view: components[view] for view in order}
        self.left_out = left_out
        self.entries: dict[MemberId, ViewId] = {}
        """The view that each member comes from. Of two entries of one member, which no member
        issues, the one of the newer view counts."""
        live: dict[ViewId, None] = {}
        for view, component in self.components.items():
            for member in component.members:
                if (member, view) not in left_out:
                    self.entries[member] = view
                    live[view] = None
        self.live = tuple(live)
        out = [
            (at, index)
            for at, view in enumerate(order if left_out else ())
            for index, member in enumerate(components[view].members)
            if (member, view) in left_out
        ]
        self.assigned = assigned
        """Roles that the proposal changes."""
        self.encoded = encode_proposal(self.components.values(), out, assigned)
        self.digest = digest_of(
            b"proposal",
            *map(_encode, order),
            b"without",
            *(_encode(pair) for pair in out),
            *named_roles(assigned),
        )
        self.roles = self._united_roles()
        """Roles of the view that the proposal makes."""
        self.view = self._made()

    def _united_roles(self) -> Roles:
        """The roles that members bring from their components, and those that are assigned, as far
        as their serials can be (rule M-2)."""
        brought = [
            role
            for view, component in self.components.items()
            for role in component.roles
            if self.entries.get(role.member) == view
        ]
        if not brought and not self.assigned:
            return ()
        in_force = {role.member: role.serial for role in brought}
        assigned = (
            role
            for role in self.assigned
            if role.member in self.entries and not is_ahead(role, in_force.get(role.member, 0))
        )
        return united(brought, assigned)

    def _made(self) -> View:
        """The view that the proposal makes (rule M-4)."""
        members = tuple(sorted(self.entries))
        if len(self.live) == 1:
            joins, removals = self.live[0].joins, self.live[0].removals + 1
        else:
            joins, removals = 1 + max((v.joins for v in self.live), default=0), 0
        joins, removals = min(joins, EPOCH_MAX), min(removals, EPOCH_MAX)
        digest = view_digest(self.digest, members, named_roles(self.roles))
        return View(ViewId(joins, removals, digest), members, self.digest)

    @property
    def absent(self) -> tuple[MemberId, ...]:
        """Members that are left out of a component and have no entry."""
        return tuple(sorted({member for member, _ in self.left_out} - self.entries.keys()))

    def __le__(self, other: Proposal) -> bool:
        if not self.components.keys() <= other.components.keys():
            return False
        return self.left_out <= other.left_out and covers(other.assigned, self.assigned)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proposal) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        views = " ".join(map(str, self.components))
        out = " ".join(f"{m}@{c}" for m, c in sorted(self.left_out))
        roles = " ".join(f"{r.member}={','.join(r.operations)}/{r.serial}" for r in self.assigned)
        without, having = (f" without {out}" if out else ""), (f" roles {roles}" if roles else "")
        return f"Proposal({views}{without}{having})"

    def __reduce__(self) -> tuple[object, ...]:
        return Proposal, (self.components, self.left_out, self.assigned)


def proposal_of(
    components: Iterable[Component], left_out: Iterable[Entry] = (), roles: Roles = ()
) -> Proposal:
    return Proposal({c.view: c for c in components}, frozenset(left_out), roles)


# ------------------------------------------------------------------ from the wire


def read_proposal(encoded: bytes) -> Proposal | None:
    """The proposal in these bytes; None if they hold none, or one that nobody can have made: a view
    whose digest does not follow from its members and its proposal, lists out of order, more
    components or members than there can be, roles that no member sets."""
    return _read_cached(encoded) if len(encoded) <= CACHED_BYTES else _read(encoded)


def forget_cached() -> None:
    """Read everything anew: the rules by which it is read have changed."""
    _read_cached.cache_clear()
    is_view.cache_clear()


@lru_cache(CACHED)
def _read_cached(encoded: bytes) -> Proposal | None:
    return _read(encoded)


def _read(encoded: bytes) -> Proposal | None:
    if len(encoded) > PROPOSAL_BYTES_MAX:
        return None
    try:
        body = _decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError):
        return None
    components = body.components
    if not components or not fits(components, len(body.left_out), body.roles):
        return None
    if not all(map(is_view, components)):
        return None
    if not _increases([c.view for c in components]) or not _increases(list(body.left_out)):
        return None
    out = set()
    for place, index in body.left_out:
        if place >= len(components) or index >= len(components[place].members):
            return None
        out.add((components[place].members[index], components[place].view))
    if body.roles:
        listed = {member for component in components for member in component.members}
        if not are_possible(body.roles, listed):
            return None
    proposal = proposal_of(components, out, body.roles)
    count = sum(len(c.members) for c in components) - len(out)
    if len({member.name for member in proposal.entries}) != count:
        return None
    return proposal


def fits(components: Collection[Component], left_out: int, roles: Roles = ()) -> bool:
    """Whether so many entries of these components can be left out in one proposal, which assigns
    these roles."""
    listed = sum(len(component.members) for component in components)
    if len(components) > COMPONENTS_MAX or listed > LISTED_MAX:
        return False
    if listed - left_out > MEMBERS_MAX:
        return False
    if listed <= SMALL:
        return True
    size = len(encode_proposal(components, (), roles))
    return size + LEFT_OUT_BYTES * listed <= PROPOSAL_BYTES_MAX


@lru_cache(CACHED)
def is_view(component: Component) -> bool:
    """Whether the id can be that of a view of these members, with these roles."""
    view, members, context = component.view, component.members, component.context
    if not members or not _increases(list(members)):
        return False
    if component.roles and not are_possible(component.roles, members):
        return False
    if view.joins == view.removals == 0:
        if component.roles:
            return False
        return context == boot_digest(members) and view.digest == digest_of(b"view", context)
    return view.digest == view_digest(context, members, named_roles(component.roles))


def _increases(values: list[MemberId] | list[ViewId] | list[tuple[int, int]]) -> bool:
    return all(a < b for a, b in pairwise(values))  # type: ignore[operator]
