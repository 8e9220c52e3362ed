"""A crew: the processes of one trial, one a member, and what they say.

Whoever is measured speaks the same language, a JSON object a line: `{"view": [names], "at":
nanoseconds}` for each view, and `{"result": {...}}` once. It is told one line, `FROM UNTIL`, and at
the end of its input it leaves. All times are CLOCK_MONOTONIC, which the processes of one host
share, so that what one did and what another saw can be compared.
"""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic, monotonic_ns, sleep
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from phalanx.benchmark.usage import Cost, Usage, busy_seconds, cost, usage
from phalanx.errors import PhalanxError

BEGIN_SECONDS = 30.0
LEAVE_SECONDS = 15.0
RESULT_SECONDS = 20.0

Start = Callable[..., "subprocess.Popen[str]"]
"""`start(i, stdin=..., stdout=..., stderr=..., text=True)` starts the process of a member."""


class TrialFailed(PhalanxError):
    """A trial that could not be measured: names the member and what it said last."""


class Seen(NamedTuple):
    """The view that a member is in, and since when."""

    at: int
    names: frozenset[str]


class MeasuredWindow(NamedTuple):
    """What each member had cost when a stretch of time began and when it ended, and what the whole
    machine spent in between."""

    before: list[Usage]
    after: list[Usage]
    busy_seconds: float

    def costs(self) -> list[Cost]:
        return list(map(cost, self.before, self.after))

    def others(self) -> float:
        """Cores that were busy with something else, the kernel's work for no process included."""
        seconds = (self.after[0].at_ns - self.before[0].at_ns) / 1e9
        return max(0.0, self.busy_seconds / seconds - sum(c.cpu_share for c in self.costs()))


class _Member:
    """One process and its last words."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self.process = process
        self.errors = errors
        self.view = Seen(0, frozenset())
        self.result: dict[str, Any] | None = None
        self.listener = threading.Thread()


class ProcessGroup:
    """`n` members, named m0, m1, ...; they are ended with the block."""

    def __init__(self, n: int, start: Start) -> None:
        self.n = n
        self.views_seen = 0
        self.complaints: list[str] = []
        """Of members that did not leave as they should."""
        self._start = start
        self._said: queue.SimpleQueue[tuple[_Member, dict[str, Any] | None]] = queue.SimpleQueue()
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
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the crew
        pipe = subprocess.PIPE
        process = self._start(i, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        member = self._members[i] = _Member(process, errors)
        member.listener = threading.Thread(target=self._listen, args=(member,), daemon=True)
        member.listener.start()

    def kill(self, i: int) -> int:
        """End a member without warning, and forget it; the time just before."""
        member = self._members.pop(i)
        self._ended.append(member)
        at = monotonic_ns()
        member.process.kill()
        member.process.wait()
        return at

    def pids(self, i: int) -> list[int]:
        """The processes that make up a member."""
        return [self._members[i].process.pid]

    def usages(self) -> list[Usage]:
        """What each member has cost so far."""
        return [usage(self.pids(i)) for i in sorted(self._members)]

    def close(self, gently: bool = True) -> None:
        """End all; gently: let them leave first, for a while."""
        leaving = {f"m{i}": member for i, member in self._members.items()} if gently else {}
        members = [*self._members.values(), *self._ended]
        self._members.clear()
        self._ended.clear()
        for member in members:
            if not gently:
                member.process.kill()
            _close(member.process.stdin)
        give_up = monotonic() + LEAVE_SECONDS
        for member in members:
            try:
                member.process.wait(max(0.0, give_up - monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        for name, member in leaving.items():
            if member.process.returncode:
                why = _last(member.errors) or f"exit {member.process.returncode}"
                self.complaints.append(f"{name} did not leave: {why}")
        for member in members:
            member.listener.join(LEAVE_SECONDS)
            if not member.listener.is_alive():  # nobody inherited the pipe
                _close(member.process.stdout)
            _close(member.errors)

    # ------------------------------------------------------------------ talking

    def tell(self, line: str) -> None:
        """The same line to all."""
        for i, member in self._members.items():
            assert member.process.stdin is not None
            try:
                member.process.stdin.write(f"{line}\n")
                member.process.stdin.flush()
            except BrokenPipeError:
                raise self._failed(i, "ended before it was told what to do") from None

    def window(self, warm: float, seconds: float) -> MeasuredWindow:
        """Have all measure one stretch of time, and wait until it is over."""
        begin = monotonic_ns() + int(warm * 1e9)
        end = begin + int(seconds * 1e9)
        self.tell(f"{begin} {end}")
        _sleep_until(begin)
        busy, before = busy_seconds(), self.usages()
        _sleep_until(end)
        return MeasuredWindow(before, self.usages(), busy_seconds() - busy)

    def results(self) -> list[dict[str, Any]]:
        """What each of them measured."""
        self._until(
            lambda: all(member.result is not None for member in self._members.values()),
            RESULT_SECONDS,
            "result",
        )
        return [self._members[i].result or {} for i in sorted(self._members)]

    def wait_for_view(self, members: Iterable[int], since: int, within: float) -> int:
        """Until each of these is in a view, installed after `since`, of just these; when the last
        of them installed it."""
        waited = list(members)
        names = frozenset(f"m{i}" for i in waited)

        def there() -> bool:
            views = [self._members[i].view for i in waited]
            return all(view.names == names and view.at >= since for view in views)

        self._until(there, within, f"view of {', '.join(sorted(names))}")
        return max(self._members[i].view.at for i in waited)

    def _until(self, done: Callable[[], bool], within: float, what: str) -> None:
        give_up = monotonic() + within
        while not done():
            try:
                member, said = self._said.get(timeout=max(0.0, give_up - monotonic()))
            except queue.Empty:
                raise self._failed(None, f"no {what} within {within:.0f} s") from None
            self._hear(member, said)

    def _hear(self, member: _Member, said: dict[str, Any] | None) -> None:
        place = next((i for i, m in self._members.items() if m is member), None)
        if place is None:  # the last words of one that was killed
            return
        match said:
            case None:
                raise self._failed(place, "ended early")
            case {"view": list(names), "at": int(at)}:
                member.view = Seen(at, frozenset(names))
                self.views_seen += 1
            case {"result": dict(result)}:
                member.result = result
            case _:
                raise self._failed(place, f"said {said}")

    def _listen(self, member: _Member) -> None:
        """All that a process says, until it ends."""
        assert member.process.stdout is not None
        for line in member.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                said = {"line": line.rstrip()}
            self._said.put((member, said if isinstance(said, dict) else {"line": line.rstrip()}))
        self._said.put((member, None))

    def _failed(self, i: int | None, what: str) -> TrialFailed:
        """The failure, with the last line that somebody wrote about it."""
        places = self._members if i is None else [i]
        last = [f"m{k}: {text}" for k in places if (text := _last(self._members[k].errors))]
        who = "trial" if i is None else f"member m{i}"
        return TrialFailed(f"{who}: {what}" + "".join(f"; {text}" for text in last[:1]))


def _last(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line for line in errors.read().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        with suppress(OSError):  # what was still to be written to it
            pipe.close()


def _sleep_until(at: int) -> None:
    sleep(max(0, at - monotonic_ns()) / 1e9)
