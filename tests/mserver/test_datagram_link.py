"""Real sockets on loopback: sealed links, multicast and copies mixed in one set, and strangers."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from phalanx.errors import NetworkError
from phalanx.mserver.cluster_keys import KeyRing
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.multicast_group import MulticastGroup
from phalanx.mserver.peer_sessions import PeerSessions
from phalanx.mserver.refusal_log import PacketsRefused

KEY = "k" * 64
WAIT_SECONDS = 10


class OpenOne(Protocol):
    def __call__(
        self, name: str, key: str = "", groups: Mapping[str, MulticastGroup] | None = None
    ) -> DatagramLink: ...


@pytest.fixture
def refusals() -> list[PacketsRefused]:
    return []


@pytest.fixture
def open_one(tmp_path: Path, refusals: list[PacketsRefused]) -> Iterator[OpenOne]:
    """Opens links on loopback, sealed if there is a key; all are closed at the end."""
    with ExitStack() as undo:

        def opened(
            name: str, key: str = "", groups: Mapping[str, MulticastGroup] | None = None
        ) -> DatagramLink:
            sessions = None
            if key:
                packet_seal = pytest.importorskip("phalanx.mserver.packet_seal")
                pytest.importorskip("cryptography")
                (tmp_path / key[:8]).write_text(key)
                ring = KeyRing(tmp_path / key[:8], "test")
                seal = packet_seal.PacketSeal(ring, secrets.token_bytes(16))
                sessions = PeerSessions(seal, lambda: secrets.token_bytes(16))
            link = DatagramLink(
                "127.0.0.1:0",
                name=name,
                sessions=sessions,
                groups=groups,
                refused=refusals.append,
            )
            undo.callback(link.close)
            return link

        yield opened


def until(
    condition: Callable[[], object], *links: DatagramLink, got: list[bytes] | None = None
) -> None:
    """Let the links receive until the condition holds."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, [link.counts for link in links]
        for link in links:
            link.flush()
            found = link.receive(time.monotonic_ns())
            if got is not None:
                got += [body for _, body in found]
        time.sleep(0.001)


def free_group(port_of: DatagramLink) -> tuple[str, int]:
    """A multicast address that no other test uses now: with the port of a socket of ours."""
    return "239.192.7.77", port_of.local[1]


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_a_message_of_any_length_arrives(key: str, size: int, open_one: OpenOne) -> None:
    a, b = open_one("a", key), open_one("b", key)
    body = bytes(range(256)) * (size // 256 + 1)
    a.send(b"hello", b.local, "b")  # the first one may wait for the answer of the peer
    got: list[bytes] = []
    until(lambda: got, a, b, got=got)
    a.send(body[:size], b.local, "b")
    until(lambda: len(got) == 2, a, b, got=got)
    assert got == [b"hello", body[:size]]


def test_nothing_of_a_sealed_message_is_readable_on_the_wire(open_one: OpenOne) -> None:
    a, b = open_one("a", KEY), open_one("b", KEY)
    got: list[bytes] = []
    seen: list[bytes] = []
    a.send(b"hello", b.local, "b")
    until(lambda: got, a, b, got=got)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind(("127.0.0.1", 0))
        wire.settimeout(WAIT_SECONDS)
        a.send(b"the secret body", b.local, "b")
        packet = a._sessions.sealed(b"PM the secret body") if a._sessions is not None else b""
        a._socket.sendto(packet, wire.getsockname())
        seen.append(wire.recv(2048))
    assert b"secret" not in seen[0]
    assert b"PM" not in seen[0][:2]


def test_what_strangers_send_is_counted_reported_and_dropped(
    open_one: OpenOne, refusals: list[PacketsRefused]
) -> None:
    a, b, other, plain = (
        open_one("a", KEY),
        open_one("b", KEY),
        open_one("a", "wrong key " * 8),
        open_one("a"),
    )
    got: list[bytes] = []
    a.send(b"hello", b.local, "b")
    until(lambda: got, a, b, got=got)
    assert a._sessions is not None
    recorded = a._sessions.sealed(b"PM recorded")
    damaged = recorded[:-1] + bytes([recorded[-1] ^ 1])
    plain.send(b"forged", b.local, "b")
    other.send(b"wrong key", b.local, "b")
    for packet in (recorded, recorded, damaged):
        a._socket.sendto(packet, b.local)
    for packet in (recorded, damaged, b"", b"PS"):
        plain._socket.sendto(packet, b.local)
    until(lambda: b.counts["unsealed"] >= 3, a, b, got=got)
    until(lambda: b.counts["replayed"] >= 1, a, b, got=got)
    until(lambda: b.counts["forged"] >= 2, a, b, got=got)
    assert got == [b"hello"]
    counts = b.counts
    assert (counts["key"], counts["unproven"]) == (1, 1)
    reasons = {refusal.reason for refusal in refusals}
    assert {"unsealed", "key", "replayed", "forged", "unproven"} <= reasons


def test_reports_of_refused_packets_are_few_however_many_arrive(
    open_one: OpenOne, refusals: list[PacketsRefused]
) -> None:
    b, plain = open_one("b", KEY), open_one("a")
    for _ in range(300):
        plain._socket.sendto(b"junk", b.local)
    until(lambda: b.counts["unsealed"] == 300, b)
    assert len(refusals) <= 1 + WAIT_SECONDS
    assert refusals[0] == PacketsRefused("unsealed", 1, plain.local)


def test_multicast_and_copies_are_mixed_in_one_set(open_one: OpenOne) -> None:
    """a, b and c hear the group, d does not: one packet to the group and one copy to d."""
    for key in ("", KEY):
        group = MulticastGroup(free_group(open_one("port")), frozenset("abc"))
        links = {name: open_one(name, key, {"s": group}) for name in "abcd"}
        to = {name: link.local for name, link in links.items() if name != "a"}
        got: dict[str, list[bytes]] = {name: [] for name in links}

        def all_have(number: int, got: dict[str, list[bytes]] = got) -> bool:
            return all(len(got[name]) == number for name in "bcd")

        def deliver(
            number: int,
            got: dict[str, list[bytes]] = got,
            links: dict[str, DatagramLink] = links,
        ) -> None:
            end = time.monotonic() + WAIT_SECONDS
            while not all_have(number):
                assert time.monotonic() < end, (got, {n: x.counts for n, x in links.items()})
                for name, link in links.items():
                    got[name] += [body for _, body in link.receive(time.monotonic_ns())]

        links["a"].send_all(b"one", to, "s")  # with a key it waits for the sessions
        deliver(1)
        links["a"].send_all(b"two", to, "s")
        deliver(2)
        assert links["a"].counts["multicast"] == (1 if key else 2)
        links["a"].send_all(b"two", to, "s")  # nobody answered: copies
        deliver(3)
        assert links["a"].counts["multicast-repeated"] == 1
        links["d"].send_all(b"three", {n: links[n].local for n in "abc"}, "s")
        links["a"].send_all(b"only b and d", {n: to[n] for n in "bd"}, "s")
        links["a"].send_all(b"only b and c", {n: to[n] for n in "bc"}, "s")
        end = time.monotonic() + WAIT_SECONDS
        while b"only b and c" not in got["c"] or b"three" not in got["b"]:
            assert time.monotonic() < end, got
            for name, link in links.items():
                got[name] += [body for _, body in link.receive(time.monotonic_ns())]
        assert links["d"].counts["multicast"] == 0
        assert b"only b and d" not in got["c"]
        assert b"only b and c" not in got["d"]
        for link in links.values():
            link.close()


def test_a_multicast_message_for_some_is_dropped_by_others_that_hear_it(open_one: OpenOne) -> None:
    group = MulticastGroup(free_group(open_one("port")), frozenset("abcd"))
    links = {name: open_one(name, "", {"s": group}) for name in "abcd"}
    links["a"].send_all(b"x", {name: links[name].local for name in "bc"}, "s")
    until(lambda: links["d"].counts["other-recipient"], links["d"])
    assert links["d"].receive(0) == []
    assert links["a"].counts["multicast"] == 1


def test_a_group_that_cannot_be_heard_is_one_error(open_one: OpenOne) -> None:
    group = MulticastGroup(("10.0.0.1", 7201), frozenset("a"))
    with pytest.raises(NetworkError, match=r"set\.s\.multicast"):
        open_one("a", "", {"s": group})
