"""Effects of the service's machines, in the order in which they are to be carried out.

`Persist` stands before the messages that depend on it: a driver must not send anything behind a
`Persist` before the record is on disk (a driver that batches may write several at once, then
send).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.service.entries import ChangeId
from phalanx.service.group_messages import CallResult, GroupCall, GroupData
from phalanx.service.messages import Commit, ServiceMessage
from phalanx.service.promises import Promises
from phalanx.service.values import Gid, GroupView, Number, ServiceGroup, SetState, Text, Vid


class SetRecord(msgspec.Struct, frozen=True, array_like=True, tag="set"):
    """What a server keeps on disk about one set that it is a member of (rule C6)."""

    state: SetState
    stable: SetState | None
    """The last state that all of its view had applied, as far as known here."""
    commits: tuple[Commit, ...]
    promises: Promises = Promises()


class SetForgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """The server is not a member of that set any more: its record goes."""

    set: Text


class InterfaceRecord(msgspec.Struct, frozen=True, array_like=True, tag="interface"):
    """What an interface keeps on disk about itself: its home, the sequence number of that choice,
    and the highest number that it has given to a member."""

    interface: Text
    seq: Number
    home: Text
    last_number: Number = 0


class HeldMembership(msgspec.Struct, frozen=True, array_like=True, tag="member"):
    """One member of a group at its interface (rule I3): the call that made it, and the last view
    that it has received and passed on. `over`: its membership has ended. `parent`: in a subgroup,
    the member of the same client in the parent group, with which it is excluded."""

    member: Text
    uid: Text
    call: Text = ""
    view: GroupView | None = None
    over: bool = False
    parent: Text = ""


class HeldHistory(msgspec.Struct, frozen=True, array_like=True, tag="history"):
    """What an interface has received of a group: its last state, with the views as history."""

    group: ServiceGroup


class OpenCall(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """A call that is not answered yet: the group that its name resolved to first (rule G7)."""

    call: GroupCall


class RecordRemoved(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """A record of an interface goes."""

    kind: Literal["member", "history", "open"]
    id: Text


DurableRecord = (
    SetRecord
    | SetForgotten
    | InterfaceRecord
    | HeldMembership
    | HeldHistory
    | OpenCall
    | RecordRemoved
)


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
    """A member of this interface has a new view, or (view is None) its membership is over;
    `ended`: because its group has ended."""

    member: str
    uid: str
    view: GroupView | None
    previous: Vid | None
    ended: bool = False
    call: str = ""
    """The call that made the member, or the one that it comes from after a split."""


class PassData(msgspec.Struct, frozen=True):
    """A message of `send_msg` for a member of this interface."""

    member: str
    data: GroupData


class ConfirmSet(msgspec.Struct, frozen=True):
    """Ask all members of a component for an answer now (rule C5); for the server's own log."""

    set: str
    token: int


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
ServiceEffect = LogEffect | Multicast | Answer | Notify | PassData | ConfirmSet
