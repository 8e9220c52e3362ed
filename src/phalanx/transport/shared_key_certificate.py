"""A certificate made from a shared key: whoever has the key has this certificate and its key.

TLS with pre-shared keys needs Python 3.13. Here the shared key is the seed of an Ed25519 key pair
and of a certificate that this key pair signed itself. All members compute the same certificate, use
it at both ends, and trust no other. So TLS 1.3 itself proves to both ends, by the signature over
the whole handshake, that the other one has the shared key: a man in the middle without it can
answer neither. Session keys are ephemeral (ECDHE): the shared key decrypts no recorded traffic.

The certificate authenticates the group, not the member: every holder of the key can use any name.
Whoever calls a member receives the certificate, and can test guesses of the key against it without
further calls. Hence the least length of the key, and `scrypt`.
"""

from __future__ import annotations

import base64
import textwrap
from hashlib import scrypt
from typing import NamedTuple

from phalanx.transport.ed25519 import public_key, sign

KEY_BYTES_MIN = 32
_SALT = b"phalanx mesh shared key 1"
_ED25519 = bytes.fromhex("06032b6570")  # the object identifier 1.3.101.112
_COMMON_NAME = bytes.fromhex("0603550403")  # 2.5.4.3
_BASIC_CONSTRAINTS = bytes.fromhex("0603551d13")  # 2.5.29.19
_SEQUENCE, _SET = 0x30, 0x31
_NAME = "phalanx shared key"


class PemPair(NamedTuple):
    """A certificate and its private key as PEM text."""

    certificate: str
    private_key: str


def certificate_from_key(key: bytes) -> PemPair:
    """The certificate of a shared key: the same for the same key, on every machine."""
    assert len(key) >= KEY_BYTES_MIN
    seed = scrypt(key, salt=_SALT, n=1 << 14, r=8, p=1, dklen=32)
    algorithm = _der(_SEQUENCE, _ED25519)
    name = _der(
        _SEQUENCE,
        _der(_SET, _der(_SEQUENCE, _COMMON_NAME + _der(0x0C, _NAME.encode()))),
    )
    # All members must make the same certificate whatever their clocks show, so it never expires.
    validity = _der(_SEQUENCE, _der(0x17, b"700101000000Z") + _der(0x18, b"99991231235959Z"))
    subject_key = _der(_SEQUENCE, algorithm + _der(0x03, b"\0" + public_key(seed)))
    constraints = _der(0x04, _der(_SEQUENCE, b"\x01\x01\xff"))
    extension = _der(_SEQUENCE, _BASIC_CONSTRAINTS + b"\x01\x01\xff" + constraints)
    signed = _der(
        _SEQUENCE,
        b"".join(
            [
                _der(0xA0, b"\x02\x01\x02"),  # version 3
                b"\x02\x01\x01",  # serial number 1
                algorithm,
                name,
                validity,
                name,
                subject_key,
                _der(0xA3, _der(_SEQUENCE, extension)),
            ]
        ),
    )
    signature = _der(0x03, b"\0" + sign(seed, signed))
    private = _der(_SEQUENCE, b"\x02\x01\x00" + algorithm + _der(0x04, _der(0x04, seed)))
    return PemPair(
        _pem("CERTIFICATE", _der(_SEQUENCE, signed + algorithm + signature)),
        _pem("PRIVATE KEY", private),
    )


def _der(tag: int, content: bytes) -> bytes:
    """One element of ASN.1, as X.509 and PKCS #8 encode it."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _pem(kind: str, der: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"
