"""The log lines of a mesh: channels that open and break, and peers that are refused.

Each kind of line appears at most LINES_MAX times in a minute, refusals once a minute for each
reason; the next line reports how many were left out.
"""

from __future__ import annotations

import logging

log = logging.getLogger("phalanx")

PERIOD_NS = 60_000_000_000
LINES_MAX = 64


class ChannelLog:
    """The log of one transport."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._until: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def opened(self, now: int, peer: str, address: str, cipher: str) -> None:
        self._write(now, "up", LINES_MAX, logging.INFO, f"channel to {peer} at {address}, {cipher}")

    def broke(self, now: int, peer: str, address: str, why: str) -> None:
        text = f"channel to {peer} at {address} is down: {why}"
        self._write(now, "down", LINES_MAX, logging.INFO, text)

    def refused(self, now: int, reason: str, who: str, text: str) -> None:
        line = f"refuses a channel with {who}: {text}"
        self._write(now, f"refused {reason}", 1, logging.WARNING, line)

    def rejected(self, now: int, reason: str, who: str, text: str) -> None:
        """The peer refused this member."""
        line = f"{who} refuses this member ({reason}): {text}"
        self._write(now, f"rejected {reason}", 1, logging.WARNING, line)

    def dropped(self, now: int, peer: str, count: int) -> None:
        text = f"{peer} reads too slowly: copies of {count} packets for it were dropped"
        self._write(now, f"dropped {peer}", 1, logging.WARNING, text)

    def certificate(self, now: int, text: str) -> None:
        self._write(now, "certificate", 1, logging.WARNING, text)

    def _write(self, now: int, key: str, lines: int, level: int, text: str) -> None:
        if now >= self._until.get(key, 0):
            self._until[key] = now + PERIOD_NS
            self._lines[key] = 0
        if self._lines[key] >= lines:
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return
        self._lines[key] += 1
        more = self._suppressed.pop(key, 0)
        log.log(
            level, "%s: %s%s", self._who, text, f" ({more} such lines left out)" if more else ""
        )
