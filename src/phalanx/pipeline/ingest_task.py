"""One task of an ingest: read some segments and write their rows as Parquet files.

A task contains all that a worker needs, and its result all that the driver needs. A task may run
again, also while another attempt still runs: it writes the same rows under the same names. Runs
without Spark and without deltalake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.columnar_reader import ScanSummary
from phalanx.pipeline.lake.lake_file import LakeFile, PartitionWriter
from phalanx.pipeline.lake.lake_schema import ViewMembers, day_of, to_lake
from phalanx.pipeline.segment_rows import SegmentRows, exported_file
from phalanx.pipeline.segment_source import Offer
from phalanx.pipeline.segment_stats import SegmentFacts, segment_facts


class Task(msgspec.Struct, frozen=True):
    """Some segments, and the files that their rows go to: FOLDER/TABLE/NAME-0.parquet. With
    `to_lake` they have the columns of a lake, and a file holds rows of one group and day."""

    folder: str
    name: str
    offers: list[Offer]
    to_lake: bool = True

    @property
    def work(self) -> int:
        return sum(offer.work for offer in self.offers)


class Taken(msgspec.Struct, frozen=True):
    """What a task did."""

    segments: list[SegmentFacts] = []
    files: dict[str, list[LakeFile]] = {}
    views: list[ViewMembers] = []
    """Views that were installed in these segments, each once."""
    problem: tuple[str, str, str] | None = None
    """A file that cannot be read or written, why, and the remedy; nothing was written then."""


def take(task: Task) -> Taken:
    """Writes the files, all or none."""
    files = PartitionWriter(Path(task.folder), task.name)
    views: dict[tuple[str, ...], ViewMembers] = {}
    segments = []
    try:
        for offer in task.offers:
            rows = SegmentRows(offer)
            group, day = offer.header.group, day_of(offer.header.wall_ns)
            for table, batch in rows.batches():
                if task.to_lake:
                    files.add(table, to_lake(table, batch, offer.header, views), group, day)
                else:
                    files.add(table, batch)
            segments.append(rows.facts())
        return Taken(segments, files.finish(), list(views.values()))
    except JournalError as error:
        return Taken(problem=(error.file, error.problem, error.remedy))
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        remedy = "make room, or choose another place"
        return Taken(problem=(str(error.filename or task.folder), problem, remedy))
    finally:
        files.abandon()


def refer(offers: Iterable[Offer]) -> Iterator[Taken]:
    """The exported files as they are, where they are; those that journals share, once."""
    pa = arrow()
    seen: set[Path] = set()
    for offer in offers:
        assert offer.note is not None
        path = Path(offer.note)
        note = parquet.note_of(path)
        assert note.found is not None
        files = {}
        for table, total in note.tables.items():
            place = exported_file(path, note, table)
            if place in seen:
                continue
            if note.shared is not None:
                seen.add(place)
                total = pa.parquet.read_metadata(place).num_rows
            files[table] = [LakeFile(str(place), total, place.stat().st_size)]
        found = msgspec.convert(note.found, ScanSummary)
        yield Taken([segment_facts(note.header, found, note.bytes)], files)


def can_refer(offer: Offer) -> bool:
    """Exported files that have all columns, under names that Spark does not pass over."""
    if offer.note is None:
        return False
    path = Path(offer.note)
    note = parquet.note_of(path)
    return note.layout >= parquet.LAYOUT and (note.shared or path.stem)[0] not in "_."
