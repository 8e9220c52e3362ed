"""Opens the transport that a configuration selects."""

from __future__ import annotations

from phalanx.config import Config
from phalanx.core.ids import MemberId
from phalanx.transport.base import Transport
from phalanx.transport.channel_hello import packet_prefixes
from phalanx.transport.fanout import open_fanout
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.open_mesh import open_mesh
from phalanx.transport.udp import open_udp


def open_transport(
    config: Config,
    group: str,
    faults: FaultInjector | None = None,
    me: MemberId | None = None,
) -> Transport:
    """The transport of one group for the member `me`, which only a mesh must know. Raises
    ConfigurationError or NetworkError, naming the field and the remedy, and leaves nothing open.
    Each transport needs a FaultInjector of its own."""
    if config.network == "fanout":
        return open_fanout(config, group, faults)
    if config.network == "mesh":
        assert me is not None
        return open_mesh(config, group, me, faults, prefixes=packet_prefixes(config, group))
    return open_udp(config, group, faults)
