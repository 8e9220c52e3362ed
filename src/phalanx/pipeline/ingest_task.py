"""One task of an ingest: read some segments and write a file for each table.

A task contains all that a worker needs, and its result all that the driver needs. A task may run
again, also while another attempt still runs: it writes the same rows under the same names. Exported
files that are large enough are copied unchanged. Runs without Spark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal import renamed
from phalanx.journal.arrow_schema import IDENTITY, arrow, schema
from phalanx.journal.columnar_reader import ColumnarReader, ScanSummary
from phalanx.journal.parquet_writer import ParquetTableWriter, WrittenFile
from phalanx.pipeline.segment_source import Offer
from phalanx.pipeline.segment_stats import SegmentFacts, segment_facts

COPY_BYTES = 1 << 20
"""Smaller files of many segments become one."""
_BATCH_ROWS = 1 << 18
_AGAIN = "export again to another folder, or give the journals themselves"


class Task(msgspec.Struct, frozen=True):
    """Some segments, and the files that their rows go to: LAKE/bronze/TABLE/NAME.parquet."""

    lake: str
    name: str
    offers: list[Offer]

    @property
    def work(self) -> int:
        return sum(offer.work for offer in self.offers)


class Taken(msgspec.Struct, frozen=True):
    """What a task did. Paths are within the lake, or absolute."""

    segments: list[SegmentFacts] = []
    files: dict[str, list[WrittenFile]] = {}
    problem: tuple[str, str, str] | None = None
    """A file that cannot be read or written, why, and the remedy; nothing was written then."""


def take(task: Task) -> Taken:
    """Writes the files, all or none. A segment that is damaged gets files of its own, so that a
    whole copy can replace it."""
    taking = _Taking(task)
    try:
        segments = [taking.take(offer) for offer in task.offers]
        damaged = [bool(segment.corrupt) for segment in segments]
        if any(damaged) and len(damaged) > 1:
            taking.abandon()
            return _take_apart(task, damaged)
        return Taken(segments, taking.finish())
    except JournalError as error:
        taking.abandon()
        return Taken(problem=(error.file, error.problem, error.remedy))
    except OSError as error:
        taking.abandon()
        problem = f"cannot be written ({error.strerror or error})"
        remedy = "make room, or choose another place"
        return Taken(problem=(str(error.filename or task.lake), problem, remedy))
    except BaseException:
        taking.abandon()
        raise


def _take_apart(task: Task, damaged: Sequence[bool]) -> Taken:
    """The damaged ones one by one, the others together."""
    whole = [offer for offer, bad in zip(task.offers, damaged, strict=True) if not bad]
    parts = [Task(task.lake, task.name, whole)] if whole else []
    for i, (offer, bad) in enumerate(zip(task.offers, damaged, strict=True)):
        if bad:
            parts.append(Task(task.lake, f"{task.name}-{i:05}", [offer]))
    segments: list[SegmentFacts] = []
    files: dict[str, list[WrittenFile]] = {}
    for part in parts:
        done = take(part)
        if done.problem is not None:
            return done  # what the parts before wrote goes with their writer
        segments += done.segments
        for table, some in done.files.items():
            files.setdefault(table, []).extend(some)
    return Taken(segments, files)


def take_of(file: WrittenFile) -> str:
    """The take that a file is of."""
    return Path(file.path).name.partition(".")[0]


def refer(offers: Iterable[Offer], name: str) -> Iterator[Taken]:
    """The exported files as they are, where they are; those that journals share, once."""
    pa = arrow()
    seen: set[Path] = set()
    for i, offer in enumerate(offers):
        assert offer.note is not None
        path = Path(offer.note)
        note = parquet.note_of(path)
        assert note.found is not None
        found = msgspec.convert(note.found, ScanSummary)
        files = {}
        for table, total in note.tables.items():
            place = _exported_file(path, note, table)
            if place in seen:
                continue
            if note.shared is not None:
                seen.add(place)
                total = pa.parquet.read_metadata(place).num_rows
            files[table] = [WrittenFile(str(place), total, place.stat().st_size)]
        facts = segment_facts(note.header, found, note.bytes, f"{name}-{i}")
        yield Taken([facts], files)


def can_refer(offer: Offer) -> bool:
    """Exported files that have all columns, under names that Spark does not pass over."""
    if offer.note is None:
        return False
    path = Path(offer.note)
    note = parquet.note_of(path)
    return note.layout >= parquet.LAYOUT and (note.shared or path.stem)[0] not in "_."


class _Taking:
    """One attempt at a task."""

    def __init__(self, task: Task) -> None:
        self._lake = Path(task.lake)
        self._name = task.name
        self._files = ParquetTableWriter(lambda table: self._place(table, task.name))
        self._copies: list[tuple[str, WrittenFile]] = []

    def take(self, offer: Offer) -> SegmentFacts:
        if offer.note is not None:
            return self._take_exported(Path(offer.note))
        scan = ColumnarReader(offer.copies, after=offer.after)
        for rows in scan:
            self._files.add(rows)
        return segment_facts(scan.header, scan.found, offer.size, self._name)

    def finish(self) -> dict[str, list[WrittenFile]]:
        """All files, by their paths within the lake."""
        listed: dict[str, list[WrittenFile]] = {}
        for table, file in [*self._copies, *self._files.finish().items()]:
            path = str(Path(file.path).relative_to(self._lake))
            listed.setdefault(table, []).append(WrittenFile(path, file.rows, file.bytes))
        return listed

    def abandon(self) -> None:
        self._files.abandon()
        for _, copy in self._copies:
            with suppress(OSError):
                Path(copy.path).unlink()

    def _place(self, table: str, name: str) -> Path:
        return self._lake / "bronze" / table / f"{name}.parquet"

    def _take_exported(self, path: Path) -> SegmentFacts:
        note = parquet.note_of(path)
        same = {"cluster": note.header.cluster, "journal": note.header.journal}
        counted = ScanSummary(sealed=int(note.sealed))
        for folder, rows in note.tables.items():
            table = folder
            if note.layout < parquet.RENAMED_IN:
                table = renamed.TABLES.get(folder, folder)
            file = _exported_file(path, note, folder)
            shared = note.shared is not None
            if not shared and file.stat().st_size >= COPY_BYTES and _is_complete(file, table):
                there = self._copy(file, table)
            else:
                there = 0
                for batch in _batches(file, table, same, shared):
                    there += batch.num_rows
                    if note.found is None:
                        _count(counted, table, batch)
                    self._files.add_batch(table, batch)
            if there != rows:
                raise JournalError(str(file), None, f"{there} rows instead of {rows}", _AGAIN)
        found = counted if note.found is None else msgspec.convert(note.found, ScanSummary)
        if note.found is None:
            found.whole = int(not found.rows or found.rows == found.last - found.first + 1)
        return segment_facts(note.header, found, note.bytes, self._name)

    def _copy(self, file: Path, table: str) -> int:
        rows: int = arrow().parquet.read_metadata(file).num_rows
        place = self._place(table, f"{self._name}.{len(self._copies)}")
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f"_{place.name}.{os.getpid()}.tmp")
        with file.open("rb") as source, fresh.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
        fresh.rename(place)
        self._copies.append((table, WrittenFile(str(place), rows, place.stat().st_size)))
        return rows


# ---------------------------------------------------------------------- exported segments


class ExportedSegment:
    """The rows of one exported segment, and its facts once they have all been read."""

    def __init__(self, path: Path) -> None:
        self._path, self._note = path, parquet.note_of(path)
        self._counted = ScanSummary(sealed=int(self._note.sealed))

    def batches(self) -> Iterator[tuple[str, Any]]:
        """Tables and batches. JournalError if rows are missing."""
        note = self._note
        same = {"cluster": note.header.cluster, "journal": note.header.journal}
        for folder, rows in note.tables.items():
            table = folder
            if note.layout < parquet.RENAMED_IN:
                table = renamed.TABLES.get(folder, folder)
            file, there = _exported_file(self._path, note, folder), 0
            for batch in _batches(file, table, same, note.shared is not None):
                there += batch.num_rows
                if note.found is None:
                    _count(self._counted, table, batch)
                if batch.num_rows:
                    yield table, batch
            if there != rows:
                raise JournalError(str(file), None, f"{there} rows instead of {rows}", _AGAIN)

    def facts(self, take: str) -> SegmentFacts:
        note, found = self._note, self._counted
        if note.found is not None:
            found = msgspec.convert(note.found, ScanSummary)
        else:
            found.whole = int(not found.rows or found.rows == found.last - found.first + 1)
        return segment_facts(note.header, found, note.bytes, take)


def _is_complete(file: Path, table: str) -> bool:
    """It has all columns of the table, as they are now."""
    pa = arrow()
    try:
        return bool(pa.parquet.read_schema(file).equals(schema(table)))
    except (pa.ArrowException, OSError):
        return False


def _exported_file(path: Path, note: parquet.Note, table: str) -> Path:
    place = path.parent.parent / table / f"{note.shared or path.stem}.parquet"
    if not place.is_file():
        raise JournalError(str(place), None, "the exported file is missing", _AGAIN)
    return place


def _batches(
    place: Path, table: str, same: Mapping[str, str], shared: bool = False
) -> Iterator[Any]:
    """Of a file of any layout, with all columns; of one that journals share, the rows of this
    one. JournalError for anything else."""
    pa = arrow()
    wanted = schema(table)
    try:
        with pa.parquet.ParquetFile(place) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                mine = batch
                if shared:
                    mine = batch.filter(pa.compute.equal(batch["journal"], same["journal"]))
                yield _with_all_columns(pa, mine, table, wanted, same)
    except (pa.ArrowException, OSError) as error:
        raise JournalError(str(place), None, f"not a table ({error})", _AGAIN) from error


def _with_all_columns(pa: Any, batch: Any, table: str, wanted: Any, same: Mapping[str, str]) -> Any:
    """By the names of now. Only files of schema version 7 and before have a column `node`."""
    former = renamed.former_names(table) if "node" in batch.schema.names else {}
    arrays = []
    for field in wanted:
        stored = former.get(field.name, field.name)
        if stored in batch.schema.names:
            column = batch.column(stored).cast(field.type)
            values = renamed.VALUES.get((table, field.name), {}) if former else {}
            arrays.append(_translated(pa, column, values))
        elif field.name in IDENTITY:
            arrays.append(pa.repeat(pa.scalar(same[field.name]), batch.num_rows))
        else:  # a column that its writer did not know
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.record_batch(arrays, schema=wanted)


def _translated(pa: Any, column: Any, values: Mapping[str, str]) -> Any:
    if not values:
        return column
    return pa.array([values.get(value, value) for value in column.to_pylist()], column.type)


def _count(found: ScanSummary, table: str, batch: Any) -> None:
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
        if table != "corrupt":  # nobody knows the clock of what cannot be read
            found.end_sim_ns = batch.column("sim_ns")[last].as_py()
    found.rows += batch.num_rows
    if table in ("gap", "corrupt"):
        found.lost += batch.num_rows
    if table == "corrupt":
        found.corrupt += batch.num_rows
    if table == "life" and "STOP" in batch.column("op").to_pylist():
        found.stopped = 1
