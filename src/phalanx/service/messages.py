"""Messages of the membership service (docs/service/design.md lists which goes where).

Those about groups stand in `group_messages`. Those of the log of a set extend nothing and repeat
three fields: `set`, `base` (the id of the state that the sender is at) and `isolated` (members that
it does not hear, rule M19). A message is valid on its base only (rule M5).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from phalanx.core.ids import Digest
from phalanx.service.entries import ChangeId, Entries, SetChange
from phalanx.service.group_messages import GroupMessage
from phalanx.service.values import Gid, Number, Servers, SetState, Text, Vid

COMMITS_MAX = 64
"""Commits in one message, and those that a member keeps for members that lag."""
# ------------------------------------------------------------------ the log of a set


class Initiate(msgspec.Struct, frozen=True, array_like=True, tag="initiate"):
    """A coordinator asks all members for their answer to a change. With `union` the change is the
    union with another component: then `base` and `other` are the states of the two."""

    set: Text
    base: Vid
    change: SetChange
    isolated: Servers = ()
    other: Vid | None = None
    round: Number = 0
    """Of the coordinator's attempts; those who do not answer are others in each."""


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """An answer: `acked` (to Initiate), `busy` (with a change that goes first) or `applied` (to
    Commit; then `base` is the new state)."""

    set: Text
    base: Vid
    id: ChangeId
    status: Literal["acked", "busy", "applied"]
    isolated: Servers = ()
    round: Number = 0
    """Of the Initiate that is answered."""


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
ServiceMessage = LogMessage | EnterSet | AnnounceState | Unite | GroupMessage


class ServiceEnvelope(msgspec.Struct, frozen=True, array_like=True):
    """A message and the server or interface that sent it. For an interface `sender` is its name and
    incarnation."""

    sender: Gid
    message: ServiceMessage
