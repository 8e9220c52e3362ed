"""How a member leaves its group, and which error ends it.

A leaving member first gives the core the messages that it has accepted. When the core has them all,
or after `leave_ns`, it asks the core to leave. The core sends what it holds and serves the other
members for at most `leave_ns` each; as the core's clock may be stretched, the member stops after
LEAVE_STAGES times `leave_ns` of real time in any case.
"""

from __future__ import annotations

from phalanx.core.deadline import NEVER
from phalanx.core.ids import MemberId
from phalanx.errors import IncarnationUsed, NameInUse, PhalanxError

LEAVE_STAGES = 3
"""Handing over to the core, sending, and serving the other members."""


class Departure:
    """The deadlines of leaving. Belongs to the event loop's thread."""

    def __init__(self, leave_ns: int) -> None:
        self._leave_ns = leave_ns
        self._request_ns = NEVER
        """When to ask the core to leave at the latest; NEVER before leaving and afterwards."""
        self._stop_ns = NEVER
        self.begun = False

    def begin(self, now: int) -> None:
        self.begun = True
        self._request_ns = now + self._leave_ns
        self._stop_ns = now + LEAVE_STAGES * self._leave_ns

    def takes_request(self, now: int, queue_is_empty: bool) -> bool:
        """Whether the core is to be asked to leave now. True once."""
        if self._request_ns == NEVER or not (queue_is_empty or now >= self._request_ns):
            return False
        self._request_ns = NEVER
        return True

    def is_overdue(self, now: int) -> bool:
        """Whether the member stops even though the core has not."""
        return now >= self._stop_ns

    def deadline(self) -> int:
        return min(self._request_ns, self._stop_ns)


def error_of(reason: str, me: MemberId, group: str) -> PhalanxError | None:
    """The error for the core's reason to stop; None if the member left on request."""
    if reason == "name-in-use":
        return NameInUse(me.name, group, "on the network")
    if reason == "incarnation-used":
        return IncarnationUsed(me.name, group, me.incarnation)
    return None
