"""kill -9 of streaming queries at random moments, while members write: nothing lost or doubled."""

from __future__ import annotations

import random as chance
import threading
from pathlib import Path

import msgspec
import pytest
from tests.journal.journal_folder import journal
from tests.pipeline.message_stream.simulated_group import Output, Truth, item_of
from tests.pipeline.query_process import QueryProcess

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

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


def check_kills(folder: Path, kills: int, seed: int) -> int:
    """How many batches were done again after a kill."""
    random = chance.Random(seed)
    result = run(scenario_of(seed, 3, 5, "membership"))
    journals = {head.journal: _of_group(rows) for head, rows in journals_of(result)}
    source, sink = folder / "journals", folder / "sink"
    source.mkdir()
    sink.mkdir()
    query = QueryProcess(source, sink, "deliver", "messages")
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
    items = [item_of(row) for row in messages]
    assert Truth(journals).problems(Output(items, messages[-1]["view"])) == []
    return query.repeated()


def _of_group(rows: list[ev.Event]) -> list[ev.Event]:
    return [msgspec.structs.replace(row, group="g") for row in rows]


@pytest.mark.spark
def test_a_kill_of_spark_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """One: each is a start of Java. `test_stream_process_kills.py` has many without it."""
    check_kills(tmp_path, kills=1, seed=58)


@pytest.mark.spark
@pytest.mark.slow
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    assert check_kills(tmp_path, kills=20, seed=31) > 0, "no kill hit a batch"
