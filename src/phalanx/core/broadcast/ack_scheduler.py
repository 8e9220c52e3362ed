"""When to send without being asked: acknowledgements and keep-alives.

Every frame acknowledges all that has entered since its sender's previous one, so a member
that sends messages often needs nothing else. A silent member owes the messages that it has
received an ack-only frame. Ack-only frames are owed nothing: else two members would answer each
other without end. When it is owed depends on what waits for it:

    at once        agreed messages wait for a majority (rule B-18), so
                   the lower half of the ranks is *chosen*; safe messages and all-ack wait for
                   everybody, post_confirm for one member
    as a reserve   the messages cannot be delivered here though the chosen had time to
                   acknowledge them, or a majority has voted and did not decide: the others step
                   in, a few at a time
    lazily         only stability waits: later the higher the rank, sooner if a lot has come

So a chosen member that is slow, dead or cut off costs time, never progress. The chosen are the
same for all senders: one frame of each serves all messages that came together, and as each of
them waits `ack_prompt_ns` times half of the members between two prompt acks, they stay in
step. An idle member saves up a few, so that messages that come close together at a low rate do not
wait.
In groups of up to four everybody is chosen, and keep-alives do not wait for lazy acks.

The last frame of a burst may be lost without a trace. So a member goes on with keep-alives while
something that it knows is not stable: quickly at first and ever slower if messages wait, or if
its last frame held messages; otherwise not before all lazy acks should have come. When all is
quiet they come at a steady slow rate. A member that hears such a keep-alive, and sees that its
sender lacks an own frame sent a while ago, repeats that frame (`quiet_for`): else one lost
acknowledgement would hold up a safe message until the next slow keep-alive.
"""

from __future__ import annotations

from enum import IntEnum

from phalanx.config import Config
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Service
from phalanx.core.wire.frames import Frame

SMALL = 4
"""In groups up to this size everybody is chosen."""
SAVED = 4
"""So many prompt acks may be saved up, in larger groups."""
PARTS = 4
"""The reserves step in in about so many parts."""
PATIENCE = 4
"""The chosen have so many times `ack_prompt_ns` before the first reserves step in."""
SPREAD = 8
"""A lazy ack comes one part in so many later for each rank, keep-alives for each member."""


class Awaited(IntEnum):
    """Whose acknowledgements let messages be delivered that are here and wait."""

    NOBODY = 0
    CHOSEN = 1
    """As many as the messages need at least."""
    EVERYBODY = 2
    """More than a majority of votes: that did not decide."""


class AckScheduler:
    __slots__ = (
        "_awaited",
        "_config",
        "_due_ns",
        "_every_ns",
        "_full_ns",
        "_lazy_ns",
        "_level",
        "_much_bytes",
        "_next_ns",
        "_owed_bytes",
        "_owed_ns",
        "_progress_ns",
        "_quick",
        "_received_ns",
        "_said_ns",
        "_saved_ns",
        "_sent_ns",
        "_since_ns",
        "_slow_ns",
        "_small",
        "_turn",
        "_turns",
        "_turns_causal",
    )

    def __init__(self, config: Config, n: int, rank: int, now: int) -> None:
        self._config = config
        self._small = small = n <= SMALL
        prompt_ns = config.ack_prompt_ns
        everybody = small or config.order == "all-ack"
        self._turns = _turns(n, rank, n if everybody else n // 2)
        """Per sender, this member's turn to acknowledge agreed messages; 0: it is chosen."""
        self._turns_causal: list[int] | None = None
        if config.post_confirm:
            self._turns_causal = _turns(n, rank, n if small else 1)
        self._every_ns = prompt_ns if small else prompt_ns * (n // 2)
        """A prompt ack costs this much time."""
        self._saved_ns = 0 if small else SAVED * self._every_ns
        self._much_bytes = config.window_bytes_min // 8
        self._full_ns = prompt_ns * max(1, n // 4)
        """Acks because a lot has come are at least this far apart."""
        self._lazy_ns = config.ack_lazy_ns
        self._slow_ns = config.alive_busy_ns
        if not small:
            self._lazy_ns += self._lazy_ns * rank // SPREAD
            self._slow_ns += self._slow_ns * n // SPREAD
        self._sent_ns = self._said_ns = self._received_ns = now
        """The last own frame, the last own one with messages, the last other one with messages."""
        self._next_ns = now + self._every_ns
        """No prompt ack before this."""
        self._due_ns = NEVER
        """An ack-only frame is owed by then, whether or not messages wait for it."""
        self._turn = NEVER
        """The first turn for what is owed; NEVER if no agreed or safe message is."""
        self._owed_ns = now
        """When the first of those messages came."""
        self._owed_bytes = 0
        self._awaited = Awaited.CHOSEN
        self._since_ns = self._progress_ns = now
        self._quick = True
        self._level = 0

    def received(self, now: int, frame: Frame) -> None:
        """A frame with messages has entered (rule B-17)."""
        self._level = 0
        self._received_ns = now
        self._owed_bytes += len(frame.payload)
        if self._turn:
            turns = self._turns if frame.ordered else self._turns_causal
            if turns is not None:
                turn = turns[frame.sender]
                if turn and _is_safe(frame):
                    turn = 0
                if self._turn == NEVER:
                    self._owed_ns = now
                if turn < self._turn:
                    self._turn = turn
        if self._due_ns == NEVER:
            self._due_ns = now + self._lazy_ns
        if self._owed_bytes > self._much_bytes:
            self._due_ns = min(self._due_ns, max(now, self._sent_ns + self._full_ns))

    def awaits(self, now: int, awaited: Awaited, progress: bool) -> None:
        """The order made `progress`, or messages wait for other acknowledgements than before."""
        self._awaited = awaited
        self._since_ns = now
        if progress:
            self._progress_ns = now

    def spoke(self, now: int, messages: bool) -> None:
        """A frame of ours has left; it acknowledged everything."""
        every_ns = self._every_ns
        if not messages:
            self._next_ns = max(min(self._next_ns, now), now - self._saved_ns) + every_ns
        else:
            # Messages that leave seldom are no substitute: prompt acks must stay in step.
            if self._small or now < self._said_ns + every_ns:
                self._next_ns = now + every_ns
            self._said_ns = now
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
        """Our last frame left long enough ago to have arrived everywhere (rule B-22)."""
        return now - self._sent_ns >= self._config.alive_busy_ns // 2

    def due(self, now: int, settled: bool) -> bool:
        """An ack-only frame is owed, or a keep-alive is due."""
        if now < self._next_ns and now < self._due_ns:  # hot path: most often nothing is near
            if now < self._sent_ns + self._config.alive_busy_ns:
                return False
        return now >= self.deadline(settled)

    def deadline(self, settled: bool) -> int:
        """When an acknowledgement or a keep-alive is due (rules B-18 to B-21)."""
        due = self._alive_ns(settled)
        if self._due_ns < due:
            due = self._due_ns
        if self._turn != NEVER and (self._awaited or self._small):
            prompt = self._reserve_ns() if self._turn else self._owed_ns
            if prompt < self._next_ns:
                prompt = self._next_ns
            if prompt < due:
                return prompt
        return due

    def _reserve_ns(self) -> int:
        """When messages that wait need an ack of this member, though it is not chosen
        (rule B-19)."""
        prompt_ns = self._config.ack_prompt_ns
        if self._awaited is Awaited.EVERYBODY:
            return self._since_ns + self._turn * prompt_ns
        # After they let messages leave, the chosen may have to wait before they may ack again.
        begun_ns = max(self._since_ns, self._progress_ns + self._every_ns)
        return begun_ns + (PATIENCE + self._turn) * prompt_ns

    def _alive_ns(self, settled: bool) -> int:
        """When a keep-alive is due (rule B-21)."""
        config = self._config
        idle_ns = self._sent_ns + config.alive_idle_ns
        if settled:
            return idle_ns
        begun_ns, wait_ns = self._sent_ns, config.alive_busy_ns
        if not self._small:
            # Else all answer a message that comes after a while: acks have their own time.
            begun_ns = max(begun_ns, self._received_ns)
        if not self._small and not self._quick:
            if self._awaited:
                begun_ns = max(begun_ns, self._since_ns)
            else:
                wait_ns = self._slow_ns
        return min(idle_ns, begun_ns + (wait_ns << self._level))


def _turns(n: int, rank: int, chosen: int) -> list[int]:
    """Per sender, the turn of a member where so many others are chosen (rule B-18)."""
    part = max(1, (n - chosen) // PARTS)
    places = (rank - (rank > sender) for sender in range(n))
    return [0 if place < chosen else 1 + (place - chosen) // part for place in places]


def _is_safe(frame: Frame) -> bool:
    for run in frame.runs:  # noqa: SIM110 (hot path)
        if run.service is Service.SAFE:
            return True
    return False
