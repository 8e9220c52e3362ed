"""Canonical form of a member's state: two members with equal forms behave alike from here on.

The form holds everything that the member holds, except what is listed in LEFT_OUT: times, prng,
statistics, second names of the same object, and what can be read out of something that is in it.
So a field that the core gets tomorrow makes more states, never fewer. Sets and dicts are sorted:
what takes its order from them would differ from process to process anyway.

Frames are named by their bytes: the same number of the same sender may stand for different
frames in different states.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import msgspec

from phalanx.config import Config
from phalanx.core.broadcast.ack_scheduler import AckScheduler
from phalanx.core.broadcast.dag import Dag
from phalanx.core.broadcast.flow_control import FlowControlWindow
from phalanx.core.broadcast.foreign_frames import ForeignFrames
from phalanx.core.broadcast.frame_store import FrameStore, PastFrames
from phalanx.core.broadcast.reliable import ReliableBroadcast
from phalanx.core.broadcast.retransmission import Retransmission
from phalanx.core.deadline import NEVER
from phalanx.core.delivery.delivery_queue import DeliveryQueue
from phalanx.core.delivery.total_order import TotalOrder
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.member.active_view import ActiveView
from phalanx.core.member.control_plane import ControlPlane
from phalanx.core.member.member import Member
from phalanx.core.member.sender import Sender
from phalanx.core.member.view_change import ViewChange
from phalanx.core.member.view_state import MemberResources, ViewState
from phalanx.core.membership.merge_history import MergeHistory
from phalanx.core.membership.proposals import Proposal, epoch
from phalanx.core.membership.protocol import MembershipProtocol
from phalanx.core.membership.statements import Statement, Statements
from phalanx.core.wire.frames import Component, DeliveredVector, Frame
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.reassembly import FrameReassembler
from phalanx.core.wire.settings_mismatch import SettingsMismatches
from phalanx.explore.frozen_member import FrozenTimeMember

Plain = Any
"""What msgspec encodes always in the same way: no sets, no dicts."""

_encoded = msgspec.msgpack.Encoder().encode
_FIRST = itemgetter(0)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


WHOLLY_LEFT_OUT: tuple[type, ...] = (
    Config,  # the same for ever
    PacketCodec,
    AckScheduler,  # times
    FlowControlWindow,  # far from full
    FrameReassembler,  # every frame comes whole
    ControlPlane,  # the detector, the search and the claim are replaced by inputs
    Counter,  # statistics
    SettingsMismatches,  # all settings agree
)
LEFT_OUT: dict[type, frozenset[str]] = {
    object: _names("config codec prng _config _codec _prng"),
    Member: _names("me"),
    # Times; receipts, which go to the user.
    Sender: _names("_me pace_ns receipts _reported_closed"),
    # Second names of parts of the member.
    ActiveView: _names("_protocol _sender _resources"),
    ViewChange: _names(
        "_me _protocol _control_plane _sender _resources _active activity situations"
    ),
    FrozenTimeMember: _names("_timer"),
    MembershipProtocol: _names("me base unchanged _time _first_issue_ns"),
    Statements: _names("_heard_ns _protected _spoken _bytes _counts"),  # see `_spoken`
    # What a statement says beyond this counts when it is heard, not when it is looked at again.
    Statement: _names("issued start delivered closings openings"),
    ViewState: _names("me dag ranked table tag openings _awaited _confirmed"),
    FrameStore: _names("_me waiting_bytes"),
    ReliableBroadcast: _names(
        "dag duplicates _me _members _table _tag _claimed _requester _responder"
        " _unread"  # empty between steps
    ),
    # `PastFrames` has the frames that are kept. What is asked for: see `_field`.
    ForeignFrames: _names("me retransmission _kept _wanted _bytes _count _senders _tables"),
    # Read out of the payload, or about repeating it.
    Frame: _names("control runs repeated_ns repeated piece table tag kind first ordered wire"),
    DeliveryQueue: _names("_dag _view"),
    TotalOrder: _names("_dag"),
}
PLAIN = (int, str, bytes, bool, type(None), MemberId, ViewId, View, Component, DeliveredVector)
"""Values that are encoded as they are."""
DEADLINES = _names("_collect_until _answer_until _speak_until _leave_ns")
"""Of these it matters only whether they are set."""


def digest(member: FrozenTimeMember) -> bytes:
    """Names the normal form: 16 bytes."""
    return blake2b(_encoded(normal(member)), digest_size=16).digest()


def normal(thing: object) -> Plain:
    kind = type(thing)
    rule = _RULES.get(kind)
    if rule is None:
        rule = _RULES[kind] = _rule_for(kind)
    return rule(thing)


def _rule_for(kind: type) -> Callable[[Any], Plain]:
    if kind in PLAIN:
        return _itself
    if issubclass(kind, Enum):
        return _value
    if issubclass(kind, WHOLLY_LEFT_OUT):
        return _nothing
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if issubclass(kind, dict):
        return _sorted_items
    if issubclass(kind, set | frozenset):
        return _sorted
    if issubclass(kind, list | tuple | deque | array):
        return _list if kind is list else _each
    return _fields_of(kind)


def _itself(thing: Plain) -> Plain:
    return thing


def _value(thing: Enum) -> Plain:
    return thing.value


def _nothing(thing: object) -> Plain:
    return None


def _each(things: Sequence[object]) -> Plain:
    return [normal(thing) for thing in things]


def _list(things: list[object]) -> Plain:
    """A list holds things of one kind."""
    if things and type(things[0]) in PLAIN:
        return things
    return [normal(thing) for thing in things]


def _sorted(things: Iterable[object]) -> Plain:
    return sorted([_encoded(normal(thing)) for thing in things])


def _sorted_items(things: dict[object, object]) -> Plain:
    return sorted(
        [(_encoded(normal(key)), normal(value)) for key, value in things.items()], key=_FIRST
    )


def _missing(retransmission: Retransmission) -> Plain:
    """What is asked for; not when, nor how often."""
    return sorted(retransmission.missing)


def _fields_of(kind: type) -> Callable[[Any], Plain]:
    """A rule for objects: each field that is not left out, in the order of their names."""
    left_out: frozenset[str] = frozenset()
    fields: dict[str, None] = {}
    for base in kind.__mro__:
        left_out |= LEFT_OUT.get(base, frozenset())
        slots = base.__dict__.get("__slots__", ())
        fields.update(dict.fromkeys([slots] if isinstance(slots, str) else slots))
    if issubclass(kind, msgspec.Struct):
        fields.update(dict.fromkeys(kind.__struct_fields__))
    assert fields or "__dict__" in dir(kind), f"{kind} cannot be read"
    names = tuple(sorted(name for name in fields if name not in left_out))

    def of_slots(thing: object) -> Plain:
        return [_field(thing, name, getattr(thing, name)) for name in names]

    def of_dict(thing: object) -> Plain:
        mine = vars(thing)
        return [_field(thing, name, mine[name]) for name in sorted(mine) if name not in left_out]

    return of_slots if names else of_dict


def _field(owner: object, name: str, value: object) -> Plain:
    if name in DEADLINES:
        return value != NEVER
    if name == "origin" and isinstance(owner, ViewState) and not owner.awaiting_first_frames:
        return None  # all that is carried into the view has entered
    if name == "_statements" and isinstance(owner, MembershipProtocol):
        return normal(value), _spoken(owner)
    if name == "foreign" and isinstance(owner, MemberResources):
        return normal(value), _sorted(owner.foreign.wants())
    if name == "newly_stable" and isinstance(owner, Dag):
        return _sorted(set(owner.newly_stable))
    return normal(value)


def _spoken(protocol: MembershipProtocol) -> Plain:
    """The views that members were heard from matter for proposals from the base alone (R3): the
    view that one of these makes is newer than the base."""
    since = epoch(protocol.base.view)
    return _sorted(
        (member, view)
        for member, views in protocol._statements._spoken.items()
        for view in views
        if epoch(view) > since
    )


def _archive(past_frames: PastFrames) -> Plain:
    """Frames of other views, which the next view may need, and frames that can only be repeated;
    of their fields only the bytes matter any more."""
    foreign = _sorted(_stored(past_frames.foreign))
    return foreign, _sorted({f for frames in past_frames._generations for f in _stored(frames)})


def _stored(frames_of: dict[MemberId, dict[int, Frame]]) -> list[tuple[MemberId, int, bytes]]:
    return [
        (member, number, frame.payload)
        for member, stored in frames_of.items()
        for number, frame in stored.items()
    ]


def _history(history: MergeHistory) -> Plain:
    """Its order matters only for what is forgotten first, when there is far too much."""
    came_from = _sorted_items(history._came_from)  # type: ignore[arg-type]
    return came_from, _sorted(history._views)


def _digest(proposal: Proposal) -> Plain:
    return proposal.digest


_SPECIAL: dict[type, Callable[[Any], Plain]] = {
    PastFrames: _archive,
    Proposal: _digest,
    Retransmission: _missing,
    MergeHistory: _history,
}
_RULES: dict[type, Callable[[Any], Plain]] = {}
