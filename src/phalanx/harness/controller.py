"""Controls member processes (`member_process.py`): start them, give commands, wait, stop them.

Every wait has a limit. The events that a process reports are kept in order, so that a caller can
wait for the first event of a kind after another.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any

from phalanx.errors import PhalanxError, TimedOut
from phalanx.harness.line_process import LineProcess, ProcessEnded

READ_SECONDS = 5.0
"""How long the last lines of a process that has ended may take."""

Reported = dict[str, Any]
"""An event of a member process: its kind as `event`, its time as `t_ns`, and more by kind."""


class ProcessFailed(PhalanxError):
    """A member process ended or refused to start."""


class MemberProcess:
    """One member in a process of its own."""

    def __init__(
        self,
        part: dict[str, Any],
        prefix: Sequence[str] = (),
        errors: IO[str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "phalanx.harness.member_process"),
    ) -> None:
        self.name: str = part["name"]
        self.part = part
        self.events: list[Reported] = []
        self.address = ""
        self._changed = threading.Condition()
        command = [*prefix, *program, json.dumps(part)]
        self._lines = LineProcess(partial(subprocess.Popen, command), self._received, errors)
        self.process = self._lines.process

    def _received(self, message: Reported | None) -> None:
        if message is None:
            message = {"event": "ended", "t_ns": time.monotonic_ns()}
        if "event" in message:
            with self._changed:
                self.events.append(message)
                self._changed.notify_all()

    # -------------------------------------------------------------- commands and waiting

    def do(self, command: str, **arguments: Any) -> None:
        """Give a command, without waiting."""
        try:
            self._lines.write(json.dumps({"command": command, **arguments}))
        except ProcessEnded:
            raise ProcessFailed(f"{self.name} has ended") from None

    def wait(
        self,
        fits: Callable[[Reported], bool],
        seconds: float = 15.0,
        since: int = 0,
        why: str = "",
    ) -> Reported:
        """The first event that fits, from the `since`-th on. Raises ProcessFailed if the process
        ends first, and TimedOut."""
        until = time.monotonic() + seconds
        at = since
        with self._changed:
            while True:
                while at < len(self.events):
                    event = self.events[at]
                    if fits(event):
                        return event
                    if event["event"] in ("ended", "refused", "stopped"):
                        raise ProcessFailed(f"{self.name}: {event.get('error', 'ended')}")
                    at += 1
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimedOut(f"{self.name}: {why or 'an event'}", seconds)

    def joined(self, seconds: float = 30.0) -> None:
        event = self.wait(lambda e: e["event"] == "joined", seconds, why="joined")
        self.address = event["address"]

    def in_view(
        self, names: Sequence[str], seconds: float = 15.0, since: int | None = None
    ) -> Reported:
        """Wait until it is in a view of exactly these members, or was in one from the `since`-th
        event on. Returns the event."""
        wanted = sorted(names)
        return self.wait(
            lambda e: e["event"] == "view" and e["members"] == wanted,
            seconds,
            self._last_view() if since is None else since,
            f"a view of {', '.join(wanted)}",
        )

    def _last_view(self) -> int:
        views = [at for at, event in enumerate(self.events) if event["event"] == "view"]
        return views[-1] if views else 0

    @property
    def views(self) -> list[list[str]]:
        """The members of every view that it reported."""
        return [event["members"] for event in self.events if event["event"] == "view"]

    def report(self, seconds: float = 15.0) -> Reported:
        at = len(self.events)
        self.do("report")
        return self.wait(lambda e: e["event"] == "report", seconds, at, "a report")

    def run(self, command: str, seconds: float = 15.0, **arguments: Any) -> None:
        """Give a command and wait until it is done."""
        at = len(self.events)
        self.do(command, **arguments)
        self.wait(lambda e: e["event"] == "done", seconds, at, f"{command} done")

    # -------------------------------------------------------------- stopping

    def kill(self) -> int:
        """kill -9; returns the time of it, on the clock of the events."""
        now = time.monotonic_ns()
        self._lines.kill()
        self._lines.release(READ_SECONDS)
        return now

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        # With a prefix (`ip netns exec`, which execs) the process is still the member itself.
        with suppress(ProcessLookupError):
            os.kill(self._lines.pid, number)

    def leave(self, seconds: float = 15.0) -> Reported:
        at = len(self.events)
        self.do("leave")
        event = self.wait(lambda e: e["event"] == "left", seconds, at, "left")
        self.process.wait(seconds)
        self.close()
        return event

    def close(self) -> None:
        """Stop the process in whatever state it is, and release everything."""
        if self.process.poll() is None:
            self._lines.kill()
        self._lines.release(READ_SECONDS)


def partition(sides: Sequence[Sequence[MemberProcess]]) -> None:
    """Cut the sides apart: members hear only those of their own side."""
    for side in sides:
        others = [m.address for other in sides if other is not side for m in other]
        for member in side:
            member.run("cut", addresses=others)


def all_in_view(members: Sequence[MemberProcess], seconds: float = 15.0) -> None:
    """Wait until each of these members is in a view of exactly all of them."""
    names = [member.name for member in members]
    for member in members:
        member.in_view(names, seconds)
