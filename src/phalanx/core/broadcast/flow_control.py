"""Flow control: the network sliding window (S4 "Implementation Considerations").

The window holds every message in the domain, of whatever sender, that this member knows and
not all have acknowledged. The fuller it is, the longer a frame that is not full waits for
more to pack; when it is over its limit, no new message leaves. A member that has less than
its share in flight may always send, so that a busy domain cannot starve it, and none may
have more than a quarter of the limit in flight by itself. Each member judges by what it
knows: members that start to talk at the same moment may overshoot the limit until they hear
each other.

If any member, this one or another by its requests, loses more than one packet in twenty, as
happens when buffers overflow, the limit shrinks; progress without that lets it grow back. A
network that loses a few packets at random is not helped by slowing down.

Only messages wait and only messages count: control and ack-only frames never do (rule
W-8), for they are what opens the window.
"""

from __future__ import annotations

from phalanx.config import Config

LOSS_TOLERATED = 20
"""One packet in so many may be lost before the window shrinks."""
LOST_LEAST = 8
"""Fewer lost packets than this say nothing."""
OWN_SHARE = 4
"""A member may fill so much of the window by itself: one part in so many."""
EPOCH_PACKETS = 1024
"""Losses are counted over about the last so many packets."""


class FlowControlWindow:
    """The window of one view, as one member sees it (rules W-1 and W-9)."""

    __slots__ = ("_config", "_held_ns", "_lost", "_n", "_packets", "limit")

    def __init__(self, config: Config, n: int) -> None:
        self._config = config
        self._n = n
        self.limit = config.window_bytes_max
        self._held_ns = 0
        self._packets = 0
        """In the domain, about the last EPOCH_PACKETS of them."""
        self._lost = [0] * n
        """Of those, what each member has asked for."""

    def is_open(self, in_flight: int, own: int) -> bool:
        """Whether messages may leave (rules W-2 to W-4)."""
        if own * self._n < self.limit:
            return True
        return in_flight < self.limit and own * OWN_SHARE < self.limit

    def delay(self, in_flight: int) -> int:
        """How long to wait for more to pack: nothing on an idle network, growing steeply
        (rule W-5)."""
        fill = min(1024, in_flight * 1024 // self.limit)
        return self._config.pace_ns_max * fill * fill >> 20

    def passed(self, packets: int) -> None:
        """Packets came or went."""
        self._packets += packets
        if self._packets > EPOCH_PACKETS:
            self._packets >>= 1
            self._lost = [lost >> 1 for lost in self._lost]

    def lost(self, now: int, member: int, packets: int) -> None:
        """A member asked for packets, the first time: an eighth less if they are many, at most
        once per retry time (rule W-6)."""
        lost = self._lost[member] = self._lost[member] + packets
        if lost < LOST_LEAST or lost * LOSS_TOLERATED <= self._packets:
            return
        if now >= self._held_ns:
            self._held_ns = now + self._config.nack_retry_ns
            self.limit = max(self._config.window_bytes_min, self.limit - (self.limit >> 3))
            self._lost = [0] * self._n

    def progressed(self, now: int) -> None:
        """Something became stable: a little more, unless there were losses just now (rule W-7)."""
        if self.limit < self._config.window_bytes_max and now >= self._held_ns:
            self.limit = min(self._config.window_bytes_max, self.limit + (self.limit >> 7) + 1)
