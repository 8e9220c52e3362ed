"""Peer discovery for the fan-out transport: gossip of addresses.

A member periodically introduces itself to the addresses it was configured with (seeds) and to those
it knows, and lists the addresses that it heard recently. One address of one member is therefore
enough to find all. An introduction is a packet of the transport, not of the protocol above:

    magic 4s | group 8s | nonce 8s | count u8 | count times: 4 or 6 u8, address 4s or 16s, port u16

numbers big-endian. `group` is a digest of cluster and group: members of other groups ignore the
packet. The nonce is drawn at the start: a member that receives its own nonce has met itself, and an
address from which a known nonce arrives is another address of the same member.

Packets go to the addresses heard within ALIVE_NS, and to those that another member reports to have
heard: a link may be dead in one direction only. A silent address gets introductions only, less
often, for a day: a partition may outlast the members that both sides were started with. Seeds are
tried without limit.

Pure: time comes in as `now`, randomness as a seeded Random.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from phalanx.core.ids import digest_of
from phalanx.transport.addresses import SocketAddress

MAGIC = b"\xf5PHI"
"""Its first byte is no version of the protocol, so no protocol packet looks like this."""
NONCE_BYTES = 8

MS = 1_000_000
SECOND = 1_000 * MS
FIRST_NS = 50 * MS
"""The time before the second round of introductions; it doubles up to ROUND_NS."""
ROUND_NS = 2 * SECOND
SETTLE_NS = 500 * MS
"""An address reported by others gets packets only after this time: by then it is known whether it
is this member's own."""
REPORT_NS = 15 * SECOND
"""Introductions list addresses that were heard within this time."""
ALIVE_NS = 60 * SECOND
FORGOTTEN_NS = 86_400 * SECOND
SILENT_ROUNDS = 2
"""Silent seeds and lost members are tried in one of this many rounds."""
SILENT_MAX = 16
"""At most this many silent seeds and lost members are tried in a round, chosen at random."""
ROUND_MAX = 128
ANSWERS_MAX = 64
"""How many introductions of unknown peers are answered at once in a round."""
TABLE_MAX = 1024
LISTED_MAX = 60

_HEAD = struct.Struct("!4s8s8sB")
_IPV4 = struct.Struct("!B4sH")
_IPV6 = struct.Struct("!B16sH")
PACKET_BYTES_MAX = _HEAD.size + LISTED_MAX * _IPV6.size


@dataclass(slots=True)
class KnownPeer:
    """An address of a peer. Times are those of this machine."""

    first: int
    heard: int | None = None
    reported: int | None = None
    nonce: bytes = b""


class PeerTable:
    """The known peers, the destinations of packets, and the introductions that are due."""

    def __init__(self, cluster: str, group: str, nonce: bytes, random: Random, now: int) -> None:
        assert len(nonce) == NONCE_BYTES
        self.targets: list[SocketAddress] = []
        """The present destinations of packets."""
        self.counts: Counter[str] = Counter()
        """Dropped introductions by reason: `malformed`, `foreign`, `table-full`."""
        self._digest = digest_of(b"introduction", cluster.encode(), group.encode())
        self._nonce = nonce
        self._random = random
        self._peers: dict[SocketAddress, KnownPeer] = {}
        self._seeds: tuple[SocketAddress, ...] = ()
        self._own: dict[SocketAddress, int] = {}
        self._rounds = 0
        self._answers = 0
        self._pause = FIRST_NS
        self._next = now

    # ------------------------------------------------- incoming

    def seeds(self, now: int, seeds: Iterable[SocketAddress]) -> None:
        """Set the addresses from the configuration and the name service."""
        new = tuple(dict.fromkeys(seeds))
        if new != self._seeds:
            self._seeds = new
            self._hurry(now)

    def own(self, now: int, addresses: Iterable[SocketAddress]) -> None:
        """Add addresses that are certainly this member's own."""
        for address in addresses:
            self._is_own(address, now + FORGOTTEN_NS)

    def is_own(self, address: SocketAddress) -> bool:
        return address in self._own

    def heard(self, now: int, source: SocketAddress) -> None:
        """Protocol packets came from this address. They keep a known address alive; an unknown one
        must introduce itself first, as anybody can send a packet."""
        peer = self._peers.get(source)
        if peer is not None and peer.heard is not None:
            silent = now - peer.heard > ALIVE_NS
            peer.heard = now
            if silent:
                self._choose(now)

    def introduced(self, now: int, source: SocketAddress, packet: bytes) -> bool:
        """Process an introduction. Returns whether to answer its sender at once."""
        content = self._read(packet)
        if content is None:
            return False
        nonce, addresses = content
        if nonce == self._nonce:
            self._is_own(source, now + ALIVE_NS)
            return False
        self._own.pop(source, None)  # another member has an address that was ours
        peer = self._peers.get(source) or self._add(now, source)
        if peer is None:
            return False
        stranger = peer.heard is None or now - peer.heard > ALIVE_NS or peer.nonce != nonce
        peer.heard, peer.nonce = now, nonce
        news = False
        for address in addresses:
            if address[1] and address not in self._own and self._add_reported(now, address, source):
                news = True
        if news:
            self._hurry(now)
        if stranger or news:
            self._choose(now)
        self._answers += stranger
        return stranger and self._answers <= ANSWERS_MAX

    def _add_reported(self, now: int, address: SocketAddress, source: SocketAddress) -> bool:
        """Add an address that another member reports. Returns whether it is new."""
        if len(address) != len(source):
            return False
        known = self._peers.get(address)
        if known is None and len(self._peers) >= TABLE_MAX:
            self.counts["table-full"] += 1  # a report displaces no known peer
            return False
        peer = known or self._peers.setdefault(address, KnownPeer(first=now))
        peer.reported = now
        return known is None

    def _add(self, now: int, address: SocketAddress) -> KnownPeer | None:
        if len(self._peers) >= TABLE_MAX and not self._make_room(now):
            self.counts["table-full"] += 1
            return None
        self._peers[address] = peer = KnownPeer(first=now)
        return peer

    def _make_room(self, now: int) -> bool:
        """Remove the peer that was silent longest. Reports of unknown members never displace a peer
        that is alive."""
        silent = [(p.heard or p.first, a) for a, p in self._peers.items() if not _alive(p, now)]
        if not silent:
            silent = [(p.first, a) for a, p in self._peers.items() if p.heard is None]
        if not silent:
            return False
        del self._peers[min(silent)[1]]
        return True

    def _is_own(self, address: SocketAddress, until: int) -> None:
        if address in self._own or len(self._own) < TABLE_MAX:
            self._own[address] = max(until, self._own.get(address, 0))
        self._peers.pop(address, None)
        self.targets = [t for t in self.targets if t != address]

    # ------------------------------------------------- outgoing

    def deadline(self) -> int:
        """When the next round of introductions is due."""
        return self._next

    def expire(self, now: int) -> list[SocketAddress]:
        """The addresses to send an introduction to; empty if no round is due."""
        if now < self._next:
            return []
        self._forget(now)
        self._choose(now)
        self._rounds += 1
        self._answers = 0
        jitter = self._random.randrange(self._pause // 2)
        self._next = now + self._pause * 3 // 4 + jitter
        self._pause = min(2 * self._pause, ROUND_NS)
        return self._round(now)

    def introduction(self, now: int, to: SocketAddress) -> bytes:
        """The introduction for one address. It lists loopback addresses only if it goes to one."""
        inside = _of_one_machine(to)
        fresh = [
            address
            for address, peer in self._peers.items()
            if peer.heard is not None
            and now - peer.heard <= REPORT_NS
            and address != to
            and len(address) == len(to)
            and _may_be_listed(address, inside)
        ]
        if len(fresh) > LISTED_MAX:
            fresh = self._random.sample(fresh, LISTED_MAX)
        head = _HEAD.pack(MAGIC, self._digest, self._nonce, len(fresh))
        return head + b"".join(map(_packed, fresh))

    def _hurry(self, now: int) -> None:
        """Introduce soon, and often for a while: there is a new peer."""
        self._pause = FIRST_NS
        self._next = min(self._next, now + FIRST_NS)

    def _round(self, now: int) -> list[SocketAddress]:
        alive = [a for a, p in self._peers.items() if _alive(p, now)]
        # In a large group all members are reached within eight rounds, well within ALIVE_NS.
        share = min(ROUND_MAX, max(32, len(alive) // 8))
        if len(alive) > share:
            at = self._rounds * share % len(alive)
            alive = (alive[at:] + alive[:at])[:share]
        chosen = dict.fromkeys(alive)
        if self._rounds % SILENT_ROUNDS == 1 or self._pause < ROUND_NS:
            seeds = [s for s in self._seeds if s not in self._own]
            lost = [a for a, p in self._peers.items() if not _alive(p, now)]
            for some in (seeds, lost):
                some = self._random.sample(some, SILENT_MAX) if len(some) > SILENT_MAX else some
                chosen |= dict.fromkeys(some)
        return list(chosen)

    def _choose(self, now: int) -> None:
        """Choose the destinations: one address of each live member, the one heard last. A member
        whose address changed is heard from the new one only."""
        fresh: dict[bytes, SocketAddress] = {}
        stale: dict[bytes, SocketAddress] = {}  # heard by others only
        reported = []
        latest = sorted(self._peers.items(), key=lambda known: known[1].heard or 0, reverse=True)
        for address, peer in latest:
            if peer.heard is not None and now - peer.heard <= ALIVE_NS:
                fresh.setdefault(peer.nonce, address)
            elif not _alive(peer, now):
                continue
            elif peer.heard is not None:
                stale.setdefault(peer.nonce, address)
            elif now - peer.first >= SETTLE_NS:
                reported.append(address)
        self.targets = [*(stale | fresh).values(), *reported]

    def _forget(self, now: int) -> None:
        for address, until in list(self._own.items()):
            if until <= now:
                del self._own[address]
        for address, peer in list(self._peers.items()):
            last = peer.reported if peer.heard is None else peer.heard
            limit = ALIVE_NS if peer.heard is None else FORGOTTEN_NS
            if now - (last or peer.first) > limit:
                del self._peers[address]

    # ------------------------------------------------- encoding

    def _read(self, packet: bytes) -> tuple[bytes, list[SocketAddress]] | None:
        """The nonce and addresses of an introduction to this group; None for anything else."""
        if not _HEAD.size <= len(packet) <= PACKET_BYTES_MAX or packet[:4] != MAGIC:
            self.counts["malformed"] += 1
            return None
        _, digest, nonce, count = _HEAD.unpack_from(packet)
        if digest != self._digest:
            self.counts["foreign"] += 1
            return None
        addresses: list[SocketAddress] = []
        at = _HEAD.size
        for _ in range(count):
            address, at = _unpacked(packet, at)
            if address is None:
                break
            addresses.append(address)
        if len(addresses) != count or at != len(packet):
            self.counts["malformed"] += 1
            return None
        return nonce, addresses


def _alive(peer: KnownPeer, now: int) -> bool:
    heard = peer.heard is not None and now - peer.heard <= ALIVE_NS
    return heard or (peer.reported is not None and now - peer.reported <= ALIVE_NS)


def _of_one_machine(address: SocketAddress) -> bool:
    return ipaddress.ip_address(address[0]).is_loopback


def _may_be_listed(address: SocketAddress, inside: bool) -> bool:
    if ":" in address[0] and ipaddress.ip_address(address[0]).is_link_local:
        return False  # is meaningless without the index of an interface
    return inside or not _of_one_machine(address)


def _packed(address: SocketAddress) -> bytes:
    if len(address) == 4:
        return _IPV6.pack(6, socket.inet_pton(socket.AF_INET6, address[0]), address[1])
    return _IPV4.pack(4, socket.inet_aton(address[0]), address[1])


def _unpacked(packet: bytes, at: int) -> tuple[SocketAddress | None, int]:
    """The address at this offset, or None, and the offset of the next one."""
    version = packet[at] if at < len(packet) else 0
    shape = {4: _IPV4, 6: _IPV6}.get(version)
    if shape is None or at + shape.size > len(packet):
        return None, at
    _, raw, port = shape.unpack_from(packet, at)
    address = ipaddress.ip_address(raw)
    useless = address.is_multicast or address.is_unspecified
    if useless or (version == 6 and address.is_link_local):
        return None, at
    full: SocketAddress = (str(address), port, 0, 0) if version == 6 else (str(address), port)
    return full, at + shape.size
