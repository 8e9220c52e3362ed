"""The way to the network that a configuration asks for."""

from __future__ import annotations

from phalanx.config import Config
from phalanx.net.fanout import open_fanout
from phalanx.net.faults import Faults
from phalanx.net.link import Link
from phalanx.net.udp import open_udp


def open_link(config: Config, group: str, faults: Faults | None = None) -> Link:
    """A link of one group. ConfigurationError or NetworkError, naming the field and the remedy,
    if it cannot be had; nothing stays open then. Each link needs Faults of its own."""
    if config.network == "fanout":
        return open_fanout(config, group, faults)
    return open_udp(config, group, faults)
