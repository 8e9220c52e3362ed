"""What members say to each other.

A *frame* is the unit of the DAG: numbered, acknowledged, ordered and recovered as a whole.
It carries a tag (view, phase), the acknowledgements that changed since its sender's
previous frame, and either messages, nothing (an ack-only or keep-alive frame), or one
control message of the membership protocol. Ack-only frames are numbered too: else they
could not vote, prove stability or be relayed (PROTOCOLS B.6 item 1).

A *packet* is one datagram. Frames travel as one or more `Fragment` packets, recovered one by
one; all other packets (`Nack`, `Hello`, ...) are unnumbered and may be lost without harm.

Inside frames members are small indices into a table, the sorted list of member ids that
the packet names by digest (PROTOCOLS B.6 item 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated

import msgspec

from phalanx.core.effects import Service
from phalanx.core.ids import MEMBERS_MAX, Counter, Digest, MemberId, Name, ViewId

REASONS = (
    "short",  # too few bytes for a header
    "version",  # another protocol version
    "cluster",  # another cluster on this address
    "group",  # another group of this cluster
    "kind",  # a packet kind this version does not know
    "checksum",  # damaged on the way
    "malformed",  # the inside does not parse
    "table",  # indices refer to a table this member does not know
    "sender",  # an index outside the table, or this member's own
    "view",  # tagged with a view this member does not know
    "ahead",  # further ahead than the buffers reach; asked for again later
    "vector",  # acknowledges what cannot be
    "conflict",  # fragments of one frame that do not fit together
)
"""Why a packet is refused. Every refusal is one of these, counted, never raised."""


class FrameKind(IntEnum):
    DATA = 1
    ACK = 2
    ATTEMPT_JOIN = 3
    JOIN = 4
    FAULT = 5
    LEAVE = 6


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """What became of bytes that are no packet for this member."""

    reason: str


# ------------------------------------------------------------------ inside a frame


class Run(msgspec.Struct, gc=False):
    """Consecutive messages of one service to one set of receivers, or a part of a large one.

    `to` holds table indices, None for the whole view. A part has `count` 1, and only the last
    part (`part == parts - 1`) completes the message.
    """

    service: Service
    first: int
    count: int
    to: tuple[int, ...] | None
    offset: int
    lengths: Sequence[int]
    part: int = 0
    parts: int = 1
    total: int = 0

    @property
    def completes(self) -> bool:
        return self.part == self.parts - 1


class Frame(msgspec.Struct, gc=False):
    """A frame as it stands in the DAG. Mutable only by the modules that own each field."""

    sender: int
    number: int
    kind: int
    phase: int
    table: bytes
    """What its indices refer to: a repeat must name the same."""
    tag: bytes
    ack_members: tuple[int, ...]
    ack_numbers: tuple[int, ...]
    first: int
    runs: list[Run]
    control: Control | None
    payload: bytes
    piece: int
    """Size of each fragment but the last; 0 when the frame is one fragment."""
    ordered: bool
    """Holds an agreed or safe message, so it takes a place in the order (B.6 item 5)."""
    vector: list[int] = []
    """Set on insertion: for each member, how many of its frames this one follows."""
    batch: int = -1
    """Set by the order: the batch that it left in."""
    cursor: int = 0
    """Set by delivery: how many of its runs have left."""
    repeated_ns: int = -1
    repeated: int = 0
    """Set by recovery: when this member last repeated it, and which fragments since then."""

    @property
    def last(self) -> int:
        """The last message that this frame completes; first - 1 if none."""
        end = self.first - 1
        for run in self.runs:
            if run.completes:
                end = run.first + run.count - 1
        return end


# ------------------------------------------------------------------ control messages

Members = Annotated[tuple[MemberId, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
Numbers = Annotated[tuple[Counter, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Floor(msgspec.Struct, frozen=True, array_like=True):
    """Per member the last frame that an installed view covers (PROTOCOLS B.7)."""

    members: Members = ()
    numbers: Numbers = ()


class Component(msgspec.Struct, frozen=True, array_like=True):
    """A view that takes part in a join, with its members."""

    view: ViewId
    members: Members


class Context(msgspec.Struct, frozen=True, array_like=True):
    """What a membership change is about: a boot (no components) or a join of components."""

    boot: Members = ()
    components: Annotated[tuple[Component, ...], msgspec.Meta(max_length=MEMBERS_MAX)] = ()
    failed_before: Members = ()


class Announce(msgspec.Struct, frozen=True, array_like=True, tag="announce"):
    """With the first frame of a view: its table, context and the sender's whole vector."""

    members: Members
    context: Digest
    vector: Numbers


class AttemptJoin(msgspec.Struct, frozen=True, array_like=True, tag="attempt-join"):
    """A component makes itself known (S0 Fig. 5: AJ)."""

    component: Component
    floor: Floor


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """A proposal for a joint view; from here on indices refer to `table` (S0 Fig. 6)."""

    context: Context
    floor: Floor
    table: Members
    vector: Numbers


class Fault(msgspec.Struct, frozen=True, array_like=True, tag="fault"):
    """These members are faulty in this context; cumulative (S0 Fig. 3: FA)."""

    context: Digest
    faulty: Members
    new: Members
    floor: Floor


class Leave(msgspec.Struct, frozen=True, array_like=True, tag="leave"):
    """The last frame of a member that goes of its own will."""

    floor: Floor


Control = Announce | AttemptJoin | Join | Fault | Leave

CONTROL_OF: dict[int, type[Control]] = {
    FrameKind.DATA: Announce,
    FrameKind.ACK: Announce,
    FrameKind.ATTEMPT_JOIN: AttemptJoin,
    FrameKind.JOIN: Join,
    FrameKind.FAULT: Fault,
    FrameKind.LEAVE: Leave,
}

# ------------------------------------------------------------------ packets


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A piece of frame `number` of `sender`, transmitted by `via`; `repeat` 1 if not the first
    time."""

    piece: bytes
    table: bytes
    sender: int
    via: int
    number: int
    index: int
    count: int
    repeat: int


class Whole(msgspec.Struct, frozen=True, gc=False):
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
    """`asker` misses these; any holder may answer."""

    table: Digest
    asker: Index
    wants: Annotated[tuple[Want, ...], msgspec.Meta(max_length=WANTS_MAX)]


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """`holder` had these frames and no longer has them."""

    table: Digest
    holder: Index
    want: Want


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Who I am, which view I am in, whom I heard lately (PROTOCOLS B.6 item 13)."""

    sender: MemberId
    view: ViewId
    heard: Members


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """I am about to use this name (PROTOCOLS B.6 item 17)."""

    name: Name
    incarnation: Counter


class Held(msgspec.Struct, frozen=True, array_like=True, tag="held"):
    """That name is in use by this incarnation."""

    name: Name
    incarnation: Counter


class Probe(msgspec.Struct, frozen=True, array_like=True, tag="probe"):
    """Are you there? By the reserved path, before a verdict (S0 footnote 4)."""

    sender: MemberId
    target: MemberId
    nonce: Counter


class Alive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """The answer to a probe."""

    sender: MemberId
    nonce: Counter


Plain = Nack | Gone | Hello | Claim | Held | Probe | Alive
Packet = Fragment | Plain
