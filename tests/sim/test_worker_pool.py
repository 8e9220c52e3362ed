"""Work on several processes: in order, lazily, and without waiting for the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from itertools import count
from multiprocessing import active_children
from pathlib import Path

import pytest

from phalanx.errors import WorkerDied
from phalanx.sim.worker_pool import AHEAD, in_order


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    assert list(in_order(abs, range(-20, 0), workers)) == list(range(20, 0, -1))


def test_the_work_of_a_worker_that_dies_ends_with_an_error() -> None:
    with pytest.raises(WorkerDied, match="fewer --jobs"):
        list(in_order(os._exit, [3, 3, 3], 2))
    assert active_children() == []


def test_a_worker_that_is_killed_while_it_works_ends_the_work_with_an_error() -> None:
    results = in_order(time.sleep, [0, 60, 60], 2)
    next(results)
    for child in active_children():
        child.kill()
    with pytest.raises(WorkerDied):
        next(results)
    assert active_children() == []


def test_only_a_few_tasks_are_taken_ahead_of_the_results() -> None:
    taken = count()
    with closing(in_order(abs, taken, 2)) as results:
        assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert next(taken) <= 3 + 2 * AHEAD


def test_whoever_has_seen_enough_does_not_wait_for_what_was_begun() -> None:
    started = time.perf_counter()
    with closing(in_order(time.sleep, [0, 60, 60, 60], 2)) as results:
        next(results)
    assert time.perf_counter() - started < 30
    assert active_children() == []


PARENT = """
import os
from itertools import repeat
from multiprocessing import active_children
from phalanx.sim.worker_pool import in_order

if __name__ == "__main__":
    results = in_order(abs, repeat(1), 2)
    next(results)
    print(*(child.pid for child in active_children()), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    done = subprocess.run(
        [sys.executable, str(program)], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    workers = [int(pid) for pid in done.stdout.split()]
    assert workers
    deadline = time.monotonic() + 30
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers go on without their parent"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # a zombie that nobody has asked for has ended, too
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_workers_do_not_hear_interrupts_from_their_first_moment_on() -> None:
    masked = partial(signal.pthread_sigmask, signal.SIG_BLOCK)
    assert all(signal.SIGINT in mask for mask in in_order(masked, [[], []], 2))
    handlers = list(in_order(signal.getsignal, [signal.SIGINT] * 2, 2))
    assert handlers == [signal.SIG_IGN] * 2
