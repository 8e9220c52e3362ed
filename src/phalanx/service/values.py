"""Values of the membership service: versions, group views, groups and the state of a set.

A *set* is a few servers that agree on one sequence of changes, its log. What they agree on is a
`SetState`. A *group* is owned by one set at a time; its `ServiceGroup` value carries its history,
so that whoever receives it needs to ask nobody. All values are frozen. Those with dicts are never
changed in place: `msgspec.structs.replace` makes the next one.

Identities: a server is a `MemberId` (name and incarnation; a server that has lost its disk has a
new incarnation). A set, an interface, a group (`uid`) and a member of a group are strings. A member
is named `interface/number`; an interface never uses a number twice.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from phalanx.core.ids import Digest, MemberId

SERVERS_MAX = 64
"""Servers of one set."""
MEMBERS_OF_A_GROUP_MAX = 4096
HISTORY_VIEWS_MAX = 256
"""Earlier views of a group that are kept."""
GROUPS_MAX = 65_536
TEXT_LENGTH_MAX = 256
NUMBER_MAX = (1 << 62) - 1
MEMBER_DIGITS_MAX = 18
"""Of the number of a member: below NUMBER_MAX."""

Gid = MemberId
Text = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Servers = Annotated[tuple[Gid, ...], msgspec.Meta(max_length=SERVERS_MAX)]
GroupMembers = Annotated[tuple[Text, ...], msgspec.Meta(max_length=MEMBERS_OF_A_GROUP_MAX)]


class Vid(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The id of one state of a set, or of one view of a group: a number that grows along every
    history, and a digest of what led to it (rule M13). Equal ids are equal states."""

    number: Number
    digest: Digest

    def __str__(self) -> str:
        return f"{self.number}:{self.digest.hex()[:6]}"


NOWHERE = Vid(0, bytes(8))
"""The id before any state."""


class GroupView(msgspec.Struct, frozen=True, array_like=True):
    """One view of a group. `members` is in rank order. `parts` names, for each member, the view
    it comes from, or None for a member that joins with this view."""

    vid: Vid
    preds: Annotated[tuple[Vid, ...], msgspec.Meta(max_length=2)]
    members: GroupMembers
    parts: dict[Text, Vid | None]
    cause: Text


class PartitionRules(msgspec.Struct, frozen=True, array_like=True):
    """The partition rules of a group, as text (docs/service/partition-rules.md)."""

    survive: Text = "always"
    merge: Text = "always"
    merge_with: Text = "always"


Ended = Literal["delete", "split", "merge", "terminated"]


class ServiceGroup(msgspec.Struct, frozen=True, array_like=True):
    """A group with its current view and its history, as an owner keeps it and hands it over.

    `history` holds the earlier views, sorted by id, without the current one; the oldest are
    dropped beyond HISTORY_VIEWS_MAX. `admitted` maps each interface to the highest
    number of its members that was ever admitted (rule G3). `want` is the member whose join made
    the group move up, `pin` the call that holds it in its scope, `original_size` the largest size
    since the last union. `parent_group` is the uid of the group of which this is a subgroup.
    """

    uid: Text
    name: Text
    scope: Text
    view: GroupView
    history: Annotated[tuple[GroupView, ...], msgspec.Meta(max_length=HISTORY_VIEWS_MAX)] = ()
    admitted: dict[Text, Number] = {}
    membership_scope: Text | None = None
    rules: PartitionRules = PartitionRules()
    original_size: Number = 0
    epoch: Number = 0
    ended: Ended | None = None
    pin: Text | None = None
    want: Text | None = None
    parent_group: Text | None = None
    properties: dict[Text, str] = {}
    attributes: dict[Text, dict[Text, str]] = {}
    """For each member its attributes, as JSON texts."""
    creator: Text = ""
    """The client that created the group: it has all rights."""
    goal: Text | None = None
    """The set in which the pin holds the group, if that is not its scope: its next scope."""


class HandOver(msgspec.Struct, frozen=True, array_like=True):
    """A group on its way to another set (rule G5). `to` is "up" or the name of a child set. For a
    move down `carrier` is the parent that carries it; upwards it is the set's parent."""

    id: Text
    to: Text
    group: ServiceGroup
    carrier: Gid | None = None


class GroupRecord(msgspec.Struct, frozen=True, array_like=True):
    """What one set holds about one group. `below`: child sets known to own it. `recall`: the set
    above asks for it."""

    own: ServiceGroup | None = None
    below: Annotated[tuple[Text, ...], msgspec.Meta(max_length=SERVERS_MAX)] = ()
    pends: Annotated[tuple[HandOver, ...], msgspec.Meta(max_length=SERVERS_MAX)] = ()
    recall: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the set has nothing of the group; a recall alone asks for nothing."""
        return self.own is None and not self.below and not self.pends


NO_RECORD = GroupRecord()


class HomeOf(msgspec.Struct, frozen=True, array_like=True):
    """The home of an interface: a server, and the sequence number of the interface's choice."""

    server: Gid
    seq: Number


class SetState(msgspec.Struct, frozen=True, array_like=True):
    """What the members of one component of a set agree on.

    `lineage` names the run of states since the last fork or union, `ancestors` the lineages that it
    continues. `parent` is the member that links upwards. `seen` holds the ids of hand-overs carried
    out here, and `done ` + id of those finished.
    """

    set: Text
    view: Servers
    vid: Vid
    lineage: Digest
    ancestors: tuple[Digest, ...] = ()
    parent: Gid | None = None
    kids: dict[Text, Servers] = {}
    homes: dict[Text, HomeOf] = {}
    names: dict[Text, Text] = {}
    groups: Annotated[dict[Text, GroupRecord], msgspec.Meta(max_length=GROUPS_MAX)] = {}
    seen: tuple[Text, ...] = ()


def interface_of(member: str) -> str:
    """The interface of a member of a group."""
    return member.rpartition("/")[0]


def number_of(member: str) -> int:
    """The number that its interface gave to a member; 0 if there is none."""
    number = member.rpartition("/")[2].partition("~")[0]
    is_number = number.isascii() and number.isdigit() and len(number) <= MEMBER_DIGITS_MAX
    return int(number) if is_number else 0
