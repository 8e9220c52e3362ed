"""Ed25519 key pairs and signatures (RFC 8032) in plain integers.

Only for the certificate that is made from a shared key (`shared_key_certificate.py`): the `ssl`
module can neither make keys nor sign certificates. One key and one signature are computed when a
member starts; all signatures of TLS handshakes are OpenSSL's. The run time of this module depends
on the secret, so a program on the same machine that measures the start of a member very precisely
and often might learn about it.
"""

from __future__ import annotations

from hashlib import sha512

SEED_BYTES = 32

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_BASE_Y = 4 * pow(5, _P - 2, _P) % _P

Point = tuple[int, int, int, int]
"""Extended coordinates: x/z, y/z, and xy/z."""


def _base() -> Point:
    squared = (_BASE_Y * _BASE_Y - 1) * pow(_D * _BASE_Y * _BASE_Y + 1, _P - 2, _P) % _P
    x = pow(squared, (_P + 3) // 8, _P)
    if (x * x - squared) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x & 1:
        x = _P - x
    return x, _BASE_Y, 1, x * _BASE_Y % _P


def _added(one: Point, two: Point) -> Point:
    a = (one[1] - one[0]) * (two[1] - two[0]) % _P
    b = (one[1] + one[0]) * (two[1] + two[0]) % _P
    c = 2 * one[3] * two[3] * _D % _P
    d = 2 * one[2] * two[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: Point) -> Point:
    out: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            out = _added(out, point)
        point = _added(point, point)
        scalar >>= 1
    return out


def _packed(point: Point) -> bytes:
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expanded(seed: bytes) -> tuple[int, bytes]:
    assert len(seed) == SEED_BYTES
    digest = sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    scalar &= (1 << 254) - 8
    scalar |= 1 << 254
    return scalar, digest[32:]


def public_key(seed: bytes) -> bytes:
    """The public key of the private key `seed`."""
    return _packed(_times(_expanded(seed)[0], _base()))


def sign(seed: bytes, message: bytes) -> bytes:
    """The signature of the message with the private key `seed`."""
    scalar, prefix = _expanded(seed)
    public = _packed(_times(scalar, _base()))
    r = int.from_bytes(sha512(prefix + message).digest(), "little") % _L
    commitment = _packed(_times(r, _base()))
    challenge = int.from_bytes(sha512(commitment + public + message).digest(), "little") % _L
    return commitment + ((r + challenge * scalar) % _L).to_bytes(32, "little")
