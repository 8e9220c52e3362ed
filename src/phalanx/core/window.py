"""Flow control: the network sliding window (S4 "Implementation Considerations").

The window holds every frame in the domain, of whatever sender, that this member knows and
not all have acknowledged. The fuller it is, the longer a frame that is not full waits for
more to pack; when it is over its limit, no new message leaves. A member that has less than
its share in flight may always send, so that a busy domain cannot starve it; so the window
may overshoot its limit, never twice. Losses shrink the limit, progress without losses lets it
grow back. Only messages wait: control and ack-only frames never do (PROTOCOLS C.5 X9), for
they are what opens the window.
"""

from __future__ import annotations

from phalanx.config import Config


class Window:
    __slots__ = ("_config", "_held_ns", "_n", "limit")

    def __init__(self, config: Config, n: int) -> None:
        self._config = config
        self._n = n
        self.limit = config.window_bytes_max
        self._held_ns = 0

    def is_open(self, in_flight: int, own: int) -> bool:
        return in_flight < self.limit or own * self._n < self.limit

    def delay(self, in_flight: int) -> int:
        """How long to wait for more to pack: nothing on an idle network, growing steeply."""
        fill = min(1024, in_flight * 1024 // self.limit)
        return self._config.pace_ns_max * fill * fill >> 20

    def lost(self, now: int) -> None:
        """Something was lost: an eighth less, at most once per retry time."""
        if now >= self._held_ns:
            self._held_ns = now + self._config.nack_retry_ns
            self.limit = max(self._config.window_bytes_min, self.limit - (self.limit >> 3))

    def progressed(self, now: int) -> None:
        """Something became stable: a little more, unless there was a loss just now."""
        if self.limit < self._config.window_bytes_max and now >= self._held_ns:
            self.limit = min(self._config.window_bytes_max, self.limit + (self.limit >> 7) + 1)
