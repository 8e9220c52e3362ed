"""What a change of membership is about, as values and a few functions on them.

A *component* is a view that takes part in a join. A *context* is a boot, or a join of
components from which some members are left out beforehand. M(c), the members of a context,
are those of its components without the ones left out. Within a context faults only grow, and
a set X of faulty members is *closed* when all the others have named exactly X: each closed set
is a view, M(c) - X (PROTOCOLS B.2 items 1 and 14).

A member may stand in several components, because it moved from one to another: it belongs to
its *origin*, the newest of them. A component that is nobody's origin is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from phalanx.core.frames import Component, Context
from phalanx.core.ids import MemberId, View, ViewId, digest_of, encode_member

Members = frozenset[MemberId]
NOBODY: Members = frozenset()

EPOCH_MAX = (1 << 32) - 1
"""What the wire holds. Nobody gets there but by lies."""

CACHED = 1024
"""Of so many lists of components and the like it is remembered what follows from them: while many
join, every frame brings the same ones again."""
Reach = dict[MemberId, int]
"""A past, as vector time: of each member, how many frames."""


def epoch(view: ViewId) -> tuple[int, int]:
    """What orders the views of one process: joins, then removals since the join."""
    return view.joins, view.removals


def origin(components: tuple[Component, ...], member: MemberId) -> Component | None:
    """The newest component with this member: where it is now, as far as they tell."""
    return _origins(components).get(member)


@lru_cache(CACHED)
def _origins(components: tuple[Component, ...]) -> dict[MemberId, Component]:
    newest: dict[MemberId, Component] = {}
    for component in components:
        for member in component.members:
            known = newest.get(member)
            if known is None or component.view > known.view:
                newest[member] = component
    return newest


def normal(components: Iterable[Component]) -> tuple[Component, ...]:
    """The components that are some member's origin, in order, each once."""
    known = sorted({c.view: c for c in components}.values(), key=_by_view)
    newest: dict[MemberId, Component] = {}
    for component in known:
        for member in component.members:
            newest[member] = component
    return tuple(c for c in known if any(newest[m] is c for m in c.members))


def _by_view(component: Component) -> ViewId:
    return component.view


def united(components: Iterable[Component]) -> Members:
    return NOBODY.union(*[c.members for c in components])


def ranked(members: Iterable[MemberId]) -> tuple[MemberId, ...]:
    return tuple(sorted(members))


def members_of(context: Context) -> Members:
    """M(c)."""
    if context.boot:
        return frozenset(context.boot)
    return united(context.components) - frozenset(context.failed_before)


@lru_cache(CACHED)
def context_digest(context: Context) -> bytes:
    """Names a context. Equal contexts, equal digests, at every member."""
    if context.boot:
        return digest_of(b"boot", *map(encode_member, context.boot))
    views = [_encode_view(c.view) for c in context.components]
    left_out = [encode_member(m) for m in context.failed_before]
    return digest_of(b"join", *views, b"without", *left_out)


def _encode_view(view: ViewId) -> bytes:
    return view.joins.to_bytes(4, "little") + view.removals.to_bytes(4, "little") + view.digest


def removal_view(before: View, context: bytes, members: Members) -> View:
    """The view after members of the one before were found faulty."""
    return _view(before.id.joins, before.id.removals + 1, context, ranked(members))


def join_view(origins: Iterable[Component], context: bytes, members: Members) -> View:
    """The view in which members unite. Its epoch is above those of all that they come from; of a
    component none of whose members came it says nothing: it may be made up."""
    joins = 1 + max(c.view.joins for c in origins)
    return _view(min(joins, EPOCH_MAX), 0, context, ranked(members))


def _view(joins: int, removals: int, context: bytes, members: tuple[MemberId, ...]) -> View:
    digest = digest_of(b"view", context, *map(encode_member, members))
    return View(ViewId(joins, removals, digest), members, context)


def names_twice(components: Iterable[Component], without: Members) -> bool:
    """Whether two incarnations of one name would meet: one of them must go first."""
    members = united(components) - without
    return len({m.name for m in members}) != len(members)


def extend(reach: Reach, other: Reach) -> None:
    """Unite two pasts, in place."""
    for member, number in other.items():
        if number > reach.get(member, 0):
            reach[member] = number


def covers(reach: Reach, member: MemberId, number: int) -> bool:
    return reach.get(member, 0) >= number
