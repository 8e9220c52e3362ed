"""Taking segments: one task reads some of them and writes one file for each table.

A task is all that a worker needs to know, and what it gives back is all that the driver does. It
may be run again, also while another attempt at it still runs: the same rows under the same names.
Runs wherever Python does, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import parquet
from phalanx.journal.arrow import IDENTITY, arrow, schema
from phalanx.journal.scan import Found, Scan
from phalanx.journal.tablefiles import TableFiles, Written
from phalanx.pipeline.facts import SegmentFacts, segment_facts
from phalanx.pipeline.offers import Offer

_BATCH_ROWS = 1 << 18
_AGAIN = "export again to another folder, or give the journals themselves"


class Task(msgspec.Struct, frozen=True):
    """Some segments, and the files that their rows go to: LAKE/bronze/TABLE/NAME.parquet."""

    lake: str
    name: str
    offers: list[Offer]

    @property
    def bytes(self) -> int:
        return sum(offer.size for offer in self.offers)


class Taken(msgspec.Struct, frozen=True):
    """What a task did. Paths are within the lake, or absolute."""

    segments: list[SegmentFacts] = []
    files: dict[str, list[Written]] = {}
    problem: tuple[str, str, str] | None = None
    """A file that cannot be read or written, why, and the remedy; nothing was written then."""


def take(task: Task) -> Taken:
    """Writes the files, all or none."""
    lake = Path(task.lake)
    files = TableFiles(lambda table: lake / "bronze" / table / f"{task.name}.parquet")
    try:
        segments = [_take(offer, task.name, files) for offer in task.offers]
        written = files.finish()
    except JournalError as error:
        files.abandon()
        return Taken(problem=(error.file, error.problem, error.remedy))
    except OSError as error:
        files.abandon()
        problem = f"cannot be written ({error.strerror or error})"
        remedy = "make room, or choose another place"
        return Taken(problem=(str(error.filename or lake), problem, remedy))
    except BaseException:
        files.abandon()
        raise
    listed = {
        table: [Written(str(Path(file.path).relative_to(lake)), file.rows, file.bytes)]
        for table, file in written.items()
    }
    return Taken(segments, listed)


def refer(offers: Iterable[Offer], name: str) -> Iterator[Taken]:
    """The exported files as they are, where they are; those that journals share, once."""
    pa = arrow()
    seen: set[Path] = set()
    for i, offer in enumerate(offers):
        assert offer.note is not None
        path = Path(offer.note)
        note = parquet.note_of(path)
        assert note.found is not None
        found = msgspec.convert(note.found, Found)
        files = {}
        for table, total in note.tables.items():
            place = _exported_file(path, note, table)
            if place in seen:
                continue
            if note.shared is not None:
                seen.add(place)
                total = pa.parquet.read_metadata(place).num_rows
            files[table] = [Written(str(place), total, place.stat().st_size)]
        facts = segment_facts(note.header, found, note.bytes, f"{name}-{i}")
        yield Taken([facts], files)


def can_refer(offer: Offer) -> bool:
    """Exported files that have all columns."""
    if offer.note is None:
        return False
    return parquet.note_of(Path(offer.note)).layout >= parquet.LAYOUT


def _take(offer: Offer, name: str, files: TableFiles) -> SegmentFacts:
    if offer.note is not None:
        return _take_exported(offer, name, files)
    scan = Scan(offer.copies)
    for rows in scan:
        files.add(rows)
    return segment_facts(scan.header, scan.found, offer.size, name)


# ---------------------------------------------------------------------- exported segments


def _take_exported(offer: Offer, name: str, files: TableFiles) -> SegmentFacts:
    assert offer.note is not None
    path = Path(offer.note)
    note = parquet.note_of(path)
    same = {"cluster": note.header.cluster, "journal": note.header.journal}
    counted = Found(sealed=int(note.sealed))
    for table, rows in note.tables.items():
        place = _exported_file(path, note, table)
        there = 0
        for batch in _batches(place, table, same, note.shared is not None):
            there += batch.num_rows
            if note.found is None:
                _count(counted, table, batch)
            files.add_batch(table, batch)
        if there != rows:
            raise JournalError(str(place), None, f"{there} rows instead of {rows}", _AGAIN)
    found = counted if note.found is None else msgspec.convert(note.found, Found)
    if note.found is None:
        found.whole = int(not found.rows or found.rows == found.last - found.first + 1)
    return segment_facts(note.header, found, note.bytes, name)


def _exported_file(path: Path, note: parquet.Note, table: str) -> Path:
    place = path.parent.parent / table / f"{note.shared or path.stem}.parquet"
    if not place.is_file():
        raise JournalError(str(place), None, "the exported file is missing", _AGAIN)
    return place


def _batches(
    place: Path, table: str, same: Mapping[str, str], shared: bool = False
) -> Iterator[Any]:
    """Of a file of either layout, with all columns; of one that journals share, the rows of this
    one. JournalError for anything else."""
    pa = arrow()
    wanted = schema(table)
    try:
        with pa.parquet.ParquetFile(place) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                mine = batch
                if shared:
                    mine = batch.filter(pa.compute.equal(batch["journal"], same["journal"]))
                yield _with_identity(pa, mine, wanted, same)
    except (pa.ArrowException, OSError) as error:
        raise JournalError(str(place), None, f"not a table ({error})", _AGAIN) from error


def _with_identity(pa: Any, batch: Any, wanted: Any, same: Mapping[str, str]) -> Any:
    arrays = []
    for field in wanted:
        if field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
        elif field.name in IDENTITY:
            arrays.append(pa.repeat(pa.scalar(same[field.name]), batch.num_rows))
        else:  # a column that its writer did not know
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.record_batch(arrays, schema=wanted)


def _count(found: Found, table: str, batch: Any) -> None:
    """What a note of the first layout does not say."""
    if not batch.num_rows:
        return
    lseqs = batch.column("lseq").to_pylist()
    first, last = lseqs.index(min(lseqs)), lseqs.index(max(lseqs))
    if table != "corrupt" and (not found.run or lseqs[first] < found.first):
        found.run = batch.column("run")[first].as_py()
    if not found.rows or lseqs[first] < found.first:
        found.first = lseqs[first]
    if lseqs[last] > found.last:
        found.last = lseqs[last]
        found.end_t_ns = batch.column("t_ns")[last].as_py()
        found.end_sim_ns = batch.column("sim_ns")[last].as_py()
    found.rows += batch.num_rows
    if table in ("gap", "corrupt"):
        found.lost += batch.num_rows
    if table == "corrupt":
        found.corrupt += batch.num_rows
    if table == "life" and "STOP" in batch.column("op").to_pylist():
        found.stopped = 1
