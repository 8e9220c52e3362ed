"""Packets: bytes to what they are, and back.

Little-endian throughout. Every packet starts with the same 22 bytes:

    version u8 | kind u8 | cluster u32 | group u64 | settings u32 | check u32

`settings` is the digest of the settings that must agree (`shared_settings`), `check` the CRC-32 of
all that stands before and behind it.

A fragment goes on with `table 8s | sender u16 | via u16 | number u64 | index u16 | count u16 |
repeat u8` and its piece of the frame (`frame_codec`); any other packet with one msgpack array.
Decoding never raises: anything that is not a packet for this cluster, group and settings is a
`Refusal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

import msgspec

from phalanx.config import Config
from phalanx.core.ids import MemberId, digest_of
from phalanx.core.wire.frames import Frame
from phalanx.core.wire.packets import (
    FRAGMENTS_MAX,
    CompleteFrame,
    ControlPacket,
    Fragment,
    Hello,
    JoinAttempt,
    NameClaimed,
    Packet,
    Refusal,
)
from phalanx.core.wire.shared_settings import shared_digest

VERSION = 3
FRAGMENT = 1
PLAIN = 2

_PREFIX = Struct("<BB4s8s4s")
_CHECK = Struct("<I")
_FRAGMENT = Struct("<8sHHQHHB")
_STEM = Struct("<8sHHQ")  # of a fragment's header: what stands before the index
_TAIL = Struct("<HB")  # and behind it

HEADER_BYTES = _PREFIX.size + _CHECK.size
FRAGMENT_HEADER_BYTES = HEADER_BYTES + _FRAGMENT.size
_INDEX_AT = HEADER_BYTES + _STEM.size
_PIECE_AT = FRAGMENT_HEADER_BYTES


_pack_plain = msgspec.msgpack.Encoder().encode
_unpack_plain = msgspec.msgpack.Decoder(ControlPacket).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
_DEFAULT = shared_digest(Config())


class PacketCodec:
    """Encodes and decodes for one group of one cluster, whose members share these settings
    (rule F-1)."""

    def __init__(self, cluster: str, group: str, settings: bytes = _DEFAULT) -> None:
        self._cluster = digest_of(b"cluster", cluster.encode())[:4]
        self._group = digest_of(b"group", cluster.encode(), group.encode())
        self._settings = settings
        names = (self._cluster, self._group, settings)
        self._fragment = _PREFIX.pack(VERSION, FRAGMENT, *names)
        self._plain = _PREFIX.pack(VERSION, PLAIN, *names)
        self._fragment_crc = crc32(self._fragment)
        self._plain_crc = crc32(self._plain)

    # -------------------------------------------------------------- packets

    def encode(self, packet: ControlPacket) -> bytes:
        """An unnumbered packet as bytes (rule F-5)."""
        body = _pack_plain(_as_sent(packet) if type(packet) is JoinAttempt else packet)
        return self._plain + _CHECK.pack(crc32(body, self._plain_crc)) + body

    def encode_fragment(self, fragment: Fragment) -> bytes:
        head = _FRAGMENT.pack(
            fragment.table,
            fragment.sender,
            fragment.via,
            fragment.number,
            fragment.index,
            fragment.count,
            fragment.repeat,
        )
        return self._sealed(head + fragment.piece)

    def _sealed(self, inside: bytes) -> bytes:
        return self._fragment + _CHECK.pack(crc32(inside, self._fragment_crc)) + inside

    def fragments(
        self, frame: Frame, via: int, repeat: int, wanted: Sequence[int] | None = None
    ) -> list[bytes]:
        """A frame as packets: all of them, or only the wanted pieces (rule F-11)."""
        payload = frame.payload
        size = frame.piece or len(payload)
        count = -(-len(payload) // size)
        assert count <= FRAGMENTS_MAX
        stem = _STEM.pack(frame.table, frame.wire, via, frame.number)
        tail = _TAIL.pack(count, repeat)
        out = []
        for i in range(count) if wanted is None else wanted:
            if i < count:
                piece = payload[i * size : (i + 1) * size]
                out.append(self._sealed(b"".join((stem, i.to_bytes(2, "little"), tail, piece))))
        return out

    def decode_all(self, packets: Sequence[bytes]) -> Iterator[Packet | CompleteFrame | Refusal]:
        """What a batch of packets holds, in order. A frame whose fragments stand together comes
        out whole; that is the hot path, and it skips what the fragments have in common."""
        at, end = 0, len(packets)
        while at < end:
            data = packets[at]
            if len(data) >= FRAGMENT_HEADER_BYTES and data[: _PREFIX.size] == self._fragment:
                head = _FRAGMENT.unpack_from(data, HEADER_BYTES)
                table, sender, via, number, index, count, repeat = head
                if not index and count and number and repeat < 2 and at + count <= end:
                    payload = self._join(packets, at, count)
                    if payload is not None:
                        size = len(data) - FRAGMENT_HEADER_BYTES if count > 1 else 0
                        yield CompleteFrame(payload, size, table, sender, via, number, repeat)
                        at += count
                        continue
            yield self.decode(data)
            at += 1

    def _join(self, packets: Sequence[bytes], at: int, count: int) -> bytes | None:
        """The bytes of a frame, if its `count` fragments stand here in order and undamaged."""
        if count == 1:
            inside = packets[at][HEADER_BYTES:]
            check = _CHECK.unpack_from(packets[at], _PREFIX.size)[0]
            if crc32(inside, self._fragment_crc) != check:
                return None
            return inside[_FRAGMENT.size :]
        stem, tail = packets[at][HEADER_BYTES:_INDEX_AT], packets[at][_INDEX_AT + 2 : _PIECE_AT]
        length = len(packets[at])
        pieces = []
        for i in range(count):
            data = packets[at + i]
            inside = data[HEADER_BYTES:]
            if (
                inside[: _FRAGMENT.size] != stem + i.to_bytes(2, "little") + tail
                or crc32(inside, self._fragment_crc) != _CHECK.unpack_from(data, _PREFIX.size)[0]
                or data[: _PREFIX.size] != self._fragment
                or (len(data) != length and (i < count - 1 or len(data) > length))
            ):
                return None
            pieces.append(inside[_FRAGMENT.size :])
        return b"".join(pieces) if pieces[-1] else None

    def decode(self, data: bytes) -> Packet | Refusal:
        """One packet, or why it is none (rule F-3)."""
        prefix = data[: _PREFIX.size]
        if prefix == self._fragment:
            if len(data) < FRAGMENT_HEADER_BYTES:
                return Refusal("short")
            inside = data[HEADER_BYTES:]
            if crc32(inside, self._fragment_crc) != _CHECK.unpack_from(data, _PREFIX.size)[0]:
                return Refusal("checksum")
            fragment = Fragment(inside[_FRAGMENT.size :], *_FRAGMENT.unpack_from(inside))
            if (
                not fragment.index < fragment.count <= FRAGMENTS_MAX
                or not fragment.number
                or fragment.repeat > 1
            ):
                return Refusal("malformed")
            return fragment
        if prefix == self._plain and len(data) >= HEADER_BYTES:
            body = data[HEADER_BYTES:]
            if crc32(body, self._plain_crc) != _CHECK.unpack_from(data, _PREFIX.size)[0]:
                return Refusal("checksum")
            try:
                packet: Packet = _unpack_plain(body)
                return packet
            except _UNREADABLE:
                return Refusal("malformed")
        return self._foreign(data)

    def _foreign(self, data: bytes) -> Refusal:
        """Why a packet is not for this member (rules F-2 and M-5)."""
        if len(data) < HEADER_BYTES:
            return Refusal("short")
        version, kind, cluster, group, settings = _PREFIX.unpack_from(data)
        if version != VERSION:
            return Refusal("version")
        if cluster != self._cluster:
            return Refusal("cluster")
        if group != self._group:
            return Refusal("group")
        if settings != self._settings:
            return self._other_settings(data, kind, settings)
        assert kind not in (FRAGMENT, PLAIN)
        return Refusal("kind")

    def _other_settings(self, data: bytes, kind: int, settings: bytes) -> Refusal:
        """A packet of this group that names other settings. Nothing of it is used but the name of
        its sender, for the report."""
        body = data[HEADER_BYTES:]
        check = _CHECK.unpack_from(data, _PREFIX.size)[0]
        if crc32(body, crc32(data[: _PREFIX.size])) != check:
            return Refusal("checksum")
        peer = _sender_of(body) if kind == PLAIN else None
        return Refusal("settings") if peer is None else Refusal("settings", peer, settings)


def _sender_of(body: bytes) -> MemberId | None:
    """Who sent a packet by which members find each other; None for any other packet."""
    try:
        packet = _unpack_plain(body)
    except _UNREADABLE:
        return None
    match packet:
        case Hello(sender=sender) | JoinAttempt(sender=sender) | NameClaimed(member=sender):
            return sender
        case _:
            return None


def _as_sent(attempt: JoinAttempt) -> object:
    """An attempt to join as it is encoded: its view may have no roles (`Component.as_sent`)."""
    component = attempt.component.as_sent()
    return ("attempt", attempt.sender, attempt.number, component, attempt.heard)
