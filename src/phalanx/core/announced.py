"""Frames that bring their own table: reading what they announce, and doubting it.

Between the first frame of a change and the point where all members of the next view have
spoken, frames carry an `Announce`: members of other views, which know neither their table nor
their tag, can read them (PROTOCOLS B.6 item 2). What it says is checked here for what cannot
be: a view whose name does not come from its members, lists out of order, vectors of another
length. It cannot be checked for lies that could be true.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from phalanx.core.frames import Announce, Component, Fault, Frame, Join
from phalanx.core.framing import decode_tag
from phalanx.core.ids import (
    MEMBERS_MAX,
    MemberId,
    digest_of,
    encode_member,
    table_digest,
)
from phalanx.core.membership.contexts import CACHED, origin, ranked, united

TABLES_MAX = 64


class Tables:
    """Index tables that were announced, by digest. The newest few are remembered."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[MemberId, ...]] = {}

    def add(self, members: tuple[MemberId, ...]) -> bytes:
        digest = table_digest(members)
        if digest not in self._known:
            self._known[digest] = members
            if len(self._known) > TABLES_MAX:
                del self._known[next(iter(self._known))]
        return digest

    def get(self, digest: bytes) -> tuple[MemberId, ...] | None:
        return self._known.get(digest)

    def learn(self, frame: Frame) -> tuple[MemberId, ...] | None:
        """The table of a frame that announces it; None if it does not, or another."""
        if frame.control is None:
            return None
        members = table_of(frame.control)
        if not members or len(members) > MEMBERS_MAX or table_digest(members) != frame.table:
            return None
        self.add(members)
        return members


def table_of(announce: Announce) -> tuple[MemberId, ...]:
    return _table_of(announce.components)


@lru_cache(CACHED)
def _table_of(components: tuple[Component, ...]) -> tuple[MemberId, ...]:
    return ranked(united(components))


def component_of(frame: Frame) -> Component | None:
    """The view that an announced frame speaks from."""
    if frame.control is not None:
        tag, here = decode_tag(frame.tag), frame.control.here
        if here is not None:
            return here if here.view == tag else None
        for component in frame.control.components:
            if component.view == tag:
                return component
    return None


@lru_cache(CACHED)
def is_view(component: Component) -> bool:
    """Whether this id can be that of a view of these members in this context."""
    view, members, context = component.view, component.members, component.context
    if not members or not _is_ranked(members):
        return False
    if view.joins == view.removals == 0:
        boot = digest_of(b"boot", *map(encode_member, members))
        return context == boot and view.digest == digest_of(b"view", context)
    return view.digest == digest_of(b"view", context, *map(encode_member, members))


def is_possible(frame: Frame, table: tuple[MemberId, ...], sender: MemberId) -> bool:
    """Whether an announced frame is consistent with itself."""
    announce = frame.control
    assert announce is not None
    if frame.phase > 1 or (announce.said is not None and frame.phase != 1):
        return False
    if len(announce.vector) != len(table) or len(announce.floors) != len(table):
        return False
    if not all(map(is_view, announce.components)):
        return False
    mine = component_of(frame)
    if mine is None or sender not in mine.members:
        return False
    if mine.context != announce.context:
        return False
    where = origin(announce.components, sender)
    if announce.here is None:
        if where != mine:
            return False
    elif where is None or not _is_left_of(announce.here, where):
        return False
    if announce.vector[frame.wire] != frame.number or announce.floors[frame.wire] >= frame.number:
        return frame.phase == 0 and announce.vector[frame.wire] == frame.number
    said = announce.said
    if isinstance(said, Fault):
        return bool(said.faulty) and _is_ranked(said.faulty) and _is_ranked(said.new)
    if isinstance(said, Join):
        return sender not in said.failed_before and _is_ranked(said.failed_before)
    return True


def _is_left_of(here: Component, before: Component) -> bool:
    """Whether a view can be what removals have left of another."""
    return (
        is_view(here)
        and here.view.joins == before.view.joins
        and here.view.removals > before.view.removals
        and here.context == before.context
        and all(member in before.members for member in here.members)
    )


def _is_ranked(members: tuple[MemberId, ...]) -> bool:
    return all(a < b for a, b in pairwise(members))
