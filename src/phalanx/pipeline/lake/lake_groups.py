"""The rows of the groups of a lake as `GroupTables`, read in this process or in a task.

`groups_of_files` needs neither deltalake nor Spark: a driver lists the files of a group, and a
task anywhere reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.group_tables import GroupTables, grouped
from phalanx.pipeline.lake.lake import Snapshot
from phalanx.pipeline.lake.lake_file import LakeFile, read_files
from phalanx.pipeline.lake.lake_schema import INSTALLS, VIEWS, from_lake, lake_schema, views_of
from phalanx.pipeline.schemas import EVENTS
from phalanx.pipeline.segment_stats import JournalFacts


def lake_groups(
    snapshot: Snapshot,
    *,
    clusters: Collection[str] | None = None,
    groups: Collection[str] | None = None,
) -> Iterator[GroupTables]:
    """The groups of a lake, or some of them, in the order of their names: all runs and clusters of
    one name are read together. PipelineError for files that cannot be read."""
    by_group: dict[str, list[JournalFacts]] = {}
    for journal in snapshot.journals(groups=groups):
        if clusters is None or journal.cluster in clusters:
            by_group.setdefault(journal.group, []).append(journal)
    for group in sorted(by_group):
        yield from groups_of_files(by_group[group], files_of_group(snapshot, group))


def files_of_group(snapshot: Snapshot, group: str) -> dict[str, list[LakeFile]]:
    """The files of a group by table, `views` included: the input of `groups_of_files`."""
    found = {table: snapshot.files(table, groups=[group]) for table in (*EVENTS, VIEWS)}
    return {table: files for table, files in found.items() if files}


def groups_of_files(
    journals: Sequence[JournalFacts],
    files: Mapping[str, Sequence[LakeFile | str]],
    tables: Collection[str] = EVENTS,
) -> list[GroupTables]:
    """The rows of these journals, in some tables or in all, from files of a lake. Rows of other
    journals in the files are left out."""
    views = views_of(read_files(files.get(VIEWS, ()), lake_schema(VIEWS)))
    batches: dict[str, dict[str, list[Any]]] = {journal.journal: {} for journal in journals}
    one_run = len({(journal.cluster, journal.run, journal.group) for journal in journals}) == 1
    for table in tables:
        if not files.get(table):
            continue
        rows = _of_journals(read_files(files[table], lake_schema(table)), batches)
        rows = from_lake(table, rows, views if table == INSTALLS else {})
        if one_run:  # it does not matter which journal brings them
            batches[journals[0].journal][table] = rows.to_batches()
        else:
            for journal, some in _by_journal(rows):
                batches[journal][table] = some.to_batches()
    return grouped(journals, batches)


def _of_journals(rows: Any, journals: Collection[str]) -> Any:
    pa = arrow()
    mine = pa.compute.is_in(rows["journal"], value_set=pa.array(list(journals), pa.string()))
    return rows if pa.compute.all(mine).as_py() else rows.filter(mine)


def _by_journal(rows: Any) -> Iterator[tuple[str, Any]]:
    """The rows of each journal, in the order that they have."""
    pa = arrow()
    codes = rows["journal"].combine_chunks().dictionary_encode()
    ordered = rows.take(pa.compute.sort_indices(codes.indices))
    begin = 0
    counts = {one["values"]: one["counts"] for one in codes.indices.value_counts().to_pylist()}
    for code in sorted(counts):
        yield codes.dictionary[code].as_py(), ordered.slice(begin, counts[code])
        begin += counts[code]
