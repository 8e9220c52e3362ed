"""The resource usage of a process on Linux: processor time, memory, and network traffic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic_ns, perf_counter
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Totals at one instant, of one or more processes together."""

    at_ns: int
    cpu_seconds: float
    rss_bytes: int
    sent_bytes: int
    received_bytes: int


class Cost(NamedTuple):
    """Between two instants: share of one core, bytes a second, and memory at the end."""

    cpu_share: float
    rss_bytes: int
    sent_per_second: float
    received_per_second: float


def usage(pids: Sequence[int]) -> Usage:
    """The usage of the processes of one member. Traffic is that of their network namespace, without
    loopback; a process that has ended counts nothing."""
    at = monotonic_ns()
    cpu, rss = 0.0, 0
    for pid in pids:
        cpu += _cpu_seconds(pid)
        rss += _rss_bytes(pid)
    sent, received = _traffic(pids[0])
    return Usage(at, cpu, rss, sent, received)


def cost(before: Usage, after: Usage) -> Cost:
    seconds = (after.at_ns - before.at_ns) / 1e9
    return Cost(
        (after.cpu_seconds - before.cpu_seconds) / seconds,
        after.rss_bytes,
        (after.sent_bytes - before.sent_bytes) / seconds,
        (after.received_bytes - before.received_bytes) / seconds,
    )


def busy_seconds() -> float:
    """Processor time of all cores together; 0 if the system does not report it."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return 0.0
    spent = list(map(int, line.split()[1:9]))  # guest time is included in the first two
    idle, waiting = spent[3], spent[4]
    return (sum(spent) - idle - waiting) / _TICKS


def calibration_loop() -> float:
    """The duration of a fixed loop in seconds: the present speed of the machine. A virtual machine
    may run at half its speed without any load of its own."""
    before = perf_counter()
    total = 0
    for i in range(1_000_000):
        total += i
    assert total
    return perf_counter() - before


def load() -> float | None:
    """The load average of the last minute; None if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _cpu_seconds(pid: int) -> float:
    # The name, in parentheses, may hold blanks: count from behind it. User and system time are
    # fields 14 and 15 of the whole line.
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _rss_bytes(pid: int) -> int:
    for line in _read(pid, "status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _traffic(pid: int) -> tuple[int, int]:
    sent = received = 0
    for line in _read(pid, "net/dev").splitlines()[2:]:
        card, _, counts = line.partition(":")
        if card.strip() != "lo":
            fields = counts.split()
            received += int(fields[0])
            sent += int(fields[8])
    return sent, received


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):
        return ""
