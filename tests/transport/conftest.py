"""Links on the loopback interface, closed after each test, and waits that end."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from time import monotonic_ns

import msgspec
import pytest

from phalanx.config import Config, lan
from phalanx.core.ids import MemberId
from phalanx.transport.base import Transport
from phalanx.transport.fanout import FanoutTransport, open_fanout
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.open_mesh import open_mesh
from phalanx.transport.resolver import Lookup, look_up
from phalanx.transport.tcp import MeshTransport
from phalanx.transport.udp import MulticastTransport, open_udp

WAIT_NS = 20_000_000_000
QUIET_NS = 50_000_000


def turn(transport: Transport, left_ns: int) -> list[bytes]:
    """One turn of an engine with this transport: wait, drain, fire."""
    due = transport.deadline()
    if due is not None:
        left_ns = min(left_ns, due - monotonic_ns())
    out = []
    if select.select([transport], [], [], max(0, left_ns) / 1e9)[0]:
        out += transport.receive(monotonic_ns())
    due = transport.deadline()
    if due is not None and due <= monotonic_ns():
        out += transport.expire(monotonic_ns())
    return out


@pytest.fixture
def gathered() -> Callable[..., list[bytes]]:
    """The packets that a transport receives: `count` of them, for WAIT_NS at most. Without a
    count: those that arrive within QUIET_NS."""

    def gather(transport: Transport, count: int | None = None) -> list[bytes]:
        out: list[bytes] = []
        end = monotonic_ns() + (QUIET_NS if count is None else WAIT_NS)
        while (count is None or len(out) < count) and monotonic_ns() < end:
            out += turn(transport, end - monotonic_ns())
        return out

    return gather


@pytest.fixture
def until() -> Callable[..., None]:
    """Drive links until something holds; fail if it never does."""

    def drive(links: list[FanoutTransport | MeshTransport], holds: Callable[[], bool]) -> None:
        end = monotonic_ns() + WAIT_NS
        while not holds():
            assert monotonic_ns() < end, [(t.peers, dict(t.counts)) for t in links]
            for transport in links:
                turn(transport, 1_000_000)

    return drive


@pytest.fixture
def token() -> str:
    """Begins the names of this test's groups: others may run at the same time on this machine."""
    return os.urandom(8).hex()


@pytest.fixture
def port() -> int:
    """A port that nobody else uses: broadcast and a given address know no groups."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def opened(token: str, port: int) -> Iterator[Callable[..., MulticastTransport]]:
    """`open_udp` on a port of the test's own; every transport of it is closed at the end."""
    links: list[MulticastTransport] = []

    def open_one(
        config: Config, group: str = "g", faults: FaultInjector | None = None
    ) -> MulticastTransport:
        config = msgspec.structs.replace(config, port=port)
        links.append(open_udp(config, f"{token} {group}", faults))
        return links[-1]

    yield open_one
    for transport in links:
        transport.close()


@pytest.fixture
def spread(token: str) -> Iterator[Callable[..., FanoutTransport]]:
    """`open_fanout`, and every transport of it is closed at the end."""
    links: list[FanoutTransport] = []

    def open_one(config: Config, group: str = "g", lookup: Lookup = look_up) -> FanoutTransport:
        links.append(open_fanout(config, f"{token} {group}", lookup=lookup))
        return links[-1]

    yield open_one
    for transport in links:
        transport.close()


@pytest.fixture
def meshed(token: str) -> Iterator[Callable[..., MeshTransport]]:
    """`open_mesh`, and every transport of it is closed at the end."""
    links: list[MeshTransport] = []

    def open_one(
        name: str, config: Config, group: str = "g", lookup: Lookup = look_up
    ) -> MeshTransport:
        links.append(open_mesh(config, f"{token} {group}", MemberId(name), lookup=lookup))
        return links[-1]

    yield open_one
    for transport in links:
        transport.close()


@pytest.fixture
def files() -> Callable[[], int]:
    """How many files this process has open."""
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("open files cannot be counted without /proc")
    return lambda: len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.fixture
def ipv6(port: int) -> str:
    """An interface on which IPv6 multicast comes round."""
    for _, name in socket.if_nameindex():
        try:
            config = lan(address="ff02::7117", interface=name, port=port)
            one, two = (open_udp(config, "try") for _ in "12")
        except OSError:
            continue
        one.send(0, [b"?"])
        came = select.select([two], [], [], 0.2)[0]
        one.close()
        two.close()
        if came:
            return name
    pytest.skip("no interface brings IPv6 multicast round")
