"""Sealed segments as Parquet, one file for each table and segment (an extra: pyarrow).

    DIR/deliver/g-ada-000001-000001-0a1b2c3d.parquet     the last part names the journal
    DIR/_segments/g-ada-000001-000001-0a1b2c3d.json      this segment is all there

Column types follow from the annotations of `events`. Files appear whole: each is written under
another name and renamed, and the note in `_segments` comes last, so whoever is interrupted
begins that segment again and ends with the same files. Rows that could not be read become rows
of the table `corrupt`, as ever. Bodies are not exported.

A segment that was cut short, by a kill say, is never sealed. It is exported if asked for, and
again if it has grown since.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import reader, retention
from phalanx.journal.events import SCHEMA_VERSION, TABLES, Event, Row
from phalanx.journal.segment import Header, Segment

EXTRA = "pip install 'phalanx[parquet]'"
NOTES = "_segments"


class Exported(msgspec.Struct):
    """What an export did."""

    segments: int = 0
    files: int = 0
    rows: int = 0
    before: int = 0
    """Segments that an earlier export had taken."""
    unsealed: int = 0
    """Segments that are not sealed: left for later."""


def arrow() -> Any:
    """pyarrow and its Parquet module, or JournalError that names the extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise JournalError("pyarrow", None, "Parquet needs pyarrow", EXTRA) from error
    return pyarrow


def schema(table: str) -> Any:
    """The Arrow schema of a table."""
    pa = arrow()
    kind = TABLES[table]
    hints = get_type_hints(kind)
    fields = [field(name, hints[name]) for name in kind.__struct_fields__]
    return pa.schema(fields, metadata={"phalanx_schema": str(SCHEMA_VERSION)})


def field(name: str, hint: Any) -> Any:
    """The Arrow field of an annotated column."""
    pa = arrow()
    column, nullable = _column(pa, hint)
    return pa.field(name, column, nullable=nullable)


def _column(pa: Any, hint: Any) -> tuple[Any, bool]:
    """The type, and whether it may be null."""
    if get_origin(hint) in (types.UnionType, Union):
        (inner,) = [arg for arg in get_args(hint) if arg is not type(None)]
        return _column(pa, inner)[0], True
    if get_origin(hint) is list:
        return pa.list_(_column(pa, get_args(hint)[0])[0]), False
    if hint is int:
        return pa.int64(), False
    assert hint is str or get_origin(hint) is Literal, f"no column for {hint}"
    return pa.string(), False


def export(
    paths: Iterable[Path | str],
    folder: Path,
    *,
    cut_short: bool = False,
    marked_by: str | None = None,
) -> Exported:
    """Writes what is not there yet. `marked_by` marks what was taken, for retention to wait for
    (`retention.mark`). JournalError for bad journals, a folder that cannot be written, or
    without pyarrow; what was written before stays and is not written again."""
    arrow()
    done = Exported()
    taken: dict[tuple[Path, str], dict[int, bool]] = {}
    for path in reader.find(paths):
        segment = reader.read(path)
        ready = segment.sealed or (cut_short and not retention.is_open(path))
        if ready:
            _export_or_explain(segment, folder, done)
        else:
            done.unsealed += 1
        of_journal = taken.setdefault((path.parent, segment.header.journal), {})
        of_journal[segment.header.number] = ready
    if marked_by is not None:
        for (directory, journal), numbers in taken.items():
            left = min((n for n, ready in numbers.items() if not ready), default=None)
            upto = max((n for n in numbers if left is None or n < left), default=0)
            retention.mark(directory, marked_by, {journal: upto})
    return done


def _export_or_explain(segment: Segment, folder: Path, done: Exported) -> None:
    try:
        _export(segment, folder, done)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        remedy = "choose a place that can be written"
        raise JournalError(str(error.filename or folder), None, problem, remedy) from error


def _export(segment: Segment, folder: Path, done: Exported) -> None:
    name = f"{segment.path.stem}-{segment.header.journal[:8]}"
    path = folder / NOTES / f"{name}.json"
    if path.exists() and _noted(path) >= segment.size:
        done.before += 1
        return
    by_table: dict[str, list[Event]] = {}
    for row in segment.rows:
        by_table.setdefault(str(row.__struct_config__.tag), []).append(row)
    for table, rows in by_table.items():
        _write(folder / table / f"{name}.parquet", table, rows, segment)
        done.files += 1
        done.rows += len(rows)
    tables = {table: len(rows) for table, rows in by_table.items()}
    note = Note(segment.path.name, segment.size, segment.sealed, segment.header, tables)
    write_note(folder, name, note)
    done.segments += 1


class Note(msgspec.Struct):
    """What an exported segment was."""

    file: str
    bytes: int
    sealed: bool
    header: Header
    tables: dict[str, int]
    """Rows of each."""


def write_note(folder: Path, name: str, note: Note) -> None:
    """Says that the rows of a segment are all there. Appears whole."""
    path = folder / NOTES / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(msgspec.json.encode(note))
    fresh.rename(path)


def _noted(path: Path) -> int:
    """How large the segment was; a note that cannot be read counts as none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note).bytes
    except (msgspec.DecodeError, ValueError):
        return -1


def _write(path: Path, table: str, rows: list[Event], segment: Segment) -> None:
    pa = arrow()
    wanted = schema(table)
    columns = {name: [getattr(row, name) for row in rows] for name in _names(table)}
    try:
        made = pa.table(columns, schema=wanted)
    except (OverflowError, pa.ArrowInvalid) as error:
        problem = f"a value of table {table} fits no column ({error})"
        raise JournalError(str(segment.path), None, problem, "restore a whole copy") from error
    header = segment.header
    facts = {"journal": header.journal, "cluster": header.cluster, "segment": str(header.number)}
    made = made.replace_schema_metadata({**wanted.metadata, **facts})
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"_{path.name}.tmp")  # engines pass over names that begin so
    pa.parquet.write_table(made, fresh, compression="zstd")
    fresh.rename(path)


def _names(table: str) -> tuple[str, ...]:
    kind: type[Row] = TABLES[table]
    return kind.__struct_fields__
