"""What processes cost, read from the system."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from phalanx.benchmark.usage import Usage, cost, usage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def test_a_busy_process_takes_a_share_of_a_core_and_a_sleeping_one_none() -> None:
    busy = subprocess.Popen([sys.executable, "-ISc", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-ISc", "import time; time.sleep(1000)"])
    try:
        time.sleep(0.2)
        before = usage([busy.pid]), usage([idle.pid]), usage([busy.pid, idle.pid])
        time.sleep(0.5)
        after = usage([busy.pid]), usage([idle.pid]), usage([busy.pid, idle.pid])
    finally:
        for process in (busy, idle):
            process.kill()
            process.wait()
    alone, asleep, both = map(cost, before, after)
    assert 0.05 < alone.cpu_share < 1.2
    assert asleep.cpu_share < 0.05
    assert both.cpu_share == pytest.approx(alone.cpu_share, abs=0.1)
    assert asleep.rss_bytes > 1_000_000
    assert both.rss_bytes > asleep.rss_bytes


def test_a_process_that_is_gone_costs_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert usage([gone.pid])[1:] == (0.0, 0, 0, 0)


def test_costs_are_differences_by_time() -> None:
    before = Usage(10**9, 1.0, 5, 1000, 2000)
    after = Usage(3 * 10**9, 2.0, 7, 1500, 4000)
    assert cost(before, after) == (0.5, 7, 250.0, 1000.0)


def test_our_own_process_can_be_looked_at() -> None:
    assert usage([os.getpid()]).cpu_seconds > 0
