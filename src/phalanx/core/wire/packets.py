"""Packets: what travels in one datagram, and why a datagram is refused.

Frames travel as one or more `Fragment` packets, recovered one by one. All other packets (`Nack`,
`Hello`, ...) have no number and may be lost without harm.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from phalanx.core.ids import MEMBERS_MAX, Counter, Digest, MemberId, ViewId
from phalanx.core.wire.frames import Component, Members

REASONS = (
    "short",  # too few bytes for a header
    "version",  # another protocol version
    "cluster",  # another cluster on this address
    "group",  # another group of this cluster
    "settings",  # this group, with other settings that must agree
    "kind",  # a packet kind this version does not know
    "checksum",  # damaged on the way
    "malformed",  # the inside does not parse
    "table",  # indices refer to a table this member does not know
    "sender",  # an index outside the table, or this member's own
    "view",  # tagged with a view this member does not know
    "ahead",  # further ahead than the buffers reach; asked for again later
    "vector",  # acknowledges what cannot be
    "conflict",  # fragments of one frame that do not fit together
    "impossible",  # control that contradicts itself, or claims what cannot be
)
"""Why a packet is refused. Every refusal is one of these, counted, never raised (rule F-16)."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """What became of bytes that are no packet for this member. If only the settings differ, `peer`
    is the sender, where the packet names it, and `settings` the digest of its settings."""

    reason: str
    peer: MemberId | None = None
    settings: bytes = b""


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A piece of frame `number` of `sender`, transmitted by `via`; `repeat` 1 if not the first
    time (rule F-4)."""

    piece: bytes
    table: bytes
    sender: int
    via: int
    number: int
    index: int
    count: int
    repeat: int


class CompleteFrame(msgspec.Struct, frozen=True, gc=False):
    """All of a frame from one batch of packets: what usually comes. `size` is that of each
    fragment but the last, 0 if there was one."""

    payload: bytes
    size: int
    table: bytes
    sender: int
    via: int
    number: int
    repeat: int


Index = Annotated[int, msgspec.Meta(ge=0, lt=MEMBERS_MAX)]
WANTS_MAX = 512
FRAGMENTS_MAX = 8192
PART_BYTES_MAX = 1 << 16
"""More than any frame needs: the largest, in the smallest datagrams, for the largest group."""


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Frames first..last of a sender; of a single frame, the fragments whose bits are set.
    `attempt` counts how often they were asked for, this time included."""

    sender: Index
    first: Counter
    last: Counter
    attempt: Counter = 1
    fragments: Annotated[bytes, msgspec.Meta(max_length=FRAGMENTS_MAX // 8)] = b""


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="nack"):
    """`asker` misses these; any holder may answer. Indices refer to `names` if there are any,
    else to the table."""

    table: Digest
    asker: Index
    wants: Annotated[tuple[Want, ...], msgspec.Meta(max_length=WANTS_MAX)]
    names: Members = ()


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Who I am, which view I am in, which strangers I heard lately (rule L-11).
    `number` is that of my last frame: of two the newer counts."""

    sender: MemberId
    number: Counter
    view: ViewId
    heard: Members


class JoinAttempt(msgspec.Struct, frozen=True, array_like=True, tag="attempt"):
    """A component makes itself known in order to join (S0 Fig. 5: AJ). A hint: it may be lost
    (rule L-14)."""

    sender: MemberId
    number: Counter
    component: Component
    heard: Members


class NameClaimed(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """I am about to use this name (rule L-16)."""

    member: MemberId
    nonce: Counter


class NameHeld(msgspec.Struct, frozen=True, array_like=True, tag="held"):
    """That name is in use, by this live member. Answers a claim, or a holder met at a merge."""

    member: MemberId
    nonce: Counter


class IncarnationReused(msgspec.Struct, frozen=True, array_like=True, tag="reused"):
    """An earlier process had this name and incarnation, and its sender met that one. Answers a
    claim, or a HELLO from the first view of a process."""

    member: MemberId
    nonce: Counter


class Probe(msgspec.Struct, frozen=True, array_like=True, tag="probe"):
    """Are you there? By the reserved path, before a verdict (S0 footnote 4). `helper` passes it on
    once, as `via`, for the case that only it hears both."""

    sender: MemberId
    target: MemberId
    nonce: Counter
    helper: MemberId | None = None
    via: MemberId | None = None


class Alive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """The answer to a probe, passed on as it was. Who is alive in another view is not here."""

    sender: MemberId
    asker: MemberId
    nonce: Counter
    view: ViewId
    helper: MemberId | None = None
    via: MemberId | None = None


class Relay(msgspec.Struct, frozen=True, array_like=True, tag="relay"):
    """`sender` hears `target` only through others: let `relay` forward its frames at once
    (rule L-9)."""

    sender: MemberId
    target: MemberId
    relay: MemberId


class ControlFragment(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """A piece of a packet without a number that no datagram holds (`control_fragments`)."""

    whole: Digest
    index: Index
    count: Index
    piece: Annotated[bytes, msgspec.Meta(max_length=PART_BYTES_MAX)]


ControlPacket = (
    Nack
    | Hello
    | JoinAttempt
    | NameClaimed
    | NameHeld
    | IncarnationReused
    | Probe
    | Alive
    | Relay
    | ControlFragment
)
ANOTHER = 0xFFFF
"""As `via` of a fragment: transmitted by somebody who is not in the frame's table."""
Packet = Fragment | ControlPacket
