"""Entries of the log of a set, and changes, which are lists of entries with a priority.

Entries that concern servers and sets (`is_physical`) hold on any base: if the members that do not
answer are left out by the same commit, they are kept. All others were made for one state of the
set and are dropped when that state is not the base any more; their proposer makes them anew.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from phalanx.service.values import (
    Gid,
    GroupMembers,
    GroupRecord,
    Number,
    ServiceGroup,
    Text,
    Vid,
)

COORDINATOR_FAILURE = 1
PHYSICAL_FAILURE = 2
PHYSICAL_REQUEST = 3
APPLICATION_FAILURE = 4
APPLICATION_REQUEST = 5
"""Priorities of changes; the lower number goes first (rule M12)."""

ENTRIES_MAX = 1024


class AddServer(msgspec.Struct, frozen=True, array_like=True, tag="add"):
    """A server joins the set, at the lowest rank (rules H1, H7)."""

    server: Gid


class RemoveServer(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """A server leaves the set (rule H7)."""

    server: Gid


class SetParent(msgspec.Struct, frozen=True, array_like=True, tag="parent"):
    """The member that links the set upwards, or none (rules H1, H2)."""

    server: Gid | None


class AddKid(msgspec.Struct, frozen=True, array_like=True, tag="kid"):
    """A member of this set is parent of a child set."""

    child: Text
    server: Gid


class RemoveKid(msgspec.Struct, frozen=True, array_like=True, tag="unkid"):
    """A member of this set is not parent of that child set any more."""

    child: Text
    server: Gid


class SetHome(msgspec.Struct, frozen=True, array_like=True, tag="home"):
    """An interface has chosen its home (rule I2). An older choice does not replace a newer one."""

    interface: Text
    server: Gid
    seq: Number


class PutGroup(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    """The record of a group from now on. `cause` is for people: it names the rule."""

    uid: Text
    record: GroupRecord
    cause: Text


class AdvanceGroup(msgspec.Struct, frozen=True, array_like=True, tag="advance"):
    """The group that this set owns has a next view, which follows its current one; the rest of the
    record stays. It names what differs (`group_advance`): a join costs as much in a large group as
    in a small one."""

    uid: Text
    vid: Vid
    reason: Text
    """The cause of the view."""
    gone: GroupMembers
    came: GroupMembers
    """New members; they have the lowest ranks, in this order."""
    attributes: dict[Text, dict[Text, str] | None]
    """Of members whose attributes differ; None if they have none any more."""
    admitted: dict[Text, Number]
    """Of interfaces for which the highest number differs."""
    rest: ServiceGroup | None
    """All other fields, if any of them differs; its view, history, `admitted` and `attributes`
    are empty."""
    cause: Text


class AddSeen(msgspec.Struct, frozen=True, array_like=True, tag="seen"):
    """A hand-over has been carried out here, or is finished (rule G5)."""

    id: Text


class RegisterName(msgspec.Struct, frozen=True, array_like=True, tag="name"):
    """A name of the scope of this set belongs to a group (rules N1, N4)."""

    name: Text
    uid: Text


class FreeName(msgspec.Struct, frozen=True, array_like=True, tag="unname"):
    """A name is free again (rule N5)."""

    name: Text


Entry = (
    AddServer
    | RemoveServer
    | SetParent
    | AddKid
    | RemoveKid
    | SetHome
    | PutGroup
    | AdvanceGroup
    | AddSeen
    | RegisterName
    | FreeName
)
Entries = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]

_PHYSICAL = (AddServer, RemoveServer)


def is_physical(entry: Entry) -> bool:
    """Whether an entry holds on any base."""
    return isinstance(entry, _PHYSICAL)


class ChangeId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The server that proposed a change, and its count of changes."""

    origin: Gid
    number: Number


class SetChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of a set: entries that are committed together (rule C2 orders changes)."""

    id: ChangeId
    priority: Annotated[int, msgspec.Meta(ge=1, le=5)]
    entries: Entries = ()
