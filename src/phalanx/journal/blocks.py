"""Blocks: the unit of writing, framed so that damage to one block does not affect the next.

    magic     4   F1 'P' 'J' 'B'
    kind      1   1 rows, 2 bodies, 3 footer
    packing   1   0 uncompressed, 1 zlib
    tables    2   number of tables that have rows in it
    rows      4
    raw       4   bytes of the body, uncompressed
    stored    4   bytes of the body as stored
    first     8   lseq of the first row, and of the last
    last      8
    begin     8   t_ns of the first row, and of the last
    end       8
    crc       4   CRC-32 of all of the above and of the body
    body

All little-endian. After a damaged block, a reader continues at the next magic that begins a valid
block, checksum included: a magic within a body is not a block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import NamedTuple

import msgspec

from phalanx.journal import columns
from phalanx.journal.schema import Event

MAGIC = b"\xf1PJB"
ROWS, BODIES, FOOTER = 1, 2, 3
_FIELDS = struct.Struct("<4sBBHIIIQQqq")
_CRC = struct.Struct("<I")
HEAD_BYTES = _FIELDS.size + _CRC.size
BODY_BYTES_MAX = 256 << 20
_PLAIN, _ZLIB = 0, 1


class Block(NamedTuple):
    """A block that is right, at `offset` of its file."""

    offset: int
    size: int
    kind: int
    rows: int
    first: int
    last: int
    begin: int
    end: int
    body: bytes
    """Unpacked."""


class Damage(NamedTuple):
    """A stretch in which there is no block. `tail`: nor is there one behind it."""

    offset: int
    size: int
    tail: bool


class Bodies(msgspec.Struct, frozen=True, array_like=True):
    """Messages first.. of a sender, as they were delivered: lengths, and the bytes in a row."""

    sender: str
    sender_incarnation: int
    first: int
    lengths: tuple[int, ...]
    payload: bytes

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        for length in self.lengths:
            yield self.payload[at : at + length]
            at += length


_BODIES = msgspec.msgpack.Decoder(list[Bodies])


def rows_block(rows: Sequence[Event]) -> bytes:
    """The rows of one flush, in the order of their numbers."""
    span = (rows[0].lseq, rows[-1].lseq, rows[0].t_ns, rows[-1].t_ns)
    body, tables = columns.pack(rows)
    return _framed(ROWS, tables, len(rows), span, body)


def bodies_block(bodies: Sequence[Bodies]) -> bytes:
    body = msgspec.msgpack.encode(bodies)
    return _framed(BODIES, 0, len(bodies), (0, 0, 0, 0), body)


def footer_block(body: bytes) -> bytes:
    return _framed(FOOTER, 0, 0, (0, 0, 0, 0), body)


def bodies_of(block: Block) -> list[Bodies]:
    """ValueError for what `bodies_block` does not make."""
    found = _BODIES.decode(block.body)
    if not found:
        raise ValueError("a block without bodies")
    for bodies in found:
        if min(bodies.lengths, default=0) < 0 or sum(bodies.lengths) != len(bodies.payload):
            raise ValueError("lengths that are not those of the bodies")
    return found


def _framed(kind: int, tables: int, rows: int, span: tuple[int, ...], body: bytes) -> bytes:
    stored, packing = body, _PLAIN
    packed = zlib.compress(body, 1)
    if len(packed) < len(body):
        stored, packing = packed, _ZLIB
    fields = _FIELDS.pack(MAGIC, kind, packing, tables, rows, len(body), len(stored), *span)
    return b"".join((fields, _CRC.pack(zlib.crc32(stored, zlib.crc32(fields))), stored))


def parse(data: bytes, start: int) -> Iterator[Block | Damage]:
    """All that is in a file from `start` on, in order and without a byte left out."""
    at = start
    while at < len(data):
        block = _block(data, at)
        if block is not None:
            yield block
            at += block.size
            continue
        bad = at
        while block is None:
            at = data.find(MAGIC, at + 1)
            if at < 0:
                yield Damage(bad, len(data) - bad, tail=True)
                return
            block = _block(data, at)
        yield Damage(bad, at - bad, tail=False)


class BlockHead(NamedTuple):
    """What the head of a block says, its checksum being right; the body is not unpacked."""

    offset: int
    size: int
    kind: int
    rows: int
    first: int
    last: int
    begin: int
    end: int
    packing: int
    raw: int


def block_head(data: bytes, at: int) -> BlockHead | None:
    """The head of the block there, if there is a block with the right checksum."""
    if len(data) - at < HEAD_BYTES:
        return None
    magic, kind, packing, _, rows, raw, stored, *span = _FIELDS.unpack_from(data, at)
    if magic != MAGIC or kind not in (ROWS, BODIES, FOOTER) or packing not in (_PLAIN, _ZLIB):
        return None
    begin = at + HEAD_BYTES
    if raw > BODY_BYTES_MAX or stored > len(data) - begin:
        return None
    view = memoryview(data)
    (crc,) = _CRC.unpack_from(data, begin - _CRC.size)
    if zlib.crc32(view[begin : begin + stored], zlib.crc32(view[at : begin - _CRC.size])) != crc:
        return None
    first, last, start, end = span
    return BlockHead(at, HEAD_BYTES + stored, kind, rows, first, last, start, end, packing, raw)


def announced_size(data: bytes, at: int) -> int:
    """The size that the head of a block there announces, right or not; 0 without a head."""
    if len(data) - at < HEAD_BYTES or not data.startswith(MAGIC, at):
        return 0
    stored: int = _FIELDS.unpack_from(data, at)[6]
    return HEAD_BYTES + stored if stored <= BODY_BYTES_MAX else 0


def announced_rows(data: bytes | mmap) -> int:
    """How many rows the heads of all blocks announce. Bodies are neither read nor checked, so a
    damaged file may announce more or less than it has."""
    found = at = 0
    while (at := data.find(MAGIC, at)) >= 0 and len(data) - at >= HEAD_BYTES:
        _, kind, _, _, rows, _, stored, *_ = _FIELDS.unpack_from(data, at)
        found += rows if kind == ROWS else 0
        at += HEAD_BYTES + (stored if stored <= BODY_BYTES_MAX else 0)
    return found


def _block(data: bytes, at: int) -> Block | None:
    """The block there, if there is one and it is right."""
    head = block_head(data, at)
    if head is None:
        return None
    stored = memoryview(data)[at + HEAD_BYTES : at + head.size]
    body = _unpacked(stored, head.packing, head.raw)
    return None if body is None else Block(*head[:8], body)


def _unpacked(stored: memoryview, packing: int, raw: int) -> bytes | None:
    if packing == _PLAIN:
        return bytes(stored) if len(stored) == raw else None
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(stored, raw + 1)
    except zlib.error:
        return None
    return body if len(body) == raw and unpacker.eof else None
