"""kill -9 of a process that runs batches as Spark does, many times: nothing lost or doubled.

The process writes the offset of a batch before it runs the batch, and a commit when the batch is in
the sink; when it begins again it repeats a batch that was not committed. That is what Spark does,
without Java: so there can be many kills. `test_stream_kills.py` kills Spark itself.
"""

from __future__ import annotations

import json
import os
import signal
import time
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes
from tests.journal.journal_folder import journal
from tests.pipeline.message_stream.simulated_group import Output, Truth

from phalanx.journal import schema as ev
from phalanx.journal.reader import read_all
from phalanx.pipeline.message_stream.group_merge import Break
from phalanx.pipeline.message_stream.message_stream_reader import MessageStreamReader
from phalanx.pipeline.stream_options import StreamOptions
from phalanx.pipeline.table_stream import TableStreamReader
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

KILLS = 20
BATCH_BYTES = 1500
READERS: dict[str, Any] = {
    "deliver": lambda paths: TableStreamReader(paths, "deliver", StreamOptions()),
    "messages": lambda paths: MessageStreamReader(paths, None, StreamOptions()),
}


def run_batches(source: str, place: Path, table: str, end: bool) -> None:
    """Batch after batch; with `end` until there is nothing new."""
    reader = READERS[table]([source])
    start = reader.initialOffset()
    batch = 0
    while (place / f"{batch}.commit").exists():
        start = json.loads((place / f"{batch}.offset").read_text())
        batch += 1
    while True:
        logged = place / f"{batch}.offset"
        if logged.exists():
            reached = json.loads(logged.read_text())
        else:
            reached = reader.latestOffset(start, ReadMaxBytes(BATCH_BYTES))
            if reached == start:
                if end:
                    return
                time.sleep(0.005)
                continue
            write(logged, json.dumps(reached))
        found = [
            row
            for part in reader.partitions(start, reached)
            for rows in reader.read(part)
            for row in rows.to_pylist()
        ]
        write(place / f"{batch}.rows", json.dumps(found))
        write(place / f"{batch}.commit", "")
        reader.commit(reached)
        start, batch = reached, batch + 1


def write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text)
    fresh.rename(path)


@pytest.mark.parametrize(("table", "seed"), [("deliver", 58), ("messages", 58), ("messages", 31)])
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path, table: str, seed: int) -> None:
    random = Random(seed)
    result = run(scenario_of(seed, 3, 5, "membership"))
    journals = {
        head.journal: [msgspec.structs.replace(row, group="g") for row in rows]
        for head, rows in journals_of(result)
    }
    source, place = tmp_path / "journals", tmp_path / "sink"
    place.mkdir()
    writers = {
        name: journal(source, rows[0].member, rows[0].incarnation, segment_bytes=4096)
        for name, rows in journals.items()
    }
    for kill in range(KILLS):
        process = get_context("fork").Process(
            target=run_batches, args=(str(source), place, table, False)
        )
        process.start()
        for name, writer in writers.items():
            rows = journals[name]
            begin, end = (len(rows) * k // KILLS for k in (kill, kill + 1))
            writer.write(rows[begin:end])
        time.sleep(random.uniform(0.0, 0.5))
        assert process.pid is not None
        assert process.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
    for writer in writers.values():
        writer.close()
    run_batches(str(source), place, table, end=True)
    files = sorted(place.glob("*.rows"), key=lambda path: int(path.stem))
    found = [row for file in files for row in json.loads(file.read_text())]
    assert len(files) > KILLS / 2
    if table == "deliver":
        written = read_all([source]).journals
        expected = [
            (n, r.lseq) for n, rs in written.items() for r in rs if isinstance(r, ev.Deliver)
        ]
        assert sorted((row["journal"], row["lseq"]) for row in found) == sorted(expected)
    else:
        assert [row["seq"] for row in found] == [*range(1, len(found) + 1)]
        output = Output([_item(row) for row in found], found[-1]["view"])
        assert Truth(journals).problems(output) == []
        assert len(found) > 40, "which side of a partition is followed is not certain"


def _item(row: dict[str, Any]) -> Any:
    if row["kind"] == "break":
        place = row["from_journal"], row["journal"], row["from_view"], row["from_pos"]
        return Break(row["seq"], row["view"], row["pos"], row["reason"], *place)
    return row["view"], row["pos"], row["sender"], row["sender_incarnation"], row["number"]
