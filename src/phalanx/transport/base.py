"""What the engine needs of a network: one link a group, whatever lies below.

A link is an unreliable broadcast domain: `send` tries to bring packets to every other member,
`receive` gives those that came, without one's own. Nothing that the network does raises: lost,
refused or unreachable is the protocol's business, and is only counted. What the caller did wrong
(an address that is not there, a port in use) is a ConfigurationError or NetworkError when the link
is made.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from phalanx.transport.fault_injection import FaultInjector

PACKETS_MAX = 4096
"""`receive` returns after about this many packets, so that one busy link starves no other."""
CHECK_NS = 3_000_000_000
"""How often a link looks whether the address that it is bound to is still there."""
CHECK_SOON_NS = 250_000_000
"""... at most, after the network has refused a packet, and while the address is gone."""


class Transport(Protocol):
    """One group's way to the network. All calls come from one thread and none of them blocks."""

    address: str
    """Where this member's packets come from, as others see it: host:port. It changes when the
    address of the interface does."""
    receive_bytes: int
    """Payload bytes that the receive buffer holds, as granted by the system."""
    faults: FaultInjector
    """What this link loses on demand."""
    counts: Counter[str]
    """What happened to packets that went nowhere: `unsent`, `truncated`, `foreign`, ...; and how
    often the link's address was gone (`address-lost`) and it moved (`address-changed`)."""

    def fileno(self) -> int:
        """Readable when `receive` has something to give."""
        ...

    def receive(self, now: int) -> list[bytes]:
        """Packets that wait, oldest first, up to about PACKETS_MAX; empty when there are none."""
        ...

    def send(self, now: int, packets: list[bytes]) -> None:
        """Broadcast the packets in order."""
        ...

    def deadline(self) -> int | None:
        """When to call `expire`; None if the link has no timers under way."""
        ...

    def expire(self, now: int) -> list[bytes]:
        """The link's own time has come. Packets that become due by it, as from `receive`."""
        ...

    def close(self) -> None:
        """Give the sockets back. Safe to call twice."""
        ...
