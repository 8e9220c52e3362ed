"""Links on the loopback interface, closed after each test, and waits that end."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from time import monotonic_ns

import pytest

from phalanx.config import Config
from phalanx.net.faults import Faults
from phalanx.net.link import Link
from phalanx.net.udp import UdpLink, open_udp

WAIT_NS = 5_000_000_000
QUIET_NS = 50_000_000

Opener = Callable[..., UdpLink]
Gather = Callable[..., list[bytes]]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """`open_udp`, and every link of it is closed at the end."""
    links: list[UdpLink] = []

    def open_one(config: Config, group: str = "g", faults: Faults | None = None) -> UdpLink:
        link = open_udp(config, group, faults)
        links.append(link)
        return link

    yield open_one
    for link in links:
        link.close()


@pytest.fixture
def gathered() -> Gather:
    """What comes in at a link: until there are `count` packets, or for WAIT_NS at most. Without
    a count: what comes until the link was quiet for QUIET_NS."""

    def gather(link: Link, count: int | None = None) -> list[bytes]:
        out: list[bytes] = []
        begun = monotonic_ns()
        patience = WAIT_NS if count is not None else QUIET_NS
        while (count is None or len(out) < count) and monotonic_ns() - begun < patience:
            due = link.deadline()
            left = begun + patience - monotonic_ns()
            if due is not None:
                left = min(left, due - monotonic_ns())
            ready, _, _ = select.select([link], [], [], max(0, left) / 1e9)
            if ready:
                out += link.receive(monotonic_ns())
            due = link.deadline()
            if due is not None and due <= monotonic_ns():
                out += link.expire(monotonic_ns())
        return out

    return gather
