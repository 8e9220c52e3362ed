"""Opens the sockets of one process of the service as the configuration says: sealed, or with a
warning that nothing is, and with the multicast addresses of its sets.

Between interface and mserver, and between mservers, sealed datagrams are what TLS is between client
and interface: the same packets pass the same sockets whether or not a process is local.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from phalanx.mserver.cluster_keys import KeyRing
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.multicast_group import MulticastGroup
from phalanx.mserver.packet_seal import SESSION_BYTES, PacketSeal
from phalanx.mserver.peer_sessions import TOKEN_BYTES, Address, PeerSessions
from phalanx.mserver.refusal_log import PacketsRefused, TakeRefusals
from phalanx.mserver.service_config import ServiceConfig
from phalanx.transport.addresses import host_and_port

_log = logging.getLogger("phalanx.mserver")
UNSEALED = (
    "cluster %s has no key: packets are neither encrypted nor authenticated, and whoever can send "
    'packets to this process can change its groups; set key = "FILE" in the configuration'
)


def log_refusals(refusal: PacketsRefused) -> None:
    """Log dropped packets of one reason."""
    host, port = refusal.source
    _log.info("dropped %d packets (%s) from %s:%d", refusal.packets, refusal.reason, host, port)


def open_link(
    config: ServiceConfig, name: str, bind: str, refused: TakeRefusals = log_refusals
) -> DatagramLink:
    """The sockets of a mserver or an interface. NetworkError if an address or the key file cannot
    be used."""
    if not config.key:
        _log.warning(UNSEALED, config.cluster)
        return DatagramLink(bind, name=name, groups=groups_of(config, name), refused=refused)
    ring = KeyRing(Path(config.key), config.cluster)
    seal = PacketSeal(ring, secrets.token_bytes(SESSION_BYTES))
    sessions = PeerSessions(seal, lambda: secrets.token_bytes(TOKEN_BYTES))
    link = DatagramLink(
        bind, name=name, sessions=sessions, groups=groups_of(config, name), refused=refused
    )
    sessions.configure(addresses_of(config, link).values())
    return link


def groups_of(config: ServiceConfig, name: str) -> dict[str, MulticastGroup]:
    """The multicast addresses of the sets of a mserver."""
    return {
        each.name: MulticastGroup(
            host_and_port("multicast", each.multicast),
            frozenset(each.members) - frozenset(each.fan_out),
        )
        for each in config.sets_of(name)
        if each.multicast
    }


def addresses_of(config: ServiceConfig, link: DatagramLink) -> dict[str, Address]:
    """The socket address of each mserver whose host name can be resolved now."""
    found = {name: link.resolved(server.address) for name, server in config.servers.items()}
    return {name: address for name, address in found.items() if address is not None}
