"""Fan-out transport: a copy of every packet goes to each member (S3's mcaster).

For networks without multicast: clouds, containers, members in several subnets. One socket sends and
receives, so the source address of its packets is the address to answer to. `peer_discovery.py`
finds the other members; `resolver.py` looks up host names.

With an `interface` the socket is bound to the address of that interface, and the transport follows
it to another address, as the multicast transport does; the others learn the new address from an
introduction. A socket bound to any address need not move, and one with a configured `address` waits
until that address is back.
"""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from contextlib import ExitStack
from random import Random
from time import monotonic_ns

from phalanx.config import Config
from phalanx.errors import ConfigurationError, NetworkError, PhalanxError
from phalanx.transport import sockets
from phalanx.transport.addresses import SocketAddress, host_and_port, interfaces, text_of
from phalanx.transport.base import CHECK_NS, CHECK_SOON_NS, PACKETS_MAX, ChannelEvent
from phalanx.transport.bound_address import (
    bind_address,
    local_address,
    own_addresses,
    seed_address,
    seen_address,
)
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.peer_discovery import MAGIC, NONCE_BYTES, PeerTable
from phalanx.transport.resolver import START_SECONDS, Lookup, Resolver, literal, look_up
from phalanx.transport.sockets import DatagramReceiver, SegmentedSender

_MAGIC = MAGIC[:1]


class FanoutTransport:
    """A Transport that sends to each member in turn. Opened by `open_fanout`."""

    def __init__(
        self,
        sock: socket.socket,
        config: Config,
        group: str,
        seeds: list[SocketAddress],
        resolver: Resolver,
        faults: FaultInjector,
        now: int,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.channel_events: deque[ChannelEvent] = deque()
        self.faults = faults
        self._config = config
        self._seeds = seeds
        self._resolver = resolver
        nonce = os.urandom(NONCE_BYTES)
        random = Random(nonce)
        self._peer_table = PeerTable(config.cluster, group, nonce, random, now)
        self._peer_table.counts = self.counts
        self._refused_seen = 0
        self._lost = False
        """The address of the interface is gone, and it has no other yet."""
        self._use(sock, now)
        self._reseed(now)

    def _use(self, sock: socket.socket, now: int) -> None:
        """Send and receive with this socket from now on."""
        config = self._config
        self._sock = sock
        self._peer_table.own(now, own_addresses(sock))
        self.address = text_of(seen_address(sock, [*self._seeds, *self._resolver.found]))
        self.receive_bytes = sockets.set_buffer(sock, False, config.receive_bytes)
        sockets.set_buffer(sock, True, sockets.SEND_BYTES)
        self._segments_out = SegmentedSender(sock, config.offload, self.counts)
        self._datagrams_in = DatagramReceiver(sock, config.offload, self.counts)
        self._checked_ns = now
        self._check_ns = now + CHECK_NS

    @property
    def peers(self) -> list[str]:
        """The present destinations of packets: host:port."""
        return [text_of(target) for target in self._peer_table.targets]

    @property
    def offload(self) -> tuple[bool, bool]:
        """Whether the kernel splits runs that are sent, and joins runs that are received."""
        return self._segments_out.offload, self._datagrams_in.offload

    def fileno(self) -> int:
        return self._sock.fileno()

    def receive(self, now: int) -> list[bytes]:
        out: list[bytes] = []
        take, faults = self._datagrams_in.take, self.faults
        for _ in range(PACKETS_MAX):
            taken = take()
            if taken is None:
                break
            source, packets = taken
            if faults.active and not faults.hears(text_of(source)):
                packets = faults.admit(now, text_of(source), packets)  # which counts them
                continue
            # The kernel may have joined introductions and protocol packets to one run.
            plain = [packet for packet in packets if packet[:1] != _MAGIC]
            if len(plain) < len(packets):
                self._meet(now, source, [p for p in packets if p[:1] == _MAGIC])
            if not plain:
                continue
            if self._peer_table.is_own(source):
                self.counts["own"] += len(plain)
                continue
            self._peer_table.heard(now, source)
            if faults.active:
                plain = faults.admit(now, text_of(source), plain)
            out += plain
            if len(out) >= PACKETS_MAX:
                break
        return out

    def send(self, now: int, packets: list[bytes]) -> None:
        targets = self._peer_table.targets
        if self.faults.active:
            targets = [t for t in targets if self.faults.reaches(text_of(t))]
        if targets:
            self._segments_out.send(packets, targets)
            if self.counts.get("unreachable", 0) != self._refused_seen:
                self._refused_seen = self.counts["unreachable"]
                self._check_ns = min(self._check_ns, self._checked_ns + CHECK_SOON_NS)

    def deadline(self) -> int | None:
        delayed = self.faults.deadline()
        due = min(self._peer_table.deadline(), self._check_ns)
        return due if delayed is None else min(delayed, due)

    def expire(self, now: int) -> list[bytes]:
        received: list[bytes] = []
        if now >= self._check_ns:
            received = self._check(now)
        if now >= self._peer_table.deadline():
            self._reseed(now)
            for target in self._peer_table.expire(now):
                self._introduce(now, target)
        return received + self.faults.due(now)

    def close(self) -> None:
        self._resolver.close()
        self._sock.close()

    # ------------------------------------------------- the address of the interface

    def _check(self, now: int) -> list[bytes]:
        """Check that the interface still has the address. Returns the packets that wait in a
        socket that is replaced."""
        self._checked_ns, self._check_ns = now, now + CHECK_NS
        host = self._sock.getsockname()[0]
        follows = self._config.interface and not self._config.address
        if not follows or any(host in interface.addresses for interface in interfaces()):
            self._lost = False
            return []
        if not self._lost:
            self._lost = True
            self.counts["address-lost"] += 1
        self._check_ns = now + CHECK_SOON_NS
        former, received = self._sock, self.receive(now)
        try:
            sock = _open_socket(self._config, self._seeds, former.getsockname()[1])
        except (PhalanxError, OSError):  # no address yet
            return received
        self._use(sock, now)
        former.close()
        self._lost = False
        self.counts["address-changed"] += 1
        for target in self._peer_table.targets:
            self._introduce(now, target)
        return received

    # ------------------------------------------------- introductions

    def _reseed(self, now: int) -> None:
        """Take over the addresses that the resolver found since the last time."""
        length = 4 if self._sock.family == socket.AF_INET6 else 2
        usable = [a for a in self._resolver.found if len(a) == length]
        self._peer_table.seeds(now, [*self._seeds, *usable])

    def _meet(self, now: int, source: SocketAddress, packets: list[bytes]) -> None:
        for packet in packets:
            if self._peer_table.introduced(now, source, packet):
                self._introduce(now, source)

    def _introduce(self, now: int, target: SocketAddress) -> None:
        if self.faults.active and not self.faults.reaches(text_of(target)):
            return
        self._segments_out.send([self._peer_table.introduction(now, target)], [target])


# ---------------------------------------------------------------------------- opening


def open_fanout(
    config: Config, group: str, faults: FaultInjector | None = None, lookup: Lookup = look_up
) -> FanoutTransport:
    """A transport to `config.peers` and the members they know. Raises ConfigurationError or
    NetworkError, and then leaves nothing open. Its `now` is that of `time.monotonic_ns`."""
    parsed = [host_and_port("peers", peer) for peer in config.peers]
    seeds = [seed_address(*peer) for peer in parsed if literal(peer[0])]
    resolver = Resolver([peer for peer in parsed if not literal(peer[0])], lookup)
    with ExitStack() as opened:
        opened.callback(resolver.close)
        if not seeds and resolver.wait(START_SECONDS) and not resolver.found:
            problem = "none of them can be resolved"
            remedy = "check the names and the name service, or give an address as 10.0.0.1:7117"
            raise NetworkError("peers", config.peers, problem, remedy)
        host = local_address(config, [*seeds, *resolver.found])
        for peer, seed in zip((p for p in parsed if literal(p[0])), seeds, strict=True):
            if (":" in host) != (len(seed) == 4):
                remedy = f"not of the same IP version as {host}; use one version at all members"
                raise ConfigurationError("peers", peer[0], remedy)
        sock = opened.enter_context(_open_socket(config, [*seeds, *resolver.found], config.port))
        transport = FanoutTransport(
            sock, config, group, seeds, resolver, faults or FaultInjector(), monotonic_ns()
        )
        opened.pop_all()
        return transport
    raise AssertionError


def _open_socket(config: Config, seeds: list[SocketAddress], port: int) -> socket.socket:
    """A socket that is bound as configured, to this port."""
    host = local_address(config, seeds)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bind_address(sock, host, port, config)
    except BaseException:
        sock.close()
        raise
    return sock
