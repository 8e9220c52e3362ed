"""Conditions that no effect reports, sampled four times a second for the log and the API."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.core.member.blocked import Wait
from phalanx.core.member.member import Member
from phalanx.runtime.event_log import EventLog
from phalanx.transport.base import Transport

SAMPLE_NS = 250_000_000


class StatusSampler:
    """Belongs to the event loop's thread; other threads may read `blocked_by`."""

    def __init__(self, member: Member, transport: Transport, log: EventLog) -> None:
        self.blocked_by: dict[MemberId, Wait] = {}
        """The members that messages wait for, at most SAMPLE_NS old."""
        self._member = member
        self._transport = transport
        self._log = log
        self._next_ns = 0

    def is_due(self, now: int) -> bool:
        return now >= self._next_ns

    def sample(self, now: int, waiting_bytes: int, dropped: int) -> None:
        """`waiting_bytes` wait to be sent; `dropped` messages were not read in time, in all."""
        self._next_ns = now + SAMPLE_NS
        self.blocked_by = self._member.blocked_by
        self._log.sending(now, self._member.following, waiting_bytes, self.blocked_by)
        self._log.counted(now, self._transport.address, self._transport.counts, dropped)

    def stop(self) -> None:
        """The member waits for nobody any more."""
        self.blocked_by = {}
