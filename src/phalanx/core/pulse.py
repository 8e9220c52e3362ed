"""When to speak without being asked: acknowledgements and keep-alives.

Every frame acknowledges all that has entered since its sender's previous one, so a member
that sends messages needs nothing else. One that is silent owes an ack-only frame to the
messages it has received: at once while agreed or safe messages wait for it (PROTOCOLS A.3:
liveness needs traffic), though not more often than `ack_prompt_ns`; late, or when a lot has
come, if only stability waits. Ack-only frames are owed nothing: else two members would
answer each other for ever.

The last frame of a burst may be lost without anybody knowing. So a member goes on with
keep-alives, quickly at first and ever slower, while something it knows of is not stable, and
at a steady slow rate when all is quiet. Whoever hears such a keep-alive, and sees that its
sender lacks an own frame sent a while ago, repeats that frame (`quiet_for`): else one lost
acknowledgement would hold up a safe message until the next slow keep-alive.
"""

from __future__ import annotations

from phalanx.config import Config

NEVER = 1 << 62


class Pulse:
    __slots__ = ("_config", "_due_ns", "_level", "_owed_bytes", "_prompt_ns", "_sent_ns", "_urgent")

    def __init__(self, config: Config, n: int, now: int) -> None:
        self._config = config
        # Acks of everybody for everything grow with the square of the members.
        self._prompt_ns = config.ack_prompt_ns * max(1, n // 4)
        self._sent_ns = now
        self._due_ns = NEVER
        self._owed_bytes = 0
        self._urgent = False
        self._level = 0

    def received(self, now: int, size: int, urgent: bool) -> None:
        """A frame with messages has entered; `urgent` if its delivery waits for us."""
        self._level = 0
        self._owed_bytes += size
        if not urgent and self._owed_bytes * 8 > self._config.window_bytes_min:
            urgent = True
        if urgent:
            if not self._urgent:
                self._urgent = True
                self._due_ns = max(now, self._sent_ns + self._prompt_ns)
        elif self._due_ns == NEVER:
            self._due_ns = now + self._config.ack_lazy_ns

    def spoke(self, now: int, messages: bool) -> None:
        """A frame of ours has left; it acknowledged everything."""
        self._sent_ns = now
        self._due_ns = NEVER
        self._owed_bytes = 0
        self._urgent = False
        self._level = 0 if messages else min(self._level + 1, 16)

    def stir(self) -> None:
        """Something is going on: keep-alives come quickly again."""
        self._level = 0

    def quiet_for(self, now: int) -> bool:
        """Our last frame left long enough ago to have arrived everywhere."""
        return now - self._sent_ns >= self._config.alive_busy_ns // 2

    def due(self, now: int, settled: bool) -> bool:
        """An ack-only frame is owed, or a keep-alive is due."""
        return now >= self._due_ns or now >= self._sent_ns + self._interval(settled)

    def deadline(self, settled: bool) -> int:
        return min(self._due_ns, self._sent_ns + self._interval(settled))

    def _interval(self, settled: bool) -> int:
        config = self._config
        if settled:
            return config.alive_idle_ns
        return min(config.alive_busy_ns << self._level, config.alive_idle_ns)
