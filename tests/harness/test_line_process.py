"""A process that is controlled by lines."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from functools import partial
from typing import Any

import pytest

from phalanx.harness.line_process import LineProcess, ProcessEnded

ECHO = """
import json, sys, time
print("no json", flush=True)
for line in sys.stdin:
    print(json.dumps({"echo": line.rstrip()}), flush=True)
if sys.argv[1] == "stays":
    time.sleep(1000)
"""
SECONDS = 20.0


class Started:
    def __init__(self, how: str = "ends") -> None:
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        command = [sys.executable, "-ISc", ECHO, how]
        self.lines = LineProcess(partial(subprocess.Popen, command), self.messages.put)

    def next(self) -> dict[str, Any] | None:
        return self.messages.get(timeout=SECONDS)


def test_lines_go_in_and_messages_come_out_in_order() -> None:
    started = Started()
    started.lines.write("one")
    started.lines.write("two")
    assert [started.next() for _ in range(3)] == [
        {"line": "no json"},
        {"echo": "one"},
        {"echo": "two"},
    ]
    started.lines.end_input()
    assert started.lines.stop(time.monotonic() + SECONDS) == 0
    assert started.next() is None, "the end is a message too"
    started.lines.release(SECONDS)


def test_a_process_that_does_not_end_is_killed_in_time() -> None:
    started = Started("stays")
    started.lines.end_input()
    assert started.lines.stop(time.monotonic() + 0.2) == -9
    started.lines.release(SECONDS)


def test_a_line_to_a_process_that_has_ended_is_an_error() -> None:
    started = Started()
    started.lines.kill()
    with pytest.raises(ProcessEnded):
        started.lines.write("x" * 1_000_000)
    started.lines.release(SECONDS)
