"""The event loop: one thread that drives every group of this process.

A thread of its own keeps a member alive while the application computes or blocks its own event
loop: Python code of another thread releases the interpreter every few milliseconds. The loop reads
the packets that wait at the sockets before it fires a timer, because one of them may be the sign of
life whose absence the timer would report.

The thread starts with the first group of the process and ends with the last (`lifecycle.py`).
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
from phalanx.runtime.starvation_clock import ONE, ProcessClock

FD_LIMIT = 1024
"""`select` takes descriptors below this."""
SLEEP_MAX_NS = 1_000_000_000
LATE = 4
"""The thread is late if it runs this part (a quarter) of `fail_ns` after its time."""


class Waker:
    """Wakes a thread that waits in `select`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake already; closed: nobody waits
            self._writer.send(b"!")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class EventLoop:
    """Drives member runners until the last has stopped."""

    def __init__(self, runner: MemberRunner, may_end: Callable[[EventLoop], bool]) -> None:
        self._runners: list[MemberRunner] = []
        self._calls: deque[Callable[[int], None]] = deque()
        self._waker = Waker()
        self._asleep = False
        self._ended = False
        self._ready: list[int] = []
        """Descriptors that were readable when the thread woke up."""
        self._may_end = may_end
        self._clock = ProcessClock()
        self._limiter = Limiter()
        self._latest_ns = 0
        """The largest delay of the thread that has not been logged yet."""
        self.add(runner)
        self._thread = threading.Thread(target=self._run, name="phalanx", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- from any thread

    def call_soon(self, call: Callable[[int], None]) -> None:
        """Have the loop's thread make this call, with the current time. Once the thread has ended,
        nothing is left that the call could disturb, and it is made here."""
        self._calls.append(call)
        self.wake()
        if self._ended:
            self._run_calls()

    def _run_calls(self) -> None:
        while True:
            try:
                call = self._calls.popleft()
            except IndexError:
                return
            try:
                call(time.monotonic_ns())
            except Exception:  # a bug of ours; the groups go on
                log.exception("a call in the event loop failed")

    def wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._waker.wake()

    def add(self, runner: MemberRunner) -> None:
        """Drive this runner too. Only `ProcessLifecycle` calls this: it makes sure that no runner
        is added to a loop that ends."""
        runner.wake = self.wake
        if runner.config.stretch_clock:
            runner.clock = self._clock.clock(runner.config.port)
        self.call_soon(lambda now: self._start(now, runner))

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def leave_all(self, seconds: float) -> None:
        """Leave every group, and wait for the end of the thread for at most this time."""
        until = time.monotonic() + seconds
        runners = list(self._runners)
        self.call_soon(self._leave)
        self._thread.join(seconds)
        for runner in runners:
            runner.wait_for_disk(max(0.0, until - time.monotonic()))

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        due = time.monotonic_ns()
        try:
            while self._runners or not self._may_end(self):
                now = time.monotonic_ns()
                self._check_lateness(now, due)
                self._clock.update(now)
                busy = self._turn(now)
                wait = 0 if busy else self._until(now)
                due = now + wait
                if self._runners:
                    self._sleep(wait)
        finally:
            now = time.monotonic_ns()
            for runner in self._runners:
                runner.end(now, EngineFailed(runner.group, "the event loop's thread ended"))
            self._waker.close()
            self._clock.close()
            self._ended = True
            self._run_calls()

    def _check_lateness(self, now: int, due: int) -> None:
        """Log that the thread runs late: it had no core, or the process was suspended or kept the
        interpreter lock. Other members suspect this one if that lasts."""
        if not self._runners or now - due <= SLEEP_MAX_NS // 100:
            return
        fail_ns = min(
            runner.config.fail_ns * runner.clock.stretch // ONE for runner in self._runners
        )
        if (now - due) * LATE <= fail_ns:
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

    def _start(self, now: int, runner: MemberRunner) -> None:
        self._runners.append(runner)
        runner.start(now)

    def _leave(self, now: int) -> None:
        for runner in self._runners:
            runner.leave(now)

    def _turn(self, now: int) -> bool:
        """Do all work that is due. Returns whether there may be more work at once."""
        self._run_calls()
        busy = False
        stopped = False
        for runner in self._runners:
            busy = runner.turn(now, runner.transport.fileno() in self._ready) or busy
            stopped = stopped or runner.stopped
        if stopped:
            self._runners = [runner for runner in self._runners if not runner.stopped]
        return busy

    def _until(self, now: int) -> int:
        """Nanoseconds until the next deadline."""
        due = now + SLEEP_MAX_NS
        for runner in self._runners:
            due = min(due, runner.deadline())
        return max(0, due - time.monotonic_ns())

    def _sleep(self, wait_ns: int) -> None:
        fds = [self._waker.fileno(), *(runner.transport.fileno() for runner in self._runners)]
        self._asleep = True
        # Calls and submissions that came before this flag was set did not wake the thread.
        if self._calls or any(runner.has_news for runner in self._runners):
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
            self._waker.clear()

    def forget(self) -> None:
        """Release the descriptors in the child of a fork, which has no such thread. The members
        belong to the parent."""
        for runner in self._runners:
            runner.forget()
        self._waker.close()
        self._clock.close()


def _poll(fds: list[int], seconds: float) -> list[int]:
    """As `select`, for high descriptors; its times are whole milliseconds."""
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        return [key.fd for key, _ in selector.select(seconds)]
