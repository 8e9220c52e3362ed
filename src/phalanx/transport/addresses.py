"""Addresses: multicast addresses of groups, host:port in text, and the machine's interfaces.

Without an `address`, a group's multicast address is derived from the names of cluster and group, so
that groups do not disturb each other and nobody has to assign numbers. 239.192.0.0/14 is the range
for use within an organisation (RFC 2365). Two groups may get the same address: packets carry a
digest of both names, so this costs some work and nothing else.

Interfaces are read from the Linux kernel without other packages. On other systems an interface is
known by its address only.
"""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from phalanx.core.ids import digest_of
from phalanx.errors import ConfigurationError, NetworkError

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""A socket address of the system: IPv4 as (host, port), IPv6 with flow and scope in addition."""

_FIRST = int(ipaddress.IPv4Address("239.192.0.0"))
_BITS = 18  # what 239.192.0.0/14 leaves free

_SIOCGIFCONF = 0x8912
_SIOCGIFFLAGS = 0x8913
_SIOCGIFBRDADDR = 0x8919
_SIOCGIFNETMASK = 0x891B
_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_IFF_MULTICAST = 0x1000
_IFREQ_BYTES = 40
_INTERFACES_MAX = 1024
_IF_INET6 = Path("/proc/net/if_inet6")


def group_address(cluster: str, group: str) -> str:
    """The IPv4 multicast address of a group without a configured one."""
    digest = digest_of(b"address", cluster.encode(), group.encode())
    offset = int.from_bytes(digest, "big") & ((1 << _BITS) - 1)
    return str(ipaddress.IPv4Address(_FIRST + offset))


def ip_of(field: str, text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address in `text`, or ConfigurationError naming the field."""
    try:
        if "%" not in text:
            return ipaddress.ip_address(text)
        remedy = "remove the % and the text after it, and set interface to that text"
    except ValueError:
        remedy = "not an IP address; write it like 239.192.7.7 or ff05::7117"
    raise ConfigurationError(field, text, remedy)


def multicast_address(text: str, cluster: str, group: str) -> str:
    """The address that a group's packets go to, or ConfigurationError for `address`."""
    if not text:
        return group_address(cluster, group)
    address = ip_of("address", text)
    if not address.is_multicast:
        remedy = "not a multicast address; take one of 239.0.0.0/8 or ff05::/16, or leave it empty"
        raise ConfigurationError("address", text, remedy)
    return str(address)


def host_and_port(field: str, text: str) -> tuple[str, int]:
    """Host and port of host:port, an IPv6 address in brackets, or ConfigurationError.

    >>> host_and_port("peers", "[fd00::1]:7117")
    ('fd00::1', 7117)
    """
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "[" in host or "]" in host:
        remedy = "write host:port, an IPv6 address in brackets: [fd00::1]:7117"
        raise ConfigurationError(field, text, remedy)
    if not colon or not host or any(c.isspace() for c in host):
        raise ConfigurationError(field, text, "write host:port, for example 10.0.0.1:7117")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5):
        raise ConfigurationError(field, text, "the port must be a number in 1..65535")
    if not 0 < int(digits) < 65_536:
        raise ConfigurationError(field, text, "the port must lie in 1..65535")
    return host, int(digits)


def text_of(address: SocketAddress) -> str:
    """An address in text: host:port.

    >>> text_of(("fe80::1", 7117, 0, 2))
    '[fe80::1]:7117'
    """
    return f"[{address[0]}]:{address[1]}" if len(address) == 4 else f"{address[0]}:{address[1]}"


# ---------------------------------------------------------------------------- interfaces


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface as the kernel reports it."""

    name: str
    index: int
    addresses: tuple[str, ...]
    broadcast: str
    up: bool
    multicast: bool
    loopback: bool

    def own(self, version: int) -> str | None:
        """Its first address of that IP version; link-local addresses come last."""
        mine = [a for a in self.addresses if ipaddress.ip_address(a).version == version]
        mine.sort(key=lambda a: ipaddress.ip_address(a).is_link_local)
        return mine[0] if mine else None

    def carries_multicast(self) -> bool:
        """Whether it carries multicast. Loopback does, within the machine, without the flag."""
        return self.up and (self.multicast or self.loopback)


def interfaces() -> list[Interface]:
    """The interfaces of this machine in the kernel's order; empty on systems other than Linux."""
    if sys.platform != "linux":
        return []
    addresses: dict[str, list[str]] = {name: [] for _, name in socket.if_nameindex()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name, address in _ipv4_addresses(sock):
            addresses.setdefault(name, []).append(address)
        for name, address in _ipv6_addresses():
            addresses.setdefault(name, []).append(address)
        return [_interface(sock, i, n, addresses[n]) for i, n in socket.if_nameindex()]


def _interface(sock: socket.socket, index: int, name: str, addresses: list[str]) -> Interface:
    raw = _ask(sock, _SIOCGIFFLAGS, name)
    flags = struct.unpack_from("=H", raw, 16)[0] if raw else 0
    return Interface(
        name=name,
        index=index,
        addresses=tuple(addresses),
        broadcast=_broadcast(sock, name, addresses),
        up=bool(flags & _IFF_UP),
        multicast=bool(flags & _IFF_MULTICAST),
        loopback=bool(flags & _IFF_LOOPBACK),
    )


def _broadcast(sock: socket.socket, name: str, addresses: list[str]) -> str:
    """The interface's broadcast address; derived from its netmask if it has none, as loopback."""
    answer = _ask(sock, _SIOCGIFBRDADDR, name)
    if answer and any(answer[20:24]):
        return socket.inet_ntoa(answer[20:24])
    mask = _ask(sock, _SIOCGIFNETMASK, name)
    first = next((a for a in addresses if ":" not in a), None)
    if not mask or first is None:
        return ""
    network = ipaddress.IPv4Network(f"{first}/{socket.inet_ntoa(mask[20:24])}", strict=False)
    return str(network.broadcast_address) if network.prefixlen < 31 else ""


def _ask(sock: socket.socket, request: int, name: str) -> bytes | None:
    """The kernel's answer to a request about an interface; None if there is none."""
    request_bytes = struct.pack(f"16s{_IFREQ_BYTES - 16}x", name.encode()[:15])
    try:
        return fcntl.ioctl(sock.fileno(), request, request_bytes)
    except OSError:
        return None


def _ipv4_addresses(sock: socket.socket) -> list[tuple[str, str]]:
    """All IPv4 addresses, each with its interface; secondary addresses included."""
    room = array.array("B", bytes(_INTERFACES_MAX * _IFREQ_BYTES))
    where, size = room.buffer_info()
    answer = fcntl.ioctl(sock.fileno(), _SIOCGIFCONF, struct.pack("iP", size, where))
    used = struct.unpack("iP", answer)[0]
    data = room.tobytes()
    found = []
    for at in range(0, used, _IFREQ_BYTES):
        name = data[at : at + 16].partition(b"\0")[0].decode(errors="replace")
        # A secondary address with a label of its own is reported as eth0:label.
        found.append((name.partition(":")[0], socket.inet_ntoa(data[at + 20 : at + 24])))
    return found


def _ipv6_addresses() -> list[tuple[str, str]]:
    try:
        lines = _IF_INET6.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [(r[5], str(ipaddress.IPv6Address(bytes.fromhex(r[0])))) for r in rows if len(r) == 6]


def choose_interface(wanted: str, destination: str, port: int) -> tuple[Interface, str]:
    """The interface for packets to `destination`, and this machine's address on it.

    `wanted` is a name, an address, or empty for the interface of the system's route. Raises
    NetworkError for an interface that does not exist or has no address of that IP version.
    """
    version = ipaddress.ip_address(destination).version
    known = interfaces()
    if not wanted:
        return _default_interface(known, destination, port)
    for interface in known:
        if wanted == interface.name:
            own = interface.own(version)
            if own is None:
                problem = f"it has no IPv{version} address"
                remedy = f"give it one, or choose another of: {_names(known)}"
                raise NetworkError("interface", wanted, problem, remedy)
            return interface, own
    address = _address_or_none(wanted)
    if address is None:
        problem = "no such interface"
        raise NetworkError("interface", wanted, problem, f"choose one of: {_names(known)}")
    if address.version != version:
        problem = f"not an IPv{version} address, which {destination} needs"
        raise NetworkError("interface", wanted, problem, "name the interface, or change address")
    for interface in known:
        if str(address) in interface.addresses:
            return interface, str(address)
    if address.is_loopback:  # 127.0.0.2 and so on exist without being listed
        for interface in known:
            if interface.loopback:
                return interface, str(address)
    if not known:
        return Interface("", 0, (str(address),), "", True, True, address.is_loopback), str(address)
    problem = "no interface has this address"
    raise NetworkError("interface", wanted, problem, f"choose one of: {_names(known)}")


def _default_interface(
    known: list[Interface], destination: str, port: int
) -> tuple[Interface, str]:
    """The interface of the route to the destination; without a route, the first suitable one."""
    version = ipaddress.ip_address(destination).version
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    own = ""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.connect((destination, port))
            own = str(sock.getsockname()[0])
        except OSError:
            pass
    for interface in known:
        if own in interface.addresses and interface.carries_multicast():
            return interface, own
    for loopback in (False, True):
        for interface in known:
            address = interface.own(version)
            if address and interface.loopback == loopback and interface.carries_multicast():
                return interface, address
    if own and not known:
        return Interface("", 0, (own,), "", True, True, False), own
    problem = f"no interface is up that can carry packets to {destination}"
    raise NetworkError("interface", "", problem, "bring one up, or use network = 'fanout'")


def _address_or_none(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _names(known: list[Interface]) -> str:
    """The available interfaces with their addresses."""
    texts = [f"{i.name} ({', '.join(i.addresses)})" for i in known if i.addresses]
    return "; ".join(texts) or "an address of this machine"
