"""What reading journals costs: raw through the data source, sealed Parquet, and both into a lake.

Journals are those of members under load (mostly deliveries of ranges), written as members write
them: in blocks of 1024 rows, in sealed segments. A scan is three aggregates over all deliveries.
Rates are range rows per second of wall time, without the start of Spark; each is measured twice and
the better one counts, since the first pays for workers that start.

    python bench/bench_ingest.py [--rows 3000000] [--members 4] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from phalanx.journal import parquet_export as parquet
from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import SCHEMA_VERSION
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.journal.writer import GATHER_ROWS
from phalanx.pipeline import ingest as ingesting
from phalanx.pipeline.open_tables import open_tables
from phalanx.pipeline.session import session

SEGMENT_ROWS = 250_000
RAW_WANTED, SEALED_WANTED = 200_000, 1_000_000


def write(folder: Path, members: int, rows_total: int) -> tuple[int, int]:
    """Journals of so many members: rows, and bytes."""
    from bench.bench_journal import rows_of  # the folder above is on the path by now

    each = rows_total // members
    like = rows_of(min(each, SEGMENT_ROWS))
    count = size = 0
    for member in range(members):
        done, number = 0, 0
        while done < each:
            some = like[: min(len(like), each - done)]
            number += 1
            header = Header(
                journal=f"{member:032x}",
                cluster="bench",
                group="g",
                member=f"m{member}",
                incarnation=1,
                number=number,
                schema=SCHEMA_VERSION,
                wall_ns=0,
                mono_ns=0,
                boot_id="b",
                config={"mode": "hold"},
            )
            file = SegmentFile(folder, header)
            for at in range(0, len(some), GATHER_ROWS):
                block = [
                    msgspec.structs.replace(row, lseq=row.lseq + done, member=f"m{member}")
                    for row in some[at : at + GATHER_ROWS]
                ]
                file.append(rows_block(block), block)
            file.seal()
            size += file.path.stat().st_size
            done += len(some)
        count += done
    return count, size


def scan(frame: DataFrame) -> None:
    """Three aggregates over every delivery."""
    frame.selectExpr("sum(last - first + 1)", "max(pos)", "count(distinct sender)").collect()


def timed(action: Callable[[], object]) -> float:
    """Seconds, the better of two."""
    took = []
    for _ in range(2):
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return min(took)


def measure(spark: SparkSession, folder: Path, rows: int, deliveries: int) -> dict[str, float]:
    """Rows per second of each way."""
    raw, export = folder / "raw", folder / "export"
    source = spark.read.format("phalanx").option("table", "deliver").load(str(raw))
    found = {"raw, scan through the source": deliveries / timed(lambda: scan(source))}

    def into_lake(path: Path) -> Callable[[], object]:
        def take() -> None:
            with tempfile.TemporaryDirectory(dir=folder) as lake:
                done = ingesting.ingest([path], lake, spark=lambda: spark)
                assert done.rows == rows

        return take

    found["raw, into a lake"] = rows / timed(into_lake(raw))
    began = time.perf_counter()
    parquet.export([raw], export)
    found["export, one core"] = rows / (time.perf_counter() - began)
    with open_tables(spark, [export]) as tables:
        found["sealed, scan"] = deliveries / timed(lambda: scan(tables["deliver"]))
    found["sealed, into a lake"] = rows / timed(into_lake(export))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3_000_000, help="range rows in all")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "raw").mkdir()
        rows, size = write(folder / "raw", given.members, given.rows)
        spark = session()
        try:
            with open_tables(spark, [folder / "raw"]) as tables:
                deliveries = tables["deliver"].count()
            rates = measure(spark, folder, rows, deliveries)
        finally:
            spark.stop()
    show(rates, rows, deliveries, size, given.json)


def show(rates: dict[str, float], rows: int, deliveries: int, size: int, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "rows": rows,
        "deliveries": deliveries,
        "raw_bytes": size,
        "rows_per_second": {name: round(rate) for name, rate in rates.items()},
    }
    if as_json:
        print(json.dumps(facts))
        return
    print(f"{facts['date']}, {facts['machine']}")
    print(f"{rows:,} rows, {deliveries:,} of them deliveries; raw {size / rows:.1f} bytes a row")
    for name, rate in rates.items():
        wanted = SEALED_WANTED if name.startswith("sealed") else RAW_WANTED
        print(f"{name:<32} {rate:>12,.0f} rows/s   (at least {wanted:,} wanted)")


if __name__ == "__main__":
    main()
