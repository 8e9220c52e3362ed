"""Diagnosis of a mesh: credentials, the port, the names of peers, and whether peers answer.

A check returns diagnoses and raises nothing. All waits are bounded. A peer is called with TLS and
sees a caller that hangs up before its hello.
"""

from __future__ import annotations

import socket
import ssl
import time
from threading import Thread

from phalanx.config import Config
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport.addresses import SocketAddress, host_and_port, text_of
from phalanx.transport.certificate_names import is_named, shown
from phalanx.transport.diagnostics import Diagnosis, own_name
from phalanx.transport.mesh_listener import open_listener
from phalanx.transport.resolver import Lookup, literal, look_up
from phalanx.transport.tls_identity import TlsIdentity, open_tls, refusal_of

CALL_SECONDS = 2.0
LOOKUP_SECONDS = 3.0
CALLS_MAX = 16
"""Addresses that are called."""
DAY_SECONDS = 86_400
SOON_DAYS = 14
"""A certificate with less time left is a warning."""


def mesh_findings(
    config: Config, name: str | None = None, lookup: Lookup = look_up
) -> list[Diagnosis]:
    """All checks of a mesh, for a member with this name. Raises ConfigurationError for peers that
    are not host:port."""
    peers = [host_and_port("peers", peer) for peer in config.peers]
    tls, credentials = _credentials(config, name)
    found, names = _names(peers, lookup)
    findings = [*credentials, _port(config, found), *names]
    if config.tls is None or tls is not None:
        called = list(dict.fromkeys(found))
        findings += [_call(address, tls) for address in called[:CALLS_MAX]]
    return [*findings, own_name(lookup)]


def _credentials(config: Config, name: str | None) -> tuple[TlsIdentity | None, list[Diagnosis]]:
    if config.tls is None:
        text = "not encrypted: everybody who reaches the port can read, forge and join"
        remedy = "give a certificate or a shared key"
        return None, [Diagnosis("encryption", "warning", text, remedy)]
    try:
        tls = open_tls(config.tls)
    except NetworkError as error:
        text = f"{error.field} = {error.value!r}: {error.problem}"
        return None, [Diagnosis("encryption", "problem", text, error.remedy)]
    if not tls.names_members:
        return tls, [Diagnosis("encryption", "ok", "TLS 1.3 with a shared key")]
    days = (tls.expires - time.time()) / DAY_SECONDS
    text = f"TLS 1.3, the certificate names {shown(tls.names)} and is valid for {days:.0f} days"
    findings = [Diagnosis("encryption", "ok", text)]
    if days < SOON_DAYS:
        remedy = "replace the files; members read them again"
        findings = [Diagnosis("encryption", "warning", text, remedy)]
    if name is not None and not is_named(name, tls.names):
        text = f"the certificate does not name {name!r}"
        findings.append(Diagnosis("name", "problem", text, "use another name or certificate"))
    return tls, findings


def _port(config: Config, known: list[SocketAddress]) -> Diagnosis:
    try:
        listener = open_listener(config, known, config.port)
    except (NetworkError, ConfigurationError) as error:
        problem = error.problem if isinstance(error, NetworkError) else "cannot be used"
        text = f"{error.field} = {error.value!r}: {problem}"
        if error.field == "port":
            text += " (a member that runs here is no problem)"
            return Diagnosis("port", "warning", text, error.remedy)
        return Diagnosis("port", "problem", text, error.remedy)
    address = text_of(listener.getsockname())
    listener.close()
    return Diagnosis("port", "ok", f"TCP {address} can be used")


def _names(
    peers: list[tuple[str, int]], lookup: Lookup
) -> tuple[list[SocketAddress], list[Diagnosis]]:
    """The addresses of all peers, and a diagnosis for each name."""
    found: list[SocketAddress] = []
    findings = []
    for host, port in peers:
        answers, why = _look_up(host, port, lookup)
        found += answers
        if literal(host):
            continue
        if not answers:
            remedy = "check the name and the name service"
            findings.append(Diagnosis("peers", "problem", f"{host!r}: {why}", remedy))
        else:
            texts = ", ".join(dict.fromkeys(str(answer[0]) for answer in answers))
            findings.append(Diagnosis("peers", "ok", f"{host!r} is {texts}"))
    return found, findings


def _look_up(host: str, port: int, lookup: Lookup) -> tuple[list[SocketAddress], str]:
    answers: list[SocketAddress] = []
    failed: list[str] = []

    def ask() -> None:
        try:
            answers.extend(lookup(host, port))
        except OSError as error:
            failed.append(error.strerror or str(error))

    asker = Thread(target=ask, daemon=True)
    asker.start()
    asker.join(LOOKUP_SECONDS)
    if asker.is_alive():
        return [], f"no answer of the name service in {LOOKUP_SECONDS:.0f} s"
    return list(answers), failed[0] if failed else "no addresses"


def _call(address: SocketAddress, tls: TlsIdentity | None) -> Diagnosis:
    """Connect to a peer, and shake hands."""
    check, where = "peer", text_of(address)
    try:
        with socket.create_connection(address[:2], timeout=CALL_SECONDS) as sock:
            if tls is None:
                return Diagnosis(check, "ok", f"{where} answers")
            with tls.client.wrap_socket(sock) as secured:
                # The server judges our certificate after our end of the handshake is complete.
                secured.settimeout(0.2)
                try:
                    closed = not secured.recv(1)
                except TimeoutError:
                    closed = False
                if closed:
                    text = f"{where} closed the connection after the handshake"
                    return Diagnosis(check, "warning", text, "look into the log of that member")
                version, cipher = secured.version(), secured.cipher()
                return Diagnosis(
                    check, "ok", f"{where} answers, {version} {cipher[0] if cipher else ''}".strip()
                )
    except ssl.SSLError as error:
        assert tls is not None
        refusal = refusal_of(error, not tls.names_members)
        remedy = "give all members the same authority, or the same shared key"
        return Diagnosis(check, "problem", f"{where}: {refusal.text}", remedy)
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        remedy = "start a member there, and let the firewall pass TCP to its port"
        return Diagnosis(check, "warning", f"{where}: {why}", remedy)
