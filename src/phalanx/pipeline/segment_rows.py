"""The rows of one segment as Arrow batches, from raw copies or from exported files.

Both kinds give the same batches and the same facts. Rows that were taken before (`Offer.taken`)
are left out, so that a segment that has grown gives only its new rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal import renamed
from phalanx.journal.arrow_schema import IDENTITY, arrow, schema
from phalanx.journal.column_buffer import ColumnBuffer
from phalanx.journal.columnar_reader import ColumnarReader, Rows, ScanSummary
from phalanx.journal.parquet_reader import open_parquet
from phalanx.pipeline.segment_source import Offer
from phalanx.pipeline.segment_stats import SegmentFacts, segment_facts

LSEQ_MAX = (1 << 63) - 1
_BATCH_ROWS = 1 << 18
_AGAIN = "export again to another folder, or give the journals themselves"


class SegmentRows:
    """The rows of a segment, and its facts once they have all been read."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._found = ScanSummary()

    def batches(self) -> Iterator[tuple[str, Any]]:
        """Tables and batches that are not empty. JournalError for what cannot be read."""
        if self._offer.note is not None:
            yield from self._exported(Path(self._offer.note))
        else:
            yield from self._raw()

    def facts(self) -> SegmentFacts:
        """Of the rows that were read."""
        return segment_facts(self._offer.header, self._found, self._offer.size)

    def _raw(self) -> Iterator[tuple[str, Any]]:
        taken = self._offer.taken
        wanted = (taken + 1, LSEQ_MAX) if taken else None
        scan = ColumnarReader(self._offer.copies, wanted, after=self._offer.after)
        buffers: dict[str, ColumnBuffer] = {}
        left_out = [0, 0]  # rows, and rows of `corrupt` among them
        for rows in scan:
            if taken and min(rows.columns["lseq"]) <= taken:
                before, rows = rows.rows, _after(rows, taken)
                left_out[rows.table == "corrupt"] += before - rows.rows
            if not rows.rows:
                continue
            buffer = buffers.get(rows.table)
            if buffer is None:
                buffer = buffers[rows.table] = ColumnBuffer(rows.table)
            buffer.add(rows.rows, rows.columns)
            if buffer.full:
                yield rows.table, _taken(buffer)
        for table, buffer in buffers.items():
            if buffer.rows:
                yield table, _taken(buffer)
        self._found = scan.found
        if any(left_out):
            _leave_out(scan.found, taken, *left_out)

    def _exported(self, path: Path) -> Iterator[tuple[str, Any]]:
        note, taken = parquet.note_of(path), self._offer.taken
        same = {"cluster": note.header.cluster, "journal": note.header.journal}
        counted = ScanSummary(sealed=int(note.sealed))
        pa = arrow()
        for folder, rows in note.tables.items():
            table = folder
            if note.layout < parquet.RENAMED_IN:
                table = renamed.TABLES.get(folder, folder)
            file, there = exported_file(path, note, folder), 0
            for batch in _batches(file, table, same, note.shared is not None):
                there += batch.num_rows
                if taken:
                    batch = batch.filter(pa.compute.greater(batch["lseq"], taken))
                if note.found is None or taken:
                    _count(counted, table, batch)
                if batch.num_rows:
                    yield table, batch.replace_schema_metadata(None)
            if there != rows:
                raise JournalError(str(file), None, f"{there} rows instead of {rows}", _AGAIN)
        if note.found is not None and not taken:
            self._found = msgspec.convert(note.found, ScanSummary)
        else:
            counted.whole = int(not counted.rows or counted.rows == _length(counted))
            self._found = counted


def _length(found: ScanSummary) -> int:
    return found.last - found.first + 1


def _after(rows: Rows, taken: int) -> Rows:
    keep = [number > taken for number in rows.columns["lseq"]]
    columns: dict[str, Sequence[Any]] = {
        name: values if len(values) == 1 and rows.rows > 1 else list(compress(values, keep))
        for name, values in rows.columns.items()
    }
    return Rows(rows.table, sum(keep), columns)


def _leave_out(found: ScanSummary, taken: int, rows: int, corrupt: int) -> None:
    """Corrects what was counted by rows that were taken before."""
    found.rows -= rows + corrupt
    found.lost -= corrupt
    found.corrupt -= corrupt
    if not found.rows:
        found.first = found.last = 0
    else:
        found.first = max(found.first, taken + 1)
    found.whole = int(not found.rows or found.rows == _length(found))


def _taken(buffer: ColumnBuffer) -> Any:
    return buffer.take().replace_schema_metadata(None)


# ---------------------------------------------------------------------- exported segments


def exported_file(path: Path, note: parquet.Note, table: str) -> Path:
    """The Parquet file of a table of an exported segment."""
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
        with open_parquet(place) as file:
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
