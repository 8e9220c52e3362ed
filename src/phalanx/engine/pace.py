"""How fast the core's clock runs: slower where the machine does not let this thread run.

All times in the settings take for granted that a member gets its turn within a few milliseconds.
Where many processes share few cores it may have to wait fifty; then everybody is late, is asked
again and again, is taken for dead before it could answer, and the work that this makes is why
everybody is late. So the core is told a time that runs slower, by as much as turns are late: all
its time-outs grow alike, and what is sent on time-outs becomes less in the same measure.

The kernel says how long a thread that wanted to run had to wait, and for how many turns
(`/proc/thread-self/schedstat`). Where it does not say, the clock is that of the machine. Journals,
links and the application are given the machine's time always.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

WINDOW_NS = 250_000_000
"""How often waiting is looked at."""
LATE_NS = 10_000_000
"""Turns that are late by this on average are too late. With a few busy threads on each core they
are late by one or two milliseconds; thirty processes that all want to run on two cores wait fifty
and more."""
SHARE = 3
"""A few late turns are chance. They count if waiting took a third of the time."""
STRETCH = 16
"""How much longer all times are then. One measure for all: members whose time-outs differ much take
each other for dead just as well (docs/decisions.md, 48)."""
ONE = 256
"""Stretches are in parts of this."""
EASE = 64
"""A stretch eases by this part of itself each window: by half in 11 s. Trouble comes back as soon
as everybody hurries again."""

Waits = Callable[[], tuple[int, int] | None]
"""Nanoseconds waited, and for how many turns, since the thread began."""


class Pace:
    """Between the time of the machine and the time of the core; both only grow."""

    def __init__(self, waits: Waits, slow: bool = False) -> None:
        self._waits = waits
        self._before: tuple[int, int] | None = None
        self._looked_ns = 0
        self._real_ns = 0
        self._core_ns = 0
        self.stretch = STRETCH * ONE if slow else ONE
        """How much longer all times are, in parts of ONE."""

    def core(self, now: int) -> int:
        """What the core is told at this time."""
        return self._core_ns + (now - self._real_ns) * ONE // self.stretch

    def real(self, due: int) -> int:
        """When it is that late for the core."""
        return self._real_ns - (self._core_ns - due) * self.stretch // ONE

    def look(self, now: int) -> bool:
        """Call it often. Whether the stretch has just grown."""
        took = now - self._looked_ns
        if took < WINDOW_NS:
            return False
        self._looked_ns = now
        waits = self._waits()
        before, self._before = self._before, waits
        if waits is None or before is None:
            return False
        waited, turns = waits[0] - before[0], waits[1] - before[1]
        late = waited * SHARE > took and waited > turns * LATE_NS
        if late:
            stretch = STRETCH * ONE
        else:
            stretch = self.stretch - (self.stretch - ONE + EASE - 1) // EASE
        grown = stretch > self.stretch
        self._set(now, stretch)
        return grown

    def _set(self, now: int, stretch: int) -> None:
        self._core_ns, self._real_ns = self.core(now), now
        self.stretch = stretch


class Turns:
    """What the kernel says of the thread that makes this."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def __call__(self) -> tuple[int, int] | None:
        told = self._told()
        return None if told is None else told[1:]

    @property
    def were_late(self) -> bool:
        """Whether it waited for most of its life, and long each time: a program that has just been
        started among too many others."""
        ran, waited, turns = self._told() or (0, 0, 0)
        return waited > ran and waited > turns * LATE_NS

    def _told(self) -> tuple[int, int, int] | None:
        """Nanoseconds that it ran and that it waited, and turns."""
        if self._file < 0:
            return None
        try:
            ran, waited, turns = map(int, os.pread(self._file, 100, 0).split())
        except (OSError, ValueError):
            return None
        return ran, waited, turns

    def close(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1


def steady() -> Pace:
    """The machine's own time."""
    return Pace(lambda: None)
