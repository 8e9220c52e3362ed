"""A segment: one file of a journal. A header, blocks, and, once it is sealed, a footer.

    magic    8   'PHALANXJ'
    format   4   version of this layout
    length   4   bytes of the header's body
    crc      4   CRC-32 of the three before and of the body
    body         the Header as msgpack
    blocks       see `blocks`; the last one of a sealed segment is its footer

The writer of a file without a footer is running, was killed or lost its disk; the file may lack a
suffix. The footer has the number of rows before it and a CRC-32 of all of them, so that the removal
of a whole block is detected too.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import JournalError
from phalanx.journal import blocks, renamed
from phalanx.journal.blocks import FOOTER, ROWS, Block, Damage, parse
from phalanx.journal.columns import unpack
from phalanx.journal.schema import SCHEMA_VERSION, Corrupt, Event

FORMAT_VERSION = 1
SUFFIX = ".phj"
_MAGIC = b"PHALANXJ"
_FIXED = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
HEADER_BYTES_MAX = 1 << 20
FOOTER_BYTES_MAX = 1 << 10
NAME_LENGTH_MAX = 60
_RESTORE = "remove it, or restore a whole copy"
_LATER = "read it with the version of phalanx that wrote it, or a later one"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all rows of a segment, and what made them."""

    journal: str
    """UUID, as hex: one journal is one life of one member in one group."""
    cluster: str
    group: str
    member: str
    incarnation: int
    number: int
    """Of the segment within its journal, from 1."""
    schema: int
    wall_ns: int
    """What the wall clock said when the clock of the rows (`t_ns`) said `mono_ns`."""
    mono_ns: int
    boot_id: str
    """Within one boot of a machine the clocks of all its journals are one."""
    config: dict[str, Any]


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed segment holds. The ranges are 0 if it has no rows."""

    rows: int
    first: int
    last: int
    begin_ns: int
    end_ns: int
    crc: int
    """CRC-32 of all bytes before the footer."""


class Segment(msgspec.Struct, kw_only=True):
    """A file that was read. `rows` is empty where only a summary was asked for."""

    path: Path
    header: Header
    rows: list[Event] = []
    bodies: list[blocks.Bodies] = []
    footer: Footer | None = None
    count: int = 0
    """Rows that could be read, and their ranges."""
    first: int = 0
    last: int = 0
    begin_ns: int = 0
    end_ns: int = 0
    size: int = 0
    corrupt: int = 0
    """Stretches that could not be read."""
    torn_bytes: int = 0
    """What stands behind the last whole block: a write that never ended."""

    @property
    def sealed(self) -> bool:
        return self.footer is not None

    @property
    def problems(self) -> list[str]:
        found = []
        if self.corrupt:
            found.append(f"{self.corrupt} corrupt")
        if self.torn_bytes:
            found.append(f"{self.torn_bytes} bytes torn off")
        if self.footer is not None and self.footer.rows != self.count and not self.corrupt:
            found.append(f"{self.footer.rows - self.count} of {self.footer.rows} rows missing")
        return found


def file_name(group: str, member: str, incarnation: int, number: int) -> str:
    """Sorts by number within a journal. Any name becomes one that every file system takes."""
    return f"{_safe(group)}-{_safe(member)}-{incarnation:06}-{number:06}{SUFFIX}"


def _safe(name: str) -> str:
    text = re.sub("[^A-Za-z0-9_]", lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), name)
    if len(text) > NAME_LENGTH_MAX:
        text = f"{text[:40]}~{blake2b(name.encode(), digest_size=8).hexdigest()}"
    return text or "%"


def header_bytes(header: Header) -> bytes:
    """What a segment begins with. Settings of strange types are kept as text."""
    body = msgspec.msgpack.encode(header, enc_hook=str)
    fixed = _FIXED.pack(_MAGIC, FORMAT_VERSION, len(body))
    return fixed + _CRC.pack(zlib.crc32(body, zlib.crc32(fixed))) + body


def footer_bytes(footer: Footer) -> bytes:
    return blocks.footer_block(msgspec.msgpack.encode(footer))


def header_of(path: Path, data: bytes) -> tuple[Header, int]:
    """The header, and where the blocks begin. JournalError for what is no journal of ours."""
    name = str(path)
    if not data:
        raise JournalError(name, None, "the file is empty", _RESTORE)
    if not data.startswith(_MAGIC[: len(data)]):
        raise JournalError(name, None, "not a journal", "give *.phj that members wrote")
    begin = _FIXED.size + _CRC.size
    if len(data) < begin:
        raise JournalError(name, None, "the header is torn", _RESTORE)
    _, version, length = _FIXED.unpack_from(data)
    if version > FORMAT_VERSION:
        problem = f"format {version} is newer than {FORMAT_VERSION}"
        raise JournalError(name, None, problem, _LATER)
    if len(data) < begin + length <= HEADER_BYTES_MAX:
        raise JournalError(name, None, "the header is torn", _RESTORE)
    body = data[begin : begin + length]
    (crc,) = _CRC.unpack_from(data, _FIXED.size)
    if version < 1 or zlib.crc32(body, zlib.crc32(data[: _FIXED.size])) != crc:
        raise JournalError(name, None, "the header is corrupt", _RESTORE)
    try:
        schema = msgspec.msgpack.decode(body, type=_Schema).schema
        if schema > SCHEMA_VERSION:
            problem = f"schema version {schema} is newer than {SCHEMA_VERSION}"
            raise JournalError(name, None, problem, _LATER)
        if schema < renamed.RENAMED_IN:
            known = renamed.current_header(msgspec.msgpack.decode(body, type=dict[str, Any]))
            return msgspec.convert(known, Header), begin + length
        return msgspec.msgpack.decode(body, type=Header), begin + length
    except (msgspec.DecodeError, RecursionError) as error:
        raise JournalError(name, None, "the header is corrupt", _RESTORE) from error


def ending(path: Path) -> Footer | None:
    """The footer with which the file ends; None if it is not sealed, or just not readable. Reads
    the end of the file only."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER_BYTES_MAX))
            data = file.read()
        at = data.rfind(blocks.MAGIC)
        last = list(parse(data, at)) if at >= 0 else []
        if len(last) == 1 and isinstance(last[0], Block) and last[0].kind == FOOTER:
            return msgspec.msgpack.decode(last[0].body, type=Footer)
    except (OSError, ValueError):
        return None
    return None


class _Schema(msgspec.Struct):
    schema: int


def parsed(
    path: Path, data: bytes, *, rows: bool = True, bodies: bool = False, after: int | None = None
) -> Segment:
    """What is in the file. Where nothing can be read a `corrupt` row stands, numbered as the row
    that would be next, and all that follows is read. `after` is the last row of the segment
    before, if known. JournalError only for a bad header."""
    header, at = header_of(path, data)
    segment = Segment(path=path, header=header, size=len(data))
    kept: list[Event] = []
    for found in parse(data, at):
        if isinstance(found, Block):
            if _add(segment, kept, found, bodies, data):
                continue
            found = Damage(found.offset, found.size, tail=False)
        if found.tail:
            segment.torn_bytes = found.size
        else:
            before = segment.last or rows_before(header, data, at, after)
            _add_corrupt(segment, kept, found, before)
    if rows:
        segment.rows = kept
    return segment


def _add(segment: Segment, rows: list[Event], block: Block, bodies: bool, data: bytes) -> bool:
    """False for a block whose checksum is right and whose content is not."""
    header = segment.header
    try:
        if block.kind == FOOTER:
            footer = msgspec.msgpack.decode(block.body, type=Footer)
            segment.footer = footer
            whole = zlib.crc32(memoryview(data)[: block.offset]) == footer.crc
            return whole or segment.corrupt > 0
        if block.kind == ROWS:
            found = unpack(
                block.body, header.member, header.incarnation, header.group, header.schema
            )
            rows += found
            _count(segment, found)
        elif bodies:
            segment.bodies = [*segment.bodies, *blocks.bodies_of(block)]
    except (ValueError, RecursionError, OverflowError):
        return False
    return True


def _count(segment: Segment, rows: list[Event]) -> None:
    if not segment.count:
        segment.first, segment.begin_ns = rows[0].lseq, rows[0].t_ns
    segment.count += len(rows)
    segment.last, segment.end_ns = rows[-1].lseq, rows[-1].t_ns


def rows_before(header: Header, data: bytes, at: int, after: int | None) -> int:
    """The number of the last row before this segment, as far as known: `after`, or what its own
    footer or first readable rows say."""
    if header.number == 1:
        return 0
    if after is not None:
        return after
    whole = [part for part in parse(data, at) if isinstance(part, Block)]
    for block in whole:
        if block.kind == FOOTER:
            with suppress(ValueError):
                return max(0, msgspec.msgpack.decode(block.body, type=Footer).first - 1)
    return next((block.first - 1 for block in whole if block.kind == ROWS), 0)


def _add_corrupt(segment: Segment, rows: list[Event], damage: Damage, before: int) -> None:
    header = segment.header
    segment.corrupt += 1
    row = Corrupt(
        run=rows[-1].run if rows else "",
        profile="T",
        group=header.group,
        member=header.member,
        incarnation=header.incarnation,
        lseq=before + 1,
        step=rows[-1].step if rows else 0,
        t_ns=rows[-1].t_ns if rows else header.mono_ns,
        file=str(segment.path),
        offset=damage.offset,
        length=damage.size,
    )
    rows.append(row)
