"""The interface between the runtime and a network: one transport for each group.

A transport is an unreliable broadcast domain: `send` tries to bring packets to every other member,
`receive` returns packets of the others. Network failures raise nothing: the protocol handles lost
packets, and the transport only counts them. Mistakes of the caller (an address that does not exist,
a port in use) raise ConfigurationError or NetworkError when the transport is opened.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Literal, NamedTuple, Protocol

from phalanx.transport.fault_injection import FaultInjector

PACKETS_MAX = 4096
"""`receive` returns after about this many packets, so that a busy group does not starve others."""
CHECK_NS = 3_000_000_000
"""How often a transport checks that the interface still has the address it is bound to."""
CHECK_SOON_NS = 250_000_000
"""How often it checks after the network has refused a packet, and while the address is gone."""


class ChannelEvent(NamedTuple):
    """What happened to a channel, for the journal: one that opened (`UP`) or broke (`DOWN`), one
    that this member refused, or a peer that refused this member (`REJECTED`)."""

    op: Literal["UP", "DOWN", "REFUSED", "REJECTED"]
    address: str
    peer: str | None
    reason: str | None


class Transport(Protocol):
    """The network of one group. All calls come from one thread, and none of them blocks."""

    address: str
    """Where this member's packets come from, as others see it: host:port. It changes when the
    address of the interface does."""
    receive_bytes: int
    """Payload bytes that the receive buffer holds, as granted by the system."""
    faults: FaultInjector
    """Drops and delays incoming packets on demand."""
    counts: Counter[str]
    """Packets that were not sent or received, by reason: `unsent`, `truncated`, `foreign`, ...; and
    how often the address was gone (`address-lost`) and was replaced (`address-changed`)."""

    channel_events: deque[ChannelEvent]
    """Events of channels, oldest first, until the owner takes them; of a transport without channels
    there are none."""

    def fileno(self) -> int:
        """A descriptor that is readable when `receive` has packets."""
        ...

    def receive(self, now: int) -> list[bytes]:
        """Packets that wait, oldest first, up to about PACKETS_MAX; empty when there are none."""
        ...

    def send(self, now: int, packets: list[bytes]) -> None:
        """Broadcast the packets in order."""
        ...

    def deadline(self) -> int | None:
        """When to call `expire`; None if the transport has no timer running."""
        ...

    def expire(self, now: int) -> list[bytes]:
        """Run the timers of the transport. Returns packets that became due, as `receive` does."""
        ...

    def close(self) -> None:
        """Close the sockets. Safe to call twice."""
        ...
