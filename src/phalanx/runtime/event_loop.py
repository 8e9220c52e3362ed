"""The engine: one thread that drives every group of this process.

A thread of its own keeps a member alive while the application computes or its event loop is
blocked: Python code of another thread gives the interpreter up every few milliseconds. It
takes what waits at the sockets before it fires a timer, because a packet that is already here
may be the very sign of life that the timer misses.

The thread begins with the first group of the process and ends with the last (`process.py`).
"""

from __future__ import annotations

import contextlib
import select
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from phalanx.errors import EngineFailed
from phalanx.runtime.event_log import Limiter, log
from phalanx.runtime.member_runner import MemberRunner
from phalanx.runtime.starvation_clock import ONE, SchedulerStats, StretchedClock

FD_LIMIT = 1024
"""`select` takes descriptors below this."""
SLEEP_MAX_NS = 1_000_000_000
LATE = 4
"""The thread is late if it runs this part of `fail_ns` after its time."""


class Waker:
    """Wakes a thread that waits in `select`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it rings already; closed: nobody waits
            self._writer.send(b"!")

    def silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class EventLoop:
    """Drives nodes until the last is gone."""

    def __init__(self, node: MemberRunner, retires: Callable[[EventLoop], bool]) -> None:
        self._nodes: list[MemberRunner] = []
        self._orders: deque[Callable[[int], None]] = deque()
        self._bell = Waker()
        self._asleep = False
        self._ended = False
        self._ready: list[int] = []
        """Where something waited when the thread woke up."""
        self._retires = retires
        self._turns: SchedulerStats | None = None
        self._port = node.config.port
        mine = SchedulerStats(self._port)  # of the thread that joins
        self._pace = StretchedClock(
            lambda: None if self._turns is None else self._turns(), mine.are_late
        )
        mine.close()
        self._warned = False
        self._limiter = Limiter()
        self._latest_ns = 0
        """By how much the thread was late at most, of what has not been logged."""
        self.take(node)
        self._thread = threading.Thread(target=self._run, name="phalanx", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- from any thread

    def order(self, call: Callable[[int], None]) -> None:
        """Have the engine's thread make this call, with its clock. When that has ended, nothing
        is left that it could disturb, and the call is made here."""
        self._orders.append(call)
        self.wake()
        if self._ended:
            self._obey()

    def _obey(self) -> None:
        while True:
            try:
                call = self._orders.popleft()
            except IndexError:
                return
            try:
                call(time.monotonic_ns())
            except Exception:  # of ours; the groups go on
                log.exception("an order to the engine failed")

    def wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._bell.ring()

    def take(self, node: MemberRunner) -> None:
        """Drive this one too. Only `Process` calls it: no node may meet an engine that ends."""
        node.wake = self.wake
        node.pace = self._pace
        self.order(lambda now: self._begin(now, node))

    @property
    def has_orders(self) -> bool:
        return bool(self._orders)

    def leave_all(self, seconds: float) -> None:
        """Leave every group, and wait for the end of the thread, but not for ever."""
        until = time.monotonic() + seconds
        nodes = list(self._nodes)
        self.order(self._leave)
        self._thread.join(seconds)
        for node in nodes:
            node.wait_for_disk(max(0.0, until - time.monotonic()))

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        self._turns = SchedulerStats(self._port)
        due = time.monotonic_ns()
        try:
            while self._nodes or not self._retires(self):
                now = time.monotonic_ns()
                self._look_at_clock(now, due)
                if self._pace.look(now):
                    self._warn()
                busy = self._turn(now)
                wait = 0 if busy else self._until(now)
                due = now + wait
                if self._nodes:
                    self._sleep(wait)
        finally:
            now = time.monotonic_ns()
            for node in self._nodes:
                node.end(now, EngineFailed(node.group, "the engine's thread ended"))
            self._bell.close()
            self._turns.close()
            self._ended = True
            self._obey()

    def _warn(self) -> None:
        """Once: whoever runs this will want to know why failures are noticed late."""
        if not self._warned and self._pace.stretch >= 2 * ONE:
            self._warned = True
            log.warning(
                "this process waits long for its turn on a core: until that is better all "
                "time-outs are longer, %d times now; run fewer processes, or on more cores",
                self._pace.stretch // ONE,
            )

    def _look_at_clock(self, now: int, due: int) -> None:
        """Log that the thread runs late: it had no core, or the process was suspended or kept the
        interpreter lock. Others take this member for dead if that lasts."""
        if not self._nodes or now - due <= SLEEP_MAX_NS // 100:
            return
        fail_ns = min(node.config.fail_ns for node in self._nodes)
        if (now - due) * LATE * ONE <= fail_ns * self._pace.stretch:
            return
        self._latest_ns = max(self._latest_ns, now - due)
        times = self._limiter.count(now, "late")
        if times:
            log.warning(
                "this process ran late, by %d ms at most (times since the last such line: %d); "
                "others suspect its members after %d ms",
                self._latest_ns // 1_000_000,
                times,
                fail_ns // 1_000_000,
            )
            self._latest_ns = 0

    def _begin(self, now: int, node: MemberRunner) -> None:
        self._nodes.append(node)
        node.start(now)

    def _leave(self, now: int) -> None:
        for node in self._nodes:
            node.leave(now)

    def _turn(self, now: int) -> bool:
        """Do everything there is to do; whether there may be more at once."""
        self._obey()
        busy = False
        gone = False
        for node in self._nodes:
            busy = node.turn(now, node.link.fileno() in self._ready) or busy
            gone = gone or node.stopped
        if gone:
            self._nodes = [node for node in self._nodes if not node.stopped]
        return busy

    def _until(self, now: int) -> int:
        """Nanoseconds until something is due."""
        due = now + SLEEP_MAX_NS
        for node in self._nodes:
            due = min(due, node.deadline())
        return max(0, due - time.monotonic_ns())

    def _sleep(self, wait_ns: int) -> None:
        fds = [self._bell.fileno(), *(node.link.fileno() for node in self._nodes)]
        self._asleep = True
        # What was ordered before this flag was set rang no bell.
        if self._orders or any(node.has_news for node in self._nodes):
            wait_ns = 0
        seconds = wait_ns / 1e9
        try:
            if max(fds) < FD_LIMIT:
                self._ready = select.select(fds, (), (), seconds)[0]
            else:
                self._ready = _poll(fds, seconds)
        finally:
            self._asleep = False
        if fds[0] in self._ready:
            self._bell.silence()

    def forget(self) -> None:
        """In the child of a fork: there is no thread here, and what it held is the parent's."""
        for node in self._nodes:
            node.forget()
        self._bell.close()
        if self._turns is not None:
            self._turns.close()


def _poll(fds: list[int], seconds: float) -> list[int]:
    """As `select`, for high descriptors; its times are whole milliseconds."""
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        return [key.fd for key, _ in selector.select(seconds)]
