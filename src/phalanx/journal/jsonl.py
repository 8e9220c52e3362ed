"""Rows as text: one JSON object per line (gzip for `.gz`).

The first line is a header: the version of the schema, and a manifest that says what made the rows
(seed, parameters, revision). Every line is decoded against the schema, so `read` returns only valid
rows of `journal.schema`; anything else is an EventFileError that names the line. `damage` finds
missing and duplicate rows.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from phalanx.errors import EventFileError
from phalanx.journal import renamed
from phalanx.journal.schema import (
    EQUAL_LENGTHS,
    NAMED,
    NUMBER_MAX,
    SCHEMA_VERSION,
    Accepted,
    Corrupt,
    Deliver,
    Event,
    Gap,
    NotSent,
    Sent,
)

_MAKE_AGAIN = "write the file again with phalanx, or restore a whole copy"


class _Header(msgspec.Struct):
    phalanx_events: int
    manifest: dict[str, Any]


_HEADER = msgspec.json.Decoder(_Header)
_ROW: msgspec.json.Decoder[Event] = msgspec.json.Decoder(cast(Any, Event))


def write(path: str | PathLike[str], manifest: Mapping[str, Any], rows: Iterable[Event]) -> None:
    """Writes or replaces the file. The same manifest and rows give the same bytes."""
    encoder = msgspec.json.Encoder()
    path = Path(path)
    with path.open("wb") as raw:
        if path.suffix != ".gz":
            _write(raw, encoder, manifest, rows)
            return
        # No name and no time in the gzip header: they would make equal runs differ.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            _write(cast(BinaryIO, packed), encoder, manifest, rows)


def _write(
    out: BinaryIO, encoder: msgspec.json.Encoder, manifest: Mapping[str, Any], rows: Iterable[Event]
) -> None:
    out.write(encoder.encode(_Header(SCHEMA_VERSION, dict(manifest))) + b"\n")
    for row in rows:
        out.write(encoder.encode(row) + b"\n")


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], list[Event]]:
    """The manifest and the rows, all of them valid; otherwise EventFileError."""
    path = Path(path)
    name = str(path)
    number = 0
    rows: list[Event] = []
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            number = 1
            header = _header(name, lines.readline())
            for line in lines:
                number += 1
                rows.append(_row(name, number, line, header.phalanx_events))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EventFileError(
            name, number, f"the compressed file is damaged ({error})", _MAKE_AGAIN
        ) from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise EventFileError(name, None, problem, "check the path and its rights") from error
    return header.manifest, rows


def _header(name: str, line: bytes) -> _Header:
    try:
        header = _HEADER.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EventFileError(
            name, 1, "not a file of phalanx events", "give one that `phalanx sim run` wrote"
        ) from error
    if header.phalanx_events > SCHEMA_VERSION:
        raise EventFileError(
            name,
            1,
            f"schema version {header.phalanx_events} is newer than {SCHEMA_VERSION}",
            "read it with the version of phalanx that wrote it, or a later one",
        )
    if header.phalanx_events < 1:
        raise EventFileError(
            name, 1, f"there is no schema version {header.phalanx_events}", _MAKE_AGAIN
        )
    return header


def _row(name: str, number: int, line: bytes, schema: int) -> Event:
    try:
        if schema < renamed.RENAMED_IN:
            known = renamed.current_row(msgspec.json.decode(line, type=dict[str, Any]))
            row = cast(Event, msgspec.convert(known, cast(Any, Event)))
        else:
            row = _ROW.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            problem = "the last line is torn"
        elif isinstance(error, msgspec.ValidationError):
            problem = f"not a row of the schema ({error})"
        else:
            problem = f"a corrupt line ({error})"
        raise EventFileError(name, number, problem, _MAKE_AGAIN) from error
    if wrong := contradiction(row):
        raise EventFileError(name, number, wrong, _MAKE_AGAIN)
    return row


def contradiction(row: Event) -> str | None:
    """What columns of one row say that cannot be so together."""
    for columns in EQUAL_LENGTHS.get(type(row), ()):
        if len({len(getattr(row, column)) for column in columns}) > 1:
            return f"lists of unequal length: {', '.join(columns)}"
    if isinstance(row, Accepted | Sent | Deliver | NotSent):
        if not 1 <= row.first <= row.last <= NUMBER_MAX:
            return f"no range of messages: first {row.first}, last {row.last}"
    for names, incarnations in NAMED.get(type(row), ()):
        known = getattr(row, incarnations)  # older files have none
        named = getattr(row, names)
        if known is not None and (named is None or len(named) != len(known)):
            return f"lists of unequal length: {names}, {incarnations}"
    if isinstance(row, Gap) and not 1 <= row.first <= row.last <= NUMBER_MAX:
        return f"no range of rows: first {row.first}, last {row.last}"
    if row.lseq < 1:
        return f"rows are numbered from 1, this one {row.lseq}"
    return None


def damage(rows: Sequence[Event]) -> list[str]:
    """Rows that are missing or there more than once, a line each; empty if there are none.

    A member numbers its rows from 1 without gaps. What is missing at the end leaves no gap. What
    a journal itself says it lacks (`gap`, and `corrupt` in the place of what cannot be read) is
    missing evidence, which those rows report, and not damage.
    """
    if not rows:
        return ["there are no rows"]
    journals: dict[tuple[str, int], list[int]] = {}
    lost: dict[tuple[str, int], list[tuple[int, int | None]]] = {}
    for row in rows:
        who = (row.member, row.incarnation)
        numbers = journals.setdefault(who, [])
        if isinstance(row, Gap):
            lost.setdefault(who, []).append((row.first, row.last))
        elif isinstance(row, Corrupt):  # up to the next row, whatever that is
            lost.setdefault(who, []).append((row.lseq, None))
        else:
            numbers.append(row.lseq)
    found: list[str] = []
    for (member, incarnation), numbers in journals.items():
        label = f"{member}.{incarnation}"
        explained = lost.get((member, incarnation), [])
        for before, after in pairwise([0, *sorted(numbers)]):
            if after == before:
                found.append(f"{label}: row {after} is there twice")
            else:
                holes = _unexplained(before + 1, after - 1, explained)
                found += [f"{label}: {_missing(*hole)}" for hole in holes]
    return found


def _unexplained(
    first: int, last: int, explained: Sequence[tuple[int, int | None]]
) -> list[tuple[int, int]]:
    """What of first..last no row tells of, as ranges."""
    holes: list[tuple[int, int]] = []
    begin = first
    for lo, hi in sorted(
        (lo, last if hi is None else hi) for lo, hi in explained if hi or lo >= begin
    ):
        if first <= last and lo <= last and hi >= first:
            if lo > first:
                holes.append((first, lo - 1))
            first = hi + 1
    return [*holes, (first, last)] if first <= last else holes


def _missing(first: int, last: int) -> str:
    return f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"
