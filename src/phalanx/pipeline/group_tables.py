"""The rows of one group in one run, as Arrow tables in memory: the input of every kernel.

A kernel is a function of a `GroupTables`. The same function runs in this process
(`read_groups`) and in the tasks of a Spark job, so nothing in here imports Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.parquet_reader import check_rows, open_parquet
from phalanx.journal.schema import Event
from phalanx.journal.segment import Header
from phalanx.pipeline.ingest_task import can_refer, refer
from phalanx.pipeline.lake.lake_file import LakeFile, read_files
from phalanx.pipeline.lake.lake_schema import VIEWS, ViewMembers, from_lake, lake_schema, views_of
from phalanx.pipeline.segment_rows import SegmentRows
from phalanx.pipeline.segment_source import Offer, find_offers
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts, facts_of, journals_of


class GroupKey(NamedTuple):
    """A group in a run. The run of real members is the name of their cluster."""

    cluster: str
    run: str
    group: str


_Batches = dict[GroupKey, dict[str, list[Any]]]
"""Arrow batches by group and table."""


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A result about one group in one run: its first columns are those of its `GroupKey`."""

    cluster: str
    run: str
    group: str


class GroupTables:
    """The tables of one group in one run. Rows are in no particular order."""

    def __init__(
        self, key: GroupKey, journals: Sequence[JournalFacts], tables: Mapping[str, Any]
    ) -> None:
        self.key = key
        self.journals = tuple(journals)
        """The facts of all journals that have rows."""
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> Any:
        """The Arrow table of this name, with all columns of its schema; empty if nothing was
        written to it."""
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = schema(name).remove_metadata().empty_table()
        return found

    def joined(self, name: str, table: Any) -> GroupTables:
        """The same tables and one more."""
        return GroupTables(self.key, self.journals, {**self._tables, name: table})

    @property
    def names(self) -> tuple[str, ...]:
        """The tables that have rows."""
        return tuple(self._tables)

    @property
    def rows(self) -> int:
        return sum(journal.rows for journal in self.journals)


def read_groups(paths: Iterable[str | Path]) -> list[GroupTables]:
    """All groups in these journals and exported folders, in the order of their keys. JournalError
    for files that cannot be read, PipelineError for files that do not go together."""
    return tables_of_offers(find_offers(paths))


def tables_of_offers(offers: Iterable[Offer]) -> list[GroupTables]:
    """The same of segments that were found."""
    segments: list[SegmentFacts] = []
    batches: dict[str, dict[str, list[Any]]] = {}
    exported: list[Offer] = []
    for offer in offers:
        if can_refer(offer):
            exported.append(offer)
            continue
        facts, rows = _read(offer)
        segments.append(facts)
        mine = batches.setdefault(offer.header.journal, {})
        for table, some in rows.items():
            mine.setdefault(table, []).extend(some)
    files: dict[str, list[LakeFile]] = {}
    for taken in refer(exported):
        segments += taken.segments
        for table, listed in taken.files.items():
            files.setdefault(table, []).extend(listed)
    journals = journals_of(segments)
    keys = {facts.journal: _key(facts) for facts in journals}
    return _grouped(journals, [_by_group(batches, keys), _of_files(files, keys)])


def tables_of_files(
    journals: Sequence[JournalFacts], files: Mapping[str, Iterable[LakeFile]]
) -> list[GroupTables]:
    """The same of Parquet files by table, exported ones or those of a lake with its `views`, which
    may hold rows of other journals too. PipelineError for a file that cannot be read."""
    return _grouped(
        journals, [_of_files(files, {facts.journal: _key(facts) for facts in journals})]
    )


def _key(facts: JournalFacts) -> GroupKey:
    return GroupKey(facts.cluster, facts.run, facts.group)


def _of_files(files: Mapping[str, Iterable[LakeFile]], keys: Mapping[str, GroupKey]) -> _Batches:
    """The rows of these journals in Parquet files, by group. Most files are of one group: their
    batches are not copied."""
    pa = arrow()
    found: _Batches = {}
    views = views_of(read_files(files.get(VIEWS, ()), lake_schema(VIEWS)))
    for table, some in files.items():
        if table == VIEWS:
            continue
        for batch in (batch for file in some for batch in _parquet(file, table, views)):
            named = batch.column("journal").dictionary_encode()
            groups = [keys.get(journal) for journal in named.dictionary.to_pylist()]
            for key in dict.fromkeys(groups):
                if key is None:
                    continue
                mine = batch
                if len(set(groups)) > 1:
                    codes = pa.array([i for i, other in enumerate(groups) if other == key])
                    codes = codes.cast(named.indices.type)
                    mine = batch.filter(pa.compute.is_in(named.indices, value_set=codes))
                found.setdefault(key, {}).setdefault(table, []).append(mine)
    return found


def _by_group(
    batches: Mapping[str, Mapping[str, Sequence[Any]]], keys: Mapping[str, GroupKey]
) -> _Batches:
    found: _Batches = {}
    for journal, key in keys.items():
        for table, some in batches.get(journal, {}).items():
            found.setdefault(key, {}).setdefault(table, []).extend(some)
    return found


def filtered_tables(
    key: GroupKey,
    journals: Sequence[JournalFacts],
    files: Mapping[str, Iterable[LakeFile]],
    filters: Mapping[str, Callable[[Any], Any]],
) -> GroupTables:
    """Some rows of one group in Parquet files. A filter gets a batch of a table and returns which
    of its rows to keep; rows are filtered batch by batch, so that no table is in memory whole."""
    pa = arrow()
    parts: dict[str, list[Any]] = {}
    for table, batch in _own_batches(key, journals, files):
        keep = filters.get(table)
        kept = batch if keep is None else batch.filter(pa.array(keep(batch)))
        if kept.num_rows:
            parts.setdefault(table, []).append(kept)
    tables = {
        table: pa.Table.from_batches(some, schema=_schema(table)) for table, some in parts.items()
    }
    return GroupTables(key, journals, tables)


def each_batch(
    key: GroupKey,
    journals: Sequence[JournalFacts],
    files: Mapping[str, Iterable[LakeFile]],
    rows: int,
) -> Iterator[tuple[str, Any]]:
    """The rows of one group, table by table, about so many at a time, as Arrow tables."""
    pa = arrow()
    held: list[Any] = []
    last = ""
    for table, batch in _own_batches(key, journals, files):
        if held and (table != last or sum(one.num_rows for one in held) >= rows):
            yield last, pa.Table.from_batches(held)
            held = []
        held.append(batch)
        last = table
    if held:
        yield last, pa.Table.from_batches(held)


def _own_batches(
    key: GroupKey, journals: Sequence[JournalFacts], files: Mapping[str, Iterable[LakeFile]]
) -> Iterator[tuple[str, Any]]:
    pa = arrow()
    wanted = pa.array([facts.journal for facts in journals], pa.string())
    views = views_of(read_files(files.get(VIEWS, ()), lake_schema(VIEWS)))
    for table, some in files.items():
        if table == VIEWS:
            continue
        for batch in (batch for file in some for batch in _parquet(file, table, views)):
            mine = pa.compute.is_in(batch.column("journal"), value_set=wanted)
            if not pa.compute.all(mine).as_py():
                batch = batch.filter(mine)
            if batch.num_rows:
                yield table, _of_run(table, batch, key)


def _parquet(
    file: LakeFile, table: str, views: Mapping[tuple[str, ...], ViewMembers]
) -> Iterator[Any]:
    pa = arrow()
    try:
        with open_parquet(file.path, rows=file.rows) as source:
            read = 0
            for batch in source.iter_batches():
                read += batch.num_rows
                yield from from_lake(table, pa.Table.from_batches([batch]), views).to_batches()
            check_rows(read, source.metadata.num_rows)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        problem = "cannot be read as Parquet"
        remedy = "restore it, or export or ingest the journals again, to another place"
        raise PipelineError(file.path, problem, remedy) from error


def groups_of_rows(journals: Iterable[tuple[Header, Sequence[Event]]]) -> list[GroupTables]:
    """Of journals that are in memory as rows."""
    pa = arrow()
    facts: list[JournalFacts] = []
    batches: dict[str, dict[str, list[Any]]] = {}
    for header, rows in journals:
        if not rows:
            continue
        facts.append(facts_of(header, rows))
        columns: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            known = msgspec.to_builtins(row)
            known |= {"cluster": header.cluster, "journal": header.journal}
            columns.setdefault(known.pop("table"), []).append(known)
        batches[header.journal] = {
            table: pa.Table.from_pylist(some, schema=_schema(table)).to_batches()
            for table, some in columns.items()
        }
    return _grouped(facts, [_by_group(batches, {one.journal: _key(one) for one in facts})])


def _grouped(facts: Iterable[JournalFacts], found: Sequence[_Batches]) -> list[GroupTables]:
    pa = arrow()
    by_group: dict[GroupKey, list[JournalFacts]] = {}
    for journal in facts:
        by_group.setdefault(_key(journal), []).append(journal)
    groups = []
    for key in sorted(by_group):
        parts: dict[str, list[Any]] = {}
        for batches in found:
            for table, some in batches.get(key, {}).items():
                parts.setdefault(table, []).extend(_of_run(table, batch, key) for batch in some)
        tables = {
            table: pa.Table.from_batches(some, schema=_schema(table))
            for table, some in parts.items()
        }
        groups.append(GroupTables(key, by_group[key], tables))
    return groups


def _schema(table: str) -> Any:
    return schema(table).remove_metadata()


def _of_run(table: str, batch: Any, key: GroupKey) -> Any:
    """An unreadable stretch does not know its run; it is that of the rows around it."""
    if table != "corrupt":
        return batch
    pa = arrow()
    run = pa.repeat(pa.scalar(key.run), batch.num_rows)
    return batch.set_column(batch.schema.get_field_index("run"), batch.schema.field("run"), run)


def _read(offer: Offer) -> tuple[SegmentFacts, dict[str, list[Any]]]:
    """What a segment holds: its facts, and batches of rows by table."""
    rows: dict[str, list[Any]] = {}
    segment = SegmentRows(offer)
    for table, batch in segment.batches():
        rows.setdefault(table, []).append(batch)
    return segment.facts(), rows


def each_row(table: Any, *columns: str) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row: for tables that are small."""
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)
