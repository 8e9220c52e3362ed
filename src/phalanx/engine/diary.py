"""A member's journal as the engine keeps it: rows of each step, and what the wall clock says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from phalanx.core.effects import Effect
from phalanx.journal.events import Event
from phalanx.journal.recorder import Recorder

CLOCK_LOOK_NS = 1_000_000_000
CLOCK_EVERY_NS = 10 * CLOCK_LOOK_NS
CLOCK_STEP_NS = 1_000_000
"""By so much the wall clock was set, or drifted, since it was last written down."""


class Journal(Protocol):
    """Where rows go. Neither call blocks on a disk nor raises for one."""

    def write(self, rows: list[Event]) -> None: ...

    def close(self) -> None: ...


class Diary:
    def __init__(self, recorder: Recorder, journal: Journal) -> None:
        self._recorder = recorder
        self._journal = journal
        self._boot_id = boot_id()
        self._look_at = 0
        self._written_at = 0
        self._offset = 0

    def start(self, now: int) -> None:
        self._journal.write([self._recorder.start(now)])
        self._clock(now)

    def record(self, now: int, effects: Sequence[Effect]) -> None:
        rows = self._recorder.record(now, effects)
        if rows:
            self._journal.write(rows)
        if now >= self._look_at:
            self._look_at = now + CLOCK_LOOK_NS
            moved = abs(time.time_ns() - now - self._offset) > CLOCK_STEP_NS
            if moved or now >= self._written_at + CLOCK_EVERY_NS:
                self._clock(now)

    def stop(self, now: int) -> None:
        """The last row. It may still be on its way to the disk until `close` returns."""
        self._journal.write([self._recorder.stop(now)])

    def close(self) -> None:
        """Wait for the disk."""
        self._journal.close()

    def _clock(self, now: int) -> None:
        wall = time.time_ns()
        self._written_at, self._offset = now, wall - now
        self._journal.write([self._recorder.clock(now, wall, self._boot_id)])


def boot_id() -> str:
    """Names this boot of the machine: clocks that only grow may be compared within one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
