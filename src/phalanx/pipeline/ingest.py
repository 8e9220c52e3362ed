"""Ingest: take new journal segments into a lake, each row once, and publish them atomically.

- A segment is (journal, number). A sealed segment is taken once. An unsealed segment, whose member
  is running or was killed, is taken again when it has grown, and replaces its earlier rows. A
  segment with unreadable parts is replaced by a copy that has more of it.
- Overlapping and duplicate copies count once; the journals of a group may come in parts, in any
  order.
- Sealed segments share files. A segment that may be replaced has files of its own, so that the next
  manifest can leave them out.
- Nothing is visible before the manifest that lists it. An ingest that was killed leaves the lake
  unchanged, and the next one starts from there.

`since` skips segments that ended before an instant. Their rows are missing evidence, as if their
files had not been given: journals that begin in the middle count as torn.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from phalanx.errors import JournalError, PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.parquet_writer import WrittenFile
from phalanx.pipeline.ingest_task import Taken, Task, can_refer, refer, take_of
from phalanx.pipeline.schemas import JOURNALS, SEGMENTS, arrow_schema
from phalanx.pipeline.segment_source import Offer, check_clusters, find_offers
from phalanx.pipeline.segment_stats import JournalFacts, SegmentFacts, journals_of
from phalanx.pipeline.store import Manifest, Store
from phalanx.pipeline.task_runner import Progress, run

SMALL_BYTES = 8 << 20
"""Up to so much is taken in this process: starting workers would take longer."""
TASK_BYTES = 32 << 20


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
    corrupt: int = 0
    journals: int = 0
    """Journals in the lake now."""


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
    store = Store.create(lake)
    with store.writing() as writer:
        before = store.at()
        if before.manifest.cluster is not None:
            check_clusters(offers, (str(lake), before.manifest.cluster))
        known = {(s.journal, s.number): s for s in _segments(before.paths("silver", SEGMENTS))}
        new, done = _choose(offers, known, since_ns)
        tasks = _tasks(new, str(store.place.resolve()), writer)
        taken = run(tasks, store.place, writer, _wanted(spark, tasks), progress)
        _explain(taken)
        taken, kept = _better(taken, known, store.place)
        done.before += kept
        done.again -= kept
        if not any(some.segments for some in taken):
            done.version = before.manifest.version
            done.journals = len(journals_of(known.values()))
            return done
        made, journals = merged(before.manifest, known, taken, store.place, writer)
        version = store.commit(made, writer, "ingest").version
        _report(done, taken, journals)
        done.version = version
        return done


def gather(
    paths: Sequence[str | Path],
    place: Path,
    spark: Callable[[], SparkSession] | None = None,
    progress: Progress | None = None,
) -> Store:
    """A lake for a while: exported files are left where they are, and all others share files."""
    offers = find_offers(paths)
    store = Store.create(place)
    with store.writing() as writer:
        there = [offer for offer in offers if can_refer(offer)]
        others = [offer for offer in offers if not can_refer(offer)]
        taken = list(refer(there, f"{writer}-export"))
        tasks = _packed(others, str(place.resolve()), writer)
        taken += run(tasks, place, writer, _wanted(spark, tasks), progress)
        _explain(taken)
        made, _ = merged(Manifest(), {}, taken, place, writer)
        store.commit(made, writer, "open")
    return store


def _choose(
    offers: Sequence[Offer], known: dict[tuple[str, int], SegmentFacts], since_ns: int | None
) -> tuple[list[Offer], Ingested]:
    done = Ingested()
    new = []
    sharing = Counter(segment.take for segment in known.values())
    for offer in offers:
        had = known.get(offer.key)
        if had is not None and (sharing[had.take] > 1 or not _may_give_more(offer, had)):
            done.before += 1
        elif since_ns is not None and offer.end_ns is not None and offer.end_ns < since_ns:
            done.passed += 1
        else:
            done.again += had is not None
            new.append(offer)
    return new, done


def _may_give_more(offer: Offer, had: SegmentFacts) -> bool:
    return bool(had.corrupt) or (not had.sealed and offer.size > had.bytes)


def _better(
    taken: Sequence[Taken], known: dict[tuple[str, int], SegmentFacts], place: Path
) -> tuple[list[Taken], int]:
    """Without damaged segments that give no more than they did before, and how many those are;
    their files go."""
    left: list[Taken] = []
    same: set[str] = set()
    for some in taken:
        for segment in some.segments:
            had = known.get((segment.journal, segment.number))
            if had is not None and had.corrupt and not _is_better(segment, had):
                same.add(segment.take)
    for some in taken:
        files = {}
        for table, listed in some.files.items():
            for file in listed:
                if take_of(file) in same:
                    (place / file.path).unlink(missing_ok=True)
            files[table] = [file for file in listed if take_of(file) not in same]
        segments = [segment for segment in some.segments if segment.take not in same]
        left.append(Taken(segments, files))
    return left, len(same)


def _is_better(segment: SegmentFacts, had: SegmentFacts) -> bool:
    grown = segment.bytes > had.bytes
    return (segment.corrupt, -segment.rows) < (had.corrupt, -had.rows) or grown


def _tasks(offers: Sequence[Offer], lake: str, writer: str) -> list[Task]:
    """Sealed segments together, the others one by one."""
    tasks = _packed([offer for offer in offers if offer.sealed], lake, writer)
    for offer in offers:
        if not offer.sealed:
            tasks.append(Task(lake, f"{writer}-{len(tasks):05}", [offer]))
    return tasks


def _packed(offers: Sequence[Offer], lake: str, writer: str) -> list[Task]:
    """Neighbours share a task, up to a size that keeps all cores busy."""
    total = sum(offer.work for offer in offers)
    limit = min(TASK_BYTES, max(1 << 20, total // (3 * (os.cpu_count() or 1))))
    tasks: list[Task] = []
    room = 0
    for offer in offers:
        if not tasks or offer.work > room:
            tasks.append(Task(lake, f"{writer}-{len(tasks):05}", []))
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


# ---------------------------------------------------------------------- the next manifest


def merged(
    before: Manifest,
    known: dict[tuple[str, int], SegmentFacts],
    taken: Sequence[Taken],
    place: Path,
    writer: str,
) -> tuple[Manifest, list[JournalFacts]]:
    """The lake with what was taken; writes the tables `segments` and `journals` anew."""
    fresh = {(s.journal, s.number): s for some in taken for s in some.segments}
    replaced = {known[key].take for key in fresh if key in known}
    segments = [(known | fresh)[key] for key in sorted(known | fresh)]
    journals = journals_of(segments)
    bronze = {name: list(files) for name, files in before.bronze.items()}
    silver = {
        name: [file for file in files if take_of(file) not in replaced]
        for name, files in before.silver.items()
    }
    for some in taken:
        for name, files in some.files.items():
            bronze.setdefault(name, []).extend(files)
            silver.setdefault(name, []).extend(files)
    silver[SEGMENTS] = [_write(segments, SEGMENTS, place, writer)]
    silver[JOURNALS] = [_write(journals, JOURNALS, place, writer)]
    cluster = segments[0].cluster if segments else None
    made = msgspec.structs.replace(before, cluster=cluster, bronze=bronze, silver=silver)
    return made, journals


def _write(rows: Sequence[Any], table: str, place: Path, writer: str) -> WrittenFile:
    pa = arrow()
    path = place / "silver" / table / f"{writer}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = pa.Table.from_pylist(
        [msgspec.structs.asdict(row) for row in rows], schema=arrow_schema(table)
    )
    pa.parquet.write_table(made, path, compression="zstd")
    return WrittenFile(str(path.relative_to(place)), len(rows), path.stat().st_size)


def _segments(paths: Sequence[str]) -> list[SegmentFacts]:
    pa = arrow()
    found = []
    for path in paths:
        try:
            rows = pa.parquet.read_table(path).to_pylist()
            found += [msgspec.convert(row, SegmentFacts) for row in rows]
        except (pa.ArrowException, OSError, msgspec.ValidationError) as error:
            problem = "this file of the lake is missing or damaged"
            remedy = "restore it, or ingest the journals into a new lake"
            raise PipelineError(path, problem, remedy) from error
    return found


def _report(done: Ingested, taken: Sequence[Taken], journals: Sequence[JournalFacts]) -> None:
    segments = [segment for some in taken for segment in some.segments]
    done.segments = len(segments)
    done.rows = sum(segment.rows for segment in segments)
    done.corrupt = sum(segment.corrupt for segment in segments)
    done.journals = len(journals)
