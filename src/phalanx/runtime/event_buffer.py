"""The event buffer: events from the event loop's thread to the application's.

One thread puts, any thread takes. A deque hands runs over; each side counts its bytes in a number
that it alone writes, so neither waits for the other. The buffer is *full* when more than its limit
waits to be read. Then either the group slows down for this reader (`level`, which the runner gives
to the core as `ReaderLag`), or messages are dropped, and the reader finds an `EventsLost` in their
place. The buffer of a member that only sends (`receive=False`) keeps nothing and is never full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from phalanx.config import Config
from phalanx.runtime.events import EventsLost, Messages, Run

EVENT_BYTES = 256
"""The approximate size of an event without its bodies."""
TAKE_BYTES = 1 << 20
"""The approximate limit of one batch: bytes that were taken no longer count as waiting."""


class EventBuffer:
    def __init__(self, config: Config, receive: bool = True) -> None:
        self.receive = receive
        """Whether events are kept for a reader."""
        self._limit = config.buffer_bytes_max
        self._lossy = config.slow == "lose"
        self._runs: deque[tuple[Run, int]] = deque()
        self._put_bytes = 0
        self._taken_bytes = 0
        self._lost = 0
        self._level: Literal[0, 1, 2] = 0
        self.dropped = 0
        """The total number of dropped messages."""
        self.closed = False
        """No more events will come."""
        self.error: BaseException | None = None
        """Why, if the application did not ask to leave."""
        self._on_put: list[Callable[[], None]] = []
        """Calls of waiting readers. Any thread adds and removes its own; each is made once."""
        self._on_drained: Callable[[], None] | None = None

    @property
    def waiting_bytes(self) -> int:
        return self._put_bytes - self._taken_bytes

    @property
    def has_drained(self) -> bool:
        """Whether so little is unread that the other members need not wait any more."""
        return 2 * self.waiting_bytes <= self._limit

    # -------------------------------------------------------------- the event loop's side

    def put(self, run: Run, size: int) -> None:
        if not self.receive:
            return
        size += EVENT_BYTES
        if self._lossy and self.waiting_bytes + size > self._limit:
            if type(run) is Messages or self.waiting_bytes > 2 * self._limit:
                count = len(run) if type(run) is Messages else 1
                self._lost += count
                self.dropped += count
                return
        if self._lost:
            self._runs.append((EventsLost(self._lost), 0))
            self._lost = 0
        self._put_bytes += size
        self._runs.append((run, size))

    def wake(self) -> None:
        """Wake all readers that wait. Those that find nothing left wait again: as all are woken,
        none is forgotten."""
        while self._on_put and (self._runs or self.closed):
            try:
                call = self._on_put.pop()
            except IndexError:  # another thread was faster
                return
            call()

    def close(self, error: BaseException | None = None) -> None:
        if self._lost:
            self._runs.append((EventsLost(self._lost), 0))
            self._lost = 0
        self.error = error
        self.closed = True
        self.wake()

    def level(self, on_drained: Callable[[], None]) -> Literal[0, 1, 2]:
        """The lag of the reader: 0 none, 1 more than the limit is unread, 2 twice as much.
        `on_drained` is called from the reader's thread when it has caught up."""
        if self._lossy:
            return 0
        waiting = self.waiting_bytes
        if waiting >= 2 * self._limit:
            self._level = 2
        elif waiting >= self._limit:
            self._level = max(self._level, 1)
        elif self.has_drained:
            self._level = 0
        self._on_drained = on_drained if self._level else None
        return self._level

    # -------------------------------------------------------------- the reader's side

    def take(self) -> list[Run]:
        """The runs that wait, up to about TAKE_BYTES; empty if there are none."""
        runs, out = self._runs, []
        size = 0
        while runs and size < TAKE_BYTES:
            run, bytes_ = runs.popleft()
            out.append(run)
            size += bytes_
        self._taken_bytes += size
        call = self._on_drained
        if call is not None and self.has_drained:
            self._on_drained = None
            call()
        return out

    def when_put(self, call: Callable[[], None]) -> None:
        """Call once, from any thread, as soon as `take` has something or the buffer is closed."""
        self._on_put.append(call)
        self.wake()  # something may have come since the append

    def forget(self, call: Callable[[], None]) -> None:
        """Remove the call of a reader that no longer waits."""
        with suppress(ValueError):  # it was made already
            self._on_put.remove(call)
