"""Flow control: the network sliding window (S4 "Implementation Considerations").

The window holds every frame in the domain, of whatever sender, that this member knows and
not all have acknowledged. The fuller it is, the longer a frame that is not full waits for
more to pack; when it is over its limit, no new message leaves. A member that has less than
its share in flight may always send, so that a busy domain cannot starve it; so the window
may overshoot its limit, never twice. Losses of more than one packet in twenty, which come
of buffers that overflow, shrink the limit; progress without them lets it grow back. A
network that loses a few packets at random is not helped by slowing down. Only messages
wait: control and ack-only frames never do (PROTOCOLS C.5 X9), for they are what opens the
window.
"""

from __future__ import annotations

from phalanx.config import Config

LOSS_TOLERATED = 20
"""One packet in so many may be lost before the window shrinks."""
EPOCH_PACKETS = 1024
"""Losses are counted over about the last so many packets."""


class Window:
    __slots__ = ("_arrived", "_config", "_held_ns", "_lost", "_n", "limit")

    def __init__(self, config: Config, n: int) -> None:
        self._config = config
        self._n = n
        self.limit = config.window_bytes_max
        self._held_ns = 0
        self._arrived = 0
        self._lost = 0

    def is_open(self, in_flight: int, own: int) -> bool:
        return in_flight < self.limit or own * self._n < self.limit

    def delay(self, in_flight: int) -> int:
        """How long to wait for more to pack: nothing on an idle network, growing steeply."""
        fill = min(1024, in_flight * 1024 // self.limit)
        return self._config.pace_ns_max * fill * fill >> 20

    def arrived(self, packets: int) -> None:
        self._arrived += packets

    def lost(self, now: int, packets: int) -> None:
        """Packets were asked for, here or elsewhere: an eighth less if they are many, at most
        once per retry time."""
        self._lost += packets
        if now >= self._held_ns and self._lost * LOSS_TOLERATED > self._arrived:
            self._held_ns = now + self._config.nack_retry_ns
            self.limit = max(self._config.window_bytes_min, self.limit - (self.limit >> 3))
            self._lost = self._arrived = 0

    def progressed(self, now: int) -> None:
        """Something became stable: a little more, unless there were losses just now."""
        if self._arrived > EPOCH_PACKETS:
            self._lost >>= 1
            self._arrived >>= 1
        if self.limit < self._config.window_bytes_max and now >= self._held_ns:
            self.limit = min(self._config.window_bytes_max, self.limit + (self.limit >> 7) + 1)
