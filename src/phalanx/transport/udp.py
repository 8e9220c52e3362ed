"""Transport over IP multicast and IPv4 broadcast: one packet reaches all members of the network.

The transport has two sockets. The receiver is bound to the group's own address, so that it gets no
other packets, and joined on one interface only. The sender has a port of its own on the address of
that interface: source address and port identify the member, although several members of one machine
receive on the same port. Multicast loops back to the machine it came from, because other members
may run there; a filter in the kernel drops the member's own packets, or the transport does.

The sender is bound to an address and cannot send once that address is gone. The transport therefore
checks every few seconds, and soon after the network has refused a packet, that its interface still
has the address; if not, it opens new sockets on the present address of the interface.
"""

from __future__ import annotations

import errno
import ipaddress
import select
import socket
import struct
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic_ns

import msgspec

from phalanx.config import Config
from phalanx.errors import ConfigurationError, NetworkError, PhalanxError
from phalanx.transport import sockets
from phalanx.transport.addresses import (
    Interface,
    SocketAddress,
    choose_interface,
    interfaces,
    ip_of,
    multicast_address,
    text_of,
)
from phalanx.transport.base import CHECK_NS, CHECK_SOON_NS, PACKETS_MAX, ChannelEvent
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.sockets import DatagramReceiver, SegmentedSender

LOOP_SECONDS = 0.2
"""How long a packet may take that does not leave this machine."""


@dataclass(frozen=True, slots=True)
class PacketRoute:
    """How packets are sent: the interface, this machine's address on it, and the destination."""

    interface: Interface
    own: str
    to: str

    def is_valid(self) -> bool:
        """Whether the interface still exists and has the address."""
        index, name = self.interface.index, self.interface.name
        if not name:
            return True  # the system cannot be asked
        now = next((i for i in interfaces() if (i.index, i.name) == (index, name)), None)
        if now is None:
            return False
        return self.own in now.addresses or ipaddress.ip_address(self.own).is_loopback


class MulticastTransport:
    """A Transport over multicast or broadcast. Opened by `open_udp`."""

    def __init__(self, config: Config, group: str, faults: FaultInjector) -> None:
        self.counts: Counter[str] = Counter()
        self.channel_events: deque[ChannelEvent] = deque()
        self.faults = faults
        self._config = config
        self._group = group
        self._refused_seen = 0
        """The count of refused packets at the last look."""
        self._lost = False
        """The address is gone, and there is no other yet."""
        self._open(_route(config, group))

    def _open(self, route: PacketRoute) -> None:
        """Open sockets for the route. If that fails the transport is unchanged."""
        config = self._config
        receiver, sender, target = _sockets(config, route)
        self._route = route
        self._receiver = receiver
        self._sender = sender
        self._own: SocketAddress = sender.getsockname()
        self.address = text_of(self._own)
        self.target = text_of(target)
        """The destination of its packets: host:port."""
        self.receive_bytes = sockets.set_buffer(receiver, False, config.receive_bytes)
        sockets.set_buffer(sender, True, sockets.SEND_BYTES)
        sockets.refuse_all(sender)
        sockets.refuse_own(receiver, self._own)
        self._targets = [target]
        self._segments_out = SegmentedSender(sender, config.offload, self.counts)
        self._datagrams_in = DatagramReceiver(receiver, config.offload, self.counts)
        self._checked_ns = monotonic_ns()
        self._check_ns = self._checked_ns + CHECK_NS

    @property
    def offload(self) -> tuple[bool, bool]:
        """Whether the kernel splits runs that are sent, and joins runs that are received."""
        return self._segments_out.offload, self._datagrams_in.offload

    def fileno(self) -> int:
        return self._receiver.fileno()

    def receive(self, now: int) -> list[bytes]:
        out: list[bytes] = []
        take, faults, own = self._datagrams_in.take, self.faults, self._own[:2]
        for _ in range(PACKETS_MAX):
            taken = take()
            if taken is None:
                break
            source, packets = taken
            if source[:2] == own:
                self.counts["own"] += len(packets)
                continue
            if faults.active:
                packets = faults.admit(now, text_of(source), packets)
            out += packets
            if len(out) >= PACKETS_MAX:
                break
        return out

    def send(self, now: int, packets: list[bytes]) -> None:
        self._segments_out.send(packets, self._targets)
        if self.counts.get("unreachable", 0) != self._refused_seen:
            self._refused_seen = self.counts["unreachable"]
            self._check_ns = min(self._check_ns, self._checked_ns + CHECK_SOON_NS)

    def deadline(self) -> int | None:
        delayed = self.faults.deadline()
        return self._check_ns if delayed is None else min(delayed, self._check_ns)

    def expire(self, now: int) -> list[bytes]:
        received: list[bytes] = []
        if now >= self._check_ns:
            self._checked_ns = now
            if self._route.is_valid():
                self._lost = False
                self._check_ns = now + CHECK_NS
            else:
                received = self._move(now)
        return received + self.faults.due(now)

    def _move(self, now: int) -> list[bytes]:
        """The address is gone: open sockets on the present address. Returns the packets that still
        wait in the old sockets."""
        if not self._lost:
            self._lost = True
            self.counts["address-lost"] += 1
        self._check_ns = now + CHECK_SOON_NS
        receiver, sender = self._receiver, self._sender
        received = self.receive(now)
        try:
            self._open(self._next_route())
        except (PhalanxError, OSError):  # no address yet; the old sockets may still receive
            return received
        receiver.close()
        sender.close()
        self._lost = False
        self.counts["address-changed"] += 1
        return received

    def _next_route(self) -> PacketRoute:
        """The route over the same interface as long as one of its name exists: another interface
        leads to other members or, in the case of loopback, to none."""
        config, former = self._config, self._route.interface
        if not config.interface and any(i.name == former.name for i in interfaces()):
            config = msgspec.structs.replace(config, interface=former.name)
        route = _route(config, self._group)
        if route.interface.loopback and not former.loopback:
            raise NetworkError("interface", former.name, "it is gone", "bring it up again")
        return route

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()


# ---------------------------------------------------------------------------- opening


def open_udp(config: Config, group: str, faults: FaultInjector | None = None) -> MulticastTransport:
    """A transport over `config.network`, multicast or broadcast. Raises ConfigurationError or
    NetworkError, and then leaves nothing open."""
    return MulticastTransport(config, group, faults or FaultInjector())


def _route(config: Config, group: str) -> PacketRoute:
    if config.network == "broadcast":
        return PacketRoute(*_broadcast_route(config))
    to = multicast_address(config.address, config.cluster, group)
    interface, own = choose_interface(config.interface, to, config.port)
    _check_multicast(config, interface)
    return PacketRoute(interface, own, to)


def _sockets(
    config: Config, route: PacketRoute
) -> tuple[socket.socket, socket.socket, SocketAddress]:
    """The receiver, the sender, and the address to send to."""
    interface, own, to = route.interface, route.own, route.to
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    with ExitStack() as opened:
        receiver = opened.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        sender = opened.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        receiver.setblocking(False)
        sender.setblocking(False)
        target = _full(family, to, config.port, interface)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(receiver, target, config)
        if config.network == "broadcast":
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        elif family == socket.AF_INET:
            _join_ipv4(receiver, sender, to, own, interface, config)
        else:
            _join_ipv6(receiver, sender, to, interface, config)
        try:
            sender.bind(_full(family, own, 0, interface))
        except OSError as error:
            problem = f"no packets can be sent from {own} ({error.strerror})"
            remedy = "choose an interface whose address is in use on this machine"
            raise NetworkError("interface", config.interface, problem, remedy) from None
        if family == socket.AF_INET6 and interface.loopback:
            _check_loop(sender, to, interface, config)
        opened.pop_all()
        return receiver, sender, target
    raise AssertionError


def _check_loop(sender: socket.socket, to: str, interface: Interface, config: Config) -> None:
    """Test IPv6 multicast on the loopback interface by sending a packet to a port of our own: Linux
    has no route for it, so packets are refused or, with a route of the wrong kind, lost."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(_full(socket.AF_INET6, to, 0, interface))
            group = socket.inet_pton(socket.AF_INET6, to) + struct.pack("=I", interface.index)
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
            sender.sendto(b"", _full(socket.AF_INET6, to, probe.getsockname()[1], interface))
            if select.select([probe], [], [], LOOP_SECONDS)[0]:
                return
        except OSError:
            pass
    problem = f"this system carries no IPv6 multicast on {interface.name}"
    remedy = (
        "leave address empty or take an IPv4 one such as 239.192.7.7, use network = 'fanout' with "
        "peers such as [::1]:7117, or add a route as root: "
        f"ip -6 route add local ff00::/8 dev {interface.name} table local"
    )
    raise NetworkError("interface", config.interface, problem, remedy)


def _broadcast_route(config: Config) -> tuple[Interface, str, str]:
    """The interface, this machine's address on it, and the broadcast address."""
    if config.address and ip_of("address", config.address).version != 4:
        remedy = "IPv6 has no broadcast; take an IPv4 address, or network = 'multicast'"
        raise ConfigurationError("address", config.address, remedy)
    towards = config.address or "255.255.255.255"
    interface, own = choose_interface(config.interface, towards, config.port)
    if not interface.up:
        raise _down(config, interface)
    to = config.address or interface.broadcast
    if not to:
        problem = f"{interface.name} has no broadcast address"
        remedy = "set address, choose another interface, or use network = 'fanout'"
        raise NetworkError("interface", config.interface, problem, remedy)
    return interface, own, to


def _check_multicast(config: Config, interface: Interface) -> None:
    if not interface.up:
        raise _down(config, interface)
    if not interface.carries_multicast():
        problem = f"{interface.name} carries no multicast"
        remedy = "choose another, or use network = 'broadcast' or 'fanout'"
        raise NetworkError("interface", config.interface, problem, remedy)


def _down(config: Config, interface: Interface) -> NetworkError:
    remedy = f"bring it up (ip link set {interface.name} up), or choose another"
    return NetworkError("interface", config.interface, f"{interface.name} is down", remedy)


def _full(family: int, host: str, port: int, interface: Interface) -> SocketAddress:
    """The address as the system takes it: link-local ones have the index of an interface."""
    if family == socket.AF_INET:
        return host, port
    address = ip_of("address", host)
    # ff02::/16 (and ff01) is multicast within one link: it needs the index of the interface too.
    of_one_link = address.is_multicast and address.packed[1] & 15 < 3
    scoped = address.is_link_local or of_one_link
    return host, port, 0, interface.index if scoped else 0


def _bind(receiver: socket.socket, target: SocketAddress, config: Config) -> None:
    try:
        receiver.bind(target)
    except OSError as error:
        raise _refused_bind(error, target, config) from None


def _refused_bind(error: OSError, target: SocketAddress, config: Config) -> NetworkError:
    match error.errno:
        case errno.EADDRINUSE:
            problem = "a program that does not share it uses this UDP port"
            remedy = "end that program, or choose another port at every member"
            return NetworkError("port", config.port, problem, remedy)
        case errno.EACCES | errno.EPERM:
            problem = "the system does not let this user bind it"
            remedy = "choose a port above 1023 at every member"
            return NetworkError("port", config.port, problem, remedy)
        case _:
            problem = f"cannot listen on {target[0]} ({error.strerror})"
            remedy = "choose an address of the network of the interface, or leave it empty"
            return NetworkError("address", config.address, problem, remedy)


def _join_ipv4(
    receiver: socket.socket,
    sender: socket.socket,
    to: str,
    own: str,
    interface: Interface,
    config: Config,
) -> None:
    membership = struct.pack("=4s4si", socket.inet_aton(to), socket.inet_aton(own), interface.index)
    try:
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership)
        _only_joined(receiver, socket.IPPROTO_IP, sockets.IP_MULTICAST_ALL)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, config.hops)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    except OSError as error:
        raise _refused_join(error, interface, to, config) from None


def _join_ipv6(
    receiver: socket.socket, sender: socket.socket, to: str, interface: Interface, config: Config
) -> None:
    level = socket.IPPROTO_IPV6
    membership = socket.inet_pton(socket.AF_INET6, to) + struct.pack("=I", interface.index)
    try:
        receiver.setsockopt(level, socket.IPV6_JOIN_GROUP, membership)
        sender.setsockopt(level, socket.IPV6_MULTICAST_IF, interface.index)
        _only_joined(receiver, level, sockets.IPV6_MULTICAST_ALL)
        sender.setsockopt(level, socket.IPV6_MULTICAST_HOPS, config.hops)
        sender.setsockopt(level, socket.IPV6_MULTICAST_LOOP, 1)
    except OSError as error:
        raise _refused_join(error, interface, to, config) from None


def _only_joined(receiver: socket.socket, level: int, option: int) -> None:
    """Exclude groups that other programs of this machine joined on other interfaces, if the system
    can do that."""
    try:
        receiver.setsockopt(level, option, 0)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EINVAL):
            raise


def _refused_join(error: OSError, interface: Interface, to: str, config: Config) -> NetworkError:
    name = interface.name or "the interface"
    if error.errno == errno.ENOBUFS:
        problem = f"{name} may join no more groups"
        remedy = "raise net.ipv4.igmp_max_memberships, or set one address for several groups"
    else:
        problem = f"{name} cannot join {to} ({error.strerror})"
        remedy = "choose another interface, or use network = 'broadcast' or 'fanout'"
    return NetworkError("interface", config.interface, problem, remedy)
