"""What a member is given and what it asks for: the whole border of the core.

`Member.step(now, given)` takes one input and returns the effects, in the order in which
they must happen; `Member.deadline()` says when to give it `DeadlinePassed`. Effects name
frames and ranges of messages, never single messages: whoever shows them to a user cuts the
bodies out (`Deliver.bodies()`), and only when they are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Literal

import msgspec

from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.roles import Roles


class Service(IntEnum):
    """How strongly a message is ordered. Chosen per message."""

    BASIC = 0
    CAUSAL = 1
    AGREED = 2
    SAFE = 3


class Region(IntEnum):
    """Before or after the transitional marker of a view's end."""

    REGULAR = 0
    TRANSITIONAL = 1


# ---------------------------------------------------------------------------- inputs


class Datagrams(msgspec.Struct, frozen=True, gc=False):
    """Packets that arrived, oldest first. Bytes of any kind are allowed."""

    packets: Sequence[bytes]


class DeadlinePassed(msgspec.Struct, frozen=True, gc=False):
    """The time that `deadline()` named has come."""


class Submit(msgspec.Struct, frozen=True, gc=False):
    """Messages of the application, all with one service and one set of receivers.

    `to` None means the whole view. Accepted whole, or refused whole with a SubmissionError.
    `lost` are members that the messages were addressed to as well and that have left the view
    since: they are reported as NotSent.
    """

    bodies: Sequence[bytes]
    service: Service = Service.AGREED
    to: tuple[MemberId, ...] | None = None
    lost: tuple[MemberId, ...] = ()


class Close(msgspec.Struct, frozen=True, gc=False):
    """Accept no more submissions. What was accepted is still sent, acknowledged and served."""


class LeaveRequest(msgspec.Struct, frozen=True, gc=False):
    """Go: send what was accepted, say goodbye, serve until those that stay know, then `Stopped`."""


class SuspectMember(msgspec.Struct, frozen=True, gc=False):
    """Hold this member for failed, as the detector would: an explorer or an operator says so."""

    member: MemberId


class ReaderLag(msgspec.Struct, frozen=True, gc=False):
    """How far the application is behind with reading: 0 it keeps up, 1 its buffer is full and the
    others shall wait, 2 it is over full and this member sends nothing either (rule W-10)."""

    level: Literal[0, 1, 2]


class SetRole(msgspec.Struct, frozen=True, gc=False):
    """The application sets the operations of this member: its role from the next view on."""

    operations: tuple[str, ...]
    """Sorted, without repetition, as `roles.problem_with` allows them."""


class AwaitDelivery(msgspec.Struct, frozen=True, gc=False):
    """The application waits until all members have delivered this own message: report it with
    AllDelivered."""

    number: int


Input = (
    Datagrams
    | DeadlinePassed
    | Submit
    | Close
    | LeaveRequest
    | SuspectMember
    | ReaderLag
    | AwaitDelivery
    | SetRole
)


# ---------------------------------------------------------------------------- effects


class Transmit(msgspec.Struct, frozen=True, gc=False):
    """Broadcast these packets in the domain, in order. Those of one frame have one size, but
    for its last."""

    packets: list[bytes]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The submission was taken; its messages have these numbers (what `send` resolves to)."""

    first: int
    last: int
    service: Service
    to: tuple[MemberId, ...] | None
    size: int
    bodies: Sequence[bytes] = ()
    """As they were submitted, for whoever writes down what they were."""


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Own messages first..last left in frame `frame`; for a large one, its last part did."""

    first: int
    last: int
    frame: int
    service: Service
    to: tuple[MemberId, ...] | None
    view: ViewId
    phase: int


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Messages first..last of `sender`, consecutive in the delivery order.

    `pos` is the agreed position of the first, counted from 0 in the view (None for basic and
    causal); `batch` the number of the batch the order put them in; `frame` the sender's frame
    that completed them. `view` is where they are delivered, `origin` where they were sent.
    """

    sender: MemberId
    first: int
    last: int
    service: Service
    to: tuple[MemberId, ...] | None
    view: ViewId
    origin: ViewId
    phase: int
    region: Region
    pos: int | None
    batch: int | None
    frame: int
    payload: bytes
    offset: int
    lengths: Sequence[int]

    def bodies(self) -> list[bytes]:
        """The message bodies, cut out of the frame."""
        lengths = self.lengths
        if len(lengths) > 8 and min(lengths) == max(lengths) > 0:
            return _cut_evenly(self.payload, self.offset, lengths[0], len(lengths))
        payload = self.payload
        ends = list(accumulate(lengths, initial=self.offset))
        return [payload[a:b] for a, b in pairwise(ends)]


_BLOCK = 32


def _cut_evenly(payload: bytes, at: int, length: int, count: int) -> list[bytes]:
    """Bodies of one length, 32 in one call: a third of the time that slicing takes."""
    out: list[bytes] = []
    end = at + count // _BLOCK * _BLOCK * length
    if end > at:
        for block in _cutter(length).iter_unpack(memoryview(payload)[at:end]):
            out += block
    out += [payload[i : i + length] for i in range(end, at + count * length, length)]
    return out


@lru_cache(64)
def _cutter(length: int) -> Struct:
    return Struct(f"{length}s" * _BLOCK)


class Ordered(msgspec.Struct, frozen=True, gc=False):
    """Receipt: the place of all own messages up to this number can no longer change here. Those
    that are new since the receipt before are delivered in `view`."""

    upto: int
    view: ViewId


class Stable(msgspec.Struct, frozen=True, gc=False):
    """Receipt: every member of the view has all own messages up to this number.

    If the view has ended before that, `members` are those that move on together: each of them
    delivers the messages that are new since the receipt before, or does not get to the next view.
    Nothing is known of the other members of the view.
    """

    upto: int
    view: ViewId
    members: tuple[MemberId, ...] | None = None


class AllDelivered(msgspec.Struct, frozen=True, gc=False):
    """Receipt, where it was asked for: every member of the view has delivered all own messages up
    to this number that belong to the view and are addressed to it.

    If the view has ended before that was known, `members` are those that have moved on together:
    they delivered them before they did. Nothing is known of the other members of the view.
    """

    upto: int
    view: ViewId
    members: tuple[MemberId, ...] | None = None


class NotSent(msgspec.Struct, frozen=True, gc=False):
    """Own messages first..last were addressed to these members, which are missing from the view
    that the messages belong to, or were missing from one that this member installed while the
    messages waited; they do not come back for them. `rest` counts the receivers that are left.

    Messages that had not been sent go to none of these members. Messages that had been `sent`,
    during a change in mode `flow`, may have been delivered by some of them, in a view without this
    member.
    """

    first: int
    last: int
    members: tuple[MemberId, ...]
    rest: int = 0
    sent: bool = False


class WindowClosed(msgspec.Struct, frozen=True, gc=False):
    """Stop submitting: the outbox holds its limit because the domain is full or slow."""

    bytes: int
    frames: int


class WindowOpened(msgspec.Struct, frozen=True, gc=False):
    """Submit again."""

    bytes: int
    frames: int


class MessageRange(msgspec.Struct, frozen=True, gc=False):
    """Messages first..last of a sender."""

    sender: MemberId
    first: int
    last: int


class MergedComponent(msgspec.Struct, frozen=True, gc=False):
    """A component of a merged view: who it was, how far it had delivered each sender's messages,
    and what of that it alone delivered since its members met the sender (rule D-17)."""

    view: ViewId
    members: tuple[MemberId, ...]
    delivered: tuple[tuple[MemberId, int], ...]
    alone: tuple[MessageRange, ...]


class ViewInstalled(msgspec.Struct, frozen=True, gc=False):
    """From here on the member is in `view` (rule D-18).

    `transitional` are the members that came here from `previous` together with this one: they
    delivered the same messages in it. `merged` is empty unless the cause is a join.
    """

    view: View
    previous: ViewId | None
    transitional: tuple[MemberId, ...]
    cause: Literal["boot", "removal", "join", "role"]
    joined: tuple[MemberId, ...] = ()
    left: tuple[MemberId, ...] = ()
    merged: tuple[MergedComponent, ...] = ()


class RolesInstalled(msgspec.Struct, frozen=True, gc=False):
    """The roles of the view that has just been installed, if it has any: right after
    `ViewInstalled`."""

    view: ViewId
    roles: Roles


class Transitional(msgspec.Struct, frozen=True, gc=False):
    """The view is ending. Safe messages after this point, the pos-th of the agreed order, are
    known to be only at `members`, those that move along."""

    view: ViewId
    pos: int
    members: tuple[MemberId, ...]


PeerState = Literal["OPERATIONAL", "SUSPECTED", "SEMI", "FAULTY"]
Evidence = Literal[
    "SILENCE",
    "RELAY",
    "DIRECT",
    "STALLED",
    "T_CHANGE",
    "TOLD",
    "MOVED",
    "REPLACED",
    "OPERATOR",
]
PROTOCOL_EVIDENCE: tuple[Evidence, ...] = ("T_CHANGE", "TOLD", "MOVED", "REPLACED", "OPERATOR")
"""Evidence of the membership protocol, not of the detector: a member did not answer a change in
time, another member left it out, it is in another view, a later process of its name has joined, or
an operator wants it out (`SuspectMember`)."""


class PeerSuspicion(msgspec.Struct, frozen=True, gc=False):
    """The detector changed its mind about a peer, or the membership protocol leaves it out. FAULTY:
    the next view will be without it."""

    target: MemberId
    state: PeerState
    previous: PeerState
    evidence: Evidence
    relay: MemberId | None = None


Stage = Literal["IDLE", "COLLECT", "COMMIT"]
Action = Literal["START", "FORGET", "COMMIT", "FA", "FOLLOW", "CLOSED", "LEAVE"]


class ViewChangeStep(msgspec.Struct, frozen=True, gc=False):
    """The membership protocol took a step. `context` names what is being changed."""

    context: bytes
    stage: Stage
    action: Action
    components: tuple[ViewId, ...]
    failed_before: tuple[MemberId, ...]
    failed_after: tuple[MemberId, ...]


class LinkStats(msgspec.Struct, frozen=True, gc=False):
    """What happened on the link with a peer since the view began. Told when the view ends, and
    whenever `Member.links` is asked."""

    peer: MemberId
    view: ViewId
    frames: int
    """Of the peer, that are here."""
    upto: int
    """The number of the last of them."""
    missed: int
    """Of those, and of others, that were known to exist before they came whole: a packet was
    lost, or overtaken by later ones."""
    asked: int
    """Times that a frame of the peer was asked for."""
    repeated: int
    """Own packets that were sent again because the peer asked."""


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The member is no more: it left as asked, another live process has its name, or an earlier
    process had its name and incarnation. It takes no input after this and has no deadline."""

    reason: Literal["left", "name-in-use", "incarnation-used"]


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A peer's nonsense, counted and dropped. `reason` is one of `packets.REASONS`."""

    reason: str
    count: int = 1


class SettingsDiffer(msgspec.Struct, frozen=True, gc=False):
    """A process of this group runs with other settings that must agree: its packets are refused,
    and no view is formed with it. `theirs` names the settings that differ with the values that the
    peer has; empty if they are unknown here. At most once a minute for each peer."""

    peer: MemberId
    theirs: tuple[tuple[str, str], ...]


class NameContested(msgspec.Struct, frozen=True, gc=False):
    """Another process has the name of this member, which stays alone while that is so (rule L-17).
    `rival` is None when nobody has it any more: the member looks for its group again."""

    rival: MemberId | None


Effect = (
    Transmit
    | Accepted
    | Sent
    | Deliver
    | Ordered
    | Stable
    | AllDelivered
    | NotSent
    | WindowClosed
    | WindowOpened
    | ViewInstalled
    | RolesInstalled
    | Transitional
    | PeerSuspicion
    | ViewChangeStep
    | LinkStats
    | Stopped
    | Refused
    | SettingsDiffer
    | NameContested
)


def roles_among(effects: Sequence[Effect], installed: ViewInstalled) -> Roles:
    """The roles of a view that one of these effects of a step installs."""
    view = installed.view.id
    return next((e.roles for e in effects if type(e) is RolesInstalled and e.view == view), ())
