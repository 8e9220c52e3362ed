"""What a lake of live groups costs: bytes, files and seconds while their journals grow.

Simulated groups write journals. They are ingested after each round of new rows, then the lake is
compacted and vacuumed. Bytes of the lake include Delta logs and all versions.

    python bench/bench_live_ingest.py [--groups 20] [--members 5] [--rounds 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.blocks import rows_block
from phalanx.journal.schema import Event
from phalanx.journal.segment import Header
from phalanx.journal.segment_file import SegmentFile
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_maintenance import compact, vacuum
from phalanx.pipeline.schemas import EVENTS
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals
from phalanx.sim.run import run

RUNS = 5
"""Simulated runs that the groups are made of."""


def simulated_groups(groups: int, members: int) -> list[tuple[Header, list[Event]]]:
    """The journals of so many groups, with messages and membership changes. A few simulated runs
    are used again under other names. Runs whose members live more than once are passed over, so
    that each group has `members` journals."""
    runs: list[list[tuple[Header, list[Event]]]] = []
    for seed in count():
        lives = journals(run(scenario_of(seed, members, members, "membership")))
        if len(lives) == members:
            runs.append(lives)
        if len(runs) == min(groups, RUNS):
            break
    found: list[tuple[Header, list[Event]]] = []
    for number in range(groups):
        for header, rows in runs[number % len(runs)]:
            own = {"group": f"g{number}", "journal": f"{number:04x}{header.journal[4:]}"}
            mine = [msgspec.structs.replace(row, group=own["group"]) for row in rows]
            found.append((msgspec.structs.replace(header, **own), mine))
    return found


def measure(place: Path, groups: int, members: int, rounds: int) -> dict[str, Any]:
    """Ingests growing journals, and describes the lake before and after maintenance."""
    (place / "journals").mkdir()
    live = [
        (SegmentFile(place / "journals", header), rows)
        for header, rows in simulated_groups(groups, members)
    ]
    total = sum(len(rows) for _, rows in live)
    seconds = []
    cpu = 0.0
    for turn in range(rounds):
        for file, rows in live:
            some = rows[len(rows) * turn // rounds : len(rows) * (turn + 1) // rounds]
            if some:
                file.append(rows_block(some), some)
        begin, cpu_begin = time.perf_counter(), time.process_time()
        ingest([place / "journals"], place / "lake")
        seconds.append(time.perf_counter() - begin)
        cpu += time.process_time() - cpu_begin
    for file, _ in live:
        file.abandon()
    lake = Lake(place / "lake")
    raw = sum(path.stat().st_size for path in (place / "journals").iterdir())
    live_files = _live_files(lake)
    grown = _on_disk(place / "lake")
    begin = time.perf_counter()
    compact(lake)
    vacuum(lake, timedelta(0))
    maintained = time.perf_counter() - begin
    keys = [
        (row["journal"], row["lseq"])
        for table in EVENTS
        for row in lake.snapshot().read(table, columns=["journal", "lseq"]).to_pylist()
    ]
    assert len(keys) == len(set(keys)) == total, "each row must be there once"
    after = _on_disk(place / "lake")
    return {
        "journals": len(live),
        "rows": total,
        "rounds": rounds,
        "raw_bytes": raw,
        "ingest_s": {"first": seconds[0], "middle": seconds[rounds // 2], "last": seconds[-1]},
        "ingest_cpu_s": cpu / rounds,
        "live_files": live_files,
        "grown": grown | {"times_raw": grown["bytes"] / raw},
        "maintained": after | {"times_raw": after["bytes"] / raw, "seconds": maintained},
        "live_files_after": _live_files(lake),
    }


def _live_files(lake: Lake) -> int:
    snapshot = lake.snapshot()
    return sum(len(snapshot.files(table)) for table in snapshot.delta_versions)


def _on_disk(place: Path) -> dict[str, int]:
    files = [path for path in place.rglob("*") if path.is_file()]
    logs = [path for path in files if "_delta_log" in path.parts]
    return {
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "log_bytes": sum(path.stat().st_size for path in logs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.groups, given.members, given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<18} {value}")


if __name__ == "__main__":
    main()
