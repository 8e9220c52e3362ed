"""Messages of the membership service (docs/service/design.md lists which goes where).

Those of the log of a set extend nothing and repeat three fields: `set`, `base` (the id of the
state that the sender is at) and `isolated` (members that it does not hear, rule M19). A message is
valid on its base only (rule M5).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from phalanx.core.ids import Digest
from phalanx.service.entries import ChangeId, Entries, SetChange
from phalanx.service.values import (
    Gid,
    GroupView,
    Number,
    Servers,
    ServiceGroup,
    SetState,
    Text,
    Vid,
)

COMMITS_MAX = 64
"""Commits in one message, and those that a member keeps for members that lag."""
BODY_BYTES_MAX = 65_536

# ------------------------------------------------------------------ the log of a set


class Initiate(msgspec.Struct, frozen=True, array_like=True, tag="initiate"):
    """A coordinator asks all members for their answer to a change. With `union` the change is the
    union with another component: then `base` and `other` are the states of the two."""

    set: Text
    base: Vid
    change: SetChange
    isolated: Servers = ()
    other: Vid | None = None


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """An answer: `acked` (to Initiate), `busy` (with a change that goes first) or `applied` (to
    Commit; then `base` is the new state)."""

    set: Text
    base: Vid
    id: ChangeId
    status: Literal["acked", "busy", "applied"]
    isolated: Servers = ()


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """A change is decided. `bases` is the state that it follows, or two for a union; `members` is
    the exact view that comes out, without those that did not answer (rule M6). `state`: the whole
    new state, for servers that hold no base of it: joiners, and both sides of a union."""

    set: Text
    bases: Annotated[tuple[Vid, ...], msgspec.Meta(min_length=1, max_length=2)]
    id: ChangeId
    entries: Entries
    members: Servers
    vid: Vid
    isolated: Servers = ()
    state: SetState | None = None
    priority: Annotated[int, msgspec.Meta(ge=1, le=5)] = 5


class StableUpTo(msgspec.Struct, frozen=True, array_like=True, tag="stable"):
    """All members of the view of state `vid` have applied it (rule C4)."""

    set: Text
    base: Vid
    vid: Vid
    isolated: Servers = ()


class CoordinatorFailed(msgspec.Struct, frozen=True, array_like=True, tag="coordfail"):
    """Its sender takes the coordinator of a change for failed and reports its own status with that
    change. Whoever receives it answers with the same message (`reply`), or with the commit if there
    is one (rules M7, M8)."""

    set: Text
    base: Vid
    change: SetChange
    failed: Gid
    status: Literal["unaware", "acked"]
    reply: bool = False
    isolated: Servers = ()


class Monitor(msgspec.Struct, frozen=True, array_like=True, tag="monitor"):
    """Is the receiver there, and at which state? `token` is repeated in the answer."""

    set: Text
    base: Vid
    stable: Vid
    token: Number = 0
    isolated: Servers = ()


class MonitorReply(msgspec.Struct, frozen=True, array_like=True, tag="monitored"):
    set: Text
    base: Vid
    stable: Vid
    token: Number = 0
    isolated: Servers = ()


class MissingCommits(msgspec.Struct, frozen=True, array_like=True, tag="missing"):
    """Commits that the receiver lacks, in their order (rule M11)."""

    set: Text
    base: Vid
    commits: Annotated[tuple[Commit, ...], msgspec.Meta(max_length=COMMITS_MAX)]
    isolated: Servers = ()


# ------------------------------------------------------------------ components of a set


class EnterSet(msgspec.Struct, frozen=True, array_like=True, tag="enter"):
    """A server without state of a set asks a member to be added. `child`: the set whose parent it
    is, if it enters as an acting parent (rule H1)."""

    set: Text
    child: Text | None = None


class AnnounceState(msgspec.Struct, frozen=True, array_like=True, tag="announce"):
    """A component of a set shows itself to servers that are not in its view (rules H3, M14)."""

    set: Text
    vid: Vid
    lineage: Digest
    view: Servers
    parent_lineage: Digest | None
    """The lineage of its parent in the set above; None at the top, or if it has no parent."""
    settled: bool


class Unite(msgspec.Struct, frozen=True, array_like=True, tag="unite"):
    """One component offers its state to another, which answers with its own (rule H3)."""

    set: Text
    base: Vid
    other: Vid
    state: SetState
    parent_lineage: Digest | None
    answer: bool = False


# ------------------------------------------------------------------ calls on their way

CallKind = Literal[
    "create",
    "join",
    "leave",
    "delete",
    "split",
    "merge",
    "set_group",
    "set_member",
    "read",
    "send",
]


class GroupCall(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call of a client (docs/service/calls.md). `bound` is the uid that the name resolved to
    first (rule G7). Repetitions have the same `id`."""

    id: Text
    kind: CallKind
    interface: Text
    name: Text = ""
    member: Text = ""
    scope: Text = ""
    bound: Text = ""
    arguments: dict[Text, str] = {}
    new_uid: Text = ""
    """For create, split and merge: what the uids of new groups begin with."""


# ------------------------------------------------------------------ up and down the tree


class Served(msgspec.Struct, frozen=True, array_like=True):
    """An interface as its home knows it: the lineage it has been polled with, and the last view
    of each of its members."""

    interface: Text
    lineage: Digest
    positions: dict[Text, Vid | None]
    since: Number = 0
    """The lowest number of a view that a member from another lineage may be told."""


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Which interfaces does the receiver serve, on its way down in set `set`? (rule H4)"""

    set: Text
    request: Number


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tell"):
    """What the sender's component of `set` serves. `confirmed`: everybody on the way down answered
    for this request."""

    set: Text
    request: Number
    vid: Vid
    served: Annotated[tuple[Served, ...], msgspec.Meta(max_length=65_536)]
    confirmed: bool


class Resolve(msgspec.Struct, frozen=True, array_like=True, tag="resolve"):
    """A request on its way up the tree, in search of a name or of the owner of a group: the sets
    that it has passed, and the call that it carries."""

    set: Text
    request: Number
    origin: Gid
    call: GroupCall
    passed: Annotated[tuple[Text, ...], msgspec.Meta(max_length=16)] = ()
    down: bool = False


class Resolved(msgspec.Struct, frozen=True, array_like=True, tag="resolved"):
    """The answer to `Resolve`, to its origin. `retry` asks the origin to try again later."""

    request: Number
    outcome: Literal["done", "retry", "none", "error"]
    error: Text = ""
    uid: Text = ""


# ------------------------------------------------------------------ interfaces


class Directive(msgspec.Struct, frozen=True, array_like=True, tag="directive"):
    """The next view of a member, on its way from the owner to its interface, or the end of its
    membership (`excluded`). `previous` is the view that it must follow (rule G4)."""

    member: Text
    uid: Text
    view: GroupView | None
    previous: Vid | None
    group: ServiceGroup | None = None
    excluded: bool = False
    set: Text = ""
    """The set that the directive passes on its way down."""


class DirectiveAck(msgspec.Struct, frozen=True, array_like=True, tag="directed"):
    """The interface has the directive on disk (rule I3)."""

    member: Text
    uid: Text
    vid: Vid | None


class Misfit(msgspec.Struct, frozen=True, array_like=True, tag="misfit"):
    """A member has gone another way than its owner's history (rule G4)."""

    member: Text
    uid: Text
    last: Vid


class Query(msgspec.Struct, frozen=True, array_like=True, tag="query"):
    """A home polls an interface, naming its lineage and the lineages that this one continues."""

    set: Text
    interface: Text
    seq: Number
    lineage: Digest
    ancestors: tuple[Digest, ...]
    vid: Vid
    round: Number


class QueryReply(msgspec.Struct, frozen=True, array_like=True, tag="queried"):
    """The interface answers a poll with the last view of each member, None before the first."""

    interface: Text
    seq: Number
    lineage: Digest
    round: Number
    positions: dict[Text, Vid | None]
    groups: dict[Text, Text]
    """For each member its group."""
    stranger: bool = False
    """The interface came from a lineage that this one does not follow."""


class ChooseHome(msgspec.Struct, frozen=True, array_like=True, tag="choosehome"):
    """An interface chooses a server as its home (rule I2)."""

    set: Text
    interface: Text
    seq: Number
    positions: dict[Text, Vid]


class HomeChosen(msgspec.Struct, frozen=True, array_like=True, tag="homechosen"):
    """The answer to `ChooseHome`; `seq` is the one that counts."""

    interface: Text
    seq: Number


class FetchGroup(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """Which history do members here hold of a group? (rule G10)"""

    uid: Text
    request: Number


class HeldGroup(msgspec.Struct, frozen=True, array_like=True, tag="held"):
    """The answer to `FetchGroup`: the group as of the last directive, and where members are."""

    uid: Text
    request: Number
    group: ServiceGroup | None
    positions: dict[Text, Vid]


# ------------------------------------------------------------------ clients


class CallResult(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """The result of a call; `error` is empty if it succeeded."""

    id: Text
    uid: Text = ""
    error: Text = ""
    bound: Text = ""
    vid: Vid | None = None
    values: dict[Text, str] = {}


class GroupData(msgspec.Struct, frozen=True, array_like=True, tag="data"):
    """One application message of `send_msg`."""

    uid: Text
    id: Text
    sender: Text
    selector: Text
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]


LogMessage = (
    Initiate
    | Ack
    | Commit
    | StableUpTo
    | CoordinatorFailed
    | Monitor
    | MonitorReply
    | MissingCommits
)
"""Messages within one component of a set."""
OnBase = Initiate | CoordinatorFailed | Monitor | MonitorReply | StableUpTo
"""Those that mean something only on the state that they name (rule M5)."""
ServiceMessage = (
    LogMessage
    | EnterSet
    | AnnounceState
    | Unite
    | Ask
    | Tell
    | Resolve
    | Resolved
    | Directive
    | DirectiveAck
    | Misfit
    | Query
    | QueryReply
    | ChooseHome
    | HomeChosen
    | FetchGroup
    | HeldGroup
    | GroupCall
    | CallResult
    | GroupData
)


class ServiceEnvelope(msgspec.Struct, frozen=True, array_like=True):
    """A message and the server or interface that sent it. For an interface `sender` is its name and
    incarnation."""

    sender: Gid
    message: ServiceMessage
