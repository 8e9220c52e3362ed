"""Write the tables `journals`, `segments` and `views` of a lake, and delete rows of segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.lake.lake_file import read_file, read_files
from phalanx.pipeline.lake.lake_schema import (
    INSTALLS,
    KEYS,
    VIEWS,
    ViewMembers,
    day_of,
    instant_of,
    lake_schema,
)
from phalanx.pipeline.lake.lake_transaction import LakeTransaction
from phalanx.pipeline.schemas import EVENTS, JOURNALS, SEGMENTS
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts, journals_of


def put_facts(
    transaction: LakeTransaction,
    segments: Iterable[SegmentFacts],
    changed: Iterable[SegmentFacts],
) -> None:
    """Writes the partitions of `segments`, and the groups of `journals`, that hold these changed
    segments. `segments` are all of their groups."""
    touched = {(segment.group, day_of(segment.wall_ns)) for segment in changed}
    groups = {group for group, _ in touched}
    by_partition: dict[tuple[str, str], list[SegmentFacts]] = {key: [] for key in touched}
    by_group: dict[str, list[SegmentFacts]] = {group: [] for group in groups}
    for segment in segments:
        key = segment.group, day_of(segment.wall_ns)
        if key in by_partition:
            by_partition[key].append(segment)
        if segment.group in by_group:
            by_group[segment.group].append(segment)
    former = [f for f in transaction.files(SEGMENTS) if (f.group, f.day) in touched]
    transaction.remove(SEGMENTS, former)
    for (group, day), some in sorted(by_partition.items()):
        some.sort(key=lambda segment: segment.key)
        transaction.write(SEGMENTS, _table(SEGMENTS, some), group, day)
    transaction.remove(JOURNALS, [f for f in transaction.files(JOURNALS) if f.group in groups])
    for group, some in sorted(by_group.items()):
        if journals := journals_of(some):
            transaction.write(JOURNALS, _table(JOURNALS, journals), group)


def put_views(transaction: LakeTransaction, views: Iterable[ViewMembers]) -> None:
    """Adds the views that the lake does not have yet."""
    by_group: dict[str, list[ViewMembers]] = {}
    for view in views:
        by_group.setdefault(view.group, []).append(view)
    for group, some in sorted(by_group.items()):
        files = [file for file in transaction.files(VIEWS) if file.group == group]
        known = _keys(files, VIEWS)
        if fresh := [view for view in some if view.key not in known]:
            transaction.write(VIEWS, _table(VIEWS, fresh), group)


def drop_unused_views(transaction: LakeTransaction, groups: Collection[str]) -> None:
    """Deletes the views of these groups that no row of `view_installed` refers to any more."""
    pa = arrow()
    for group in sorted(groups):
        files = [file for file in transaction.files(VIEWS) if file.group == group]
        installs = [file for file in transaction.files(INSTALLS) if file.group == group]
        used = _keys(installs, INSTALLS)
        rows = read_files(files, lake_schema(VIEWS))
        keep = [key in used for key in zip(*(rows[n].to_pylist() for n in KEYS), strict=True)]
        if all(keep):
            continue
        transaction.remove(VIEWS, files)
        if any(keep):
            transaction.write(VIEWS, rows.filter(pa.array(keep)), group)


def delete_rows(transaction: LakeTransaction, segment: SegmentFacts) -> None:
    """Deletes the rows of one segment from the files that it shares with others."""
    pa = arrow()
    day = day_of(segment.wall_ns)
    for table in EVENTS:
        for file in transaction.files(table):
            if (file.group, file.day) != (segment.group, day):
                continue
            rows = read_file(file)
            number = rows["lseq"]
            kept = rows.filter(
                pa.compute.or_(
                    pa.compute.not_equal(rows["journal"], segment.journal),
                    pa.compute.or_(
                        pa.compute.less(number, segment.first),
                        pa.compute.greater(number, segment.last),
                    ),
                )
            )
            if kept.num_rows < rows.num_rows:
                transaction.remove(table, [file])
                if kept.num_rows:
                    transaction.write(table, kept, file.group, file.day)


def _keys(files: Iterable[Any], table: str) -> set[tuple[str, ...]]:
    rows = read_files(files, lake_schema(table), KEYS)
    return set(zip(*(rows[name].to_pylist() for name in KEYS), strict=True))


def _table(table: str, facts: Iterable[JournalFacts | SegmentFacts | ViewMembers]) -> Any:
    rows = []
    for one in facts:
        row = msgspec.structs.asdict(one)
        if isinstance(one, JournalFacts | SegmentFacts):
            row["began"] = instant_of(one.wall_ns)
            row["ended"] = instant_of(one.wall_ns + one.end_t_ns - one.mono_ns)
            row["day"] = date.fromisoformat(day_of(one.wall_ns))
        rows.append(row)
    return arrow().Table.from_pylist(rows, schema=lake_schema(table))
