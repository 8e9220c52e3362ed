"""A child process that is controlled by lines: text lines in, one JSON object per line out.

The common part of the harness for tests and demo (`controller.py`) and of the benchmarks
(`benchmark/process_group.py`): spawn the process, read its lines in a thread, write lines to it,
and stop it. Every wait has a limit.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from phalanx.errors import PhalanxError

KILL_SECONDS = 10.0
"""How long a process may take to end after SIGKILL."""

Spawn = Callable[..., "subprocess.Popen[str]"]
"""`spawn(stdin=..., stdout=..., stderr=..., text=True)` starts the process."""
Received = Callable[[dict[str, Any] | None], None]
"""Called from the reading thread with each message of the process, and with None at its end. A line
that is no JSON object arrives as {"line": text}."""


class ProcessEnded(PhalanxError):
    """The process has ended and reads no more lines."""

    def __init__(self) -> None:
        super().__init__("the process has ended")


class LineProcess:
    def __init__(self, spawn: Spawn, received: Received, errors: IO[str] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = spawn(stdin=pipe, stdout=pipe, stderr=errors, text=True)
        self._received = received
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            self._received(message if isinstance(message, dict) else {"line": line.rstrip()})
        self._received(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    def write(self, line: str) -> None:
        """Send one line. Raises ProcessEnded if nobody reads it."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except (OSError, ValueError):  # a closed pipe, or one that we closed
            raise ProcessEnded from None

    def end_input(self) -> None:
        """Close the input: the process leaves its group and ends."""
        _close(self.process.stdin)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.kill()
        self.process.wait(KILL_SECONDS)

    def stop(self, until: float) -> int:
        """Wait for the end until this time of `time.monotonic`, then kill. The return code."""
        try:
            return self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def release(self, seconds: float) -> None:
        """Close the pipes of a process that has ended, after its last lines were read. If a child
        of the process keeps the output open, it stays open."""
        self._reader.join(seconds)
        _close(self.process.stdin)
        if not self._reader.is_alive():
            _close(self.process.stdout)


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        with suppress(OSError):  # lines that were not written yet
            pipe.close()
