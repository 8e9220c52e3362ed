"""Sealed packets: authenticated encryption (ChaCha20-Poly1305) under the key of a cluster.

    magic 2s | version u8 | kind u8 | key 4s | session 16s | number u64 | sealed body and tag

Each process draws a random session id when it starts, seals under a key made from the cluster's and
that id, and numbers its packets. The number is the nonce. So no nonce is used twice under one key,
also not after a restart, a lost disk or a clock that was set back. The whole header is
authenticated with the body.

A packet that does not open leaves nothing behind but a count.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from phalanx.errors import NetworkError
from phalanx.mserver.cluster_keys import KeyRing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

SEAL_VERSION = 1
SESSION_BYTES = 16
DATA, CONTROL = 0, 1
_HEADER = Struct("<2sBB4s16sQ")
_MAGIC = b"PS"
_TAG_BYTES = 16
SEAL_BYTES = _HEADER.size + _TAG_BYTES
"""By which a sealed packet is longer than its body."""
_NONCE = Struct("<4xQ").pack


class Opened(NamedTuple):
    """A packet of a holder of the key: new, or a repetition."""

    kind: int
    session: bytes
    number: int
    body: bytes


class PacketSeal:
    """Seals the packets of one process and opens those of others."""

    def __init__(self, ring: KeyRing, session: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        except ImportError:
            remedy = "pip install 'phalanx[security]'"
            problem = "sealed packets need the package cryptography"
            raise NetworkError("key", "set", problem, remedy) from None
        assert len(session) == SESSION_BYTES
        self.ring = ring
        self.session = session
        self._cipher: type[ChaCha20Poly1305] = ChaCha20Poly1305
        self._invalid: type[Exception] = InvalidTag
        self._number = 0
        self._ciphers: dict[bytes, dict[bytes, ChaCha20Poly1305]] = {}
        """By session and key, of sessions that the caller has marked as known."""
        self.renew()

    def renew(self) -> None:
        """Take the first key of the ring, and forget all ciphers of others."""
        self._own_key = self.ring.first
        self._own = self._cipher(self._own_key.of_session(self.session))
        self._ciphers = {session: {} for session in self._ciphers}

    def seal(self, kind: int, body: bytes) -> bytes:
        """A packet with the next number."""
        self._number += 1
        header = _HEADER.pack(
            _MAGIC, SEAL_VERSION, kind, self._own_key.id, self.session, self._number
        )
        return header + self._own.encrypt(_NONCE(self._number), body, header)

    def open(self, packet: bytes) -> Opened | str:
        """What is in a packet, or the reason to refuse it: `unsealed`, `seal-version`, `key` (none
        of ours), `own` (our own, come back) or `forged` (or damaged)."""
        if len(packet) < SEAL_BYTES or not packet.startswith(_MAGIC):
            return "unsealed"
        header, sealed = packet[: _HEADER.size], packet[_HEADER.size :]
        _, version, kind, key_id, session, number = _HEADER.unpack(header)
        if version != SEAL_VERSION:
            return "seal-version"
        if session == self.session:
            return "own"
        kept = self._ciphers.get(session)
        cipher = None if kept is None else kept.get(key_id)
        if cipher is None:
            key = self.ring.keys.get(key_id)
            if key is None:
                return "key"
            cipher = self._cipher(key.of_session(session))
            if kept is not None:
                kept[key_id] = cipher
        try:
            body = cipher.decrypt(_NONCE(number), sealed, header)
        except self._invalid:
            return "forged"
        return Opened(kind, session, number, body)

    def keep(self, session: bytes) -> None:
        """The session is known: keep its ciphers, to open its packets faster."""
        self._ciphers.setdefault(session, {})

    def forget(self, session: bytes) -> None:
        """The session is known no more."""
        self._ciphers.pop(session, None)
