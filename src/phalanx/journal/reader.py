"""Read journals: one segment, or all segments in files and folders.

Unreadable parts are reported and skipped: a torn tail is counted, a corrupt stretch becomes a
`corrupt` row, and reading continues after it. The only error is a JournalError, for a file that is
not a journal of this version. Copies of a segment may overlap, as those of a live one do: each row
is returned once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from phalanx.errors import JournalError
from phalanx.journal.schema import Corrupt, Event
from phalanx.journal.segment import HEADER_BYTES_MAX, SUFFIX, Header, Segment, header_of, parsed

HEADER_BYTES_USUAL = 1 << 14


class Reading(msgspec.Struct):
    """All that was found. Segments are without their rows; rows are in order per journal."""

    segments: list[Segment]
    journals: dict[str, list[Event]]
    """The rows of each journal by its UUID."""

    @property
    def headers(self) -> dict[str, Header]:
        """Of the first segment that was found of each journal."""
        found: dict[str, Header] = {}
        for segment in self.segments:
            found.setdefault(segment.header.journal, segment.header)
        return found

    @property
    def rows(self) -> list[Event]:
        return [row for rows in self.journals.values() for row in rows]


def read(
    path: Path | str, *, rows: bool = True, bodies: bool = False, after: int | None = None
) -> Segment:
    """One segment, open or sealed. `rows=False` gives a summary only; `after` is the last row of
    the segment before, if known."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    return parsed(path, data, rows=rows, bodies=bodies, after=after)


def read_all(paths: Iterable[Path | str]) -> Reading:
    """Every segment in these files and folders."""
    reading = Reading([], {})
    for segments, rows in each(paths):
        reading.segments += segments
        reading.journals.setdefault(segments[0].header.journal, []).extend(rows)
    for journal, rows in reading.journals.items():
        reading.journals[journal] = _of_one_run(rows)
    return reading


def each(paths: Iterable[Path | str]) -> Iterator[tuple[list[Segment], list[Event]]]:
    """One segment after the other, in the order of members and numbers: its copies, without rows,
    and the rows of all of them, each once. Holds no more than that in memory."""
    copies: dict[tuple[str, str, int, str, int], list[Path]] = {}
    for path in find(paths):
        header = read_header(path)
        key = header.group, header.member, header.incarnation, header.journal, header.number
        copies.setdefault(key, []).append(path)
    ends: dict[tuple[str, int], int] = {}
    for key in sorted(copies):
        *_, journal, number = key
        after = ends.get((journal, number - 1))
        segments = [read(path, after=after) for path in copies[key]]
        found: dict[tuple[int, bool], Event] = {}
        for segment in segments:
            for row in segment.rows:
                found.setdefault((row.lseq, isinstance(row, Corrupt)), row)
            segment.rows = []
        # A `corrupt` row that another copy makes good goes.
        in_order = sorted(found, key=lambda at: (at[0], not at[1]))
        rows = [found[at] for at in in_order if not at[1] or (at[0], False) not in found]
        if rows:
            ends[journal, number] = rows[-1].lseq
        yield segments, rows


def read_header(path: Path) -> Header:
    """Whose segment it is."""
    try:
        with path.open("rb") as file:
            with suppress(JournalError):  # few are larger; what is wrong is said below
                return header_of(path, file.read(HEADER_BYTES_USUAL))[0]
            file.seek(0)
            return header_of(path, file.read(HEADER_BYTES_MAX))[0]
    except OSError as error:
        raise unreadable(path, error) from error


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error


def find(paths: Iterable[Path | str]) -> list[Path]:
    """The segments that are meant: a file as it is, of a folder all that lie in it, at any depth,
    also behind links. JournalError if there is nothing, or something that is no file."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(below(path))
        if not inside:
            problem = f"there are no journals (*{SUFFIX}) in this folder"
            raise JournalError(str(path), None, problem, "give the folder that members wrote to")
        found |= dict.fromkeys(inside)
    for path in found:
        if path.exists() and not path.is_file():
            raise JournalError(str(path), None, "not a file", "remove it, or name the journals")
    return list(found)


def below(folder: Path) -> Iterator[Path]:
    """What is named like a segment in a folder, at any depth; each folder once."""
    seen: set[Path] = set()
    for at, folders, files in os.walk(folder, followlinks=True):
        place = Path(at)
        seen.add(place.resolve())
        folders[:] = sorted(name for name in folders if (place / name).resolve() not in seen)
        yield from (place / name for name in (*folders, *files) if name.endswith(SUFFIX))


def _of_one_run(rows: list[Event]) -> list[Event]:
    """Where nothing could be read nobody knows the run; it is that of the rows around it."""
    run = next((row.run for row in rows if not isinstance(row, Corrupt)), "")
    return [
        msgspec.structs.replace(row, run=run) if isinstance(row, Corrupt) else row for row in rows
    ]


def unreadable(path: Path, error: OSError) -> JournalError:
    """What to say of a file that the system does not let us read."""
    problem = f"cannot be read ({error.strerror or error})"
    return JournalError(str(path), None, problem, "check the path and its rights")
