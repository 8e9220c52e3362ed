"""What the speaker of a set finds out about a call: it is done, refused, has to wait, or goes on to
another set."""

from __future__ import annotations

import msgspec

from phalanx.service.group_messages import CallResult


class CallDone(msgspec.Struct, frozen=True):
    """The effect of the call is stable."""

    result: CallResult


class CallRefused(msgspec.Struct, frozen=True):
    """A negative answer, to be confirmed by all members of the component (rule C5)."""

    error: str


class CallWaits(msgspec.Struct, frozen=True):
    """Something is under way; calls wait, they are not refused (rule G2)."""


class CallClimbs(msgspec.Struct, frozen=True):
    """This set has nothing of the group: the set above may."""


class CallDescends(msgspec.Struct, frozen=True):
    """A child set owns the group, which the name of the call means."""

    child: str
    uid: str


class CallNeedsPin(msgspec.Struct, frozen=True):
    """Another group has to come to its scope first (rule N3)."""

    child: str
    uid: str


CallOutcome = CallDone | CallRefused | CallWaits | CallClimbs | CallDescends | CallNeedsPin
WAITS = CallWaits()
CLIMBS = CallClimbs()
