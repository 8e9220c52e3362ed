"""Ingest: take new journal segments into a lake, each row once, and publish them atomically.

- A segment is (journal, number), a row (journal, lseq). A sealed segment is taken once. From an
  unsealed one, whose member is running or was killed, the rows that were added since are taken.
- A segment with unreadable parts is replaced by a copy that has more of it.
- Overlapping and duplicate copies count once; the journals of any groups and clusters may come in
  parts, in any order.
- Nothing is visible before the version that has it. An ingest that was killed leaves the lake
  unchanged, and the next one starts from there.

`since` skips segments that ended before an instant. Their rows are missing evidence, as if their
files had not been given: journals that begin in the middle count as torn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.pipeline.ingest_task import Taken, Task, can_refer, refer
from phalanx.pipeline.lake.lake import Lake, LakeConflict
from phalanx.pipeline.lake.lake_facts import delete_rows, put_facts, put_views
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.lake.lake_maintenance import compact_tables
from phalanx.pipeline.lake.lake_schema import ViewMembers
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change
from phalanx.pipeline.schemas import EVENTS, JOURNALS
from phalanx.pipeline.segment_source import Offer, find_offers
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts, grown, journals_of
from phalanx.pipeline.task_runner import Progress, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_BYTES = 8 << 20
"""Up to so much is taken in this process: starting workers would take longer."""
TASK_BYTES = 32 << 20
ATTEMPTS = 3
"""How often an ingest begins again after another process has published a version."""
SMALL_FILES_MAX = 16
"""An ingest compacts the partitions that it would leave with more small files than this."""


class Ingested(msgspec.Struct, kw_only=True):
    """What an ingest did."""

    version: int = 0
    """The newest of the lake: a new one only if anything was taken."""
    segments: int = 0
    again: int = 0
    """Segments among them that had been taken before and have grown since."""
    before: int = 0
    """Segments that the lake had already."""
    passed: int = 0
    """Segments that ended before `since`."""
    rows: int = 0
    """Rows that were added."""
    corrupt: int = 0
    journals: int = 0
    """Journals in the lake now."""


class TableFiles(NamedTuple):
    """Parquet files by table, and the facts of the journals whose rows they hold."""

    files: dict[str, list[LakeFile]]
    journals: list[JournalFacts]


def ingest(
    paths: Sequence[str | Path],
    lake: str | Path,
    *,
    spark: Callable[[], SparkSession] | None = None,
    since_ns: int | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Takes what is new in journals and exports. `spark` is asked for a session if there is much
    to do; without it all is done in this process. JournalError or PipelineError for what cannot
    be taken; the lake is then as before."""
    offers = find_offers(paths)
    there = Lake.create(lake)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with change(there, "ingest") as transaction:
                return _ingest(offers, transaction, spark, since_ns, progress)
        except LakeConflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def gather(
    paths: Sequence[str | Path],
    place: Path,
    spark: Callable[[], SparkSession] | None = None,
    progress: Progress | None = None,
) -> TableFiles:
    """Journals as Parquet files in a temporary folder; exported files stay where they are."""
    offers = find_offers(paths)
    there = [offer for offer in offers if can_refer(offer)]
    others = [offer for offer in offers if not can_refer(offer)]
    taken = list(refer(there))
    tasks = _packed(others, str(place.resolve()), "journals", to_lake=False)
    notes = place / "_work"
    notes.mkdir(parents=True, exist_ok=True)
    taken += run(tasks, notes, _wanted(spark, tasks), progress)
    _explain(taken)
    files: dict[str, list[LakeFile]] = {}
    for some in taken:
        for table, listed in some.files.items():
            files.setdefault(table, []).extend(listed)
    return TableFiles(files, journals_of(s for some in taken for s in some.segments))


class _Choice(NamedTuple):
    """A segment to take. `had` is what the lake has of it."""

    offer: Offer
    had: SegmentFacts | None = None
    replaces: bool = False
    """The rows replace those that the lake has; else they are added."""


def _ingest(
    offers: Sequence[Offer],
    transaction: LakeTransaction,
    spark: Callable[[], SparkSession] | None,
    since_ns: int | None,
    progress: Progress | None,
) -> Ingested:
    groups = {offer.header.group for offer in offers}
    known = {segment.key: segment for segment in transaction.base.segments(groups=groups)}
    choices, done = _choose(offers, known, since_ns)
    by_key = {choice.offer.key: choice for choice in choices}
    tasks = _tasks(choices, transaction)
    taken = run(tasks, transaction.work, _wanted(spark, tasks), progress)
    _explain(taken)
    changed: dict[tuple[str, int], SegmentFacts] = {}
    views: dict[tuple[str, ...], ViewMembers] = {}
    for some in taken:
        news = [(segment, by_key[segment.key]) for segment in some.segments]
        better = [(segment, choice) for segment, choice in news if _is_news(segment, choice)]
        done.before += len(news) - len(better)
        done.again -= sum(choice.had is not None for _, choice in news)
        done.again += sum(choice.had is not None for _, choice in better)
        if not better:
            _discard(some)
            continue
        for segment, choice in better:
            if choice.had is None:
                changed[segment.key] = segment
            elif choice.replaces:
                delete_rows(transaction, choice.had)
                changed[segment.key] = segment
            else:
                changed[segment.key] = grown(choice.had, segment)
            done.rows += segment.rows
            done.corrupt += segment.corrupt
        for table, files in some.files.items():
            transaction.add(table, files)
        views.update({view.key: view for view in some.views})
    if changed:
        transaction.create(EVENTS)
        put_views(transaction, views.values())
        put_facts(transaction, (known | changed).values(), changed.values())
        compact_tables(transaction, SMALL_FILES_MAX)
    done.segments = len(changed)
    done.journals = sum(file.rows for file in transaction.files(JOURNALS))
    done.version = transaction.commit()
    return done


def _choose(
    offers: Sequence[Offer], known: Mapping[tuple[str, int], SegmentFacts], since_ns: int | None
) -> tuple[list[_Choice], Ingested]:
    done = Ingested()
    chosen = []
    for offer in offers:
        had = known.get(offer.key)
        damaged = had is not None and not had.deleted and bool(had.corrupt or not had.whole)
        has_grown = had is not None and not had.sealed and offer.size > had.bytes
        if had is not None and not has_grown and not (damaged and had.corrupt):
            done.before += 1
        elif since_ns is not None and offer.end_ns is not None and offer.end_ns < since_ns:
            done.passed += 1
        else:
            done.again += had is not None
            if had is not None and not damaged:
                offer = msgspec.structs.replace(offer, taken=had.taken)
            chosen.append(_Choice(offer, had, damaged))
    return chosen, done


def _is_news(segment: SegmentFacts, choice: _Choice) -> bool:
    """The segment has more than the lake has of it."""
    had = choice.had
    if had is None:
        return True
    if not choice.replaces:
        return segment.rows > 0 or segment.sealed > had.sealed
    has_grown = segment.bytes > had.bytes and segment.rows > had.rows
    return has_grown or (segment.corrupt, -segment.rows) < (had.corrupt, -had.rows)


def _discard(taken: Taken) -> None:
    for files in taken.files.values():
        for file in files:
            Path(file.path).unlink(missing_ok=True)


def _tasks(choices: Sequence[_Choice], transaction: LakeTransaction) -> list[Task]:
    """Neighbours share a task; segments that replace others have one each, to be discarded if they
    have no more than the lake has."""
    folder, writer = str(transaction.lake.place), transaction.writer
    tasks = _packed([choice.offer for choice in choices if not choice.replaces], folder, writer)
    for choice in choices:
        if choice.replaces:
            tasks.append(Task(folder, f"{writer}-{len(tasks):05}", [choice.offer]))
    return tasks


def _packed(offers: Sequence[Offer], folder: str, name: str, to_lake: bool = True) -> list[Task]:
    """Neighbours share a task, up to a size that keeps all cores busy."""
    total = sum(offer.work for offer in offers)
    limit = min(TASK_BYTES, max(1 << 20, total // (3 * (os.cpu_count() or 1))))
    tasks: list[Task] = []
    room = 0
    for offer in offers:
        if not tasks or offer.work > room:
            tasks.append(Task(folder, f"{name}-{len(tasks):05}", [], to_lake))
            room = limit
        tasks[-1].offers.append(offer)
        room -= offer.work
    return tasks


def _wanted(spark: Callable[[], SparkSession] | None, tasks: Sequence[Task]) -> SparkSession | None:
    much = len(tasks) > 1 and sum(task.work for task in tasks) > SMALL_BYTES
    return spark() if spark is not None and much else None


def _explain(taken: Sequence[Taken]) -> None:
    for some in taken:
        if some.problem is not None:
            file, problem, remedy = some.problem
            raise JournalError(file, None, problem, remedy)
