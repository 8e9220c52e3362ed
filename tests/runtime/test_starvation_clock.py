"""The core's clock: as fast as the machine's, and slower where turns are late."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.starvation_clock import (
    CROWD,
    ONE,
    STRETCH,
    WINDOW_NS,
    SchedulerStats,
    StretchedClock,
    members_here,
    steady,
)

SECOND = 1_000_000_000


class Kernel:
    """Says how long the thread waited, and how many want to run for each core."""

    def __init__(self, crowd: int) -> None:
        self.waited = 0
        self.crowd = crowd

    def __call__(self) -> tuple[int, int]:
        return self.waited, self.crowd * ONE


def after(pace: StretchedClock, kernel: Kernel, windows: int, waits: int) -> list[bool]:
    """Windows of which the thread waits for a part, from 1 s on; when the stretch grew."""
    pace.look(SECOND)
    grew = []
    for i in range(1, windows + 1):
        kernel.waited += waits
        grew.append(pace.look(SECOND + i * WINDOW_NS))
    return grew


def test_without_word_from_the_kernel_the_clock_is_that_of_the_machine() -> None:
    pace = steady()
    for now in (0, 5, 10**9, 10**18):
        assert not pace.look(now)
        assert pace.core(now) == now
        assert pace.real(now) == now


@pytest.mark.parametrize(
    ("crowd", "waits"),
    [
        (CROWD - 1, WINDOW_NS * 9 // 10),  # busy among a few others
        (CROWD * 9, WINDOW_NS // 4),  # others are many, and this one gets its turns
    ],
)
def test_what_is_no_trouble_changes_nothing(crowd: int, waits: int) -> None:
    kernel = Kernel(crowd)
    pace = StretchedClock(kernel)
    assert not any(after(pace, kernel, 50, waits))
    assert pace.stretch == ONE
    assert pace.core(77 * SECOND) == 77 * SECOND


def test_waiting_in_a_crowd_slows_the_clock_soon_and_without_a_leap() -> None:
    kernel = Kernel(15)
    pace = StretchedClock(kernel)
    grew = after(pace, kernel, 8, WINDOW_NS // 2)
    assert grew.count(True) == 1
    assert grew.index(True) < 4, "within a second"
    assert pace.stretch == STRETCH * ONE
    now = SECOND + 8 * WINDOW_NS
    told = pace.core(now)
    assert SECOND < told < now
    assert pace.core(now + 160) == told + 160 // STRETCH


def test_a_crowd_of_a_moment_is_chance() -> None:
    kernel = Kernel(2)
    pace = StretchedClock(kernel)
    after(pace, kernel, 8, WINDOW_NS // 2)
    kernel.crowd = 15
    kernel.waited += WINDOW_NS // 2
    assert not pace.look(SECOND + 9 * WINDOW_NS)


def test_a_clock_may_begin_slow_and_gets_faster() -> None:
    kernel = Kernel(1)
    pace = StretchedClock(kernel, slow=True)
    assert pace.stretch == STRETCH * ONE
    pace.look(SECOND)
    for i in range(1, 9):  # two seconds
        assert not pace.look(SECOND + i * WINDOW_NS)
    assert STRETCH * ONE > pace.stretch > STRETCH * ONE * 3 // 4
    for i in range(9, 2400):  # ten minutes
        pace.look(SECOND + i * WINDOW_NS)
    assert pace.stretch == ONE


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 30)), min_size=1, max_size=30))
def test_the_clock_never_goes_back_and_a_deadline_is_kept_to(
    windows: list[tuple[int, int]],
) -> None:
    kernel = Kernel(0)
    now = SECOND
    pace = StretchedClock(kernel)
    pace.look(now)
    told = pace.core(now)
    for took, crowd in windows:
        kernel.waited += took
        kernel.crowd = crowd
        now += took
        pace.look(now)
        assert pace.core(now) >= told
        told = pace.core(now)
        for due in (told - 1000, told, told + 1, told + 12_345_678):
            at = pace.real(due)
            assert pace.core(at) >= due, "a timer that is due must fire"
            assert at <= now or pace.core(at - 1) < due, "and not before"


def test_the_kernel_tells_of_this_thread() -> None:
    turns = SchedulerStats(9)
    told = turns()
    assert (told is None) == (not Path("/proc/thread-self/schedstat").exists())
    if told is not None:
        assert told[0] >= 0
        assert told[1] == 0 or told[1] * (os.cpu_count() or 1) >= ONE // 2, "this one wants to run"
    turns.close()
    assert turns() is None
    assert not turns.are_late
    turns.close()


def test_members_on_this_machine_are_counted_by_their_port() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        before = members_here(port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.2", port))
            assert members_here(port) == before + 1
        assert before == (1 if Path("/proc/net/udp").exists() else 0)
