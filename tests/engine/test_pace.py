"""The core's clock: as fast as the machine's, and slower where turns are late."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from phalanx.engine.pace import LATE_NS, ONE, STRETCH, WINDOW_NS, Pace, Turns, steady

MS = 1_000_000


class Kernel:
    """Says how long the thread waited, and for how many turns."""

    def __init__(self) -> None:
        self.waited = 0
        self.turns = 0

    def __call__(self) -> tuple[int, int]:
        return self.waited, self.turns

    def add(self, waited_ns: int, turns: int) -> None:
        self.waited += waited_ns
        self.turns += turns


def begun(kernel: Kernel, now: int) -> Pace:
    pace = Pace(kernel)
    pace.look(now)
    return pace


def test_without_word_from_the_kernel_the_clock_is_that_of_the_machine() -> None:
    pace = steady()
    for now in (0, 5, 10**9, 10**18):
        assert not pace.look(now)
        assert pace.core(now) == now
        assert pace.real(now) == now


def test_turns_that_come_in_time_change_nothing() -> None:
    kernel = Kernel()
    pace = begun(kernel, 10**9)
    for i in range(1, 50):
        kernel.add(WINDOW_NS // 2, WINDOW_NS // LATE_NS)  # busy, and late by half of it each time
        assert not pace.look(10**9 + i * WINDOW_NS)
    assert pace.stretch == ONE
    assert pace.core(77 * 10**9) == 77 * 10**9


def test_one_late_turn_is_chance() -> None:
    kernel = Kernel()
    pace = begun(kernel, 10**9)
    kernel.add(WINDOW_NS // 4, 1)
    assert not pace.look(10**9 + WINDOW_NS)
    assert pace.stretch == ONE


def test_late_turns_slow_the_clock_at_once() -> None:
    kernel = Kernel()
    pace = begun(kernel, 10**9)
    kernel.add(200 * MS, 10)  # 20 ms each
    now = 10**9 + WINDOW_NS
    assert pace.look(now)
    assert pace.stretch == STRETCH * ONE
    assert pace.core(now) == now, "no leap"
    assert pace.core(now + 160 * MS) == now + 160 * MS // STRETCH


def test_a_clock_may_begin_slow_and_gets_faster() -> None:
    kernel = Kernel()
    pace = Pace(kernel, slow=True)
    assert pace.stretch == STRETCH * ONE
    pace.look(10**9)
    assert not pace.look(10**9 + WINDOW_NS)
    assert ONE < pace.stretch < STRETCH * ONE


def test_a_stretch_eases_slowly_and_ends() -> None:
    kernel = Kernel()
    pace = begun(kernel, 10**9)
    kernel.add(WINDOW_NS, 10)
    now = 10**9 + WINDOW_NS
    pace.look(now)
    worst = pace.stretch
    for _ in range(8):  # two seconds
        now += WINDOW_NS
        assert not pace.look(now)
    assert worst > pace.stretch > worst * 3 // 4
    for _ in range(2400):  # ten minutes
        now += WINDOW_NS
        pace.look(now)
    assert pace.stretch == ONE


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 300)), min_size=1, max_size=30))
def test_the_clock_never_goes_back_and_a_deadline_is_kept_to(
    windows: list[tuple[int, int]],
) -> None:
    kernel = Kernel()
    now = 10**9
    pace = begun(kernel, now)
    told = pace.core(now)
    for took, turns in windows:
        kernel.add(took, turns)
        now += took
        pace.look(now)
        assert pace.core(now) >= told
        told = pace.core(now)
        for due in (told - 1000, told, told + 1, told + 12_345_678):
            at = pace.real(due)
            assert pace.core(at) >= due, "a timer that is due must fire"
            assert at <= now or pace.core(at - 1) < due, "and not before"


def test_the_kernel_counts_the_turns_of_this_thread() -> None:
    turns = Turns()
    before = turns()
    until = time.monotonic() + 10
    after = before
    while after is not None and before is not None and after[1] <= before[1]:
        assert time.monotonic() < until
        time.sleep(0.001)  # each is a turn
        after = turns()
    assert before is None or (after is not None and after[0] >= before[0])
    assert (before is None) == (not Path("/proc/thread-self/schedstat").exists())
    turns.close()
    assert turns() is None
    turns.close()
