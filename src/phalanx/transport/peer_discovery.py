"""How members without multicast get to know each other's addresses.

A member introduces itself to the addresses it was given (seeds) and to those it knows, again and
again, and tells whom it has heard itself lately. One address of one member is therefore enough to
find all. An introduction is a packet of the link, not of the protocol above:

    magic 4s | group 8s | nonce 8s | count u8 | count times: 4 or 6 u8, address 4s or 16s, port u16

numbers big-endian. `group` is a digest of cluster and group: others ignore it. The nonce is drawn
at start; who meets its own has met itself, and an address under which a known nonce comes again
is one more address of the same member.

Packets go to those that were heard within ALIVE_NS, and to those that somebody else says he heard:
a link may be dead in one direction only. Whoever falls silent gets introductions only, more seldom,
for a day: a partition may last longer than the members that both sides were started with. Seeds
are tried for ever.

Pure: time comes in as `now`, chance as a seeded Random.
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
"""Its first byte is no version of the protocol, so no packet of it looks like this."""
NONCE_BYTES = 8

MS = 1_000_000
SECOND = 1_000 * MS
FIRST_NS = 50 * MS
"""The second round of introductions; the time between rounds doubles up to ROUND_NS."""
ROUND_NS = 2 * SECOND
SETTLE_NS = 500 * MS
"""An address from hearsay gets packets only after this: by then it is known if it is one's own."""
TOLD_NS = 15 * SECOND
"""Others are told of addresses that were heard this lately."""
ALIVE_NS = 60 * SECOND
FORGOTTEN_NS = 86_400 * SECOND
SELDOM = 2
"""Silent seeds and lost members are tried in one of this many rounds..."""
SOUGHT_MAX = 16
"""... so many of each, by chance if there are more."""
ROUND_MAX = 128
ANSWERS_MAX = 64
"""Introductions of strangers that are answered at once, in a round."""
TABLE_MAX = 1024
TELL_MAX = 60

_HEAD = struct.Struct("!4s8s8sB")
_IPV4 = struct.Struct("!B4sH")
_IPV6 = struct.Struct("!B16sH")
PACKET_BYTES_MAX = _HEAD.size + TELL_MAX * _IPV6.size


@dataclass(slots=True)
class KnownPeer:
    """What is known of an address. Times are those of this machine."""

    first: int
    heard: int | None = None
    told: int | None = None
    nonce: bytes = b""


class PeerTable:
    """Whom packets go to, and who must be told of whom."""

    def __init__(self, cluster: str, group: str, nonce: bytes, random: Random, now: int) -> None:
        assert len(nonce) == NONCE_BYTES
        self.targets: list[SocketAddress] = []
        """Where packets go at the moment."""
        self.counts: Counter[str] = Counter()
        """Introductions that were of no use: `malformed`, `foreign`, `table-full`."""
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

    # ------------------------------------------------- what comes in

    def seeds(self, now: int, seeds: Iterable[SocketAddress]) -> None:
        """The addresses that configuration and name service give now."""
        new = tuple(dict.fromkeys(seeds))
        if new != self._seeds:
            self._seeds = new
            self._hurry(now)

    def own(self, now: int, addresses: Iterable[SocketAddress]) -> None:
        """Addresses that are this member's own for sure."""
        for address in addresses:
            self._is_own(address, now + FORGOTTEN_NS)

    def is_own(self, address: SocketAddress) -> bool:
        return address in self._own

    def heard(self, now: int, source: SocketAddress) -> None:
        """Packets of the protocol came from there. That keeps a known address alive; an unknown
        one has to introduce itself first, for anybody may send a packet."""
        peer = self._peers.get(source)
        if peer is not None and peer.heard is not None:
            silent = now - peer.heard > ALIVE_NS
            peer.heard = now
            if silent:
                self._choose(now)

    def introduced(self, now: int, source: SocketAddress, packet: bytes) -> bool:
        """An introduction came. True if the sender should be answered at once."""
        told = self._read(packet)
        if told is None:
            return False
        nonce, addresses = told
        if nonce == self._nonce:
            self._is_own(source, now + ALIVE_NS)
            return False
        self._own.pop(source, None)  # an address that was ours has gone to somebody else
        peer = self._peers.get(source) or self._add(now, source)
        if peer is None:
            return False
        stranger = peer.heard is None or now - peer.heard > ALIVE_NS or peer.nonce != nonce
        peer.heard, peer.nonce = now, nonce
        news = False
        for address in addresses:
            if address[1] and address not in self._own and self._hearsay(now, address, source):
                news = True
        if news:
            self._hurry(now)
        if stranger or news:
            self._choose(now)
        self._answers += stranger
        return stranger and self._answers <= ANSWERS_MAX

    def _hearsay(self, now: int, address: SocketAddress, source: SocketAddress) -> bool:
        """True if the address is new."""
        if len(address) != len(source):
            return False
        known = self._peers.get(address)
        if known is None and len(self._peers) >= TABLE_MAX:
            self.counts["table-full"] += 1  # hearsay puts nobody out
            return False
        peer = known or self._peers.setdefault(address, KnownPeer(first=now))
        peer.told = now
        return known is None

    def _add(self, now: int, address: SocketAddress) -> KnownPeer | None:
        if len(self._peers) >= TABLE_MAX and not self._make_room(now):
            self.counts["table-full"] += 1
            return None
        self._peers[address] = peer = KnownPeer(first=now)
        return peer

    def _make_room(self, now: int) -> bool:
        """Forget the one that was silent longest. Those that are alive are never put out by what
        strangers say."""
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

    # ------------------------------------------------- what goes out

    def deadline(self) -> int:
        """When the next round of introductions is due."""
        return self._next

    def expire(self, now: int) -> list[SocketAddress]:
        """Whom to send an introduction now; none if no round is due."""
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
        """What to say to one address. Addresses that mean something on one machine only are told
        on that machine only."""
        inside = _of_one_machine(to)
        fresh = [
            address
            for address, peer in self._peers.items()
            if peer.heard is not None
            and now - peer.heard <= TOLD_NS
            and address != to
            and len(address) == len(to)
            and _may_be_told(address, inside)
        ]
        if len(fresh) > TELL_MAX:
            fresh = self._random.sample(fresh, TELL_MAX)
        head = _HEAD.pack(MAGIC, self._digest, self._nonce, len(fresh))
        return head + b"".join(map(_packed, fresh))

    def _hurry(self, now: int) -> None:
        """There is news: introduce soon, and often for a while."""
        self._pause = FIRST_NS
        self._next = min(self._next, now + FIRST_NS)

    def _round(self, now: int) -> list[SocketAddress]:
        alive = [a for a, p in self._peers.items() if _alive(p, now)]
        # In a large group everybody is met within eight rounds, far within ALIVE_NS.
        share = min(ROUND_MAX, max(32, len(alive) // 8))
        if len(alive) > share:
            at = self._rounds * share % len(alive)
            alive = (alive[at:] + alive[:at])[:share]
        chosen = dict.fromkeys(alive)
        if self._rounds % SELDOM == 1 or self._pause < ROUND_NS:
            seeds = [s for s in self._seeds if s not in self._own]
            lost = [a for a, p in self._peers.items() if not _alive(p, now)]
            for some in (seeds, lost):
                some = self._random.sample(some, SOUGHT_MAX) if len(some) > SOUGHT_MAX else some
                chosen |= dict.fromkeys(some)
        return list(chosen)

    def _choose(self, now: int) -> None:
        """Whom packets go to: one address of each member that is alive, the one that was heard
        last. A member whose address changed is heard from the new one only."""
        fresh: dict[bytes, SocketAddress] = {}
        stale: dict[bytes, SocketAddress] = {}  # only others hear them now
        hearsay = []
        latest = sorted(self._peers.items(), key=lambda known: known[1].heard or 0, reverse=True)
        for address, peer in latest:
            if peer.heard is not None and now - peer.heard <= ALIVE_NS:
                fresh.setdefault(peer.nonce, address)
            elif not _alive(peer, now):
                continue
            elif peer.heard is not None:
                stale.setdefault(peer.nonce, address)
            elif now - peer.first >= SETTLE_NS:
                hearsay.append(address)
        self.targets = [*(stale | fresh).values(), *hearsay]

    def _forget(self, now: int) -> None:
        for address, until in list(self._own.items()):
            if until <= now:
                del self._own[address]
        for address, peer in list(self._peers.items()):
            last = peer.told if peer.heard is None else peer.heard
            limit = ALIVE_NS if peer.heard is None else FORGOTTEN_NS
            if now - (last or peer.first) > limit:
                del self._peers[address]

    # ------------------------------------------------- bytes

    def _read(self, packet: bytes) -> tuple[bytes, list[SocketAddress]] | None:
        """Nonce and addresses of an introduction to this group; None if it is no such thing."""
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
    return heard or (peer.told is not None and now - peer.told <= ALIVE_NS)


def _of_one_machine(address: SocketAddress) -> bool:
    return ipaddress.ip_address(address[0]).is_loopback


def _may_be_told(address: SocketAddress, inside: bool) -> bool:
    if ":" in address[0] and ipaddress.ip_address(address[0]).is_link_local:
        return False  # means nothing without the number of an interface
    return inside or not _of_one_machine(address)


def _packed(address: SocketAddress) -> bytes:
    if len(address) == 4:
        return _IPV6.pack(6, socket.inet_pton(socket.AF_INET6, address[0]), address[1])
    return _IPV4.pack(4, socket.inet_aton(address[0]), address[1])


def _unpacked(packet: bytes, at: int) -> tuple[SocketAddress | None, int]:
    """The address that stands there and where the next one stands; None if there is none."""
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
