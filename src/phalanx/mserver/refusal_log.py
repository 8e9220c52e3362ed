"""Reports of refused packets: one at a time for each reason, however many arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from phalanx.mserver.peer_sessions import Address

REPORT_NS = 1_000_000_000
"""Between two reports of one reason."""
REASONS_MAX = 64


class PacketsRefused(NamedTuple):
    """Packets that were dropped since the last report of this reason."""

    reason: str
    packets: int
    source: Address
    """Where the latest one came from, as far as its header says."""


TakeRefusals = Callable[[PacketsRefused], None]


class RefusalLog:
    """Counts packets until the next report of their reason is due."""

    def __init__(self, report: TakeRefusals) -> None:
        self._report = report
        self._since: dict[str, tuple[int, int]] = {}
        """By reason: when it was reported last, and the packets since then."""

    def note(self, now: int, reason: str, source: Address) -> None:
        reported_ns, count = self._since.get(reason, (now - REPORT_NS, 0))
        assert len(self._since) <= REASONS_MAX, "reasons are words of this program"
        count += 1
        if now - reported_ns >= REPORT_NS:
            self._report(PacketsRefused(reason, count, source))
            reported_ns, count = now, 0
        self._since[reason] = reported_ns, count
