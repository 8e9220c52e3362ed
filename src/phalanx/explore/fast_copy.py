"""Fast deep copies of members.

`copy.deepcopy` takes a millisecond, pickling there and back nearly as long, and every step of a
search starts with a copy. Here values that never change are shared, among them everything that
was decoded from a packet; lists are copied without asking whether something else refers to them too
(in a member nothing does that changes them); objects and dicts are copied once each.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable
from copy import copy
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from phalanx.config import Config
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.membership.carryover import ViewOrigin
from phalanx.core.membership.instructions import RoleSet
from phalanx.core.membership.proposals import Proposal
from phalanx.core.membership.statements import Issue, Statement
from phalanx.core.roles import Role
from phalanx.core.wire.frames import (
    Announce,
    Component,
    DeliveredVector,
    LeaveAnnounced,
    Propose,
)
from phalanx.core.wire.packet_codec import PacketCodec

Memo = dict[int, Any]
Rule = Callable[[Any, Memo], Any]
_T = TypeVar("_T")

SHARED = frozenset[type](
    (
        *(int, str, bytes, bool, type(None), frozenset, array, FunctionType, Service),
        *(MemberId, ViewId, View, Component, Announce, Propose, LeaveAnnounced, DeliveredVector),
        *(Proposal, Statement, Issue, ViewOrigin, Role, RoleSet),
        *(Config, PacketCodec),
    )
)
"""What never changes, and holds nothing that does."""


class _Rules(dict[type, Rule]):
    """How to copy things of a type; found when one is met for the first time."""

    def __missing__(self, kind: type) -> Rule:
        rule = self[kind] = _rule_for(kind)
        return rule


def copied(thing: _T) -> _T:
    """A copy that shares nothing with the original that may change."""
    made: _T = _RULES[type(thing)](thing, {})
    return made


def _rule_for(kind: type) -> Rule:
    if kind in SHARED or issubclass(kind, Enum):
        return _same
    if kind in _KINDS:
        return _KINDS[kind]
    return _struct if issubclass(kind, msgspec.Struct) else _fields_of(kind)


def _same(thing: Any, memo: Memo) -> Any:
    return thing


def _flat(thing: Any, memo: Memo) -> Any:
    return thing.copy()


def _list(things: list[Any], memo: Memo) -> Any:
    if not things or type(things[0]) in SHARED:  # a list holds things of one kind
        return things.copy()
    return [_RULES[type(thing)](thing, memo) for thing in things]


def _tuple(things: tuple[Any, ...], memo: Memo) -> Any:
    if not things or type(things[-1]) in SHARED:
        return things
    return tuple([_RULES[type(thing)](thing, memo) for thing in things])


def _dict(things: dict[Any, Any], memo: Memo) -> Any:
    made = memo.get(id(things))
    if made is None:
        made = memo[id(things)] = {}
        for key, value in things.items():
            shared = type(value) in SHARED
            made[key] = value if shared else _RULES[type(value)](value, memo)
    return made


def _deque(things: deque[Any], memo: Memo) -> Any:
    return deque([_RULES[type(thing)](thing, memo) for thing in things])


def _method(method: MethodType, memo: Memo) -> Any:
    return MethodType(method.__func__, _RULES[type(method.__self__)](method.__self__, memo))


def _struct(thing: Any, memo: Memo) -> Any:
    made = memo.get(id(thing))
    if made is None:
        made = memo[id(thing)] = copy(thing)
        for name in thing.__struct_fields__:
            value = getattr(thing, name)
            if type(value) not in SHARED:
                force_setattr(made, name, _RULES[type(value)](value, memo))
    return made


def _fields_of(kind: type) -> Rule:
    """A rule for objects: all their fields, once for each object."""
    slots: dict[str, None] = {}
    for base in kind.__mro__:
        mine = base.__dict__.get("__slots__", ())
        slots.update(dict.fromkeys([mine] if isinstance(mine, str) else mine))
    names = tuple(slots)
    assert names or hasattr(kind, "__dict__"), f"{kind} cannot be copied"
    new = object.__new__

    def of_slots(thing: Any, memo: Memo) -> Any:
        made = memo.get(id(thing))
        if made is None:
            made = memo[id(thing)] = new(kind)
            for name in names:
                value = getattr(thing, name)
                shared = type(value) in SHARED
                setattr(made, name, value if shared else _RULES[type(value)](value, memo))
        return made

    def of_dict(thing: Any, memo: Memo) -> Any:
        made = memo.get(id(thing))
        if made is None:
            made = memo[id(thing)] = new(kind)
            mine: dict[str, Any] = made.__dict__
            for name, value in thing.__dict__.items():
                shared = type(value) in SHARED
                mine[name] = value if shared else _RULES[type(value)](value, memo)
        return made

    return of_slots if names else of_dict


_KINDS: dict[type, Rule] = {
    MethodType: _method,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: _flat,
    Counter: _flat,
    deque: _deque,
}
_RULES = _Rules()
