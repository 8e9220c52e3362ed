"""Packets without a number that no datagram holds: sent in parts, put together on arrival.

An attempt to join names every member of its view, so in a large group it does not fit. A part
names the whole by its digest: parts of two packets cannot be mixed up, and parts of a packet that
is said again complete it. What stays incomplete is forgotten, the oldest first.
"""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.ids import digest_of
from phalanx.core.wire.frames import PROPOSAL_BYTES_MAX
from phalanx.core.wire.packet_codec import HEADER_BYTES, PacketCodec
from phalanx.core.wire.packets import (
    FRAGMENTS_MAX,
    ControlFragment,
    ControlPacket,
    Fragment,
    Refusal,
)

BEGUN_MAX = 64
BYTES_MAX = 2 * PROPOSAL_BYTES_MAX
_PART_BYTES = HEADER_BYTES + 32
"""What a part needs beside its piece, at most."""


class ControlFragmenter:
    """Cuts unnumbered packets into parts and joins them (rule F-15)."""

    __slots__ = ("_begun", "_bytes", "_codec", "_room")

    def __init__(self, codec: PacketCodec, config: Config) -> None:
        self._codec = codec
        self._room = config.datagram_bytes_max
        self._begun: dict[tuple[bytes, int], dict[int, bytes]] = {}
        """What came, by digest of the whole and number of its parts."""
        self._bytes = 0

    def packets(self, plain: ControlPacket) -> list[bytes]:
        """A packet as datagrams: one, if it fits."""
        data = self._codec.encode(plain)
        if len(data) <= self._room:
            return [data]
        size, name = self._room - _PART_BYTES, digest_of(b"parcel", data)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        return [
            self._codec.encode(ControlFragment(name, index, len(pieces), piece))
            for index, piece in enumerate(pieces)
        ]

    def add(self, part: ControlFragment) -> ControlPacket | Refusal | None:
        """A part came: the packet that it completes, if it completes one that can be read."""
        if not part.index < part.count <= FRAGMENTS_MAX or not part.piece:
            return Refusal("malformed")
        key = (part.whole, part.count)
        pieces = self._begun.setdefault(key, {})
        if part.index not in pieces:
            pieces[part.index] = part.piece
            self._bytes += len(part.piece)
        if len(pieces) < part.count:
            while len(self._begun) > BEGUN_MAX or self._bytes > BYTES_MAX:
                self._drop(next(iter(self._begun)))
            return None
        self._drop(key)
        data = b"".join(pieces[index] for index in range(part.count))
        if digest_of(b"parcel", data) != part.whole:
            return Refusal("malformed")
        packet = self._codec.decode(data)
        return Refusal("malformed") if isinstance(packet, ControlFragment | Fragment) else packet

    def _drop(self, key: tuple[bytes, int]) -> None:
        self._bytes -= sum(map(len, self._begun.pop(key).values()))
