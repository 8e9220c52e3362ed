"""One engine a process: begun with the first group, ended with the last, and never left behind.

When the process ends by itself, or by a SIGTERM for which the application has no handler of its
own, its groups are left first, so that the others need not wait for a time-out. After a fork the
child has no engine: the thread stayed with the parent, and so did its groups.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType

from phalanx.runtime.event_loop import EventLoop
from phalanx.runtime.member_runner import MemberRunner

GOODBYE_SECONDS = 3.0
"""How long the end of the process waits for its groups to be left."""


class ProcessLifecycle:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: EventLoop | None = None
        self._prepared = False

    def run(self, node: MemberRunner) -> EventLoop:
        """Have the engine drive the node; it is started if there is none."""
        with self._lock:
            self._prepare()
            if self._engine is None:
                self._engine = EventLoop(node, self._retires)
            else:
                self._engine.take(node)
            return self._engine

    def _retires(self, engine: EventLoop) -> bool:
        """The last group is gone: the thread ends, unless somebody has just come."""
        with self._lock:
            if engine.has_orders:
                return False
            if self._engine is engine:
                self._engine = None
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
        engine = self._engine
        if engine is not None:
            engine.leave_all(GOODBYE_SECONDS)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._leave_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _forget(self) -> None:
        self._lock = threading.Lock()  # a thread of the parent may have held it
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.forget()


PROCESS = ProcessLifecycle()
