"""Journals and lakes for the tests of the pipeline, read without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.journal.reader import read_all
from phalanx.pipeline.ingest import gather
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake.lake_schema import VIEWS, from_lake, views_of
from phalanx.pipeline.schemas import EVENTS, JOURNALS
from phalanx.pipeline.segment_stats import facts_of

Contents = dict[str, list[dict[str, Any]]]


def written(*paths: Path) -> Contents:
    """What the journals hold, as the row-by-row reader tells it, and `journals`."""
    reading = read_all(paths)
    found: Contents = {}
    for journal, rows in reading.journals.items():
        header = reading.headers[journal]
        if rows:
            facts = msgspec.structs.asdict(facts_of(header, rows))
            found.setdefault(JOURNALS, []).append(facts)
        for row in rows:
            known = {"cluster": header.cluster, "journal": journal}
            known |= msgspec.structs.asdict(row)
            found.setdefault(str(row.__struct_config__.tag), []).append(known)
    return in_order(found)


def held(lake: Path, version: int | None = None) -> Contents:
    """What a lake holds, table by table, with the columns that members wrote."""
    snapshot = Lake(lake).snapshot(version)
    found: Contents = {}
    views = views_of(snapshot.read(VIEWS))
    for table in EVENTS:
        if snapshot.files(table):
            found[table] = from_lake(table, snapshot.read(table), views).to_pylist()
    found[JOURNALS] = [msgspec.structs.asdict(facts) for facts in snapshot.journals()]
    return in_order(found)


def gathered(paths: Sequence[Path], place: Path) -> Contents:
    """What journals and exports hold when they are opened without a lake."""
    found = gather(paths, place)
    read = arrow().parquet.read_table
    rows = {
        table: [row for file in files for row in read(file.path).to_pylist()]
        for table, files in found.files.items()
    }
    rows[JOURNALS] = [msgspec.structs.asdict(facts) for facts in found.journals]
    return in_order(rows)


def in_order(found: Contents) -> Contents:
    ordered = {}
    for table in sorted(found):
        rows = sorted(found[table], key=lambda r: (r["journal"], r.get("lseq", 0)))
        if rows:
            ordered[table] = rows
    return ordered
