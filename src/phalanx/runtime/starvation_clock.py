"""How fast the core's clock runs: slower where the machine does not let this thread run.

All times in the settings take for granted that a member gets its turn within a few milliseconds.
Where many processes share few cores it may have to wait fifty; then everybody is late, is asked
again and again, is taken for dead before it could answer, and the work that this makes is why
everybody is late. So the core is told a time that runs slower: all its time-outs grow
alike, and what is sent on time-outs becomes less in the same measure.

The kernel says how long a thread that wanted to run had to wait (`/proc/thread-self/schedstat`),
how many want to run on all cores (`/proc/loadavg`), and how many sockets have our port
(`/proc/net/udp`). All must be bad: the first alone is so for any busy thread among a few others,
the second alone may be others' business, and a small group beside busy programs gets its turns
soon enough. Where the kernel does not say, the clock is that of the machine. Journals, links and
the application are given the machine's time always.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

WINDOW_NS = 250_000_000
"""How often waiting is looked at."""
CROWD = 6
"""So many threads that want to run for each core are too many. Groups at full speed are
three or four, and two spinning processes beside each core are no trouble."""
COMPANY = 4
"""From so many members for each core on, they are a crowd themselves."""
SHARE = 3
"""This thread is one of those that suffer if it spent a third of its time waiting."""
SMOOTH = 4
"""The crowd is a mean over about so many windows."""
STRETCH = 16
"""How much longer all times are then. One measure for all: members whose time-outs differ much take
each other for dead just as well (docs/decisions.md, 48)."""
ONE = 256
"""Stretches are in parts of this."""
EASE = 64
"""A stretch eases by this part of itself each window: by half in 11 s. Trouble comes back as soon
as everybody hurries again."""

Waits = Callable[[], tuple[int, int] | None]
"""Nanoseconds that the thread waited since it began, and how many threads want to run now for each
core, in parts of ONE."""


class StretchedClock:
    """Between the time of the machine and the time of the core; both only grow."""

    def __init__(self, waits: Waits, slow: bool = False) -> None:
        self._waits = waits
        self._waited_ns: int | None = None
        self._crowd = CROWD * ONE if slow else 0
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
        if waits is None:
            return False
        before, self._waited_ns = self._waited_ns, waits[0]
        self._crowd += (waits[1] - self._crowd) // SMOOTH
        if before is None:
            return False
        if (waits[0] - before) * SHARE > took and self._crowd >= CROWD * ONE:
            stretch = STRETCH * ONE
        else:
            stretch = self.stretch - (self.stretch - ONE + EASE - 1) // EASE
        grown = stretch > self.stretch
        self._set(now, stretch)
        return grown

    def _set(self, now: int, stretch: int) -> None:
        self._core_ns, self._real_ns = self.core(now), now
        self.stretch = stretch


class SchedulerStats:
    """What the kernel says of the thread that makes this, a member on that port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._files: list[int] = []
        self._cores = os.cpu_count() or 1
        try:
            for name in ("thread-self/schedstat", "loadavg"):
                self._files.append(os.open(f"/proc/{name}", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()

    def __call__(self) -> tuple[int, int] | None:
        told = self._told()
        return None if told is None else told[1:]

    @property
    def are_late(self) -> bool:
        """Whether it waited for most of its life, and still would: a program that has just been
        started among too many others."""
        ran, waited, crowd = self._told() or (0, 0, 0)
        return waited > ran and crowd >= CROWD * ONE

    def _told(self) -> tuple[int, int, int] | None:
        """Nanoseconds that it ran and that it waited, and the crowd."""
        if not self._files:
            return None
        try:
            ran, waited, _ = os.pread(self._files[0], 100, 0).split()
            wanting, _, _ = os.pread(self._files[1], 100, 0).split()[3].partition(b"/")
            crowd = int(wanting) * ONE // self._cores
            if crowd >= CROWD * ONE and members_here(self._port) < COMPANY * self._cores:
                crowd = 0
            return int(ran), int(waited), crowd
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                os.close(file)
        self._files = []


def members_here(port: int) -> int:
    """How many sockets of this machine have the port."""
    suffix = f":{port:04X}"
    count = 0
    for name in ("udp", "udp6"):
        with contextlib.suppress(OSError), Path(f"/proc/net/{name}").open(encoding="ascii") as file:
            count += sum(line.split(None, 2)[1].endswith(suffix) for line in file)
    return count


def steady() -> StretchedClock:
    """The machine's own time."""
    return StretchedClock(lambda: None)
