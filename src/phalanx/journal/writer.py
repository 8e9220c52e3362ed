"""The journal of one life of one member, as seen by the thread that drives the member.

`write` appends to a queue and returns; the journal's own thread encodes and writes the queue, at
the latest after `flush_ns`. Neither a full disk nor a slow one affects the member: rows are lost
and counted, and the first block written after that begins with a `gap` row that names them. A
process that is killed loses the rows that were not flushed: a suffix. Rows of one call stay in one
block, so a step of the member is there whole or not at all.

After a fork only the parent writes: a child has no such thread, so the rows it gives to `write`
stay in its own copy of the queue. `write` does not check the process id, which would be a system
call.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from phalanx.core.ids import MemberId
from phalanx.journal import journal_header as opening
from phalanx.journal.blocks import Bodies
from phalanx.journal.schema import Event
from phalanx.journal.segment_rotator import LostRows, SegmentRotator, widened
from phalanx.journal.settings import JournalSettings, checked

GATHER_ROWS = 1024
"""With so many rows waiting the thread does not wait for the time to flush; and no more are encoded
at a time, since encoding keeps the member's thread from running."""
BODIES_WAITING_MAX = 64 << 20
CLOSE_SECONDS = 10.0


class Journal:
    """Opens its first segment at once: JournalError if the folder cannot be written to.

    `on_problem` gets one line when the journal begins to lose rows, once for each outage; it may
    be called on the caller's thread or on the journal's. `config` is kept in each header, so
    it must hold nothing secret. The rows' `t_ns` is what `time.monotonic_ns` said.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cluster: str,
        group: str,
        member: MemberId,
        config: Mapping[str, Any],
        settings: JournalSettings,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = checked(settings)
        header = opening.first_header(cluster, group, member, config)
        self.id = header.journal
        self._who = (member.name, member.incarnation, group)
        self._on_problem = on_problem
        self._keeper = SegmentRotator(Path(directory), header, self.settings, self._tell)
        self._pid = os.getpid()
        self._queue: deque[list[Event] | Bodies] = deque()
        # Two counters, each written by one thread only: their difference is what waits.
        self._accepted = self._taken = 0
        self._body_bytes = self._body_taken = 0
        self._lost: LostRows | None = None  # because the queue was full, since the last row taken
        self._last: Event | None = None
        self._lost_count = 0
        self._lost_bodies = 0
        self._closing = False
        self._idle = False
        self._wake = threading.Event()
        self._gather = min(GATHER_ROWS, max(1, self.settings.queue_rows_max // 2))
        self._thread = threading.Thread(target=self._run, name="phalanx-journal", daemon=True)
        self._thread.start()

    @property
    def rows_lost(self) -> int:
        """How many rows are in no block, for whatever reason."""
        return self._lost_count + self._keeper.rows_lost

    @property
    def bodies_lost(self) -> int:
        """How many messages' bodies are in no block although they were asked for."""
        return self._lost_bodies + self._keeper.bodies_lost

    @property
    def path(self) -> Path | None:
        """The segment that is being written; None while there is none."""
        return self._keeper.path

    def write(self, rows: list[Event]) -> None:
        """Takes the rows of one or more whole steps, in order. Returns at once, never raises for
        trouble with the disk. The list must not be changed afterwards."""
        if not rows or self._closing:
            return
        assert (rows[0].member, rows[0].incarnation, rows[0].group) == self._who
        waiting = self._accepted - self._taken + len(rows)
        if waiting > self.settings.queue_rows_max:
            self._overflow(rows)
            return
        if self._lost is not None:
            rows = [self._lost.row(rows[0]), *rows]
            self._lost = None
        self._accepted += len(rows)
        self._queue.append(rows)
        if self._idle or (waiting >= self._gather and not self._wake.is_set()):
            self._idle = False
            self._wake.set()

    def write_bodies(
        self, sender: MemberId, first: int, lengths: Sequence[int], payload: bytes
    ) -> None:
        """Takes the bodies of messages first.. of a sender, if the settings ask for them. Bodies
        larger than `body_bytes_max` are left out, and counted as lost."""
        if not self.settings.bodies or self._closing:
            return
        if max(lengths, default=0) > self.settings.body_bytes_max:
            self._write_small_bodies(sender, first, lengths, payload)
            return
        if self._body_bytes - self._body_taken + len(payload) > BODIES_WAITING_MAX:
            self._lost_bodies += len(lengths)
            return
        self._body_bytes += len(payload)
        bodies = Bodies(sender.name, sender.incarnation, first, tuple(lengths), payload)
        self._queue.append(bodies)
        if self._idle:
            self._idle = False
            self._wake.set()

    def _write_small_bodies(
        self, sender: MemberId, first: int, lengths: Sequence[int], payload: bytes
    ) -> None:
        at = begin = done = 0
        for i, length in enumerate([*lengths, self.settings.body_bytes_max + 1]):
            if length > self.settings.body_bytes_max:
                if i > done:
                    self.write_bodies(sender, first + done, lengths[done:i], payload[begin:at])
                done, begin = i + 1, at + length
                self._lost_bodies += i < len(lengths)
            at += length

    def close(self) -> None:
        """Writes what was accepted, seals the segment, ends the thread. May be called again. A
        disk that does not answer is waited for a few seconds only."""
        if os.getpid() != self._pid:
            return
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._tell(
                f"{self._keeper.directory}: the disk does not answer; the last rows of the "
                "journal may be missing: check the disk"
            )

    # ------------------------------------------------------------------ the queue was full

    def _overflow(self, rows: list[Event]) -> None:
        if self._lost is None:
            limit = self.settings.queue_rows_max
            self._tell(
                f"{self._keeper.directory}: over queue_rows_max = {limit} rows wait to be written "
                "to the journal, more are lost: use a faster disk, or raise the limit"
            )
        self._lost = widened(self._lost, rows, "the queue was full")
        self._lost_count += len(rows)
        self._last = rows[-1]

    def _tell(self, line: str) -> None:
        if self._on_problem is not None and os.getpid() == self._pid:
            with suppress(Exception):  # a listener's error must not end the journal
                self._on_problem(line)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # a bug of ours, and still no reason to end a member
            self._closing = True
            self._tell(f"{self._keeper.directory}: the journal ended: {error!r}; report this")
            with suppress(Exception):
                self._keeper.close()

    def _work(self) -> None:
        self._keeper.tidy()
        flush_s = self.settings.flush_ns / 1e9
        while True:
            self._idle = True
            if not self._queue and not self._closing:
                self._wake.wait(self._keeper.seconds_left())
            self._idle = False
            self._wake.clear()
            if self._queue and not self._closing and self._accepted - self._taken < self._gather:
                self._wake.wait(flush_s)
                self._wake.clear()
            closing = self._closing  # whatever was accepted before is in the queue now
            self._drain(closing)
            if closing:
                break
            self._keeper.turn_if_old()
        if self._lost is not None and self._last is not None:
            self._keeper.keep([self._lost.row(self._last)], at_once=True)
        self._keeper.close()

    def _drain(self, at_once: bool) -> None:
        rows: list[Event] = []
        bodies: list[Bodies] = []
        for _ in range(len(self._queue)):  # what comes meanwhile waits for the next time
            item = self._queue.popleft()
            if isinstance(item, Bodies):
                bodies.append(item)
                self._body_taken += len(item.payload)
                continue
            rows += item
            self._taken += len(item)
            if len(rows) >= GATHER_ROWS:
                self._keeper.keep(rows, at_once)
                rows = []
        if rows:
            self._keeper.keep(rows, at_once)
        if bodies:
            self._keeper.keep_bodies(bodies)
