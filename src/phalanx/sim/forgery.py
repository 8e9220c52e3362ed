"""Packets that are well formed and cannot be true.

Any packet and any control message of `frames` is built, field by field, from what its type
allows: strangers as senders, views of epochs that never came, digests of nothing, members that
exist next to some that do not, lists that are too long. Nothing here names a struct, so that a
new one is forged from the day it is written.

Members do not sign what they say: who speaks with the name, the incarnation and the next
number of a real member is believed. So the sender is always a stranger, and tables, which give
meaning to numbers, are the stranger's own or unknown.
"""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import msgspec

from phalanx.core import frames
from phalanx.core.codec import Codec
from phalanx.core.frames import KIND_OF, Fragment, FrameKind
from phalanx.core.framing import encode_frame, encode_tag
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId, table_digest

_STRANGERS = ("mallory", "zz", "Mallory", "\u00e5sa", "m" * 128)
_SPEAKERS = ("sender", "member", "name")
"""Fields that say who speaks, or whose name it is."""
_DEPTH_MAX = 6
VIEWS_MAX = 64

_PLAIN = get_args(frames.Plain)
_CONTROL = get_args(frames.Control) or (frames.Control,)


class Forger:
    """Makes packets for one group from dice. Tell it the views that members install."""

    def __init__(self, dice: Random, cluster: str, group: str, view: View) -> None:
        self._dice = dice
        self._codec = Codec(cluster, group)
        self._views = [view]

    def saw(self, view: View) -> None:
        """A member is in this view: a part of what it says may be told again."""
        if len(self._views) < VIEWS_MAX:
            self._views.append(view)
        else:
            self._views[self._dice.randrange(VIEWS_MAX)] = view

    def packet(self) -> bytes:
        """A packet of any kind."""
        if self._dice.randrange(3):
            kind = self._dice.choice(_PLAIN)
            return self._codec.encode(self._struct(msgspec.inspect.type_info(kind), 0))
        return self._frame()

    def _frame(self) -> bytes:
        """A frame of a stranger, with a table of its own that may name real members."""
        dice = self._dice
        control = self._struct(msgspec.inspect.type_info(dice.choice(_CONTROL)), 0)
        parts = [part.members for part in getattr(control, "components", ())]
        table = tuple(sorted({member for members in parts for member in members}))
        known = [m for view in self._views for m in view.members]
        speakers = [i for i, member in enumerate(table) if member not in known]
        kind = int(dice.choice(list(FrameKind)))
        if dice.randrange(4):  # what fits together is read further
            kind = KIND_OF.get(type(getattr(control, "said", None)), FrameKind.ACK)
            control = self._fitted(control, len(table))
        payload = encode_frame(
            kind=kind,
            phase=dice.randrange(2),
            tag=encode_tag(self._view_id()),
            ack_members=[],
            ack_numbers=[],
            first=1,
            runs=[],
            control=control,
        )
        sender = dice.choice(speakers) if speakers else dice.randrange(MEMBERS_MAX)
        fragment = Fragment(
            piece=payload,
            table=table_digest(table) if speakers else dice.randbytes(8),
            sender=sender,
            via=sender,
            number=1 + dice.randrange(9),
            index=0,
            count=1,
            repeat=0,
        )
        return self._codec.encode_fragment(fragment)

    def _fitted(self, control: Any, size: int) -> Any:
        """The same with a number for each member of the table, where there are numbers."""
        numbers = {}
        for field in msgspec.inspect.type_info(type(control)).fields:  # type: ignore[attr-defined]
            match field.type:
                case msgspec.inspect.VarTupleType(item_type=msgspec.inspect.IntType()):
                    numbers[field.name] = tuple(self._dice.randrange(9) for _ in range(size))
        return msgspec.structs.replace(control, **numbers)

    # ------------------------------------------------------------------ values

    def _struct(self, info: Any, depth: int) -> Any:
        values = {
            field.name: self._value(field.type, field.name, depth + 1) for field in info.fields
        }
        return info.cls(**values)

    def _value(self, info: Any, field: str, depth: int) -> Any:
        dice = self._dice
        match info:
            case msgspec.inspect.StructType() if info.cls is MemberId:
                return self._stranger() if field in _SPEAKERS else self._member()
            case msgspec.inspect.StructType() if info.cls is ViewId:
                return self._view_id()
            case msgspec.inspect.StructType():
                return self._struct(info, depth)
            case msgspec.inspect.UnionType():
                return self._value(dice.choice(info.types), field, depth)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                length = self._length(info, depth)
                return tuple(self._value(info.item_type, "", depth + 1) for _ in range(length))
            case msgspec.inspect.IntType():
                return self._number(info)
            case msgspec.inspect.BytesType():
                return self._bytes(info, field)
            case msgspec.inspect.StrType():
                return dice.choice(_STRANGERS)
            case msgspec.inspect.BoolType():
                return bool(dice.randrange(2))
            case msgspec.inspect.EnumType():
                return dice.choice(list(info.cls))
            case _:
                return None

    def _length(self, info: Any, depth: int) -> int:
        """A few, none, or now and then one more than is allowed."""
        dice = self._dice
        if depth > _DEPTH_MAX:
            return 0
        if info.max_length is not None and depth < 3 and not dice.randrange(20):
            return int(info.max_length) + 1
        return dice.randrange(5)

    def _number(self, info: Any) -> int:
        low = 0 if info.ge is None else info.ge
        high = info.le if info.le is not None else (info.lt or 1 << 32) - 1
        drawn = self._dice.choice((low, low + 1, low + self._dice.randrange(100), high))
        return int(min(max(drawn, low), high))

    def _bytes(self, info: Any, field: str) -> bytes:
        dice = self._dice
        if field == "context" and dice.randrange(2):
            return dice.choice(self._views).context
        length = info.min_length or 0
        return dice.randbytes(length or dice.randrange(9))

    def _stranger(self) -> MemberId:
        return MemberId(self._dice.choice(_STRANGERS), self._dice.choice((0, 1, 7, 1 << 62)))

    def _member(self) -> MemberId:
        dice = self._dice
        if dice.randrange(2):
            return self._stranger()
        return dice.choice(dice.choice(self._views).members)

    def _view_id(self) -> ViewId:
        """Of no view that ever was: a later epoch, a huge one, or another digest."""
        dice = self._dice
        known = dice.choice(self._views).id
        match dice.randrange(3):
            case 0:
                joins, removals = known.joins + 1 + dice.randrange(4), dice.randrange(3)
            case 1:
                joins, removals = (1 << 32) - 1, (1 << 32) - 1
            case _:
                joins, removals = known.joins, known.removals
        return ViewId(joins, removals, dice.randbytes(8))
