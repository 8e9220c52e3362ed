"""Puppets from the outside: start them, tell them what to do, and wait, never for ever.

Every wait has an end. What a puppet told is kept in order, so that one can wait for the first
thing after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from phalanx.errors import PhalanxError, TimedOut

Told = dict[str, Any]


class ProcessFailed(PhalanxError):
    """A member process ended or refused to start."""


class MemberProcess:
    """One puppet process."""

    def __init__(
        self,
        part: dict[str, Any],
        prefix: Sequence[str] = (),
        errors: IO[str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "phalanx.harness.member_process"),
    ) -> None:
        self.name: str = part["name"]
        self.part = part
        command = [*prefix, *program, json.dumps(part)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            bufsize=1,
        )
        self.told: list[Told] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = ""

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(json.JSONDecodeError), self._news:
                self.told.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self.told.append({"told": "ended", "t_ns": time.monotonic_ns()})
            self._news.notify_all()

    # -------------------------------------------------------------- telling and waiting

    def do(self, do: str, **order: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ProcessFailed(f"{self.name} has ended") from None

    def wait(
        self, what: Callable[[Told], bool], seconds: float = 15.0, since: int = 0, why: str = ""
    ) -> Told:
        """The first thing told, from the `since`-th on, that is what was waited for."""
        until = time.monotonic() + seconds
        at = since
        with self._news:
            while True:
                while at < len(self.told):
                    told = self.told[at]
                    if what(told):
                        return told
                    if told["told"] in ("ended", "refused", "stopped"):
                        raise ProcessFailed(f"{self.name}: {told.get('error', 'ended')}")
                    at += 1
                left = until - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise TimedOut(f"{self.name}: {why or 'what was waited for'}", seconds)

    def joined(self, seconds: float = 30.0) -> None:
        told = self.wait(lambda t: t["told"] == "joined", seconds, why="joined")
        self.address = told["address"]

    def in_view(
        self, names: Sequence[str], seconds: float = 15.0, since: int | None = None
    ) -> Told:
        """Until it is in a view of exactly these, or was in one from the `since`-th thing told on;
        what it told of it."""
        wanted = sorted(names)
        return self.wait(
            lambda t: t["told"] == "view" and t["members"] == wanted,
            seconds,
            self._last_view() if since is None else since,
            f"a view of {', '.join(wanted)}",
        )

    def _last_view(self) -> int:
        views = [at for at, told in enumerate(self.told) if told["told"] == "view"]
        return views[-1] if views else 0

    @property
    def views(self) -> list[list[str]]:
        """The members of every view that it told of."""
        return [told["members"] for told in self.told if told["told"] == "view"]

    def report(self, seconds: float = 15.0) -> Told:
        at = len(self.told)
        self.do("report")
        return self.wait(lambda t: t["told"] == "report", seconds, at, "a report")

    def obeys(self, do: str, seconds: float = 15.0, **order: Any) -> None:
        at = len(self.told)
        self.do(do, **order)
        self.wait(lambda t: t["told"] == "obeyed", seconds, at, f"{do} done")

    # -------------------------------------------------------------- ending

    def kill(self) -> int:
        """kill -9; when, by the clock that the puppets tell."""
        now = time.monotonic_ns()
        self._signal(signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(5)
        return now

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        # With a prefix (`ip netns exec`, which execs) the process is still the member itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def leave(self, seconds: float = 15.0) -> Told:
        at = len(self.told)
        self.do("leave")
        told = self.wait(lambda t: t["told"] == "left", seconds, at, "left")
        self.process.wait(seconds)
        self.close()
        return told

    def close(self) -> None:
        """However it stands: end it, and give everything back."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def part_ways(sides: Sequence[Sequence[MemberProcess]]) -> None:
    """Members hear only those of their own side."""
    for side in sides:
        others = [r.address for other in sides if other is not side for r in other]
        for remote in side:
            remote.obeys("cut", addresses=others)


def all_in_view(remotes: Sequence[MemberProcess], seconds: float = 15.0) -> None:
    names = [remote.name for remote in remotes]
    for remote in remotes:
        remote.in_view(names, seconds)
