"""When to send without being asked: acknowledgements and keep-alives.

Every frame acknowledges all that has entered since its sender's previous one, so a member
that sends messages needs nothing else. A silent member owes the messages that it has received
an ack-only frame. Ack-only frames are owed nothing: else two members would answer each other
without end. How soon it is owed:

    at once      if messages wait for it (PROTOCOLS A.3: liveness needs traffic). Agreed messages
                 wait for a majority, so the lowest half of the ranks is *chosen*; safe messages
                 and all-ack wait for everybody; post_confirm waits for one
    as a reserve if messages that wait for the chosen are not delivered here after a while, or if
                 the votes of a majority did not decide; the reserves step in a few at a time
    lazily       if only stability waits: later the higher the rank, or when a lot has come

A chosen member that is slow, dead or cut off costs time, never progress: every member that has
received something acknowledges it in the end. The chosen are the same for all senders, so that
one frame of each serves all messages that came together. A member sends prompt acks no more
often than every `ack_prompt_ns` times half the members, after a few that it saved up while it was
idle: the group sends at most about one per `ack_prompt_ns` for agreed messages, however large it
is. In groups of up to four everybody is chosen.

The last frame of a burst may be lost without a trace. So a member goes on with keep-alives while
something it knows of is not stable: quickly at first and ever slower if messages wait, or if
its last frame held messages; else not before all lazy acks should have come; at a steady
slow rate when all is quiet. Whoever hears such a keep-alive, and sees that its sender lacks an
own frame sent a while ago, repeats that frame (`quiet_for`): else one lost acknowledgement would
hold up a safe message until the next slow keep-alive.
"""

from __future__ import annotations

from enum import IntEnum

from phalanx.config import Config
from phalanx.core.effects import Service
from phalanx.core.frames import Frame

NEVER = 1 << 62

SMALL = 4
"""In groups up to this size everybody is chosen."""
SAVED = 2
"""Prompt acks that an idle member may save up, in larger groups."""
RESERVES = 4
"""The members that are not chosen step in in about so many parts."""
PATIENCE = 4
"""Reserves give the chosen so many times `ack_prompt_ns`."""
SPREAD = 8
"""Lazy acks and keep-alives are slower by one part in so many for each rank or member."""


class Awaited(IntEnum):
    """Whose acknowledgements the messages wait for that have come and cannot be delivered."""

    NOBODY = 0
    CHOSEN = 1
    EVERYBODY = 2
    """A majority has voted and did not decide."""


class Pulse:
    __slots__ = (
        "_awaited",
        "_chosen",
        "_config",
        "_due_ns",
        "_every_ns",
        "_full_ns",
        "_lazy_ns",
        "_level",
        "_next_ns",
        "_owed_bytes",
        "_owed_ns",
        "_progress_ns",
        "_quick",
        "_rank",
        "_saved_ns",
        "_sent_ns",
        "_since_ns",
        "_slow_ns",
        "_step",
        "_turn",
    )

    def __init__(self, config: Config, n: int, rank: int, now: int) -> None:
        self._config = config
        self._rank = rank
        prompt_ns = config.ack_prompt_ns
        small = n <= SMALL
        self._chosen = n if small or config.order == "all-ack" else n // 2
        """So many others acknowledge an agreed message at once."""
        self._step = max(1, (n - self._chosen) // RESERVES)
        self._every_ns = prompt_ns if small else prompt_ns * (n // 2)
        self._full_ns = prompt_ns * max(1, n // 4)
        self._saved_ns = 0 if small else SAVED * self._every_ns
        self._lazy_ns = config.ack_lazy_ns
        self._slow_ns = config.alive_busy_ns
        if not small:
            self._lazy_ns += self._lazy_ns * rank // SPREAD
            self._slow_ns += self._slow_ns * n // SPREAD
        self._sent_ns = now
        self._next_ns = now + self._every_ns
        """No prompt ack before this."""
        self._due_ns = NEVER
        """When an ack-only frame is owed whether or not messages wait for it."""
        self._owed_ns = NEVER
        self._owed_bytes = 0
        self._turn = NEVER
        """0: chosen; from 1 on: a reserve; NEVER: no message that was received waits for acks."""
        self._awaited = Awaited.CHOSEN
        self._since_ns = self._progress_ns = now
        self._quick = True
        self._level = 0

    def received(self, now: int, frame: Frame) -> None:
        """A frame with messages has entered."""
        self._level = 0
        self._owed_bytes += len(frame.payload)
        if self._turn and (frame.ordered or self._config.post_confirm):
            if self._turn == NEVER:
                self._owed_ns = now
            self._turn = min(self._turn, self._turn_for(frame))
        if self._due_ns == NEVER:
            self._due_ns = now + self._lazy_ns
        if self._owed_bytes * 8 > self._config.window_bytes_min:
            self._due_ns = min(self._due_ns, max(now, self._sent_ns + self._full_ns))

    def _turn_for(self, frame: Frame) -> int:
        chosen = self._chosen
        if not frame.ordered:
            chosen = min(chosen, 1) if self._saved_ns else chosen
        elif any(run.service is Service.SAFE for run in frame.runs):
            return 0
        place = self._rank - (self._rank > frame.sender)
        return 0 if place < chosen else 1 + (place - chosen) // self._step

    def awaits(self, now: int, awaited: Awaited, progress: bool) -> None:
        """Messages were delivered (`progress`), or other acknowledgements are awaited."""
        self._awaited = awaited
        self._since_ns = now
        if progress:
            self._progress_ns = now

    def spoke(self, now: int, messages: bool) -> None:
        """A frame of ours has left; it acknowledged everything."""
        saved = max(min(self._next_ns, now), now - self._saved_ns)
        self._next_ns = saved + self._every_ns
        self._sent_ns = now
        self._due_ns = NEVER
        self._owed_bytes = 0
        self._turn = NEVER
        self._quick = messages
        self._level = 0 if messages else min(self._level + 1, 16)

    def stir(self) -> None:
        """Something is going on: keep-alives come quickly again."""
        self._level = 0
        self._quick = True

    def quiet_for(self, now: int) -> bool:
        """Our last frame left long enough ago to have arrived everywhere."""
        return now - self._sent_ns >= self._config.alive_busy_ns // 2

    def due(self, now: int, settled: bool) -> bool:
        """An ack-only frame is owed, or a keep-alive is due."""
        return now >= self.deadline(settled)

    def deadline(self, settled: bool) -> int:
        due = min(self._due_ns, self._sent_ns + self._interval(settled))
        if self._turn != NEVER and self._awaited:
            due = min(due, max(self._prompt_ns(), self._next_ns))
        return due

    def _prompt_ns(self) -> int:
        """When messages that wait need an ack of this member."""
        if not self._turn:
            return self._owed_ns
        prompt_ns = self._config.ack_prompt_ns
        if self._awaited is Awaited.EVERYBODY:
            return self._since_ns + self._turn * prompt_ns
        # The chosen may have had to wait since the last time they let messages leave.
        begun = max(self._since_ns, self._progress_ns + self._every_ns)
        return begun + (PATIENCE + self._turn) * prompt_ns

    def _interval(self, settled: bool) -> int:
        config = self._config
        if settled:
            return config.alive_idle_ns
        busy = config.alive_busy_ns if self._quick or self._awaited else self._slow_ns
        return min(busy << self._level, config.alive_idle_ns)
