"""Journals and lakes for the tests of the pipeline, read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.journal.reader import read_all
from phalanx.pipeline.schemas import EVENTS, JOURNALS
from phalanx.pipeline.segment_stats import facts_of
from phalanx.pipeline.store import Store

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


def held(lake: Path, version: int | None = None, layer: str = "silver") -> Contents:
    """What a lake holds, table by table."""
    pa = arrow()
    snapshot = Store(lake).at(version)
    found: Contents = {}
    for table in (*EVENTS, JOURNALS):
        for path in snapshot.paths(layer, table):
            found.setdefault(table, []).extend(pa.parquet.read_table(path).to_pylist())
    return in_order(found)


def in_order(found: Contents) -> Contents:
    ordered = {}
    for table in sorted(found):
        rows = sorted(found[table], key=lambda r: (r["journal"], r.get("lseq", 0)))
        if rows:
            ordered[table] = rows
    return ordered
