"""Streaming queries that a test kills: `python stream_query.py SOURCE SINK TABLE...`.

There is a query for each table: `deliver`, or the messages of the group. Each batch is one file,
named after the number of the batch and replaced if the batch is repeated: what a sink must do that
wants each row once. The program ends when SINK/stop exists and everything has been read.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row

from phalanx.pipeline.session import session

COLUMNS = {
    "deliver": ("journal", "lseq"),
    "messages": (
        *(
            "seq",
            "kind",
            "view",
            "pos",
            "sender",
            "sender_incarnation",
            "number",
            "body",
            "journal",
        ),
        *("reason", "from_journal", "from_view", "from_pos"),
    ),
}


def plain(row: Row) -> dict[str, Any]:
    known = row.asDict()
    return known | {name: known[name].decode() for name in ("body",) if known.get(name)}


def sink_of(folder: Path, columns: tuple[str, ...]) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        rows = [plain(row) for row in frame.select(*columns).collect()]
        with (folder.parent / "begun").open("a") as begun:
            begun.write(f"{folder.name} {batch}\n")
        fresh = folder / f"{batch}.tmp"
        fresh.write_text(json.dumps(rows))
        fresh.rename(folder / f"{batch}.json")

    return write


def main() -> None:
    source, sink = Path(sys.argv[1]), Path(sys.argv[2])
    spark = session(quick=True, memory="1g")
    queries = []
    for table in sys.argv[3:]:
        columns = COLUMNS[table]
        (sink / table).mkdir(parents=True, exist_ok=True)
        read = spark.readStream.format("phalanx").option("table", table)
        write = read.option("maxBytesPerTrigger", 6000).load(str(source)).writeStream
        write = write.option("checkpointLocation", str(sink / f"{table}-checkpoint"))
        queries.append(write.foreachBatch(sink_of(sink / table, columns)).start())
    (sink / "started").touch()
    while not (sink / "stop").exists():
        time.sleep(0.05)
        for query in queries:
            assert query.isActive, query.exception()
    for query in queries:
        query.processAllAvailable()
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
