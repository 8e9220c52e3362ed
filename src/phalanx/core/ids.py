"""Names of members and views.

A member is a name and an incarnation; an incarnation is never used twice, so frame and
message numbers of one MemberId never repeat (S4 section 1; S0 footnote 3). Members are
ranked by sorting their ids. A view is named by its epoch, a pair that grows at each member
(joins, then removals since that join), and a digest of what it was made of; two views with
one id are one view (docs/protocol/membership.md).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

import msgspec

NAME_LENGTH_MAX = 128
INCARNATION_MAX = (1 << 63) - 1
NUMBER_MAX = 1 << 62
"""Numbers of frames and messages lie below this, so that what is computed from two of them still
fits where it is sent and written."""
MEMBERS_MAX = 1024

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Counter = Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
Digest = Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]


class MemberId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One life of one process in a group. ValueError for a name that could not travel
    (rule F-19)."""

    name: Name
    incarnation: Counter = 1

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_LENGTH_MAX or not self.name.isprintable():
            raise ValueError(
                f"member name {self.name!r}: must be 1 to {NAME_LENGTH_MAX} printable characters"
            )
        if not 0 <= self.incarnation <= INCARNATION_MAX:
            raise ValueError(f"incarnation {self.incarnation}: must lie in 0..{INCARNATION_MAX}")

    def __str__(self) -> str:
        return f"{self.name}.{self.incarnation}"


class ViewId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Epoch (joins, removals) and digest. Compares by epoch first."""

    joins: Epoch
    removals: Epoch
    digest: Digest

    def __str__(self) -> str:
        return f"{self.joins}.{self.removals}:{self.digest.hex()}"


class View(msgspec.Struct, frozen=True, array_like=True):
    """Who is in the group. `members` is in rank order: sorted, without repetition."""

    id: ViewId
    members: tuple[MemberId, ...]
    context: Digest

    def rank(self, member: MemberId) -> int:
        """The member's index in the view; ValueError if it is not in it."""
        return self.members.index(member)


def digest_of(*parts: bytes) -> bytes:
    """Eight bytes that name the parts; lengths are mixed in, so parts do not run together."""
    h = blake2b(digest_size=8)
    for part in parts:
        h.update(len(part).to_bytes(4, "little"))
        h.update(part)
    return h.digest()


def encode_member(member: MemberId) -> bytes:
    return msgspec.msgpack.encode(member)


def boot_digest(members: tuple[MemberId, ...]) -> bytes:
    """Names the boot of these members: the context of their first view."""
    return digest_of(b"boot", *map(encode_member, members))


def view_digest(
    context: bytes, members: tuple[MemberId, ...], roles: tuple[bytes, ...] = ()
) -> bytes:
    """Names the view of these members that the proposal `context` made, and of its roles
    (rule F-18)."""
    return digest_of(b"view", context, *map(encode_member, members), *roles)


def boot_view(members: tuple[MemberId, ...] | list[MemberId]) -> View:
    """The view that all of `members` hold by construction, before any change.

    ValueError for no members, too many, or one name twice: a view holds one incarnation
    of a name.
    """
    ranked = tuple(sorted(members))
    if not ranked:
        raise ValueError("a view has at least one member")
    if len(ranked) > MEMBERS_MAX:
        raise ValueError(f"a view has at most {MEMBERS_MAX} members, not {len(ranked)}")
    if len({m.name for m in ranked}) != len(ranked):
        raise ValueError("a view holds each name once")
    context = boot_digest(ranked)
    return View(ViewId(0, 0, digest_of(b"view", context)), ranked, context)
