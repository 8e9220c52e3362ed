"""Messages about groups: who is served, calls on their way, directives, interfaces.

docs/service/design.md lists which goes where.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from phalanx.core.ids import Digest
from phalanx.service.values import (
    Gid,
    GroupMembers,
    GroupView,
    HandOver,
    Number,
    ServiceGroup,
    Text,
    Vid,
)

BODY_BYTES_MAX = 65_536
UIDS_MAX = 65_536
LEVELS_MAX = 16
VIEWS_AT_ONCE = 16
"""Views in one directive."""

Uids = Annotated[tuple[Text, ...], msgspec.Meta(max_length=UIDS_MAX)]
Attributes = dict[Text, str]
CallKind = Literal[
    "create",
    "join",
    "leave",
    "delete",
    "split",
    "merge",
    "set_group",
    "set_member",
    "check",
    "read",
    "send",
]

# ------------------------------------------------------------------ who is served


class PathStep(msgspec.Struct, frozen=True, array_like=True):
    """One set on the way from an interface to the top: the component by its lineage, its speaker,
    and when that speaker asked, by its own clock."""

    set: Text
    lineage: Digest
    speaker: Gid
    asked: Number


Path = Annotated[tuple[PathStep, ...], msgspec.Meta(max_length=LEVELS_MAX)]


class Served(msgspec.Struct, frozen=True, array_like=True):
    """An interface as it has answered: the last view of each of its members (None before the
    first) and the group of each. Members with a number above `last_number` are newer than the
    answer; those in `declined` do not exist."""

    interface: Text
    positions: dict[Text, Vid | None] = {}
    groups: dict[Text, Text] = {}
    last_number: Number = 0
    declined: tuple[Text, ...] = ()


class Moved(msgspec.Struct, frozen=True, array_like=True):
    """Members of an interface that have moved on: their last views and groups, or that their
    memberships are over. It says nothing of others."""

    interface: Text
    positions: dict[Text, Vid | None] = {}
    groups: dict[Text, Text] = {}
    over: GroupMembers = ()


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Which interfaces are served in and below `set`? From the speaker of a component to all of its
    view (rule H4). `path` begins with this set. The rest is what sets below cannot see themselves:
    `contested` groups are owned or carried by this set or one above as well (rule G7); nobody from
    here to the top has a record of `orphans` (rule G10); `strays` are members, with their group,
    whose last view the group's owner does not have (rule G10)."""

    set: Text
    path: Path
    contested: Uids = ()
    orphans: Uids = ()
    strays: tuple[tuple[Text, Text], ...] = ()

    @property
    def asked(self) -> int:
        return self.path[0].asked


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tell"):
    """An answer to `Ask`, from a home (`child` is empty) or from the speaker of a child set. `held`
    are the groups of which the child or a set below has a record; `carried` the hand-overs on their
    way up."""

    set: Text
    lineage: Digest
    asked: Number
    child: Text = ""
    served: Annotated[tuple[Served, ...], msgspec.Meta(max_length=UIDS_MAX)] = ()
    held: Uids | None = None
    carried: Annotated[tuple[HandOver, ...], msgspec.Meta(max_length=UIDS_MAX)] = ()


class Advance(msgspec.Struct, frozen=True, array_like=True, tag="advance"):
    """Members have moved on since the answer `asked` of their interface; goes the way of `Tell`,
    and is as long as what has changed."""

    set: Text
    lineage: Digest
    asked: Number
    child: Text
    moved: Moved


# ------------------------------------------------------------------ calls


class GroupCall(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call of a client (docs/service/calls.md). `bound` is the uid that the name resolved to
    first (rule G7). Repetitions have the same `id`. `callers`: members of the same client, whose
    rights count. `new_uid`: what the uids of new groups begin with. A `check` precedes a call that
    concerns a second group: it asks for its uid and scope, and whether the client has a right."""

    id: Text
    kind: CallKind
    interface: Text
    name: Text = ""
    member: Text = ""
    scope: Text = ""
    bound: Text = ""
    arguments: dict[Text, str] = {}
    new_uid: Text = ""
    callers: tuple[Text, ...] = ()


class CallResult(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """The result of a call; `error` is empty if it succeeded. With `bound` alone it is no result:
    the name is resolved, and the call is to be repeated with it."""

    id: Text
    uid: Text = ""
    error: Text = ""
    bound: Text = ""
    vid: Vid | None = None
    values: dict[Text, str] = {}


class Resolve(msgspec.Struct, frozen=True, array_like=True, tag="resolve"):
    """A call on its way to the set that answers it: to the speaker of `set`. `sure`: every set on
    the way must confirm that it has no such group (rule C5). `down`: the call goes down along the
    pointers of a group."""

    set: Text
    home: Gid
    interface: Gid
    call: GroupCall
    sure: bool = False
    down: bool = False
    hops: Number = 0


class Resolved(msgspec.Struct, frozen=True, array_like=True, tag="resolved"):
    """The result of a call on its way to the interface, by its home."""

    interface: Gid
    result: CallResult


# ------------------------------------------------------------------ directives and data


class Directive(msgspec.Struct, frozen=True, array_like=True, tag="directive"):
    """The next view of members of one interface that had the view `previous` (rule G4), or the end
    of their memberships (`view` is None). `set` is the set that it passes; an interface takes it
    only if `step`, the owner, is on its path. `group` has no history. `more` are the views that
    follow, each after the one before."""

    set: Text
    interface: Text
    uid: Text
    members: GroupMembers
    view: GroupView | None
    previous: Vid | None
    step: PathStep
    group: ServiceGroup | None = None
    ended: Text = ""
    more: Annotated[tuple[GroupView, ...], msgspec.Meta(max_length=VIEWS_AT_ONCE)] = ()


class DirectiveAck(msgspec.Struct, frozen=True, array_like=True, tag="directed"):
    """The interface has the directives of these members on disk (rule I3)."""

    moved: Moved


class GroupData(msgspec.Struct, frozen=True, array_like=True, tag="data"):
    """One application message of `send_msg`, for members of one interface."""

    set: Text
    interface: Text
    uid: Text
    id: Text
    sender: Text
    members: GroupMembers
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]


class GroupDataAck(msgspec.Struct, frozen=True, array_like=True, tag="dataack"):
    """The members to which a message was passed on."""

    set: Text
    id: Text
    members: GroupMembers


# ------------------------------------------------------------------ interfaces


class Query(msgspec.Struct, frozen=True, array_like=True, tag="query"):
    """A home polls an interface, naming the components on the way to the top (rule I1)."""

    interface: Text
    seq: Number
    path: Path


class QueryReply(msgspec.Struct, frozen=True, array_like=True, tag="queried"):
    """The answer of an interface to a poll."""

    asked: Number
    served: Served


class ChooseHome(msgspec.Struct, frozen=True, array_like=True, tag="choosehome"):
    """An interface chooses a server as its home (rule I2). `home`: the one that it hears now, if it
    does; then only a server of that component may take over."""

    set: Text
    interface: Text
    seq: Number
    home: Text = ""


class HomeChosen(msgspec.Struct, frozen=True, array_like=True, tag="homechosen"):
    """The home of an interface, and the sequence number that counts."""

    interface: Text
    seq: Number


class FetchGroup(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Which history do members of an interface hold of a group? (rule G10)"""

    set: Text
    interface: Text
    uid: Text


class HeldGroup(msgspec.Struct, frozen=True, array_like=True, tag="held"):
    """The answer to `FetchGroup`: the group as of the last directive, with the views that the
    interface has received."""

    set: Text
    interface: Text
    group: ServiceGroup


DownMessage = Directive | GroupData | FetchGroup
"""For one interface, from the speaker of a set through speakers below and the home."""
GroupMessage = (
    Ask
    | Tell
    | Advance
    | Resolve
    | Resolved
    | DownMessage
    | DirectiveAck
    | GroupDataAck
    | Query
    | QueryReply
    | ChooseHome
    | HomeChosen
    | HeldGroup
    | GroupCall
    | CallResult
)
