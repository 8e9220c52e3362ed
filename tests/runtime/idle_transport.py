"""A transport without a network, for tests of a single member."""

from __future__ import annotations

from collections import Counter, deque

from phalanx.transport.base import ChannelEvent
from phalanx.transport.fault_injection import FaultInjector


class IdleTransport:
    """Keeps the packets that are sent, and receives only those in `waiting`."""

    def __init__(self) -> None:
        self.address = "nowhere:0"
        self.receive_bytes = 1 << 20
        self.faults = FaultInjector()
        self.counts: Counter[str] = Counter()
        self.channel_events: deque[ChannelEvent] = deque()
        self.sent: list[bytes] = []
        self.waiting: list[bytes] = []
        self.closed = False

    def fileno(self) -> int:
        return -1

    def receive(self, now: int) -> list[bytes]:
        out, self.waiting = self.waiting, []
        return out

    def send(self, now: int, packets: list[bytes]) -> None:
        self.sent += packets

    def deadline(self) -> int | None:
        return None

    def expire(self, now: int) -> list[bytes]:
        return []

    def close(self) -> None:
        self.closed = True
