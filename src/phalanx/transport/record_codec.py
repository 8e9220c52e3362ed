"""Records on a channel: how packets and control messages share one byte stream.

A record is `kind u8 | length u24 | length bytes`, big-endian. A stream has no borders of its own,
so a peer that sends anything else cannot be followed: the reader reports it and the channel is
closed. Pure: bytes in, records out, and never more than one incomplete record is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

HELLO = 1
REFUSED = 2
PEERS = 3
BEAT = 4
DATAGRAM = 5

DATAGRAM_BYTES_MAX = 65_535
CONTROL_BYTES_MAX = 65_535
GREETING_BYTES_MAX = 16_384
"""The limit for records before the peer is known."""
HEAD_BYTES = 4
WAIT = 1 << 62
"""More than any stream has: nothing is read before the peer is admitted."""

_HEAD = Struct("!I")
_KINDS = frozenset({HELLO, REFUSED, PEERS, BEAT, DATAGRAM})


def encode_control(kind: int, payload: bytes = b"") -> bytes:
    """One record that is not a packet."""
    assert kind in _KINDS
    assert len(payload) <= CONTROL_BYTES_MAX
    return _HEAD.pack(kind << 24 | len(payload)) + payload


def encode_datagrams(packets: Sequence[bytes]) -> bytes:
    """The packets as consecutive records."""
    pack, mark = _HEAD.pack, DATAGRAM << 24
    parts: list[bytes] = []
    for packet in packets:
        parts.append(pack(mark | len(packet)))
        parts.append(packet)
    return b"".join(parts)


class RecordReader:
    """Takes a byte stream apart."""

    def __init__(self) -> None:
        self.problem = ""
        """Why the stream cannot be followed; empty while it can."""
        self._parts: list[bytes] = []
        self._size = 0
        self._need = HEAD_BYTES
        self._is_admitted = False
        self._length_max = GREETING_BYTES_MAX
        """Longer records are an error."""

    def admit(self) -> None:
        """The peer is known: records may be longer, and those behind the first may be read. Those
        that have arrived come with the next call of `feed`, which may have no bytes."""
        self._is_admitted = True
        self._length_max = CONTROL_BYTES_MAX
        self._need = min(self._need, HEAD_BYTES)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the record that is not complete yet."""
        return self._size

    def feed(self, data: bytes) -> tuple[list[tuple[int, bytes]], list[bytes]]:
        """The control records and the packets that these bytes complete, each in order. Before the
        peer is admitted there is one record at most; after a problem there are none."""
        controls: list[tuple[int, bytes]] = []
        packets: list[bytes] = []
        if self.problem:
            return controls, packets
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._need:
            return controls, packets
        if len(self._parts) > 1:
            data = b"".join(self._parts)
        at, end = 0, len(data)
        unpack = _HEAD.unpack_from
        self._need = HEAD_BYTES
        while at + HEAD_BYTES <= end:
            head = unpack(data, at)[0]
            kind, length = head >> 24, head & 0xFFFFFF
            if kind not in _KINDS or length > self._length_max:
                self.problem = f"record of kind {kind} and {length} bytes"
                self._parts, self._size = [], 0
                return controls, packets
            if at + HEAD_BYTES + length > end:
                self._need = HEAD_BYTES + length
                break
            payload = data[at + HEAD_BYTES : at + HEAD_BYTES + length]
            at += HEAD_BYTES + length
            if kind == DATAGRAM:
                packets.append(payload)
            else:
                controls.append((kind, payload))
            if not self._is_admitted:
                self._need = WAIT
                break
        rest = data[at:]
        self._parts, self._size = [rest] if rest else [], len(rest)
        return controls, packets
