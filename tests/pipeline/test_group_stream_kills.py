"""kill -9 of real members and of the query that streams their messages: each once and in order.

1. `seq` has no gap, and no message comes twice.
2. Between breaks the stream is what the members that left a view together delivered in it.
3. The body of a message is the one that its sender sent: its number.
4. Without a break that loses something, the stream has all of every view that a member has left
   that lived from the beginning to the end.
"""

from __future__ import annotations

import os
import random as chance
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tests.journal.journal_folder import until
from tests.pipeline.batch_runner import rows_in, run_batches
from tests.pipeline.message_stream import group_member
from tests.pipeline.message_stream.simulated_group import Output, Truth, item_of, messages
from tests.pipeline.query_process import QueryProcess

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.pipeline.message_stream.group_merge import OTHER_COMPONENT, Break

NAMES = ("ada", "bea", "cyd")
"""ada lives from the beginning to the end; its name is the first, so the others are killed."""
LEAVE_SECONDS = 60.0
VIEW_SECONDS = 60.0


class LiveMembers:
    """Processes of members that send all the time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._group = f"kills-{os.getpid()}"
        self._running = {name: self._start(name, len(NAMES)) for name in NAMES}

    def _start(self, name: str, members: int) -> subprocess.Popen[bytes]:
        given = [self._group, name, str(self.folder), str(members)]
        with (self.folder.parent / f"{name}.log").open("ab") as log:
            command = [sys.executable, group_member.__file__, *given]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def delivered(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*.phj"))

    def kill(self, name: str) -> None:
        """And starts another life of it, which ada sees in a view."""
        old = self._view_of_ada().get(name, 0)
        self._running[name].kill()
        self._running[name].wait(10)
        self._running[name] = self._start(name, 1)
        end = time.monotonic() + VIEW_SECONDS
        while self._view_of_ada().get(name, old) == old:
            assert time.monotonic() < end, f"{name} has not come back"
            time.sleep(0.2)  # reading takes long enough

    def _view_of_ada(self) -> dict[str, int]:
        (rows,) = read_all(sorted(self.folder.glob("*-ada-*.phj"))).journals.values()
        last = [row for row in rows if isinstance(row, ev.ViewInstalled)][-1]
        return dict(zip(last.members, last.member_incarnations, strict=True))

    def leave(self) -> None:
        (self.folder / "stop").touch()
        for name, process in self._running.items():
            log = self.folder.parent / f"{name}.log"
            assert process.wait(LEAVE_SECONDS) == 0, log.read_text()[-2000:]

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(10)


def journals_in(folder: Path) -> dict[str, list[ev.Event]]:
    return {name: list(rows) for name, rows in read_all([folder]).journals.items()}


def ada_of(journals: dict[str, list[ev.Event]]) -> list[ev.Event]:
    (found,) = [rows for rows in journals.values() if rows[0].member == "ada"]
    return found


@contextmanager
def live_members(folder: Path) -> Iterator[LiveMembers]:
    folder.mkdir()
    made = LiveMembers(folder)
    try:
        until(lambda: made.delivered() > 10_000, 60.0)
        yield made
    finally:
        made.end()


def check_stream(rows: list[dict[str, Any]], folder: Path) -> None:
    rows = sorted(rows, key=lambda row: row["seq"])
    assert [row["seq"] for row in rows] == [*range(1, len(rows) + 1)]
    journals = journals_in(folder)
    found = [item_of(row) for row in rows]
    assert Truth(journals).problems(Output(found, rows[-1]["view"])) == []
    told = [row for row in rows if row["kind"] == "message"]
    assert all(row["body"] == str(row["number"]) for row in told)
    assert len(told) > 100
    if {row["reason"] for row in rows if row["kind"] == "break"} <= {OTHER_COMPONENT}:
        delivered = messages(ada_of(journals))
        left = {item for item in delivered if item[0] != delivered[-1][0]}
        assert left
        assert left <= {item for item in found if not isinstance(item, Break)}


def test_members_and_the_query_are_killed_and_each_message_comes_once(tmp_path: Path) -> None:
    """The query is a process that runs batches as Spark does."""
    random = chance.Random(7)
    sink = tmp_path / "sink"
    sink.mkdir()
    with live_members(tmp_path / "journals") as members:
        for kill in range(6):
            process = get_context("fork").Process(
                target=run_batches, args=(str(members.folder), sink, "messages", False)
            )
            process.start()
            grown = members.delivered() + random.randint(0, 10_000)
            until(lambda size=grown: members.delivered() > size, 60.0)  # type: ignore[misc]
            if kill % 2:
                members.kill(NAMES[1 + kill // 2 % 2])
            assert process.is_alive()
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join(10)
        members.leave()
    run_batches(str(tmp_path / "journals"), sink, "messages", end=True)
    check_stream(rows_in(sink), tmp_path / "journals")


@pytest.mark.spark
@pytest.mark.slow
def test_members_and_spark_are_killed_and_each_message_comes_once(tmp_path: Path) -> None:
    random = chance.Random(7)
    sink = tmp_path / "sink"
    sink.mkdir()
    query = QueryProcess(tmp_path / "journals", sink, "messages")
    with live_members(tmp_path / "journals") as members:
        for kill in range(6):
            query.killed_after(random.randint(0, 2), random.uniform(0.0, 1.0), threading.Event())
            time.sleep(random.uniform(0.0, 1.0))  # a random moment, beside the query and without it
            members.kill(NAMES[1 + kill % 2])
        members.leave()
    query.to_the_end()
    check_stream(query.rows("messages"), tmp_path / "journals")
