"""The core's clock: the machine's time, or slower while the process is starved of CPU."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.starvation_clock import (
    ONE,
    RUNNABLE_PER_CORE,
    STRETCH,
    WINDOW_NS,
    ProcessClock,
    SchedulerStats,
    StretchedClock,
    machine_clock,
    members_here,
)

SECOND = 1_000_000_000


class Kernel:
    """Reports the time that the thread waited, and the runnable threads for each core."""

    def __init__(self, load: int) -> None:
        self.waited = 0
        self.load = load

    def __call__(self) -> tuple[int, int]:
        return self.waited, self.load * ONE


def grown(clock: StretchedClock, kernel: Kernel, windows: int, waits: int) -> list[int]:
    """Let windows pass from 1 s on, in each of which the thread waits for `waits`; the windows in
    which the stretch grew."""
    clock.update(SECOND)
    found = []
    for i in range(1, windows + 1):
        before = clock.stretch
        kernel.waited += waits
        clock.update(SECOND + i * WINDOW_NS)
        if clock.stretch > before:
            found.append(i)
    return found


def test_without_statistics_the_clock_is_that_of_the_machine() -> None:
    clock = machine_clock()
    for now in (0, 5, 10**9, 10**18):
        clock.update(now)
        assert clock.core(now) == now
        assert clock.real(now) == now


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        (RUNNABLE_PER_CORE - 1, WINDOW_NS * 9 // 10),  # busy among a few others
        (RUNNABLE_PER_CORE * 9, WINDOW_NS // 4),  # many others, and this one gets its share
    ],
)
def test_waiting_or_load_alone_does_not_stretch_the_clock(load: int, waits: int) -> None:
    kernel = Kernel(load)
    clock = StretchedClock(kernel)
    assert grown(clock, kernel, 50, waits) == []
    assert clock.stretch == ONE
    assert clock.core(77 * SECOND) == 77 * SECOND


def test_waiting_under_load_stretches_the_clock_within_a_second_and_without_a_jump() -> None:
    kernel = Kernel(15)
    clock = StretchedClock(kernel)
    windows = grown(clock, kernel, 8, WINDOW_NS // 2)
    assert len(windows) == 1
    assert windows[0] <= 4, "within a second"
    assert clock.stretch == STRETCH * ONE
    assert clock.factor == STRETCH
    now = SECOND + 8 * WINDOW_NS
    core_now = clock.core(now)
    assert SECOND < core_now < now
    assert clock.core(now + 160) == core_now + 160 // STRETCH


def test_a_load_of_a_moment_does_not_stretch_the_clock() -> None:
    kernel = Kernel(2)
    clock = StretchedClock(kernel)
    grown(clock, kernel, 8, WINDOW_NS // 2)
    kernel.load = 15
    kernel.waited += WINDOW_NS // 2
    clock.update(SECOND + 9 * WINDOW_NS)
    assert clock.stretch == ONE


def test_a_clock_that_begins_stretched_returns_to_normal() -> None:
    kernel = Kernel(1)
    clock = StretchedClock(kernel, starved=True)
    assert clock.stretch == STRETCH * ONE
    assert grown(clock, kernel, 8, 0) == []  # two seconds
    assert STRETCH * ONE > clock.stretch > STRETCH * ONE * 3 // 4
    for i in range(9, 2400):  # ten minutes
        clock.update(SECOND + i * WINDOW_NS)
    assert clock.stretch == ONE


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 30)), min_size=1, max_size=30))
def test_the_clock_never_goes_back_and_a_deadline_is_kept_to(
    windows: list[tuple[int, int]],
) -> None:
    kernel = Kernel(0)
    now = SECOND
    clock = StretchedClock(kernel)
    clock.update(now)
    core_now = clock.core(now)
    for took, load in windows:
        kernel.waited += took
        kernel.load = load
        now += took
        clock.update(now)
        assert clock.core(now) >= core_now
        core_now = clock.core(now)
        for due in (core_now - 1000, core_now, core_now + 1, core_now + 12_345_678):
            at = clock.real(due)
            assert clock.core(at) >= due, "a timer that is due must fire"
            assert at <= now or clock.core(at - 1) < due, "and not before"


def test_the_log_has_one_line_when_the_stretch_begins_and_one_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = ProcessClock()
    clock = process.clock(9)
    assert process.clock(9) is clock, "one clock for all groups of the process"
    kernel = Kernel(15)
    monkeypatch.setattr(clock, "_read_stats", kernel)
    with caplog.at_level(logging.WARNING, "phalanx"):
        for i in range(2400):
            starved = 4 <= i < 40 or 44 <= i < 80
            kernel.load = 15 if starved else 1
            kernel.waited += WINDOW_NS // 2 if starved else 0
            process.update(SECOND + i * WINDOW_NS)
    process.close()
    assert [record.getMessage() for record in caplog.records] == [
        (
            "this process waits long for a core: stretch_clock makes all its time-outs 16.0 times "
            "longer; run fewer processes, or use more cores"
        ),
        "this process gets a core in time again: its time-outs are as configured",
    ]


def test_the_kernel_reports_on_this_thread() -> None:
    stats = SchedulerStats(9)
    found = stats()
    assert (found is None) == (not Path("/proc/thread-self/schedstat").exists())
    if found is not None:
        assert found[0] >= 0
        assert found[1] == 0 or found[1] * (os.cpu_count() or 1) >= ONE // 2, "this one is runnable"
    stats.close()
    assert stats() is None
    assert not stats.is_starved
    stats.close()


def test_members_on_this_machine_are_counted_by_their_port() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        before = members_here(port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.2", port))
            assert members_here(port) == before + 1
        assert before == (1 if Path("/proc/net/udp").exists() else 0)


def test_members_of_a_mesh_are_counted_once_and_not_for_each_channel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        found = 1 if Path("/proc/net/tcp").exists() else 0
        assert members_here(port) == found
        with socket.create_connection(("127.0.0.1", port)):
            assert members_here(port) == found
        with socket.create_server(("127.0.0.2", port)):
            assert members_here(port) == 2 * found
