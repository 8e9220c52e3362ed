"""Effects of the service's machines, in the order in which they are to be carried out.

`Persist` stands before the messages that depend on it: a driver must not send anything behind a
`Persist` before the record is on disk (a driver that batches may write several at once, then
send).
"""

from __future__ import annotations

import msgspec

from phalanx.service.entries import ChangeId, SetChange
from phalanx.service.messages import CallResult, Commit, ServiceMessage
from phalanx.service.values import Gid, GroupView, ServiceGroup, SetState, Text, Vid


class AckedChange(msgspec.Struct, frozen=True, array_like=True):
    """The change that a member has acknowledged, and its coordinator."""

    change: SetChange
    coordinator: Gid
    other: Vid | None = None
    """For a union: the state of the other component."""


class SetRecord(msgspec.Struct, frozen=True, array_like=True, tag="set"):
    """What a server keeps on disk about one set that it is a member of (rule C6)."""

    state: SetState
    stable: SetState | None
    """The last state that all of its view had applied, as far as known here."""
    commits: tuple[Commit, ...]
    acked: AckedChange | None = None


class SetForgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """The server is not a member of that set any more: its record goes."""

    set: Text


class HeldMembership(msgspec.Struct, frozen=True, array_like=True):
    """One member of a group at its interface: the directives received, and how many of them have
    been passed on to the client. `excluded`: its membership is over."""

    member: Text
    uid: Text
    views: tuple[GroupView, ...] = ()
    passed_on: int = 0
    excluded: bool = False


class InterfaceRecord(msgspec.Struct, frozen=True, array_like=True, tag="interface"):
    """What an interface keeps on disk (rule I3)."""

    interface: Text
    seq: int
    home: Gid
    lineage: bytes
    members: dict[Text, HeldMembership] = {}
    groups: dict[Text, ServiceGroup] = {}
    since: dict[Text, int] = {}
    bound: dict[Text, Text] = {}
    last_number: int = 0


DurableRecord = SetRecord | SetForgotten | InterfaceRecord


class Send(msgspec.Struct, frozen=True):
    to: Gid
    message: ServiceMessage


class Multicast(msgspec.Struct, frozen=True):
    """Send to the multicast address of a set: to all servers that listen there, members or not."""

    set: str
    message: ServiceMessage


class Persist(msgspec.Struct, frozen=True):
    """Replace the record of that set or interface."""

    record: DurableRecord


class StateApplied(msgspec.Struct, frozen=True):
    """The log of a set has a new last state."""

    state: SetState
    commit: Commit


class StateStable(msgspec.Struct, frozen=True):
    """All of the view have applied this state: its entries may be acted upon outside (rule C4)."""

    state: SetState


class ChangeDropped(msgspec.Struct, frozen=True):
    """A change was made for a base that is not the last state any more, or could not be decided."""

    id: ChangeId


class AnswersConfirmed(msgspec.Struct, frozen=True):
    """All members of the view have answered the question `token`, at this state."""

    token: int
    vid: Vid


class AnswersMissing(msgspec.Struct, frozen=True):
    """Not all members have answered the question `token` at one state, and none will any more."""

    token: int


class LeftSet(msgspec.Struct, frozen=True):
    """This server is not a member of the set any more, by its own wish."""

    set: str


class Answer(msgspec.Struct, frozen=True):
    """The result of a call, for the client."""

    result: CallResult


class Notify(msgspec.Struct, frozen=True):
    """A member of this interface has a new view, or (view is None) its membership is over."""

    member: str
    uid: str
    view: GroupView | None
    previous: Vid | None


class Ignored(msgspec.Struct, frozen=True):
    """A message was of no use; for counting."""

    reason: str
    sender: Gid


LogEffect = (
    Send
    | Persist
    | StateApplied
    | StateStable
    | ChangeDropped
    | AnswersConfirmed
    | AnswersMissing
    | LeftSet
    | Ignored
)
ServiceEffect = LogEffect | Multicast | Answer | Notify
