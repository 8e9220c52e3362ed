"""A clock that slows down when this process is starved of CPU (`Config.stretch_clock`).

The time-outs of the protocol assume that a member is scheduled within a few milliseconds. When many
members share few cores they miss each other's deadlines, retransmit, and make the overload worse.
Stretching the core's clock lengthens every time-out by the same factor and reduces the traffic that
time-outs cause.

The setting is off by default: time-outs then mean what they say. With it, failures are detected up
to STRETCH times later while the machine is overloaded. The event loop logs when the stretch begins
and when it ends.

The kernel reports how long a runnable thread waited for a core (`/proc/thread-self/schedstat`), how
many threads of the machine are runnable (`/proc/loadavg`), and how many sockets are bound to our
port (`/proc/net/udp`, `/proc/net/tcp`). The clock is stretched only if all three are high: a busy
thread among few others also waits, a high load may concern other programs only, and a small group
beside busy programs still gets a core soon enough. Without these files the clock is never
stretched. Journals, transports and the application always use the machine's own time.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("phalanx")

WINDOW_NS = 250_000_000
"""How often the statistics are read."""
RUNNABLE_PER_CORE = 6
"""From this many runnable threads for each core on, the machine is overloaded. Groups at full speed
cause three or four, and two spinning processes beside each core do no harm."""
MEMBERS_PER_CORE = 4
"""From this many members for each core on, the members themselves are the overload."""
WAIT_SHARE = 3
"""A thread is starved if it waited for a core for more than this part (a third) of a window."""
SMOOTH = 4
"""The load is a moving average over about this many windows."""
STRETCH = 16
"""How much longer all times are while the thread is starved. One factor for all members: members
whose time-outs differ much suspect each other just as well (docs/decisions.md, 48)."""
ONE = 256
"""Stretch factors and loads are integers in units of 1/ONE."""
EASE = 64
"""The stretch shrinks by this part of its excess in each window, by half in 11 s: the overload
returns as soon as all members hurry again."""

LISTENING = "0A"
"""The state of a socket in /proc/net/tcp that accepts connections."""

ReadStats = Callable[[], tuple[int, int] | None]
"""Returns the nanoseconds that the thread has waited for a core since it began, and the runnable
threads for each core in units of 1/ONE; None if the kernel does not report them."""


class StretchedClock:
    """Converts between the machine's time and the core's time. Both only grow."""

    def __init__(self, read_stats: ReadStats, starved: bool = False) -> None:
        self._read_stats = read_stats
        self._waited_ns: int | None = None
        self._load = RUNNABLE_PER_CORE * ONE if starved else 0
        self._checked_ns = 0
        self._real_ns = 0
        self._core_ns = 0
        self.stretch = STRETCH * ONE if starved else ONE
        """How much longer all times are, in units of 1/ONE."""

    @property
    def factor(self) -> float:
        """How many times longer than configured all time-outs are now."""
        return self.stretch / ONE

    def core(self, now: int) -> int:
        """The core's time at this machine time."""
        return self._core_ns + (now - self._real_ns) * ONE // self.stretch

    def real(self, due: int) -> int:
        """The machine time at which the core's clock reaches `due`."""
        return self._real_ns - (self._core_ns - due) * self.stretch // ONE

    def update(self, now: int) -> None:
        """Read the statistics once per window and adapt the stretch. Call it often."""
        window_ns = now - self._checked_ns
        if window_ns < WINDOW_NS:
            return
        self._checked_ns = now
        stats = self._read_stats()
        if stats is None:
            return
        waited_ns, load = stats
        before, self._waited_ns = self._waited_ns, waited_ns
        self._load += (load - self._load) // SMOOTH
        if before is None:
            return
        if (waited_ns - before) * WAIT_SHARE > window_ns and self._load >= RUNNABLE_PER_CORE * ONE:
            self._set(now, STRETCH * ONE)
        else:
            self._set(now, self.stretch - (self.stretch - ONE + EASE - 1) // EASE)

    def _set(self, now: int, stretch: int) -> None:
        self._core_ns, self._real_ns = self.core(now), now
        self.stretch = stretch


class SchedulerStats:
    """Scheduling statistics of the thread that creates this object, for members on one port."""

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
        stats = self._read()
        return None if stats is None else stats[1:]

    @property
    def is_starved(self) -> bool:
        """Whether the thread waited for more than half of its life and the machine is still
        overloaded: a program that was just started among too many others."""
        ran_ns, waited_ns, load = self._read() or (0, 0, 0)
        return waited_ns > ran_ns and load >= RUNNABLE_PER_CORE * ONE

    def _read(self) -> tuple[int, int, int] | None:
        """Nanoseconds that the thread ran, nanoseconds that it waited, and the load."""
        if not self._files:
            return None
        try:
            ran, waited, _ = os.pread(self._files[0], 100, 0).split()
            runnable, _, _ = os.pread(self._files[1], 100, 0).split()[3].partition(b"/")
            load = int(runnable) * ONE // self._cores
            if load >= RUNNABLE_PER_CORE * ONE:
                if members_here(self._port) < MEMBERS_PER_CORE * self._cores:
                    load = 0
            return int(ran), int(waited), load
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                os.close(file)
        self._files = []


class ProcessClock:
    """The one stretched clock of a process, created for the first member whose settings ask for it
    (`stretch_clock`). It logs when the stretch begins and when it ends."""

    def __init__(self) -> None:
        self._clock: StretchedClock | None = None
        self._stats: SchedulerStats | None = None
        self._port = 0
        self._reported = False
        """The log says that the clock is stretched."""

    def clock(self, port: int) -> StretchedClock:
        """The clock, for a member on this port. Called from the thread that joins."""
        if self._clock is None:
            self._port = port
            joining = SchedulerStats(port)
            starved = joining.is_starved
            joining.close()
            self._clock = StretchedClock(self._read_stats, starved)
        return self._clock

    def _read_stats(self) -> tuple[int, int] | None:
        """Called from the loop's thread: the statistics are those of the thread that opens them."""
        if self._stats is None:
            self._stats = SchedulerStats(self._port)
        return self._stats()

    def update(self, now: int) -> None:
        """Adapt the clock, if there is one."""
        clock = self._clock
        if clock is None:
            return
        clock.update(now)
        if (clock.stretch > ONE) is not self._reported:
            self._reported = not self._reported
            if self._reported:
                log.warning(
                    "this process waits long for a core: stretch_clock makes all its time-outs "
                    "%.1f times longer; run fewer processes, or use more cores",
                    clock.factor,
                )
            else:
                log.warning(
                    "this process gets a core in time again: its time-outs are as configured"
                )

    def close(self) -> None:
        if self._stats is not None:
            self._stats.close()


def members_here(port: int) -> int:
    """The number of UDP sockets of this machine that are bound to the port, and of TCP sockets that
    listen there: those of the members of a mesh."""
    suffix = f":{port:04X}"
    count = 0
    for name in ("udp", "udp6", "tcp", "tcp6"):
        with contextlib.suppress(OSError), Path(f"/proc/net/{name}").open(encoding="ascii") as file:
            next(file, None)
            for line in file:
                _, address, _, state, _ = line.split(None, 4)
                if name.startswith("tcp") and state != LISTENING:
                    break  # those that listen come first; a large mesh has thousands of others
                count += address.endswith(suffix)
    return count


def machine_clock() -> StretchedClock:
    """The machine's own time, never stretched."""
    return StretchedClock(lambda: None)
