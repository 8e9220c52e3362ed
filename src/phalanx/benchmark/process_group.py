"""The processes of one trial, one for each member, and the messages that they write.

All benchmarked systems use the same protocol, one JSON object per line: `{"view": [names], "at":
nanoseconds}` for each view, and `{"result": {...}}` once. A process reads one line, `FROM UNTIL`,
and leaves at the end of its input. All times are CLOCK_MONOTONIC, which the processes of one host
share, so that times of different processes can be compared.
"""

from __future__ import annotations

import queue
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic, monotonic_ns, sleep
from types import TracebackType
from typing import Any, NamedTuple, Self

from phalanx.benchmark.usage import Cost, Usage, busy_seconds, cost, usage
from phalanx.errors import PhalanxError
from phalanx.harness.line_process import LineProcess, ProcessEnded

BEGIN_SECONDS = 30.0
LEAVE_SECONDS = 15.0
RESULT_SECONDS = 20.0

Start = Callable[..., "subprocess.Popen[str]"]
"""`start(i, stdin=..., stdout=..., stderr=..., text=True)` starts the process of member i."""


class TrialFailed(PhalanxError):
    """A trial that could not be measured. Names the member and its last line of standard error."""


class ReportedView(NamedTuple):
    """The view that a member is in, and since when."""

    at: int
    names: frozenset[str]


class MeasuredWindow(NamedTuple):
    """The resources that each member had used at the begin and at the end of the measurement, and
    the processor time of the whole machine in between."""

    before: list[Usage]
    after: list[Usage]
    busy_seconds: float

    def costs(self) -> list[Cost]:
        return list(map(cost, self.before, self.after))

    def others(self) -> float:
        """Cores that were busy with other work, including the kernel's own."""
        seconds = (self.after[0].at_ns - self.before[0].at_ns) / 1e9
        return max(0.0, self.busy_seconds / seconds - sum(c.cpu_share for c in self.costs()))


class _Member:
    """One process and what it has reported."""

    def __init__(self, start: Callable[..., subprocess.Popen[str]], messages: MessageQueue) -> None:
        self.view = ReportedView(0, frozenset())
        self.result: dict[str, Any] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the group
        self.lines = LineProcess(start, lambda message: messages.put((self, message)), self.errors)

    def close(self) -> None:
        """Release everything, once the process has ended."""
        self.lines.release(LEAVE_SECONDS)
        self.errors.close()

    def last_error(self) -> str:
        """The last line of its standard error."""
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


MessageQueue = queue.SimpleQueue[tuple[_Member, dict[str, Any] | None]]


class ProcessGroup:
    """`n` members, named m0, m1, ...; they stop at the end of the `with` block."""

    def __init__(self, n: int, start: Start) -> None:
        self.n = n
        self.views_seen = 0
        self.complaints: list[str] = []
        """One line for each member that did not leave."""
        self._start = start
        self._messages: MessageQueue = queue.SimpleQueue()
        self._members: dict[int, _Member] = {}
        self._ended: list[_Member] = []

    def __enter__(self) -> Self:
        try:
            for i in range(self.n):
                self.start(i)
            self.wait_for_view(range(self.n), 0, BEGIN_SECONDS)
        except BaseException:
            self.close(gently=False)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close(gently=kind is None)

    # ------------------------------------------------------------------ processes

    def start(self, i: int) -> None:
        """Start a member that does not run."""
        assert i not in self._members
        self._members[i] = _Member(partial(self._start, i), self._messages)

    def kill(self, i: int) -> int:
        """Kill a member, and remove it from the group. Returns the time just before."""
        member = self._members.pop(i)
        self._ended.append(member)
        at = monotonic_ns()
        member.lines.kill()
        return at

    def pids(self, i: int) -> list[int]:
        """The processes that make up a member."""
        return [self._members[i].lines.pid]

    def usages(self) -> list[Usage]:
        """The resources that each member has used so far."""
        return [usage(self.pids(i)) for i in sorted(self._members)]

    def close(self, gently: bool = True) -> None:
        """Stop all members. With `gently` they may leave first, for LEAVE_SECONDS."""
        leaving = {f"m{i}": member for i, member in self._members.items()} if gently else {}
        members = [*self._members.values(), *self._ended]
        self._members.clear()
        self._ended.clear()
        for member in members:
            if not gently:
                member.lines.process.kill()
            member.lines.end_input()
        until = monotonic() + LEAVE_SECONDS
        codes = {id(member): member.lines.stop(until) for member in members}
        for name, member in leaving.items():
            if code := codes[id(member)]:
                why = member.last_error() or f"exit {code}"
                self.complaints.append(f"{name} did not leave: {why}")
        for member in members:
            member.close()

    # ------------------------------------------------------------------ messages

    def write(self, line: str) -> None:
        """Send the same line to all members."""
        for i, member in self._members.items():
            try:
                member.lines.write(line)
            except ProcessEnded:
                raise self._failed(i, "ended before the measurement") from None

    def window(self, warm: float, seconds: float) -> MeasuredWindow:
        """Have all members measure the same period, and wait until it is over."""
        begin = monotonic_ns() + int(warm * 1e9)
        end = begin + int(seconds * 1e9)
        self.write(f"{begin} {end}")
        _sleep_until(begin)
        busy, before = busy_seconds(), self.usages()
        _sleep_until(end)
        return MeasuredWindow(before, self.usages(), busy_seconds() - busy)

    def results(self) -> list[dict[str, Any]]:
        """The results of all members."""
        self._until(
            lambda: all(member.result is not None for member in self._members.values()),
            RESULT_SECONDS,
            "result",
        )
        return [self._members[i].result or {} for i in sorted(self._members)]

    def wait_for_view(self, members: Iterable[int], since: int, within: float) -> int:
        """Wait until each of these members is in a view of exactly these, installed after `since`.
        Returns when the last of them installed it."""
        waited = list(members)
        names = frozenset(f"m{i}" for i in waited)

        def is_installed() -> bool:
            views = [self._members[i].view for i in waited]
            return all(view.names == names and view.at >= since for view in views)

        self._until(is_installed, within, f"view of {', '.join(sorted(names))}")
        return max(self._members[i].view.at for i in waited)

    def _until(self, done: Callable[[], bool], within: float, what: str) -> None:
        until = monotonic() + within
        while not done():
            try:
                member, message = self._messages.get(timeout=max(0.0, until - monotonic()))
            except queue.Empty:
                raise self._failed(None, f"no {what} within {within:.0f} s") from None
            self._handle(member, message)

    def _handle(self, member: _Member, message: dict[str, Any] | None) -> None:
        place = next((i for i, m in self._members.items() if m is member), None)
        if place is None:  # it was killed
            return
        match message:
            case None:
                raise self._failed(place, "ended early")
            case {"view": list(names), "at": int(at)}:
                member.view = ReportedView(at, frozenset(names))
                self.views_seen += 1
            case {"result": dict(result)}:
                member.result = result
            case _:
                raise self._failed(place, f"wrote {message}")

    def _failed(self, i: int | None, what: str) -> TrialFailed:
        """The failure, with the last line of standard error of a member concerned."""
        places = self._members if i is None else [i]
        last = [f"m{k}: {text}" for k in places if (text := self._members[k].last_error())]
        who = "trial" if i is None else f"member m{i}"
        return TrialFailed(f"{who}: {what}" + "".join(f"; {text}" for text in last[:1]))


def _sleep_until(at: int) -> None:
    sleep(max(0, at - monotonic_ns()) / 1e9)
