"""Reading journals: one segment, or all that lie in files and folders.

What cannot be read is told and passed over: a torn tail is counted, a corrupt stretch becomes a
`corrupt` row, and the rows behind it are read. The only error is a JournalError, for a file that
is no journal of this version. Copies of a segment may overlap, as those of a live one do: each
row is taken once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from phalanx.errors import JournalError
from phalanx.journal.events import Corrupt, Event
from phalanx.journal.segment import SUFFIX, Header, Segment, parsed

_CHECK = "check the path and its rights"


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


def read(path: Path | str, *, rows: bool = True, bodies: bool = False) -> Segment:
    """One segment, open or sealed. `rows=False` gives a summary only."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise JournalError(str(path), None, problem, _CHECK) from error
    return parsed(path, data, rows=rows, bodies=bodies)


def read_all(paths: Iterable[Path | str]) -> Reading:
    """Every segment in these files and folders."""
    segments = [read(path) for path in find(paths)]
    segments.sort(key=lambda s: (s.header.group, s.header.node, s.header.inc, s.header.number))
    found: dict[str, dict[tuple[int, bool], Event]] = {}
    for segment in segments:
        journal = found.setdefault(segment.header.journal, {})
        for row in segment.rows:
            journal.setdefault((row.lseq, isinstance(row, Corrupt)), row)
        segment.rows = []
    return Reading(segments, {j: _in_order(rows) for j, rows in found.items()})


def find(paths: Iterable[Path | str]) -> list[Path]:
    """The segments that are meant: a file as it is, of a folder all that lie in it, at any depth.
    JournalError if there is nothing."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(path.rglob(f"*{SUFFIX}"))
        if not inside:
            problem = f"there are no journals (*{SUFFIX}) in this folder"
            raise JournalError(str(path), None, problem, "give the folder that members wrote to")
        found |= dict.fromkeys(inside)
    return list(found)


def _in_order(rows: dict[tuple[int, bool], Event]) -> list[Event]:
    """A `corrupt` row that another copy makes good goes; it belongs to the run of the others."""
    runs = [row for row in rows.values() if not isinstance(row, Corrupt)][:1]
    ordered: list[Event] = []
    for (lseq, corrupt), row in sorted(rows.items(), key=lambda item: (item[0][0], not item[0][1])):
        if corrupt:
            if (lseq, False) in rows:
                continue
            row = msgspec.structs.replace(row, run=runs[0].run if runs else "")
        ordered.append(row)
    return ordered
