"""A pool of worker processes: results in order, few tasks in progress, worker deaths detected.

The pool takes tasks from their iterator only as fast as they are done, so there may be any number
of them. A worker that dies (killed, out of memory) ends the work with WorkerDied. Ctrl-C, or a
caller that stops iterating, ends it at once without waiting for tasks in progress.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TypeVar

from phalanx.errors import WorkerDied

AHEAD = 4
"""So many tasks a process are under way or done and not yet asked for: a slow one among them
must not leave the other processes idle."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def in_order(
    work: Callable[[_Task], _Result], tasks: Iterable[_Task], workers: int
) -> Generator[_Result, None, None]:
    """`work` of each task, in the order of the tasks; in this process for one worker.

    Close the generator to stop early: the processes are ended, not waited for.
    """
    if workers == 1:
        for task in tasks:
            yield work(task)
        return
    others = active_children()
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin)
    try:
        yield from _slide(pool, work, iter(tasks), workers * AHEAD)
    except BrokenProcessPool as error:
        raise WorkerDied from error
    except BaseException:
        for child in active_children():
            if child not in others:
                child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _slide(
    pool: ProcessPoolExecutor,
    work: Callable[[_Task], _Result],
    tasks: Iterator[_Task],
    ahead: int,
) -> Generator[_Result, None, None]:
    under_way: deque[Future[_Result]] = deque()
    for task in tasks:
        with _interrupts_held_back():
            under_way.append(pool.submit(work, task))
        if len(under_way) >= ahead:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A process that is started here inherits the mask: Ctrl-C cannot hit it before it is ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Ctrl-C reaches every process of a terminal; the parent alone decides what it means. The
    end of the parent reaches nobody, so it is waited for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
