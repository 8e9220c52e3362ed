"""Codec of the service: messages to bytes and back, refusing what it cannot take.

    version u8 | cluster 4s | check u32 | msgpack of ServiceEnvelope

Long messages are compressed (zlib; then the highest bit of the version is set): the state of a set
with the histories of its groups repeats the same names many times.

`decode` never raises: anything that is not a message of this version and cluster, whole and within
bounds, is None and is counted in `refused`. `encode` gives None for a message that nobody would
take.
"""

from __future__ import annotations

from struct import Struct
from zlib import compress, crc32, decompressobj
from zlib import error as ZlibError

import msgspec

from phalanx.core.ids import digest_of
from phalanx.service.messages import ServiceEnvelope

SERVICE_VERSION = 1
MESSAGE_BYTES_MAX = 4 << 20
"""Of a message as it travels. It may carry the whole state of a set."""
PLAIN_BYTES_MAX = 64 << 20
"""Of a message before it is compressed."""
COMPRESSED_FROM = 16 << 10
_COMPRESSED = 0x80

_HEADER = Struct("<B4sI")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ServiceEnvelope).decode
_UNREADABLE = (
    ZlibError,
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
    ValueError,
)


class MessageCodec:
    """Encodes and decodes for one cluster. `refused` counts refusals by reason: `oversized`,
    `short`, `version`, `cluster`, `damaged`, `malformed`, and `unsendable` for messages of its own
    that are too large."""

    __slots__ = ("_bytes_max", "_cluster", "refused")

    def __init__(self, cluster: str, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._cluster = digest_of(b"service", cluster.encode())[:4]
        self._bytes_max = bytes_max
        self.refused: dict[str, int] = {}

    def encode(self, envelope: ServiceEnvelope) -> bytes | None:
        """The bytes of a message; None, and counted, if it is too large for `decode`."""
        body, version = _encode(envelope), SERVICE_VERSION
        plain = len(body)
        if plain >= COMPRESSED_FROM:
            body, version = compress(body, 1), version | _COMPRESSED
        if plain > PLAIN_BYTES_MAX or _HEADER.size + len(body) > self._bytes_max:
            self._refuse("unsendable")
            return None
        return _HEADER.pack(version, self._cluster, crc32(body)) + body

    def decode(self, data: bytes) -> ServiceEnvelope | None:
        """The message, or None for bytes that are refused."""
        if len(data) > self._bytes_max:
            self._refuse("oversized")
            return None
        if len(data) < _HEADER.size:
            self._refuse("short")
            return None
        version, cluster, check = _HEADER.unpack_from(data)
        if version & ~_COMPRESSED != SERVICE_VERSION:
            self._refuse("version")
            return None
        if cluster != self._cluster:
            self._refuse("cluster")
            return None
        body = memoryview(data)[_HEADER.size :]
        if crc32(body) != check:
            self._refuse("damaged")
            return None
        try:
            envelope: ServiceEnvelope = _decode(_plain(body) if version & _COMPRESSED else body)
        except _UNREADABLE:
            self._refuse("malformed")
            return None
        return envelope

    def _refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1


def _plain(body: memoryview) -> bytes:
    """ValueError for what is not the whole of one compressed text within bounds."""
    stream = decompressobj()
    plain = stream.decompress(body, PLAIN_BYTES_MAX)
    if not stream.eof or stream.unused_data:
        raise ValueError("cut off, too long, or with more behind it")
    return plain
