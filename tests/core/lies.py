"""Components as packets name them: true ones, and ones that could be but are not."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.core.frames import Component
from phalanx.core.ids import MemberId, View, ViewId, digest_of, encode_member
from phalanx.core.membership.contexts import ranked


def part(view: View) -> Component:
    return Component(view.id, view.members, view.context)


def made_up(
    members: Iterable[MemberId], joins: int = 1, removals: int = 0, context: bytes = b"context8"
) -> Component:
    """A component that could be: its name follows from its members."""
    names = ranked(members)
    digest = digest_of(b"view", context, *map(encode_member, names))
    return Component(ViewId(joins, removals, digest), names, context)
