"""Batches as Spark runs them, without Spark.

The offset of a batch is written before the batch runs, and a commit when the batch is in the sink;
a batch that was not committed is repeated. That is what Spark does, without Java.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxBytes

from phalanx.pipeline.message_stream.message_stream_reader import MessageStreamReader
from phalanx.pipeline.stream_options import StreamOptions
from phalanx.pipeline.table_stream import TableStreamReader

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
        write(place / f"{batch}.rows", json.dumps(found, default=bytes.decode))
        write(place / f"{batch}.commit", "")
        reader.commit(reached)
        start, batch = reached, batch + 1


def write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text)
    fresh.rename(path)


def rows_in(place: Path) -> list[dict[str, Any]]:
    """What is in the sink, batch by batch."""
    files = sorted(place.glob("*.rows"), key=lambda path: int(path.stem))
    return [row for file in files for row in json.loads(file.read_text())]
