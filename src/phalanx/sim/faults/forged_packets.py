"""Forged packets: well formed, with contents that cannot be true.

Any packet and any control message of `frames` is built, field by field, from what its type
allows: strangers as senders, views of epochs that never came, digests of nothing, members that
exist next to some that do not, lists that are too long. Packets are forged by their types, so that
a new one is forged from the day it is written; frames of a change fit together most of the time,
so that they are read to the end: proposals of strangers that unite views which there are with
views that there never were.

Messages are not authenticated: members accept a packet with the name, the incarnation and the
next number of a real member. So the forged sender is always a stranger, in a view of its own.
"""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import msgspec

from phalanx.core.ids import MemberId, View, ViewId, view_digest
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.wire import packets
from phalanx.core.wire.frame_codec import encode_frame, encode_tag
from phalanx.core.wire.frames import (
    KIND_OF,
    Announce,
    Component,
    ControlMessage,
    DeliveredVector,
    FrameKind,
    LeaveAnnounced,
    Propose,
)
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment

_STRANGERS = ("mallory", "zz", "Mallory", "\u00e5sa", "m" * 128)
_SPEAKERS = ("sender", "member", "name")
"""Fields that say who speaks, or whose name it is."""
_DEPTH_MAX = 6
VIEWS_MAX = 64

_PLAIN = get_args(packets.ControlPacket)


_DEFAULT = frozenset({"roles"})
"""Fields that are not drawn, so that the packets of a seed stay the same."""


class PacketForger:
    """Makes random packets for one group; `saw` gives it the views that members install."""

    def __init__(self, rng: Random, codec: PacketCodec, view: View) -> None:
        self._rng = rng
        self._codec = codec
        self._views = [view]

    def saw(self, view: View) -> None:
        """A member is in this view: a part of what it says may be repeated."""
        if len(self._views) < VIEWS_MAX:
            self._views.append(view)
        else:
            self._views[self._rng.randrange(VIEWS_MAX)] = view

    def packet(self) -> bytes:
        """A packet of any kind."""
        if self._rng.randrange(3):
            kind = self._rng.choice(_PLAIN)
            return self._codec.encode(self._struct(msgspec.inspect.type_info(kind), 0))
        return self._frame()

    def _frame(self) -> bytes:
        """A frame of a stranger from a view of its own, in which it may list real members."""
        rng = self._rng
        home = self._component(self._stranger())
        speakers = [i for i, member in enumerate(home.members) if member.name in _STRANGERS]
        sender, number, phase = rng.choice(speakers), 1 + rng.randrange(9), rng.randrange(2)
        said, control = None, self._struct(msgspec.inspect.type_info(Announce), 0)
        if rng.randrange(4):  # what fits together is read further
            said = (
                rng.choice((None, LeaveAnnounced(), Propose(DeliveredVector()))) if phase else None
            )
            control = self._announcement(home, sender, number, phase, said)
        payload = encode_frame(
            kind=KIND_OF[type(said)] if said is not None else FrameKind.ACK,
            phase=phase,
            tag=encode_tag(home.view),
            ack_members=[],
            ack_numbers=[],
            first=1,
            runs=[],
            control=control,
        )
        fragment = Fragment(
            piece=payload,
            table=home.view.digest,
            sender=sender,
            via=sender,
            number=number,
            index=0,
            count=1,
            repeat=0,
        )
        return self._codec.encode_fragment(fragment)

    def _announcement(
        self, home: Component, sender: int, number: int, phase: int, said: ControlMessage | None
    ) -> Announce:
        """One that could be true: of the view alone, or of a union with views that there are."""
        rng = self._rng
        proposal = proposal_of([home])
        if phase:
            speaker = home.members[sender]
            known = [component_of(rng.choice(self._views)) for _ in range(rng.randrange(3))]
            parts = {c.view: c for c in (home, *known, self._component(self._member()))}
            out = {
                (member, view)
                for view, component in parts.items()
                for member in component.members
                if (member, view) != (speaker, home.view)
                and (not rng.randrange(4) or member.name == speaker.name)
            }
            names: set[str] = {speaker.name}
            for view, component in parts.items():
                for member in component.members:
                    if (member, view) not in out and (member, view) != (speaker, home.view):
                        if member.name in names:
                            out.add((member, view))
                        names.add(member.name)
            proposal = proposal_of(parts.values(), out)
        vector = [rng.randrange(9) for _ in home.members]
        vector[sender] = number
        issued = number if isinstance(said, Propose) else rng.randrange(number) if phase else 0
        closings = tuple(rng.randrange(9) for _ in proposal.entries) if phase else ()
        return Announce(proposal.encoded, tuple(vector), issued, 0, closings, (), said)

    def _component(self, member: MemberId) -> Component:
        """A view that could be: its id follows from its members and a proposal."""
        rng = self._rng
        others = [self._member() for _ in range(rng.randrange(4))]
        members = tuple(sorted({member, self._stranger(), *others}))
        context = rng.randbytes(8)
        epoch = self._view_id()
        view = ViewId(max(1, epoch.joins), epoch.removals, view_digest(context, members))
        return Component(view, members, context)

    # ------------------------------------------------------------------ values

    def _struct(self, info: Any, depth: int) -> Any:
        values = {
            field.name: self._value(field.type, field.name, depth + 1)
            for field in info.fields
            if field.name not in _DEFAULT
        }
        return info.cls(**values)

    def _value(self, info: Any, field: str, depth: int) -> Any:
        rng = self._rng
        match info:
            case msgspec.inspect.StructType() if info.cls is MemberId:
                return self._stranger() if field in _SPEAKERS else self._member()
            case msgspec.inspect.StructType() if info.cls is ViewId:
                return self._view_id()
            case msgspec.inspect.StructType():
                return self._struct(info, depth)
            case msgspec.inspect.UnionType():
                return self._value(rng.choice(info.types), field, depth)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                length = self._length(info, depth)
                return tuple(self._value(info.item_type, "", depth + 1) for _ in range(length))
            case msgspec.inspect.IntType():
                return self._number(info)
            case msgspec.inspect.BytesType():
                return self._bytes(info, field)
            case msgspec.inspect.StrType():
                return rng.choice(_STRANGERS)
            case msgspec.inspect.BoolType():
                return bool(rng.randrange(2))
            case msgspec.inspect.EnumType():
                return rng.choice(list(info.cls))
            case _:
                return None

    def _length(self, info: Any, depth: int) -> int:
        """A few, none, or now and then one more than is allowed."""
        rng = self._rng
        if depth > _DEPTH_MAX:
            return 0
        if info.max_length is not None and depth < 3 and not rng.randrange(20):
            return int(info.max_length) + 1
        return rng.randrange(5)

    def _number(self, info: Any) -> int:
        low = 0 if info.ge is None else info.ge
        high = info.le if info.le is not None else (info.lt or 1 << 32) - 1
        drawn = self._rng.choice((low, low + 1, low + self._rng.randrange(100), high))
        return int(min(max(drawn, low), high))

    def _bytes(self, info: Any, field: str) -> bytes:
        rng = self._rng
        if field == "context" and rng.randrange(2):
            return rng.choice(self._views).context
        length = info.min_length or 0
        return rng.randbytes(length or rng.randrange(9))

    def _stranger(self) -> MemberId:
        return MemberId(self._rng.choice(_STRANGERS), self._rng.choice((0, 1, 7, 1 << 62)))

    def _member(self) -> MemberId:
        rng = self._rng
        if rng.randrange(2):
            return self._stranger()
        return rng.choice(rng.choice(self._views).members)

    def _view_id(self) -> ViewId:
        """Of no view that ever was: a later epoch, a huge one, or another digest."""
        rng = self._rng
        known = rng.choice(self._views).id
        match rng.randrange(3):
            case 0:
                joins, removals = known.joins + 1 + rng.randrange(4), rng.randrange(3)
            case 1:
                joins, removals = (1 << 32) - 1, (1 << 32) - 1
            case _:
                joins, removals = known.joins, known.removals
        return ViewId(joins, removals, rng.randbytes(8))
