"""The rows of the groups of a lake as `GroupTables`, read in this process.

A task elsewhere needs neither deltalake nor Spark: the driver lists the files of a group
(`files_of_groups`), and the task reads them (`group_tables.tables_of_files`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from phalanx.pipeline.group_tables import GroupTables, tables_of_files
from phalanx.pipeline.lake.lake import Snapshot
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.lake.lake_schema import VIEWS
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
        yield from tables_of_files(by_group[group], files_of_groups(snapshot, [group]))


def files_of_groups(
    snapshot: Snapshot, groups: Collection[str] | None = None
) -> dict[str, list[LakeFile]]:
    """The files of all groups or of some, by table, `views` included."""
    found = {table: snapshot.files(table, groups=groups) for table in (*EVENTS, VIEWS)}
    return {table: files for table, files in found.items() if files}
