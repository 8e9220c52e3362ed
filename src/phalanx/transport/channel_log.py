"""What a mesh reports: channels that open and break, and peers that are refused.

Each kind of line appears in the log at most LINES_MAX times in a minute, refusals once a minute for
each reason; the next line reports how many were left out. `events` has the same for the journal:
all channels that opened and broke, and as many refusals as there are lines in the log, because
anybody who reaches the port can cause one.
"""

from __future__ import annotations

import logging
from collections import deque

from phalanx.transport.base import ChannelEvent

log = logging.getLogger("phalanx")

PERIOD_NS = 60_000_000_000
LINES_MAX = 64
EVENTS_MAX = 4096
"""Events that wait to be taken; beyond this, the oldest are dropped."""


class ChannelLog:
    """The log of one transport."""

    def __init__(self, who: str) -> None:
        self.events: deque[ChannelEvent] = deque(maxlen=EVENTS_MAX)
        self._who = who
        self._until: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def opened(self, now: int, peer: str, address: str, cipher: str) -> None:
        self.events.append(ChannelEvent("UP", address, peer, None))
        self._write(now, "up", LINES_MAX, logging.INFO, f"channel to {peer} at {address}, {cipher}")

    def broke(self, now: int, peer: str, address: str, why: str, is_news: bool) -> None:
        """What is no news (of two channels one was closed) is in the journal alone."""
        self.events.append(ChannelEvent("DOWN", address, peer, why))
        text = f"channel to {peer} at {address} is down: {why}"
        if is_news:
            self._write(now, "down", LINES_MAX, logging.INFO, text)

    def refused(
        self, now: int, reason: str, who: str, text: str, address: str, peer: str | None = None
    ) -> None:
        line = f"refuses a channel with {who}: {text}"
        if self._write(now, f"refused {reason}", 1, logging.WARNING, line):
            self.events.append(ChannelEvent("REFUSED", address, peer, reason))

    def rejected(self, now: int, reason: str, who: str, text: str, address: str) -> None:
        """The peer refused this member."""
        line = f"{who} refuses this member ({reason}): {text}"
        if self._write(now, f"rejected {reason}", 1, logging.WARNING, line):
            self.events.append(ChannelEvent("REJECTED", address, None, reason))

    def dropped(self, now: int, peer: str, count: int) -> None:
        text = f"{peer} reads too slowly: copies of {count} packets for it were dropped"
        self._write(now, f"dropped {peer}", 1, logging.WARNING, text)

    def certificate(self, now: int, text: str) -> None:
        self._write(now, "certificate", 1, logging.WARNING, text)

    def _write(self, now: int, key: str, lines: int, level: int, text: str) -> bool:
        """Log a line, if there were not too many of its kind. Returns whether it did."""
        if now >= self._until.get(key, 0):
            self._until[key] = now + PERIOD_NS
            self._lines[key] = 0
        if self._lines[key] >= lines:
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return False
        self._lines[key] += 1
        more = self._suppressed.pop(key, 0)
        log.log(
            level, "%s: %s%s", self._who, text, f" ({more} such lines left out)" if more else ""
        )
        return True
