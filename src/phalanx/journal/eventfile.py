"""Rows in a file that people and tools can read: one JSON object a line (gzip for `.gz`).

The first line is a header: the version of the schema, and a manifest that says what made the
rows (seed, parameters, revision). Every line is decoded against the schema, so whatever comes
out of `read` is a row of `events`; anything else is an EventFileError that names the line.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from phalanx.errors import EventFileError
from phalanx.journal.events import SCHEMA_VERSION, Event

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
            manifest = _header(name, lines.readline())
            for line in lines:
                number += 1
                rows.append(_row(name, number, line))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EventFileError(
            name, number, f"the compressed file is damaged ({error})", _MAKE_AGAIN
        ) from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise EventFileError(name, None, problem, "check the path and its rights") from error
    return manifest, rows


def _header(name: str, line: bytes) -> dict[str, Any]:
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
    return header.manifest


def _row(name: str, number: int, line: bytes) -> Event:
    try:
        return _ROW.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            problem = "the last line is torn"
        elif isinstance(error, msgspec.ValidationError):
            problem = f"not a row of the schema ({error})"
        else:
            problem = f"a corrupt line ({error})"
        raise EventFileError(name, number, problem, _MAKE_AGAIN) from error
