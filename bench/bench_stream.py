"""How fast a stream follows live journals: `spark.readStream.format("phalanx")`.

Journals are those of members under load, in blocks of 1024 rows. First the stream reads a backlog.
Then a process appends blocks to the journals at a fixed rate while the stream follows, and the
stream must have kept up: the measure is how long after the last block the last row arrives. The
sink counts rows (`noop` would not show that any arrived).

    python bench/bench_stream.py [--rows 4000000] [--members 4] [--rate 250000] [--table deliver]

With `--json` the last line is one object that has all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count

from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import SCHEMA_VERSION
from phalanx.journal.segment import Header, file_name, header_bytes
from phalanx.journal.writer import GATHER_ROWS
from phalanx.pipeline.session import session

WANTED = 200_000
PREPARED_ROWS = 250_000


def blocks_of(rows_total: int) -> list[bytes]:
    """Blocks of consecutive rows of one journal."""
    from bench.bench_journal import rows_of  # the folder above is on the path by now

    like = rows_of(min(rows_total, PREPARED_ROWS))
    blocks: list[bytes] = []
    for done in range(0, rows_total, len(like)):
        for at in range(0, min(len(like), rows_total - done), GATHER_ROWS):
            some = like[at : at + GATHER_ROWS]
            block = [msgspec.structs.replace(row, lseq=row.lseq + done) for row in some]
            blocks.append(rows_block(block))
    return blocks


def begin(folder: Path, member: int) -> Path:
    header = Header(
        journal=f"{member:032x}",
        cluster="bench",
        group="g",
        member=f"m{member}",
        incarnation=1,
        number=1,
        schema=SCHEMA_VERSION,
        wall_ns=0,
        mono_ns=0,
        boot_id="b",
        config={"mode": "hold"},
    )
    path = folder / file_name("g", f"m{member}", 1, 1)
    path.write_bytes(header_bytes(header))
    return path


def feed(paths: list[Path], blocks: list[bytes], rate: int) -> None:
    """Appends the blocks to all journals, so many rows per second in all."""
    began = time.monotonic()
    for done, block in enumerate(blocks):
        for path in paths:
            with path.open("ab") as file:
                file.write(block)
        ahead = done * len(paths) * GATHER_ROWS / rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)


def tree_cpu() -> dict[str, float]:
    """CPU seconds of this process and all below it, by program; those that ended are left out."""
    tick = os.sysconf("SC_CLK_TCK")
    known: dict[int, tuple[int, str, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            fields = rest.split()
            used = (int(fields[11]) + int(fields[12])) / tick
            known[int(entry.name)] = int(fields[1]), name.partition("(")[2], used
    found: dict[str, float] = {}
    for pid, (_, name, used) in known.items():
        at = pid
        while at in known and at != os.getpid():
            at = known[at][0]
        if at == os.getpid():
            key = "driver" if pid == at else name
            found[key] = found.get(key, 0.0) + used
    return found


class Counter:
    """Counts the rows of each batch, and remembers when they arrived."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, float]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        (row,) = frame.agg(count("*").alias("rows")).collect()
        self.batches[batch] = row["rows"], time.monotonic()

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.batches.values())

    @property
    def last(self) -> float:
        return max((at for _, at in self.batches.values()), default=0.0)


def measure(spark: SparkSession, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    each = given.rows // given.members
    blocks = blocks_of(each)
    size = sum(map(len, blocks)) / each
    warm, rest = blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]
    paths = [begin(folder, member) for member in range(given.members)]
    for path in paths:
        with path.open("ab") as file:
            file.write(b"".join(warm))
    counter = Counter()
    read = spark.readStream.format("phalanx").option("table", given.table)
    read = read.option("maxBytesPerTrigger", given.trigger_bytes)
    if given.columns:
        read = read.option("columns", given.columns)
    query = read.load(str(folder)).writeStream.foreachBatch(counter)
    running = query.option("checkpointLocation", str(folder / "checkpoint")).start()
    began = time.monotonic()
    running.processAllAvailable()
    backlog, took = counter.rows, counter.last - began
    print(f"{size:.1f} bytes a row; backlog with the start of the query: {backlog:,} rows of ")
    print(f"{given.table} of {len(warm) * GATHER_ROWS * len(paths):,} rows in {took:.1f} s")
    feeder = get_context("spawn").Process(target=feed, args=(paths, rest, given.rate))
    feeder.start()
    while feeder.is_alive() and counter.rows == backlog:
        time.sleep(0.02)
    began = time.monotonic()
    before, start = tree_cpu(), counter.rows
    feeder.join()
    ended = time.monotonic()
    running.processAllAvailable()
    after, arrived = tree_cpu(), counter.rows
    fed = len(rest) * GATHER_ROWS * len(paths)
    print(f"live: {fed:,} rows appended in {ended - began:.1f} s ({fed / (ended - began):,.0f}/s)")
    print(f"the last row arrived {counter.last - ended:.2f} s after the last block was written")
    rate = fed / (counter.last - began)
    print(f"followed at {rate:,.0f} rows/s of journal (at least {WANTED:,} wanted)")
    used = {name: after[name] - before.get(name, 0.0) for name in after}
    total = sum(used.values())
    every = (arrived - start) / total
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(used.items()))
    print(f"{arrived - start:,} rows of {given.table} in {total:.1f} CPU seconds ({parts})")
    print(f"{every:,.0f} rows of {given.table} a CPU second, {len(counter.batches)} batches")
    running.stop()
    return {
        "backlog_rows": len(warm) * GATHER_ROWS * len(paths),
        "backlog_s": took,
        "rows": fed,
        "appended_rows_per_s": fed / (ended - began),
        "followed_rows_per_s": rate,
        "behind_s": counter.last - ended,
        "cpu_s": used,
        "rows_per_cpu_s": every,
        "batches": len(counter.batches),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="range rows in all")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--rate", type=int, default=250_000, help="rows appended per second")
    parser.add_argument("--table", default="deliver")
    parser.add_argument("--columns", help="names of columns; default all")
    parser.add_argument("--trigger-bytes", type=int, default=64 << 20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    date = datetime.now(UTC).date().isoformat()
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{date}, {platform.machine()}, {os.cpu_count()} cores, {load}")
    with tempfile.TemporaryDirectory() as place:
        spark = session()
        try:
            found = measure(spark, Path(place), given)
        finally:
            spark.stop()
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
