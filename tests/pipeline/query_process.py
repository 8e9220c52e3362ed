"""The process of `stream_query.py`: started, killed and read by tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.pipeline import stream_query

START_SECONDS = 120.0
BATCH_SECONDS = 90.0
END_SECONDS = 300.0
ATTEMPTS = 4
SLOW_START = "Python worker failed to connect back"
"""Spark gives a process of Python ten seconds to start, which a busy machine may not keep."""


class QueryProcess:
    """With queries of these tables."""

    def __init__(self, source: Path, sink: Path, *tables: str) -> None:
        self._sink = sink
        self._command = [sys.executable, stream_query.__file__, str(source), str(sink), *tables]

    def start(self) -> subprocess.Popen[bytes]:
        (self._sink / "started").unlink(missing_ok=True)
        log = (self._sink / "log").open("ab")
        with log:
            return subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True, env=os.environ
            )

    def killed_after(self, batches: int, seconds: float, writing: threading.Event) -> None:
        """Kills it so long after so many batches, of either query, have reached the sink."""
        for _ in range(ATTEMPTS):
            if self._killed(batches, seconds, writing):
                return
        raise AssertionError((self._sink / "log").read_text()[-3000:])

    def _killed(self, batches: int, seconds: float, writing: threading.Event) -> bool:
        """False if Spark ended the query before, since a process took too long to start."""
        begin = self._log_size()
        process = self.start()
        try:
            self._until(process, (self._sink / "started").exists, START_SECONDS)
            known = self._batches()
            writing.set()
            self._until(process, lambda: self._batches() >= known + batches, BATCH_SECONDS)
            time.sleep(seconds)
            if process.poll() is not None:
                self._check_slow_start(begin)
                return False
        finally:
            writing.clear()
            os.killpg(process.pid, signal.SIGKILL)  # Java and the workers of Python too
            process.wait(10)
        return True

    def _log_size(self) -> int:
        log = self._sink / "log"
        return log.stat().st_size if log.exists() else 0

    def _check_slow_start(self, begin: int) -> None:
        said = (self._sink / "log").read_bytes()[begin:].decode(errors="replace")
        assert SLOW_START in said, said[-3000:]

    def _until(
        self, process: subprocess.Popen[bytes], true: Callable[[], bool], seconds: float
    ) -> None:
        end = time.monotonic() + seconds
        while not true() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def _batches(self) -> int:
        return sum(1 for _ in self._sink.glob("*/*.json"))

    def to_the_end(self) -> None:
        (self._sink / "stop").touch()
        for _ in range(ATTEMPTS):
            begin = self._log_size()
            process = self.start()
            try:
                code = process.wait(END_SECONDS)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            if code == 0:
                return
            self._check_slow_start(begin)
        raise AssertionError((self._sink / "log").read_text()[-3000:])

    def repeated(self) -> int:
        """Batches that were planned when a kill came, and were done again."""
        lines = (self._sink / "begun").read_text().splitlines()
        return len(lines) - len(set(lines))

    def rows(self, table: str) -> list[dict[str, Any]]:
        files = sorted((self._sink / table).glob("*.json"), key=lambda path: int(path.stem))
        return [row for file in files for row in json.loads(file.read_text())]
