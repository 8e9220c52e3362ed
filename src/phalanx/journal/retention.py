"""Retention: delete old segments of a folder, but none that a reader still needs.

A reader that takes segments, such as an exporter, leaves a mark: `marks/<reader>.json` has for each
journal the last segment that it has taken. A segment that a reader with a mark has not taken yet is
never deleted, whatever the limits, so the mark of a reader that no longer exists must be removed
(`unmark`). Without marks only the limits apply.

Segments that are being written are never deleted: their writer holds a lock on them.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from phalanx.errors import JournalError
from phalanx.journal.segment import HEADER_BYTES_MAX, SUFFIX, header_of

MARKS = "marks"


class Mark(msgspec.Struct, frozen=True):
    """What one reader has taken: per journal the number of its last segment."""

    reader: str
    taken: dict[str, int] = {}


class _Aged(NamedTuple):
    changed_ns: int
    name: str
    size: int
    path: Path


def mark(directory: Path, reader: str, taken: Mapping[str, int]) -> None:
    """Says that `reader` has all segments of these journals up to these numbers. What it said of
    other journals stays; numbers never go back. JournalError if it cannot be written."""
    path = _place(directory, reader)
    try:
        known = dict(_mark(path).taken) if path.exists() else {}
        for journal, number in taken.items():
            known[journal] = max(number, known.get(journal, 0))
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(msgspec.json.encode(Mark(reader, known)))
        fresh.rename(path)
    except OSError as error:
        problem = f"the mark cannot be written ({error.strerror or error})"
        raise JournalError(str(path), None, problem, "check the path and its rights") from error


def unmark(directory: Path, reader: str) -> None:
    """The reader needs nothing any more."""
    with suppress(FileNotFoundError):
        _place(directory, reader).unlink()


def marks(directory: Path) -> list[Mark]:
    """All that readers said. JournalError for a mark that cannot be read."""
    return [_mark(path) for path in sorted((directory / MARKS).glob("*.json"))]


def tidy(directory: Path, keep_bytes: int, keep_ns: int) -> list[Path]:
    """Deletes the oldest segments beyond the limits (0: none), and returns them. Age is counted
    from a segment's last change. With a mark that cannot be read nothing is deleted."""
    try:
        taken = [m.taken for m in marks(directory)]
    except JournalError:
        return []
    segments = sorted(filter(None, map(_aged, directory.glob(f"*{SUFFIX}"))))
    total = sum(s.size for s in segments)
    now = time.time_ns()
    deleted = []
    for segment in segments:
        large = keep_bytes and total > keep_bytes
        old = keep_ns and now - segment.changed_ns > keep_ns
        if (large or old) and _is_taken(segment.path, taken) and _delete(segment.path):
            total -= segment.size
            deleted.append(segment.path)
    return deleted


def _aged(path: Path) -> _Aged | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _Aged(status.st_mtime_ns, path.name, status.st_size, path)


def _is_taken(path: Path, taken: list[dict[str, int]]) -> bool:
    if not taken:
        return True
    try:
        with path.open("rb") as file:
            header, _ = header_of(path, file.read(HEADER_BYTES_MAX))
    except (OSError, JournalError):
        return False
    return all(header.number <= by.get(header.journal, 0) for by in taken)


def is_open(path: Path) -> bool:
    """Somebody on this machine writes to the segment now."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _delete(path: Path) -> bool:
    """Unless somebody writes to it."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _place(directory: Path, reader: str) -> Path:
    if not re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", reader):
        problem = f"{reader!r} cannot name a mark"
        raise JournalError(
            str(directory / MARKS), None, problem, "use letters, digits, '_', '-' and '.'"
        )
    return directory / MARKS / f"{reader}.json"


def _mark(path: Path) -> Mark:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Mark)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = "not a mark of a reader"
        raise JournalError(str(path), None, problem, "remove it, or mark again") from error
