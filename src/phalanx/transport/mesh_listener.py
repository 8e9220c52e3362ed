"""The listening socket of a mesh, and the addresses that peers report."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache

from phalanx.config import Config
from phalanx.errors import ConfigurationError
from phalanx.transport.addresses import SocketAddress
from phalanx.transport.bound_address import bind_address, local_address
from phalanx.transport.channel_hello import ToldPeer

MS = 1_000_000
BACKLOG = 128


def checked_host(config: Config, known: list[SocketAddress]) -> str:
    """The address to listen on. Plain TCP is refused beyond the loopback interface unless it is
    allowed."""
    host = local_address(config, known)
    if config.tls is not None or config.insecure:
        return host
    address = ipaddress.ip_address(host)
    if address.is_loopback:
        return host
    if (
        not (config.address or config.interface)
        and known
        and all(ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback for peer in known)
    ):
        return "127.0.0.1" if address.version == 4 else "::1"
    remedy = (
        "give tls=phalanx.Certificates(...) or tls=phalanx.SharedKey(...); on a network that you "
        "trust, insecure=True allows plain TCP"
    )
    raise ConfigurationError("tls", None, remedy)


def open_listener(config: Config, seeds: list[SocketAddress], port: int) -> socket.socket:
    """A socket that listens as configured, on this port."""
    host = checked_host(config, seeds)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bind_address(sock, host, port, config)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def told_address(peer: ToldPeer, length: int) -> SocketAddress | None:
    """The address of a peer that others report; None if it cannot be used."""
    try:
        ip = _parsed(peer.host)
    except ValueError:
        return None
    if ip.is_multicast or ip.is_unspecified or (ip.version == 6) != (length == 4):
        return None
    return (str(ip), peer.port, 0, 0) if ip.version == 6 else (str(ip), peer.port)


@lru_cache(1024)
def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address; all members report the same ones."""
    return ipaddress.ip_address(host)


def set_options(sock: socket.socket, silent_ns: int) -> None:
    """Prepare a connection. The system gives it up when nothing was acknowledged for so long."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silent_ns // MS)
