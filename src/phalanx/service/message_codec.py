"""Codec of the service: messages to bytes and back, refusing what it cannot take.

    version u8 | cluster 4s | check u32 | msgpack of ServiceEnvelope

`decode` never raises: anything that is not a message of this version and cluster, whole and within
bounds, is None and is counted in `refused`.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

import msgspec

from phalanx.core.ids import digest_of
from phalanx.service.messages import ServiceEnvelope

SERVICE_VERSION = 1
MESSAGE_BYTES_MAX = 4 << 20
"""A message may carry the whole state of a set."""

_HEADER = Struct("<B4sI")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ServiceEnvelope).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)


class MessageCodec:
    """Encodes and decodes for one cluster. `refused` counts refusals by reason: `oversized`,
    `short`, `version`, `cluster`, `damaged`, `malformed`."""

    __slots__ = ("_bytes_max", "_cluster", "refused")

    def __init__(self, cluster: str, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._cluster = digest_of(b"service", cluster.encode())[:4]
        self._bytes_max = bytes_max
        self.refused: dict[str, int] = {}

    def encode(self, envelope: ServiceEnvelope) -> bytes:
        """The bytes of a message. One that is too large for `decode` is a defect of the caller."""
        body = _encode(envelope)
        assert _HEADER.size + len(body) <= self._bytes_max, "a message beyond its bound"
        return _HEADER.pack(SERVICE_VERSION, self._cluster, crc32(body)) + body

    def decode(self, data: bytes) -> ServiceEnvelope | None:
        """The message, or None for bytes that are refused."""
        if len(data) > self._bytes_max:
            self._refuse("oversized")
            return None
        if len(data) < _HEADER.size:
            self._refuse("short")
            return None
        version, cluster, check = _HEADER.unpack_from(data)
        if version != SERVICE_VERSION:
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
            envelope: ServiceEnvelope = _decode(body)
        except _UNREADABLE:
            self._refuse("malformed")
            return None
        return envelope

    def _refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1
