"""Frames: what members send to their view.

A *frame* is the unit of the DAG: numbered, acknowledged, ordered and recovered as a whole.
It carries a tag (view, phase), the acknowledgements that changed since its sender's
previous frame, and either messages, nothing (an ack-only or keep-alive frame), or one
control message of the membership protocol. Ack-only frames are numbered too: else they
could not vote, prove stability or be relayed (rule F-7).

Inside frames members are small indices into a table: the sorted members of the sender's view, which
the packet names by the digest in the view's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import add
from typing import Annotated

import msgspec

from phalanx.core.effects import Service
from phalanx.core.ids import MEMBERS_MAX, NUMBER_MAX, Counter, Digest, MemberId, Number, ViewId
from phalanx.core.roles import Role

PROPOSAL_BYTES_MAX = 1 << 20
"""A frame with a proposal of this size, and all that an announcement has besides, fits in the
fragments of the smallest datagrams (`tests/core/membership/test_proposals.py`)."""


Place = tuple[int, int]
"""(sender, number) of a frame."""


class FrameKind(IntEnum):
    DATA = 1
    ACK = 2
    PROPOSE = 4
    LEAVE = 6


# ------------------------------------------------------------------ inside a frame


class MessageRun(msgspec.Struct, gc=False):
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
    names: tuple[MemberId, ...] | None = None
    """Whom it was addressed to, where some of them have no index here."""

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
    """What its indices refer to: a repeat must name the same (rule F-8)."""
    tag: bytes
    ack_members: tuple[int, ...]
    ack_numbers: tuple[int, ...]
    first: int
    runs: list[MessageRun]
    control: Control | None
    payload: bytes
    piece: int
    """Size of each fragment but the last; 0 when the frame is one fragment."""
    ordered: bool
    """Holds an agreed or safe message, so it takes a place in the order (rule F-10)."""
    vector: list[int] = []
    """Set on insertion: for each member, how many of its frames this one follows."""
    batch: int = -1
    """Set by the order: the batch that it left in."""
    queue: int = 0
    """Set by delivery: how many of its runs have left."""
    repeated_ns: int = -1
    repeated: int = 0
    """Set by recovery: when this member last repeated it, and which fragments since then."""
    wire: int = 0
    """The sender's index in `table`, as it stands on the wire; `sender` is its rank here."""
    full: bool = False
    """Its sender's application is behind with reading: the others shall send nothing more."""

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
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
RolesInView = Annotated[tuple[Role, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
RolesAssigned = Annotated[tuple[Role, ...], msgspec.Meta(max_length=4 * MEMBERS_MAX)]


class Component(msgspec.Struct, frozen=True, array_like=True):
    """A view that takes part in a change, with the digest of the proposal that made it and its
    roles: the id follows from these, so that a made-up one is seen."""

    view: ViewId
    members: Members
    context: Digest = bytes(8)
    roles: RolesInView = ()

    def as_sent(self) -> Component | tuple[ViewId, tuple[MemberId, ...], bytes]:
        """What is encoded. A view without roles says nothing of them."""
        return self if self.roles else (self.view, self.members, self.context)


Components = Annotated[tuple[Component, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
LeftOut = Annotated[tuple[tuple[Counter, Counter], ...], msgspec.Meta(max_length=4 * MEMBERS_MAX)]


class ProposalBody(msgspec.Struct, frozen=True, array_like=True):
    """A proposal as it travels: components by their ids; the entries that are left out, each as the
    index of its component and the index of the member in that component; the roles it assigns."""

    components: Components
    left_out: LeftOut = ()
    roles: RolesAssigned = ()


def encode_proposal(
    components: Iterable[Component],
    left_out: Sequence[tuple[int, int]],
    roles: Sequence[Role],
) -> bytes:
    """A `ProposalBody`. One without roles is encoded without that field."""
    sent = [component.as_sent() for component in components]
    return _encode((sent, left_out, roles) if roles else (sent, left_out))


_encode = msgspec.msgpack.Encoder().encode


class DeliveredVector(msgspec.Struct, frozen=True, array_like=True):
    """How far the messages of each of these senders were delivered (rule D-17)."""

    members: Members = ()
    numbers: Numbers = ()
    """Per sender, the last message delivered."""
    firsts: Numbers = ()
    """Per sender, the first message since this member met it; empty if each is 1."""
    beyond: Numbers = ()
    """Per sender, how many more messages this member knows of; empty if none of any."""

    @property
    def is_possible(self) -> bool:
        """Whether its lists are as long as they must be, and name messages that there can be."""
        count = len(self.members)
        if len(self.numbers) != count:
            return False
        if len(self.firsts) not in (0, count) or len(self.beyond) not in (0, count):
            return False
        known = map(add, self.numbers, self.beyond) if self.beyond else self.numbers
        return max(known, default=0) < NUMBER_MAX


class Propose(msgspec.Struct, frozen=True, array_like=True, tag="propose"):
    """The frame issues the proposal that it announces (rule R1), and tells how far its sender has
    delivered."""

    delivered: DeliveredVector = DeliveredVector()


class LeaveAnnounced(msgspec.Struct, frozen=True, array_like=True, tag="leave"):
    """The last frame of a member that leaves (rule LEAVE)."""


ControlMessage = Propose | LeaveAnnounced


class Announce(msgspec.Struct, frozen=True, array_like=True, tag="announce"):
    """Makes a frame readable to members of other views. Every frame has one from the first frame of
    a change until all members of the next view have spoken in it (rule M-1).

    The sender's view, which is the frame's tag, is one of the components of the proposal; the
    frame's indices refer to its members.
    """

    proposal: Annotated[bytes, msgspec.Meta(max_length=PROPOSAL_BYTES_MAX)]
    """A `ProposalBody`: the sender's current proposal in phase 1, its view alone in phase 0.
    Encoded apart, because many frames bring the same one, which is decoded and checked once."""
    vector: Numbers
    """The whole vector time over the members of the sender's view."""
    issued: Number = 0
    """The sender's frame that issued the proposal; 0 if it has issued none in this view."""
    start: Number = 0
    """Frames of the sender up to this one are not carried into the view that the proposal makes."""
    closings: Numbers = ()
    """In phase 1: per member of the view that the proposal makes, the frame with which it issued
    the proposal, as far as the sender knows; 0 if it does not."""
    openings: Numbers = ()
    """While not all have spoken in the sender's view: per member of it, the frame with which it
    issued that view."""
    said: ControlMessage | None = None


Control = Announce
KIND_OF: dict[type[ControlMessage] | type[None], int] = {
    Propose: FrameKind.PROPOSE,
    LeaveAnnounced: FrameKind.LEAVE,
}
