"""TLS 1.3 for the channels of a mesh: contexts for both ends, and the reasons of failed handshakes.

Both ends present a certificate and verify the other's: with `Certificates` by the authority, and
the certificate must name the member (`certificate_names.py`); with `SharedKey` by being the one
certificate that the key determines (`shared_key_certificate.py`). Host names are not compared:
members move, and have names of their own.

Before a member opens a socket it shakes hands with itself in memory. So a certificate that has
expired, was signed by another authority, or may not be used for both ends is found at once and not
by peers.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.config import Certificates, SharedKey, Tls
from phalanx.errors import NetworkError
from phalanx.transport.certificate_names import names_of
from phalanx.transport.channel_hello import HelloRefusal
from phalanx.transport.shared_key_certificate import KEY_BYTES_MIN, certificate_from_key

ROUNDS_MAX = 8
KEY_BYTES_MAX = 1 << 16
_REMEDY = "give files in PEM format that this process may read"


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """The contexts of one member."""

    tls: Tls
    server: ssl.SSLContext
    client: ssl.SSLContext
    names: tuple[str, ...]
    """The names in this member's certificate; empty with a shared key, which names nobody."""
    expires: float
    """When the certificate expires, in seconds of the wall clock; infinite with a shared key."""
    stamp: tuple[int, ...]
    """Changes when a file does."""

    @property
    def names_members(self) -> bool:
        return isinstance(self.tls, Certificates)

    def is_current(self) -> bool:
        """Whether the files are those that were read."""
        return _stamp(self.tls) == self.stamp


def open_tls(tls: Tls) -> TlsIdentity:
    """Read the files and make the contexts. Raises NetworkError naming the file and the remedy."""
    stamp = _stamp(tls)
    try:
        if isinstance(tls, SharedKey):
            server, client = _shared_key_contexts(tls)
        else:
            server, client = _certificate_contexts(tls)
    except ssl.SSLError as error:
        raise _unusable(tls, _text(error)) from None
    except OSError as error:
        name = error.filename or "a file"
        problem = f"{name} cannot be read ({error.strerror or error})"
        raise _unusable(tls, problem) from None
    shown = _own_certificate(tls, server, client)
    if isinstance(tls, SharedKey):
        return TlsIdentity(tls, server, client, (), float("inf"), stamp)
    expires = float(ssl.cert_time_to_seconds(shown["notAfter"]))
    return TlsIdentity(tls, server, client, names_of(shown), expires, stamp)


def peer_names(sock: ssl.SSLSocket) -> tuple[str, ...]:
    """The names in the verified certificate of the peer."""
    return names_of(sock.getpeercert() or {})


def refusal_of(error: OSError, shared_key: bool) -> HelloRefusal:
    """The reason of a failed handshake in one line."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        if shared_key:
            return HelloRefusal("key", "it has another shared key, or none")
        return HelloRefusal("certificate", f"its certificate: {error.verify_message}")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        if shared_key:
            return HelloRefusal("key", "it reports another shared key")
        alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return HelloRefusal("certificate", f"it refuses this member's certificate: {alert}")
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return HelloRefusal("certificate", "it has no certificate")
    if reason:
        return HelloRefusal("tls", f"no TLS 1.3 with it: {reason.replace('_', ' ').lower()}")
    return HelloRefusal(
        "tls", f"it closed the connection during the TLS handshake ({_text(error)})"
    )


# ---------------------------------------------------------------------------- contexts


def _certificate_contexts(tls: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    for path in (tls.certificate, tls.private_key, tls.authority):
        Path(path).open("rb").close()  # an error that names the file
    server, client = _bare(ssl.PROTOCOL_TLS_SERVER), _bare(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        # Without a callback OpenSSL would ask for a pass phrase at the terminal.
        context.load_cert_chain(tls.certificate, tls.private_key, password=lambda: "")
        context.load_verify_locations(cafile=tls.authority)
    return server, client


def _shared_key_contexts(tls: SharedKey) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    with Path(tls.file).open("rb") as file:
        key = file.read(KEY_BYTES_MAX).strip()
    if len(key) < KEY_BYTES_MIN:
        problem = f"it holds {len(key)} bytes, and {KEY_BYTES_MIN} are the least"
        remedy = f"make one with: openssl rand -hex 32 > {tls.file}"
        raise NetworkError("tls.file", tls.file, problem, remedy)
    pair = certificate_from_key(key)
    server, client = _bare(ssl.PROTOCOL_TLS_SERVER), _bare(ssl.PROTOCOL_TLS_CLIENT)
    with _as_file(pair.certificate + pair.private_key) as path:
        for context in (server, client):
            context.load_cert_chain(path)
            context.load_verify_locations(cadata=pair.certificate)
    return server, client


def _bare(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # every channel authenticates both ends anew
    return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A file that only this process can read, for the time that OpenSSL loads it: in memory where
    the system can do that."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("phalanx-key", os.MFD_CLOEXEC)
        try:
            os.write(fd, text.encode())
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile("w") as file:  # mode 0600
            file.write(text)
            file.flush()
            yield file.name


# ---------------------------------------------------------------------------- own certificate


def _own_certificate(tls: Tls, server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Shake hands in memory. Returns this member's certificate as peers see it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    left = list(ends)
    try:
        for _ in range(ROUNDS_MAX):
            for end in list(left):
                try:
                    end.do_handshake()
                    left.remove(end)
                except ssl.SSLWantReadError:
                    continue
            if not left:
                return ends[1].getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise _unusable(tls, f"peers would refuse it: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise _unusable(tls, f"no handshake is possible with it: {_text(error)}") from None
    raise AssertionError("a handshake in memory does not wait")


def _stamp(tls: Tls) -> tuple[int, ...]:
    paths = (
        [tls.file]
        if isinstance(tls, SharedKey)
        else [tls.certificate, tls.private_key, tls.authority]
    )
    out: list[int] = []
    for path in paths:
        try:
            found = Path(path).stat()
        except OSError:
            out += [0, 0]
        else:
            out += [found.st_mtime_ns, found.st_ino]
    return tuple(out)


def _unusable(tls: Tls, problem: str) -> NetworkError:
    if isinstance(tls, SharedKey):
        return NetworkError("tls.file", tls.file, problem, "give a file that this process may read")
    return NetworkError("tls.certificate", tls.certificate, problem, _REMEDY)


def _text(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if reason:
        return str(reason).replace("_", " ").lower()
    return error.strerror or str(error) or type(error).__name__
