"""Inputs of the service's machines. Every machine is `step(now, given) -> effects`."""

from __future__ import annotations

import msgspec

from phalanx.service.entries import SetChange
from phalanx.service.group_messages import GroupCall
from phalanx.service.messages import ServiceMessage
from phalanx.service.values import Gid, SetState, Vid


class MessageReceived(msgspec.Struct, frozen=True):
    sender: Gid
    message: ServiceMessage


class TimerDue(msgspec.Struct, frozen=True):
    """The machine's deadline has come."""


class ProposeChange(msgspec.Struct, frozen=True):
    """Decide on this change. One with entries that are not physical must be made for the last
    state; it is dropped (`ChangeDropped`) if another commit comes first."""

    change: SetChange


class ProposeUnion(msgspec.Struct, frozen=True):
    """Unite with the component whose last state is `other` (rule H3); `state` is what comes out."""

    change: SetChange
    other: Vid
    state: SetState


class ConfirmAnswers(msgspec.Struct, frozen=True):
    """Ask all members of the view for an answer now (rules C5, H4)."""

    token: int


class ServerSuspected(msgspec.Struct, frozen=True):
    """Another detector does not hear this server."""

    server: Gid


class CallSubmitted(msgspec.Struct, frozen=True):
    """A client of this interface makes a call, or repeats it. `timeout_ns`: for how long the
    interface tries; by default as the times say."""

    call: GroupCall
    timeout_ns: int | None = None


LogInput = (
    MessageReceived | TimerDue | ProposeChange | ProposeUnion | ConfirmAnswers | ServerSuspected
)
InterfaceInput = MessageReceived | TimerDue | CallSubmitted
