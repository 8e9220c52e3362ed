"""The one event loop of a process: started with the first group and ended with the last.

When the process exits, or gets a SIGTERM for which the application has no handler of its own, it
leaves its groups first, so that the other members need not wait for a time-out. The child of a fork
has no event loop: the thread and the groups belong to the parent.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType

from phalanx.runtime.event_loop import EventLoop
from phalanx.runtime.member_runner import MemberRunner

LEAVE_SECONDS = 3.0
"""How long the exit of the process waits until its groups are left."""


class ProcessLifecycle:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: EventLoop | None = None
        self._prepared = False

    def run(self, runner: MemberRunner) -> EventLoop:
        """Have the event loop drive the runner. Starts the loop if there is none."""
        with self._lock:
            self._prepare()
            if self._loop is None:
                self._loop = EventLoop(runner, self._may_end)
            else:
                self._loop.add(runner)
            return self._loop

    def _may_end(self, loop: EventLoop) -> bool:
        """Whether the thread ends after its last group: not if another was just joined."""
        with self._lock:
            if loop.has_calls:
                return False
            if self._loop is loop:
                self._loop = None
            return True

    def _prepare(self) -> None:
        if not self._prepared:
            self._prepared = True
            atexit.register(self._leave_all)
            os.register_at_fork(after_in_child=self._forget)
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._terminated)

    def _leave_all(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.leave_all(LEAVE_SECONDS)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._leave_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _forget(self) -> None:
        self._lock = threading.Lock()  # a thread of the parent may have held it
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.forget()


PROCESS = ProcessLifecycle()
