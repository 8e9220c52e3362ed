"""Maintain a lake: compact small files, vacuum old versions, delete old rows, describe it.

- `compact` joins the small files of each partition. Rows stay the same.
- `vacuum` removes versions that were replaced long enough ago, and all files and log entries that
  no remaining version needs.
- `retain` deletes the rows of whole segments: those of each group and day whose last row is older
  than an instant. A journal that lost its beginning counts as torn, one that lost all its rows as
  not given, so an audit finds evidence missing and never a violation. The facts of deleted
  segments stay in `segments`, so that an ingest does not take them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.lake.lake import (
    LOG,
    Lake,
    LakeVersion,
    Snapshot,
    description,
    explained,
    files_of,
    is_ours,
    latest_delta_version,
    open_table,
    tables_in,
)
from phalanx.pipeline.lake.lake_facts import drop_unused_views, put_facts
from phalanx.pipeline.lake.lake_file import LakeFile, read_file
from phalanx.pipeline.lake.lake_schema import (
    EPOCH,
    FORMAT,
    OWN_TABLES,
    VERSIONS,
    day_of,
    lake_schema,
)
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change, writers_elsewhere
from phalanx.pipeline.schemas import EVENTS
from phalanx.pipeline.segment_stats import SegmentFacts, emptied

SMALL_BYTES = 32 << 20
"""Files below this are joined, up to twice as much."""
COMPACT_LEVEL = 9
"""Of compression: files that stay are worth more work."""
LOG_BYTES = 32 << 10
"""A log of at most this size is left as it is: a checkpoint would not be smaller."""


class Compacted(msgspec.Struct, kw_only=True):
    """What a compaction did."""

    version: int
    files_before: int
    files: int


class Vacuumed(msgspec.Struct, kw_only=True):
    """What a vacuum removed."""

    version: int
    versions: int
    """Versions that can no longer be read."""
    files: int
    bytes: int


class Retained(msgspec.Struct, kw_only=True):
    """What a retention deleted."""

    version: int
    segments: int
    rows: int
    journals: int
    """Journals in the lake now."""


class TableInfo(msgspec.Struct):
    """How much a table holds."""

    rows: int
    files: int
    bytes: int


class LakeInfo(msgspec.Struct, kw_only=True):
    """What a lake holds."""

    format: int
    version: int
    versions: list[int]
    """All versions that can be read."""
    committed: datetime | None
    what: str
    clusters: list[str]
    groups: list[str]
    journals: int
    segments: int
    days: tuple[str, str] | None
    """The first and the last day of which there are rows."""
    bytes: int
    """Of all files and logs, also of old versions."""
    tables: dict[str, TableInfo]
    derived: list[str]
    """The tables among them that commands have derived from others."""


# ---------------------------------------------------------------------- compact


def compact(lake: Lake) -> Compacted:
    """Joins small files, to one or a few for each table, group and day."""
    with change(lake, "compact") as transaction:
        before = _count(transaction)
        compact_tables(transaction, 1)
        files = _count(transaction)
        return Compacted(version=transaction.commit(), files_before=before, files=files)


def compact_tables(transaction: LakeTransaction, files_max: int) -> None:
    """Joins the files of partitions that have more than this number of small ones."""
    for table in transaction.tables():
        partitions: dict[tuple[str, str], list[LakeFile]] = {}
        for file in transaction.files(table):
            if file.bytes < SMALL_BYTES:
                partitions.setdefault((file.group, file.day), []).append(file)
        for (group, day), files in sorted(partitions.items()):
            if len(files) > files_max:
                for some in _bins(files):
                    _join(transaction, table, some, group, day)


def _bins(files: Iterable[LakeFile]) -> list[list[LakeFile]]:
    bins: list[list[LakeFile]] = []
    room = 0
    for file in files:
        if not bins or file.bytes > room:
            bins.append([])
            room = 2 * SMALL_BYTES
        bins[-1].append(file)
        room -= file.bytes
    return [some for some in bins if len(some) > 1]


def _join(
    transaction: LakeTransaction, table: str, files: list[LakeFile], group: str, day: str
) -> None:
    pa = arrow()
    rows = pa.concat_tables([read_file(file) for file in files], promote_options="default")
    if table in EVENTS:
        rows = rows.sort_by([("journal", "ascending"), ("lseq", "ascending")])
    transaction.remove(table, files)
    transaction.write(table, rows, group, day, COMPACT_LEVEL)


def _count(transaction: LakeTransaction) -> int:
    return sum(len(transaction.files(table)) for table in transaction.base.delta_versions)


# ---------------------------------------------------------------------- vacuum


def vacuum(lake: Lake, keep: timedelta = timedelta(0)) -> Vacuumed:
    """Removes versions that were replaced longer ago than `keep`, and what only they need. The
    newest version always stays."""
    with change(lake, "vacuum") as transaction:
        known = lake.versions()
        if not known:
            return Vacuumed(version=0, versions=0, files=0, bytes=0)
        kept = _kept(known, datetime.now(UTC) - keep)
        if len(kept) == 1:
            kept = [_with_short_logs(lake, kept[0])]
        if kept != known:
            transaction.replace_versions(_rows(kept))
        before = _bytes(lake.place)
        files = 0
        spared = writers_elsewhere(lake.place)
        own = [table for table in tables_in(lake.place) if is_ours(lake.place, table)]
        for table in [*own, VERSIONS]:
            if table == VERSIONS:
                newest = open_table(lake.place, VERSIONS)
                wanted = {f.path for f in files_of(newest, lake.place, VERSIONS)}
                oldest = newest.version()
            else:
                wanted, oldest = _needed(lake, table, kept)
            files += _remove_files(lake.place / table, wanted, spared)
            _trim_log(lake, table, oldest)
        return Vacuumed(
            version=kept[-1].version,
            versions=len(known) - len(kept),
            files=files,
            bytes=before - _bytes(lake.place),
        )


def _kept(known: list[LakeVersion], cutoff: datetime) -> list[LakeVersion]:
    """A version was replaced when the next was committed."""
    ends = [*(version.committed for version in known[1:]), None]
    return [v for v, end in zip(known, ends, strict=True) if end is None or end >= cutoff]


def _rows(kept: list[LakeVersion]) -> object:
    """The rows of `versions`: all tables of the oldest version, then what changed."""
    rows = []
    before: dict[str, int] = {}
    for one in kept:
        for table, delta_version in one.tables.items():
            if before.get(table) != delta_version:
                row = {"lake_version": one.version, "table": table, "delta_version": delta_version}
                common = {"committed": one.committed, "what": one.what, "writer": one.writer}
                rows.append(row | common)
        before = one.tables
    return arrow().Table.from_pylist(rows, schema=lake_schema(VERSIONS))


def _needed(lake: Lake, table: str, kept: list[LakeVersion]) -> tuple[set[str], int]:
    """The files that some version or the newest Delta version has, and the oldest Delta version
    that is needed."""
    newest = open_table(lake.place, table)
    wanted = {file.path for file in files_of(newest, lake.place, table)}
    oldest: int = newest.version()
    for delta_version in {v.tables[table] for v in kept if table in v.tables}:
        files = Snapshot(lake.place, 0, {table: delta_version}).files(table)
        wanted |= {file.path for file in files}
        oldest = min(oldest, delta_version)
    return wanted, oldest


def _remove_files(folder: Path, wanted: set[str], spared: set[str]) -> int:
    removed = 0
    for path in folder.rglob("*"):
        if LOG in path.relative_to(folder).parts or not path.is_file():
            continue
        if str(path) not in wanted and not any(writer in path.name for writer in spared):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _with_short_logs(lake: Lake, newest: LakeVersion) -> LakeVersion:
    """The same version after a small entry at the end of each large log: the entry of a checkpoint
    stays beside it, and that of a compaction is large."""
    tables = dict(newest.tables)
    for table, delta_version in newest.tables.items():
        if _log_bytes(lake, table) <= LOG_BYTES:
            continue
        delta = open_table(lake.place, table)
        if delta.version() != delta_version:
            continue
        with explained(lake.place / table):
            delta.alter.set_table_description(description())
        if latest_delta_version(lake.place, table) == delta_version + 1:
            tables[table] = delta_version + 1
    return msgspec.structs.replace(newest, tables=tables)


def _log_bytes(lake: Lake, table: str) -> int:
    return _bytes(lake.place / table / LOG)


def _trim_log(lake: Lake, table: str, oldest: int) -> None:
    """Removes what a large log has from before a Delta version, which becomes a checkpoint."""
    if _log_bytes(lake, table) <= LOG_BYTES:
        return
    log = lake.place / table / LOG
    with explained(lake.place / table):
        open_table(lake.place, table, oldest).create_checkpoint()
    for path in log.iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) < oldest:
            with suppress(OSError):
                path.unlink()


# ---------------------------------------------------------------------- retain


def retain(lake: Lake, before: datetime) -> Retained:
    """Deletes segments that ended before an instant, by the wall clocks of their machines. Groups
    and days are deleted whole, once all their segments have ended before it. Simulated ones
    stay."""
    before_ns = (before - EPOCH) // timedelta(microseconds=1) * 1000
    with change(lake, "retain") as transaction:
        by_partition: dict[tuple[str, str], list[SegmentFacts]] = {}
        segments = {segment.key: segment for segment in transaction.base.segments()}
        for segment in segments.values():
            key = segment.group, day_of(segment.wall_ns)
            by_partition.setdefault(key, []).append(segment)
        old = {
            key: some
            for key, some in by_partition.items()
            if all(_is_older(s, before_ns) for s in some) and any(s.rows for s in some)
        }
        rows = 0
        for table in EVENTS:
            files = [f for f in transaction.files(table) if (f.group, f.day) in old]
            rows += sum(file.rows for file in files)
            transaction.remove(table, files)
        gone = [segment for some in old.values() for segment in some if segment.rows]
        changed = {segment.key: emptied(segment) for segment in gone}
        put_facts(transaction, (segments | changed).values(), changed.values())
        drop_unused_views(transaction, {group for group, _ in old})
        journals = sum(file.rows for file in transaction.files("journals"))
        return Retained(
            version=transaction.commit(), segments=len(gone), rows=rows, journals=journals
        )


def _is_older(segment: SegmentFacts, before_ns: int) -> bool:
    """Simulated segments have no age: their clock is not that of the world."""
    return segment.end_ns < before_ns and segment.end_sim_ns is None


# ---------------------------------------------------------------------- info


def info(lake: Lake, version: int | None = None) -> LakeInfo:
    """What a version of a lake holds."""
    known = lake.versions()
    snapshot = lake.snapshot(version)
    here = next((one for one in known if one.version == snapshot.version), None)
    tables = {}
    for table in sorted(snapshot.delta_versions):
        files = snapshot.files(table)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        tables[table] = TableInfo(rows, len(files), size)
    journals = snapshot.journals()
    days = sorted({f.day for table in EVENTS for f in snapshot.files(table)})
    return LakeInfo(
        format=FORMAT,
        version=snapshot.version,
        versions=[one.version for one in known],
        committed=here.committed if here else None,
        what=here.what if here else "",
        clusters=sorted({journal.cluster for journal in journals}),
        groups=sorted({journal.group for journal in journals}),
        journals=len(journals),
        segments=sum(file.rows for file in snapshot.files("segments")),
        days=(days[0], days[-1]) if days else None,
        bytes=_bytes(lake.place),
        tables=tables,
        derived=[table for table in tables if table not in OWN_TABLES],
    )


def _bytes(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
