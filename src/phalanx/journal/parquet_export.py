"""Export sealed segments as Parquet, one file for each table and segment (needs pyarrow).

    DIR/deliver/g-ada-000001-000001-0a1b2c3d.parquet     the last part names the journal
    DIR/_segments/g-ada-000001-000001-0a1b2c3d.json      the export of this segment is complete

Column types follow from the annotations of `journal.schema`; the first two columns are the cluster
and the journal of a row. Files appear whole, and the note in `_segments` is written last, so that
an interrupted export repeats that segment and ends with the same files. Unreadable rows become rows
of the table `corrupt`. Bodies are not exported.

A simulator, which makes the journals of many runs at once, writes them together: the notes then
name the files that they share.

A segment whose writer was killed is never sealed. It is exported on request, and again if it has
grown since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import reader, renamed, retention
from phalanx.journal.arrow_schema import arrow as arrow
from phalanx.journal.arrow_schema import schema as schema
from phalanx.journal.columnar_reader import ColumnarReader, Copy
from phalanx.journal.parquet_writer import ParquetTableWriter
from phalanx.journal.segment import Header, ending, file_name

NOTES = "_segments"
LAYOUT = 3
"""Of exported files. 1: without the columns of IDENTITY, and notes without `found`; 2: with the
names of schema version 7 and before (`journal.renamed`)."""
RENAMED_IN = 3


class Exported(msgspec.Struct):
    """What an export did."""

    segments: int = 0
    files: int = 0
    rows: int = 0
    before: int = 0
    """Segments that an earlier export had taken."""
    unsealed: int = 0
    """Segments that are not sealed: left for later."""


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
        header = reader.read_header(path)
        sealed = ending(path) is not None  # before the size: what is sealed then grows no more
        ready = _Ready(reader.size_of(path), sealed)
        wanted = ready.sealed or (cut_short and not retention.is_open(path))
        if wanted:
            _export_or_explain(path, header, ready, folder, done)
        else:
            done.unsealed += 1
        of_journal = taken.setdefault((path.parent, header.journal), {})
        of_journal[header.number] = wanted
    if marked_by is not None:
        for (directory, journal), numbers in taken.items():
            left = min((n for n, ready in numbers.items() if not ready), default=None)
            upto = max((n for n in numbers if left is None or n < left), default=0)
            retention.mark(directory, marked_by, {journal: upto})
    return done


class _Ready(NamedTuple):
    size: int
    sealed: bool


def _export_or_explain(
    path: Path, header: Header, ready: _Ready, folder: Path, done: Exported
) -> None:
    try:
        _export(path, header, ready, folder, done)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        remedy = "choose a place that can be written"
        raise JournalError(str(error.filename or folder), None, problem, remedy) from error


def _export(path: Path, header: Header, ready: _Ready, folder: Path, done: Exported) -> None:
    name = name_of(header)
    place = folder / NOTES / f"{name}.json"
    if _noted(place) >= ready.size:
        done.before += 1
        return
    facts = {"journal": header.journal, "cluster": header.cluster, "segment": str(header.number)}
    files = ParquetTableWriter(lambda table: folder / table / f"{name}.parquet", facts)
    try:
        scan = ColumnarReader([Copy(str(path), ready.size)])
        for rows in scan:
            files.add(rows)
        written = files.finish()
    except BaseException:
        files.abandon()
        raise
    tables = {table: file.rows for table, file in written.items()}
    found = msgspec.to_builtins(scan.found)
    note = Note(path.name, ready.size, ready.sealed, header, tables, LAYOUT, found)
    _remove_former(folder, name, place)
    write_note(place, note)
    done.segments += 1
    done.files += len(tables)
    done.rows += sum(tables.values())


def _remove_former(folder: Path, name: str, place: Path) -> None:
    """Removes the files that an export of an earlier layout wrote under other names."""
    try:
        before = _decoded(place.read_bytes())
    except (OSError, msgspec.DecodeError, ValueError):
        return
    if before.layout < RENAMED_IN and before.shared is None:
        for table in before.tables.keys() & renamed.TABLES.keys():
            (folder / table / f"{name}.parquet").unlink(missing_ok=True)


def name_of(header: Header) -> str:
    """What the files of an exported segment are called. Spark passes over names that begin with an
    underscore."""
    made = Path(file_name(header.group, header.member, header.incarnation, header.number)).stem
    return re.sub("^_", "%5F", f"{made}-{header.journal[:8]}")


class Note(msgspec.Struct):
    """What an exported segment was."""

    file: str
    bytes: int
    sealed: bool
    header: Header
    tables: dict[str, int]
    """Rows of each, by the names of the folders that the files are in."""
    layout: int = 1
    found: dict[str, Any] | None = None
    """What was found in it (`scan.Found`); not known in the first layout."""
    shared: str | None = None
    """The name of its Parquet files, where they are not its own: rows of other journals too are in
    them."""


def write_note(path: Path, note: Note) -> None:
    """Says that the rows of a segment are all there. Appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(msgspec.json.encode(note))
    fresh.rename(path)


def note_of(path: Path) -> Note:
    """JournalError for what is no note, or one of a later phalanx."""
    try:
        note = _decoded(path.read_bytes())
    except (OSError, msgspec.DecodeError, ValueError) as error:
        problem = "not a note of an exported segment"
        raise JournalError(str(path), None, problem, "remove it, and export again") from error
    if note.layout > LAYOUT:
        problem = f"layout {note.layout} is newer than {LAYOUT}"
        remedy = "read it with the version of phalanx that wrote it, or a later one"
        raise JournalError(str(path), None, problem, remedy)
    return note


def _decoded(data: bytes) -> Note:
    """A note of any layout, with its header by the names of now."""
    known = msgspec.json.decode(data, type=dict[str, Any])
    layout, header = known.get("layout", 1), known.get("header")
    if isinstance(layout, int) and layout < RENAMED_IN and isinstance(header, dict):
        known["header"] = renamed.current_header(header)
    return msgspec.convert(known, Note)


def _noted(path: Path) -> int:
    """How large the segment was. A note that is missing, cannot be read or is of an older layout
    counts as none."""
    try:
        note = _decoded(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError, ValueError):
        return -1
    return note.bytes if note.layout >= LAYOUT else -1
