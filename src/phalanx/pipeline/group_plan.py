"""Plan which files a task reads to have all rows of its groups.

A group in a run is the unit: runs never interact, so a task that has whole groups needs no other
task. A plan begins as one task of everything; `split` divides it by groups and puts small groups
together. Only headers, and the first rows of each journal, are read here. Runs without Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from phalanx.errors import JournalError, PipelineError
from phalanx.journal import parquet_export
from phalanx.journal.blocks import announced_rows
from phalanx.journal.columnar_reader import ColumnarReader, Copy, ScanSummary
from phalanx.journal.segment import ending
from phalanx.pipeline.group_tables import (
    GroupKey,
    GroupTables,
    tables_of_files,
    tables_of_offers,
)
from phalanx.pipeline.lake.lake import Lake, is_lake
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.lake.lake_groups import files_of_groups
from phalanx.pipeline.segment_source import Offer, find_offers
from phalanx.pipeline.segment_stats import JournalFacts

TASKS = 96
"""So many tasks keep a cluster busy; the size of the driver's machine does not matter."""
TASK_BYTES_MIN = 1 << 20
TASK_BYTES_MAX = 32 << 20
ROW_BYTES_MIN = 2
"""A row of a raw journal takes no less."""
NAMED_MAX = 8
_PEEK_BYTES = 1 << 16


class GroupTask(msgspec.Struct, frozen=True, kw_only=True):
    """Files that hold all rows of some groups: segments, or Parquet files and the journals in them
    that belong to these groups."""

    bytes: int
    offers: list[Offer] = []
    journals: list[JournalFacts] = []
    files: dict[str, list[LakeFile]] = {}
    """By table. Other tasks may read the same files."""


def plan_groups(
    paths: Sequence[str | Path], *, at: int | None = None, group: str | None = None
) -> GroupTask:
    """One task of everything in these journals, exported folders or lake (`at` a version), or of
    the groups with this name. JournalError for files that cannot be read, PipelineError for paths
    that do not go together and for a group that is not there."""
    lakes = [Path(path) for path in paths if is_lake(Path(path))]
    if lakes and len(paths) > 1:
        remedy = "give the lake alone, or ingest the rest into it"
        raise PipelineError(str(lakes[0]), "a lake among other paths", remedy)
    if lakes:
        return _of_lake(lakes[0], at, group)
    if at is not None:
        problem = "only a lake has versions"
        raise PipelineError(str(paths[0]), problem, "leave out the version, or give a lake")
    found = find_offers(paths)
    offers = [offer for offer in found if group in (None, offer.header.group)]
    if not offers:
        raise unknown_name(f"group {group!r}", "groups", [offer.header.group for offer in found])
    return GroupTask(bytes=sum(offer.size for offer in offers), offers=offers)


def unknown_name(what: str, kind: str, known: Iterable[str]) -> PipelineError:
    """The error for a name that is not in the journals; lists the names that are."""
    names = sorted(set(known))
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    there = ", ".join(names[:NAMED_MAX]) + more if names else "none"
    return PipelineError(what, "there is no journal of it", f"{kind} in these journals: {there}")


def _of_lake(lake: Path, at: int | None, group: str | None) -> GroupTask:
    """The only function that depends on how a lake lists its files."""
    snapshot = Lake(lake).snapshot(at)
    groups = None if group is None else [group]
    journals = snapshot.journals(groups=groups)
    if group is not None and not journals and (known := snapshot.journals()):
        raise unknown_name(f"group {group!r}", "groups", [facts.group for facts in known])
    files = files_of_groups(snapshot, groups)
    for file in (file for some in files.values() for file in some):
        if not Path(file.path).is_file():
            remedy = "restore it, or ingest the journals into a new lake"
            raise PipelineError(file.path, "a file of the lake is missing", remedy)
    return GroupTask(bytes=_bytes(files), journals=journals, files=files)


def _bytes(files: Mapping[str, Sequence[LakeFile]]) -> int:
    return sum(file.bytes for some in files.values() for file in some)


def read_task(task: GroupTask) -> list[GroupTables]:
    """The groups of a task, in the order of their keys."""
    if task.files:
        return tables_of_files(task.journals, task.files)
    return tables_of_offers(task.offers)


def rows_of(task: GroupTask) -> int:
    """How many rows the groups of a task have, about: as journals of a lake, notes of exports, and
    footers or heads of blocks say. No rows are read."""
    found = _listed_rows(task)
    for offer in task.offers:
        if offer.note is None:
            found += max(_announced(Path(copy.path), copy.size) for copy in offer.copies)
    return found


def rows_max(task: GroupTask) -> int:
    """They have no more rows than this, by the sizes of their files: raw ones are not opened."""
    raw = sum(offer.size for offer in task.offers if offer.note is None)
    return _listed_rows(task) + raw // ROW_BYTES_MIN


def _listed_rows(task: GroupTask) -> int:
    notes = [parquet_export.note_of(Path(o.note)) for o in task.offers if o.note is not None]
    found = sum(facts.rows for facts in task.journals)
    return found + sum(rows for note in notes for rows in note.tables.values())


def _announced(path: Path, size: int) -> int:
    footer = ending(path)
    if footer is not None:
        return footer.rows
    try:
        with path.open("rb") as file, mmap(file.fileno(), size, access=ACCESS_READ) as data:
            return announced_rows(data)
    except (OSError, ValueError) as error:  # it has gone, or has become shorter
        problem = f"cannot be read ({error})"
        raise JournalError(str(path), None, problem, "give the journals once more") from error


# ---------------------------------------------------------------------- tasks of bounded size


def split(plan: GroupTask) -> list[GroupTask]:
    """Tasks of whole groups, in the order of their keys."""
    limit = min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, plan.bytes // TASKS))
    tasks: list[GroupTask] = []
    for one in by_group(plan).values():
        if tasks and tasks[-1].bytes + one.bytes <= limit:
            tasks[-1] = joined([tasks[-1], one])
        else:
            tasks.append(one)
    return tasks


def joined(tasks: Sequence[GroupTask]) -> GroupTask:
    """One task of the groups of several."""
    files: dict[str, list[LakeFile]] = {}
    for task in tasks:
        files = _joined(files, task.files)
    return GroupTask(
        bytes=sum(task.bytes for task in tasks),
        offers=[offer for task in tasks for offer in task.offers],
        journals=[facts for task in tasks for facts in task.journals],
        files=files,
    )


def by_group(plan: GroupTask) -> dict[GroupKey, GroupTask]:
    """A task for each group, in the order of their keys."""
    if plan.files:
        facts_of: dict[GroupKey, list[JournalFacts]] = {}
        for facts in plan.journals:
            key = GroupKey(facts.cluster, facts.run, facts.group)
            facts_of.setdefault(key, []).append(facts)
        rows: Counter[str] = Counter()
        for facts in plan.journals:
            rows[facts.group] += facts.rows
        files = _files_by_group(plan.files)
        return {
            key: _part(some, files.get(key.group, {}), rows[key.group])
            for key, some in sorted(facts_of.items())
        }
    runs: dict[str, str] = {}
    for offer in plan.offers:
        if not runs.get(offer.header.journal):
            runs[offer.header.journal] = _run_of(offer)
    offers_of: dict[GroupKey, list[Offer]] = {}
    for offer in plan.offers:
        header = offer.header
        key = GroupKey(header.cluster, runs[header.journal], header.group)
        offers_of.setdefault(key, []).append(offer)
    return {
        key: GroupTask(bytes=sum(offer.size for offer in offers_of[key]), offers=offers_of[key])
        for key in sorted(offers_of)
    }


def _files_by_group(
    files: Mapping[str, Sequence[LakeFile]],
) -> dict[str, dict[str, list[LakeFile]]]:
    """Files by the name of their group and by table. All runs and clusters of a name share them."""
    found: dict[str, dict[str, list[LakeFile]]] = {}
    for table, some in files.items():
        for file in some:
            found.setdefault(file.group, {}).setdefault(table, []).append(file)
    return found


def _part(journals: list[JournalFacts], files: dict[str, list[LakeFile]], rows: int) -> GroupTask:
    """A group among others of its name, which have so many rows together."""
    mine = sum(facts.rows for facts in journals)
    return GroupTask(bytes=_bytes(files) * mine // max(1, rows), journals=journals, files=files)


def _joined(
    some: Mapping[str, Sequence[LakeFile]], others: Mapping[str, Sequence[LakeFile]]
) -> dict[str, list[LakeFile]]:
    return {
        table: list(
            {file.path: file for file in (*some.get(table, ()), *others.get(table, ()))}.values()
        )
        for table in {**some, **others}
    }


def _run_of(offer: Offer) -> str:
    """The run of a segment's rows, from the first of them; empty if none can be read."""
    if offer.note is not None:
        note = parquet_export.note_of(Path(offer.note))
        if note.found is not None:
            return msgspec.convert(note.found, ScanSummary).run
        return next((facts.key.run for facts in tables_of_offers([offer])), "")
    for size in (_PEEK_BYTES, offer.size):
        scan = ColumnarReader([Copy(copy.path, min(copy.size, size)) for copy in offer.copies])
        for _ in scan:
            if scan.found.run:
                return scan.found.run
    return ""
