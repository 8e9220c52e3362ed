"""What a member of a mesh reports to its peers: the other peers that it has channels to.

A report carries what is new since the one before on the same channel: a channel loses nothing while
it is up, and on a new one everything is new. So while a mesh forms, each member reports each of its
channels once to each other one, and not all of them whenever one opens. Reports of all peers in
turn would cost a member n * n entries; REFRESHED_MAX peers, drawn at random, keep an address that
does not answer from being forgotten (`peer_directory.py`).

Pure: time comes in as `now`, randomness as a seeded Random.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from random import Random

from phalanx.transport.addresses import SocketAddress
from phalanx.transport.channel_hello import PEERS_MAX, ToldPeer
from phalanx.transport.peer_directory import PeerKey

MS = 1_000_000
REPORT_SOON_NS = 50 * MS
"""How soon a new channel is reported, in a mesh of up to SMALL members; in larger ones in
proportion later, and with others."""
SMALL = 16
REPORT_NS = 10_000 * MS
"""How often peers are reported again."""
REFRESHED_MAX = 8
"""So many of them at a time."""


@dataclass(frozen=True, slots=True)
class _ConnectedPeer:
    serial: int
    """Channels that opened later have higher ones."""
    told: ToldPeer
    is_inside: bool
    """Its address is one of the loopback interface, of use on this machine only."""
    is_bound_to_link: bool
    """Its address is meaningless without the index of an interface."""


class PeerReports:
    """Which peer is to be told of which others."""

    def __init__(self, now: int, random: Random) -> None:
        self.due_ns = now + REPORT_NS
        """When to report next."""
        self._random = random
        self._refresh_ns = self.due_ns
        self._serial = 0
        self._connected: dict[PeerKey, _ConnectedPeer] = {}
        """In the order of their serials."""
        self._told: dict[PeerKey, int] = {}
        """Per peer, the serial up to which it has been told."""

    def opened(self, now: int, key: PeerKey, address: SocketAddress) -> None:
        """A channel to this peer is up."""
        self.closed(key)
        self._serial += 1
        ip = ipaddress.ip_address(address[0].partition("%")[0])
        self._connected[key] = _ConnectedPeer(
            self._serial,
            ToldPeer(key[0], address[0], address[1]),
            ip.is_loopback,
            ip.version == 6 and ip.is_link_local,
        )
        self._told[key] = 0
        soon = REPORT_SOON_NS * max(SMALL, len(self._connected)) // SMALL
        self.due_ns = min(self.due_ns, now + soon)

    def closed(self, key: PeerKey) -> None:
        """The channel is gone."""
        self._connected.pop(key, None)
        self._told.pop(key, None)

    def for_peer(self, key: PeerKey) -> list[ToldPeer]:
        """What is new to this peer."""
        upto, self._told[key] = self._told[key], self._serial
        news: list[ToldPeer] = []
        for other, peer in reversed(self._connected.items()):
            if peer.serial <= upto:
                break
            if other != key and self._is_of_use(peer, key):
                news.append(peer.told)
        if len(news) > PEERS_MAX:
            news = self._random.sample(news, PEERS_MAX)
        return news

    def due(self, now: int) -> list[tuple[PeerKey, list[ToldPeer]]]:
        """All reports that are due, by peer."""
        if now < self.due_ns:
            return []
        again: list[tuple[PeerKey, _ConnectedPeer]] = []
        if now >= self._refresh_ns:
            self._refresh_ns = now + REPORT_NS
            rows = list(self._connected.items())
            again = self._random.sample(rows, min(len(rows), REFRESHED_MAX))
        self.due_ns = self._refresh_ns
        out = []
        for key in self._connected:
            news = self.for_peer(key)
            for other, peer in again:
                if other != key and peer.told not in news and self._is_of_use(peer, key):
                    news.append(peer.told)
            if news:
                out.append((key, news[:PEERS_MAX]))
        return out

    def _is_of_use(self, peer: _ConnectedPeer, to: PeerKey) -> bool:
        """Whether the other one can use its address."""
        if peer.is_bound_to_link:
            return False
        return self._connected[to].is_inside or not peer.is_inside
