"""kill -9 of streaming queries at random moments, while members write: nothing lost or doubled."""

from __future__ import annotations

import json
import os
import random as chance
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journal.journal_folder import journal
from tests.pipeline import stream_query
from tests.pipeline.message_stream.simulated_group import Output, Truth

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.pipeline.message_stream.group_merge import Break
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

START_SECONDS = 120.0
BATCH_SECONDS = 90.0
PAUSE_SECONDS = 0.1
STEPS_A_KILL = 30


class Members:
    """Writes the journals of a simulated run while a query runs, some rows at a time, so that the
    rows last for all kills; in segments of some blocks."""

    def __init__(self, folder: Path, journals: dict[str, list[ev.Event]], steps: int) -> None:
        self.writing = threading.Event()
        self._folder = folder
        self._journals = journals
        self._steps = steps
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Members:
        self._thread.start()
        return self

    def finish(self) -> None:
        """Writes the rest without pauses."""
        self._stop.set()
        self.writing.set()
        self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _write(self) -> None:
        writers = {
            name: journal(
                self._folder, rows[0].member, rows[0].incarnation, "g", segment_bytes=4096
            )
            for name, rows in self._journals.items()
        }
        for step in range(self._steps):
            self.writing.wait()
            for name, writer in writers.items():
                rows = self._journals[name]
                at = [len(rows) * k // self._steps for k in (step, step + 1)]
                writer.write(rows[at[0] : at[1]])
            self._stop.wait(PAUSE_SECONDS)
        for writer in writers.values():
            writer.close()


class QueryProcess:
    def __init__(self, source: Path, sink: Path) -> None:
        self._sink = sink
        self._command = [sys.executable, stream_query.__file__, str(source), str(sink)]

    def start(self) -> subprocess.Popen[bytes]:
        (self._sink / "started").unlink(missing_ok=True)
        log = (self._sink / "log").open("ab")
        with log:
            return subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True, env=os.environ
            )

    def killed_after(self, batches: int, seconds: float, writing: threading.Event) -> None:
        """Kills it so long after so many batches, of either query, have reached the sink."""
        process = self.start()
        try:
            self._until(process, (self._sink / "started").exists, START_SECONDS)
            known = self._batches()
            writing.set()
            self._until(process, lambda: self._batches() >= known + batches, BATCH_SECONDS)
            time.sleep(seconds)
            assert process.poll() is None, (self._sink / "log").read_text()[-3000:]
        finally:
            writing.clear()
            os.killpg(process.pid, signal.SIGKILL)  # Java and the workers of Python too
            process.wait(10)

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
        process = self.start()
        try:
            code = process.wait(300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert code == 0, (self._sink / "log").read_text()[-3000:]

    def repeated(self) -> int:
        """Batches that were planned when a kill came, and were done again."""
        lines = (self._sink / "begun").read_text().splitlines()
        return len(lines) - len(set(lines))

    def rows(self, table: str) -> list[dict[str, Any]]:
        files = sorted((self._sink / table).glob("*.json"), key=lambda path: int(path.stem))
        return [row for file in files for row in json.loads(file.read_text())]


def check_kills(folder: Path, kills: int, seed: int) -> int:
    """How many batches were done again after a kill."""
    random = chance.Random(seed)
    result = run(scenario_of(seed, 3, 5, "membership"))
    journals = {head.journal: _of_group(rows) for head, rows in journals_of(result)}
    source, sink = folder / "journals", folder / "sink"
    source.mkdir()
    sink.mkdir()
    query = QueryProcess(source, sink)
    with Members(source, journals, steps=kills * STEPS_A_KILL) as members:
        for _ in range(kills):
            query.killed_after(random.randint(0, 4), random.uniform(0.0, 1.0), members.writing)
        members.finish()
    query.to_the_end()
    written = read_all([source]).journals
    expected = sorted(
        (n, r.lseq) for n, rs in written.items() for r in rs if isinstance(r, ev.Deliver)
    )
    found = sorted((row["journal"], row["lseq"]) for row in query.rows("deliver"))
    assert found == expected
    messages = sorted(query.rows("messages"), key=lambda row: row["seq"])
    assert [row["seq"] for row in messages] == [*range(1, len(messages) + 1)]
    assert len(messages) > 100
    items = [_item(row) for row in messages]
    assert Truth(journals).problems(Output(items, messages[-1]["view"])) == []
    return query.repeated()


def _of_group(rows: list[ev.Event]) -> list[ev.Event]:
    return [msgspec.structs.replace(row, group="g") for row in rows]


def _item(row: dict[str, Any]) -> Any:
    if row["kind"] == "break":
        place = row["from_journal"], row["journal"], row["from_view"], row["from_pos"]
        return Break(row["seq"], row["view"], row["pos"], row["reason"], *place)
    return row["view"], row["pos"], row["sender"], row["sender_incarnation"], row["number"]


@pytest.mark.spark
def test_three_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=3, seed=58)


@pytest.mark.spark
@pytest.mark.slow
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    assert check_kills(tmp_path, kills=20, seed=31) > 0, "no kill hit a batch"
