"""How long a channel may take to open, and how many are opened at once: both follow measurements.

A TLS handshake takes a few milliseconds of processor time at both ends. Where many members start on
one machine at once, or a machine is overloaded, handshakes wait for each other. A fixed limit then
ends them shortly before they are done, both ends begin anew, and the load grows. So

- the limit is eight times the longest handshake of late, LIMIT_NS_MIN at least. It doubles when a
  peer that accepted the connection is not done in time, up to LIMIT_NS_MAX;
- a miss, or a handshake that took SLOW_NS, halves the number of calls that are under way at once;
  each one that was faster allows one more, up to CALLS_MAX;
- the higher name of a pair, which lets the other one call first, waits longer for it.

Only own calls count: a stranger that connects and says nothing changes none of this. Pure.
"""

from __future__ import annotations

from phalanx.transport.peer_directory import YIELD_NS

MS = 1_000_000
SECOND = 1_000 * MS
LIMIT_NS_MIN = 5 * SECOND
LIMIT_NS_MAX = 60 * SECOND
LIMIT_TIMES = 8
"""The limit, in handshakes of the length of the longest of late."""
SLOW_NS = SECOND
CALLS_MIN = 2
CALLS_MAX = 16
YIELD_NS_MAX = 10 * SECOND
YIELD_TIMES = 2
"""How long the higher name waits, in such handshakes."""
DECAY_BITS = 3
"""The longest handshake is forgotten by one part in eight at each later one."""


class HandshakePace:
    """What the handshakes of one member have shown."""

    def __init__(self) -> None:
        self.limit_ns = LIMIT_NS_MIN
        """A channel that is not up after this time is closed."""
        self.calls_max = CALLS_MAX
        """So many calls may be under way at once."""
        self._longest_ns = 0

    @property
    def yield_ns(self) -> int:
        """How much later than the lower name the higher name of a pair calls."""
        return min(max(YIELD_NS, YIELD_TIMES * self._longest_ns), YIELD_NS_MAX)

    def opened(self, took_ns: int) -> None:
        """A call of this member has become a channel after this time."""
        longest = self._longest_ns
        self._longest_ns = max(took_ns, longest - (longest >> DECAY_BITS))
        limit = min(max(LIMIT_NS_MIN, LIMIT_TIMES * self._longest_ns), LIMIT_NS_MAX)
        self.limit_ns = max(limit, self.limit_ns - (self.limit_ns >> DECAY_BITS))
        if took_ns >= SLOW_NS:
            self._slow_down()
        else:
            self.calls_max = min(self.calls_max + 1, CALLS_MAX)

    def missed(self) -> None:
        """A peer that accepted a call was not done with the handshake in time."""
        self.limit_ns = min(2 * self.limit_ns, LIMIT_NS_MAX)
        self._slow_down()

    def _slow_down(self) -> None:
        self.calls_max = max(self.calls_max // 2, CALLS_MIN)
