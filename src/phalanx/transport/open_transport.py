"""The way to the network that a configuration asks for."""

from __future__ import annotations

from phalanx.config import Config
from phalanx.transport.base import Transport
from phalanx.transport.fanout import open_fanout
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.udp import open_udp


def open_transport(config: Config, group: str, faults: FaultInjector | None = None) -> Transport:
    """A link of one group. ConfigurationError or NetworkError, naming the field and the remedy,
    if it cannot be had; nothing stays open then. Each link needs Faults of its own."""
    if config.network == "fanout":
        return open_fanout(config, group, faults)
    return open_udp(config, group, faults)
