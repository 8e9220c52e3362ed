"""The local address of a transport whose members have addresses of their own (fan-out and mesh)."""

from __future__ import annotations

import errno
import ipaddress
import socket

from phalanx.config import Config
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport.addresses import SocketAddress, choose_interface, interfaces, ip_of
from phalanx.transport.resolver import look_up


def own_addresses(sock: socket.socket) -> list[SocketAddress]:
    """The address of the socket; if it is bound to any address, all addresses of this machine."""
    bound: SocketAddress = sock.getsockname()
    if not ipaddress.ip_address(bound[0]).is_unspecified:
        return [bound]
    own: list[SocketAddress] = []
    for interface in interfaces():
        for address in interface.addresses:
            ip = ipaddress.ip_address(address)
            if len(bound) == 2 and ip.version == 4:
                own.append((address, bound[1]))
            elif len(bound) == 4 and ip.version == 6:
                own.append((address, bound[1], 0, interface.index if ip.is_link_local else 0))
    return own


def seen_address(sock: socket.socket, seeds: list[SocketAddress]) -> SocketAddress:
    """The address that others probably see: the one used towards the first seed."""
    bound: SocketAddress = sock.getsockname()
    if not ipaddress.ip_address(bound[0]).is_unspecified:
        return bound
    for seed in seeds:
        with socket.socket(sock.family, socket.SOCK_DGRAM) as asker:
            try:
                asker.connect(seed)
            except OSError:
                continue
            host = str(asker.getsockname()[0])
            return (host, bound[1], 0, 0) if len(bound) == 4 else (host, bound[1])
    return bound


def seed_address(host: str, port: int) -> SocketAddress:
    """The socket address of a peer that is given by its IP address."""
    try:
        return look_up(host, port)[0]
    except OSError:  # fe80::1%eth9 without an interface eth9
        remedy = "there is no such interface; write it like [fe80::1%eth0]:7117"
        raise ConfigurationError("peers", f"[{host}]:{port}", remedy) from None


def local_address(config: Config, seeds: list[SocketAddress]) -> str:
    """The address to bind: as configured, of the interface, or any of the peers' IP version."""
    if config.address:
        address = ip_of("address", config.address)
        if address.is_multicast:
            remedy = "with fanout and mesh it is the local address to bind; leave it empty for any"
            raise ConfigurationError("address", config.address, remedy)
        return str(address)
    ipv4 = any(len(seed) == 2 for seed in seeds) or not seeds
    if config.interface:
        towards = "192.0.2.1" if ipv4 else "2001:db8::1"
        return choose_interface(config.interface, towards, config.port or 9)[1]
    return "0.0.0.0" if ipv4 else "::"


def bind_address(sock: socket.socket, host: str, port: int, config: Config) -> None:
    """Bind the socket, or raise NetworkError naming the field and the remedy."""
    full = socket.getaddrinfo(host, port, type=sock.type)[0][4]
    if ":" in host and ipaddress.ip_address(host).is_link_local:
        index = choose_interface(config.interface or host, host, port or 9)[0].index
        full = (host, port, 0, index)
    try:
        sock.bind(full)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                kind = "UDP" if sock.type == socket.SOCK_DGRAM else "TCP"
                problem = f"another program uses this {kind} port"
                remedy = "end it, choose another port, or port = 0 for any that is free"
                raise NetworkError("port", config.port, problem, remedy) from None
            case errno.EACCES | errno.EPERM:
                problem = "the system does not let this user bind it"
                remedy = "choose a port above 1023, or 0 for any that is free"
                raise NetworkError("port", config.port, problem, remedy) from None
            case _:
                problem = f"cannot be bound ({error.strerror})"
                remedy = "give an address of this machine, or leave it empty for any"
                raise NetworkError("address", config.address, problem, remedy) from None
