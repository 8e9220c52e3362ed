"""The multicast address of a set, and the socket on which a mserver hears it (S3 section IV).

A mserver sends to the group from its own socket, so that its packets come from its own address
whichever way they take.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass

from phalanx.errors import NetworkError

HOPS = 8
"""Routers that a packet to a set may pass."""
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    address: tuple[str, int]
    members: frozenset[str]
    """The mservers that multicast reaches; the others get copies."""


def prepare_sender(sender: socket.socket) -> None:
    """Have the socket send multicast from its own address, also to this machine."""
    host = sender.getsockname()[0]
    if sender.family == socket.AF_INET6:
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, HOPS)
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, _interface_of(host))
        return
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    if host != "0.0.0.0":
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))


def open_receiver(name: str, group: MulticastGroup, sender: socket.socket) -> socket.socket:
    """A socket that hears the group on the interface of the sender. NetworkError if it cannot."""
    host, port = group.address
    own = sender.getsockname()[0]
    receiver = socket.socket(sender.family, socket.SOCK_DGRAM)
    try:
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        receiver.bind((host, port))  # Linux: packets to this group only
        if sender.family == socket.AF_INET6:
            request = socket.inet_pton(socket.AF_INET6, host) + _interface_of(own).to_bytes(
                4, "little"
            )
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
        else:
            receiver.setsockopt(
                socket.IPPROTO_IP,
                socket.IP_ADD_MEMBERSHIP,
                socket.inet_aton(host) + socket.inet_aton(own),
            )
    except OSError as error:
        receiver.close()
        remedy = "name this mserver in fan_out, or give an address of an interface with multicast"
        problem = error.strerror or str(error)
        raise NetworkError(f"set.{name}.multicast", host, problem, remedy) from error
    return receiver


def _interface_of(host: str) -> int:
    """The index of the IPv6 interface; 0, the choice of the system, unless the address names it."""
    scope = ipaddress.IPv6Address(host).scope_id
    return socket.if_nametoindex(scope) if scope else 0
