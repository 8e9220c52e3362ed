"""Who knows whom: introductions between tables, without sockets, under made-up time."""

from __future__ import annotations

import ipaddress
from random import Random

import pytest

from phalanx.transport import peer_discovery as module
from phalanx.transport.addresses import SocketAddress
from phalanx.transport.peer_discovery import (
    ALIVE_NS,
    FORGOTTEN_NS,
    LISTED_MAX,
    MAGIC,
    PACKET_BYTES_MAX,
    REPORT_NS,
    ROUND_NS,
    SECOND,
    SETTLE_NS,
    SILENT_ROUNDS,
    TABLE_MAX,
    PeerTable,
)

A: SocketAddress = ("10.0.0.1", 7117)
B: SocketAddress = ("10.0.0.2", 7117)
C: SocketAddress = ("10.0.0.3", 7117)
D: SocketAddress = ("10.0.0.4", 7117)


def table(name: str, *seeds: SocketAddress, group: str = "g", now: int = 0) -> PeerTable:
    one = PeerTable("c", group, name.encode().ljust(8), Random(name), now)
    one.seeds(now, seeds)
    return one


class Net:
    """Tables at addresses; what goes to an address that nobody has is lost."""

    def __init__(self, **tables: PeerTable) -> None:
        names = {"a": A, "b": B, "c": C, "d": D}
        self.at = {names[name]: one for name, one in tables.items()}
        self.dead: set[tuple[SocketAddress, SocketAddress]] = set()
        self.now = 0
        self.sent = 0

    def run(self, ns: int) -> None:
        end = self.now + ns
        while True:
            due, source = min((one.deadline(), at) for at, one in self.at.items())
            if due > end:
                break
            self.now = max(self.now, due)
            for target in self.at[source].expire(self.now):
                self._send(source, target)
        self.now = end

    def _send(self, source: SocketAddress, target: SocketAddress) -> None:
        self.sent += 1
        packet = self.at[source].introduction(self.now, target)
        if target not in self.at or (source, target) in self.dead:
            return
        if self.at[target].introduced(self.now, source, packet):
            self._send(target, source)


def test_one_address_is_enough_to_find_all() -> None:
    net = Net(a=table("a"), b=table("b", A), c=table("c", A), d=table("d", B))
    net.run(2 * SECOND)
    for own, one in net.at.items():
        assert sorted(one.targets) == sorted({A, B, C, D} - {own})


def test_an_own_address_among_the_seeds_is_recognised() -> None:
    net = Net(a=table("a", A, B), b=table("b", A, B))
    net.run(SECOND)
    assert net.at[A].targets == [B]
    assert net.at[A].is_own(A)
    assert net.at[B].targets == [A]


def test_another_group_is_ignored() -> None:
    net = Net(a=table("a", B), b=table("b", A, group="other"))
    net.run(10 * SECOND)
    assert net.at[A].targets == net.at[B].targets == []
    assert set(net.at[A].counts) == {"foreign"}


def test_the_rate_is_bounded_when_all_is_quiet() -> None:
    net = Net(a=table("a", B, C), b=table("b", A, C))
    net.run(10 * SECOND)
    net.sent = 0
    net.run(100 * SECOND)
    rounds = 2 * 100 * SECOND // (ROUND_NS * 3 // 4)
    assert 0 < net.sent <= rounds + rounds // SILENT_ROUNDS * 2 + 2


def test_the_silent_get_no_packets_but_are_found_again_without_seeds() -> None:
    net = Net(a=table("a"), b=table("b", A), c=table("c", A))
    net.run(5 * SECOND)
    gone = net.at.pop(A)  # the only seed there was
    net.dead = {(B, C), (C, B)}
    net.run(2 * ALIVE_NS + 10 * SECOND)
    assert net.at[B].targets == net.at[C].targets == []
    net.dead = set()
    net.run(60 * SECOND)
    assert net.at[B].targets == [C]
    assert net.at[C].targets == [B]
    assert gone.targets


def test_packets_go_to_one_that_only_others_hear() -> None:
    net = Net(a=table("a"), b=table("b", A), c=table("c", A))
    net.dead = {(C, B)}
    net.run(20 * SECOND)
    assert sorted(net.at[B].targets) == [A, C]


def test_hearsay_gets_packets_only_when_it_cannot_be_oneself() -> None:
    one, other = table("a"), table("b")
    other.introduced(0, C, table("c").introduction(0, B))
    one.introduced(0, B, other.introduction(0, A))
    assert one.targets == [B]
    one.expire(SETTLE_NS)
    assert one.targets == [B, C]


def test_hearsay_of_hearsay_does_not_keep_the_dead_alive() -> None:
    net = Net(a=table("a"), b=table("b", A), c=table("c", A))
    net.run(5 * SECOND)
    net.at.pop(C)
    net.run(ALIVE_NS + REPORT_NS + 5 * SECOND)
    assert net.at[A].targets == [B]
    assert net.at[B].targets == [A]


def test_traffic_keeps_a_known_address_alive_and_makes_no_stranger_known() -> None:
    one = table("a")
    one.introduced(0, B, table("b").introduction(0, A))
    one.heard(ALIVE_NS, B)
    one.heard(ALIVE_NS, C)
    one.expire(ALIVE_NS + SECOND)
    assert one.targets == [B]


def test_the_silent_are_forgotten_after_a_day() -> None:
    one = table("a")
    one.introduced(0, B, table("b").introduction(0, A))
    one.expire(FORGOTTEN_NS)
    assert B in one._peers
    one.expire(FORGOTTEN_NS + 3 * SECOND)
    assert not one._peers


def test_a_member_with_two_addresses_gets_one_copy() -> None:
    one, other = table("a"), table("b")
    one.introduced(0, B, other.introduction(0, A))
    one.introduced(0, C, other.introduction(0, A))
    assert one.targets == [B]


def test_packets_go_to_the_address_that_a_member_was_heard_from_last() -> None:
    """Its address has changed: for a minute the old one still counts as heard."""
    a, b = table("a"), table("b")
    assert a.introduced(0, B, b.introduction(0, A))
    a.heard(SECOND, B)
    assert a.targets == [B]
    assert a.introduced(SECOND + 1, C, b.introduction(SECOND + 1, A)), "answered at once"
    assert a.targets == [C]


def test_the_address_that_is_heard_goes_before_one_that_only_others_hear() -> None:
    one, other, third = table("a"), table("b"), table("d")
    one.introduced(0, B, other.introduction(0, A))
    now = ALIVE_NS + SECOND
    third.introduced(now, B, other.introduction(now, D))
    one.introduced(now, D, third.introduction(now, A))
    assert sorted(one.targets) == [B, D]
    one.introduced(now, C, other.introduction(now, A))
    assert sorted(one.targets) == [C, D]


def test_a_new_process_at_a_known_address_is_answered_at_once() -> None:
    one = table("a")
    assert one.introduced(0, B, table("b").introduction(0, A))
    assert not one.introduced(1, B, table("b").introduction(0, A))
    assert one.introduced(2, B, table("reborn").introduction(0, A))
    assert one.targets == [B]


def test_strangers_are_not_answered_without_bound() -> None:
    one = table("a")
    answers = 0
    for i in range(500):
        answers += one.introduced(
            0, (f"10.1.{i // 256}.{i % 256}", 1), table("x").introduction(0, A)
        )
    assert answers == module.ANSWERS_MAX


def test_the_table_is_bounded_and_the_living_stay() -> None:
    one = table("a")
    one.introduced(0, B, table("b").introduction(0, A))
    for i in range(TABLE_MAX + 100):
        host = str(ipaddress.IPv4Address(0x0A010000 + i))
        one.introduced(1, (host, 1), table(f"n{i}").introduction(0, A))
    assert len(one._peers) == TABLE_MAX
    assert one.counts == {"table-full": 101}
    assert B in one.targets
    late = ALIVE_NS + SECOND
    one.heard(late, B)
    one.introduced(late, C, table("c").introduction(late, A))
    assert {B, C} <= set(one._peers)


def test_hearsay_puts_nobody_out() -> None:
    one, liar = table("a"), table("b")
    for i in range(TABLE_MAX + 50):
        liar._peers[str(ipaddress.IPv4Address(0x0A010000 + i)), 1] = module.KnownPeer(0, heard=0)
    one.introduced(0, B, liar.introduction(0, A))
    for _ in range(200):
        one.introduced(0, B, liar.introduction(0, A))
    assert len(one._peers) == TABLE_MAX
    assert B in one._peers
    one.introduced(0, C, table("c").introduction(0, A))
    assert len(one._peers) == TABLE_MAX
    assert {B, C} <= set(one._peers)


def test_many_seeds_are_tried_by_turns_and_each_in_the_end() -> None:
    seeds = [(f"10.2.0.{i}", 7) for i in range(1, 101)]
    one = table("a", *seeds)
    tried: set[SocketAddress] = set()
    for _ in range(400):
        some = one.expire(one.deadline())
        assert len(some) <= module.SILENT_MAX
        tried |= set(some)
    assert tried == set(seeds)


def test_a_large_table_is_told_in_samples_that_fit() -> None:
    one = table("a")
    for i in range(200):
        host = f"fd00::{i:x}"
        one.introduced(0, (host, 1, 0, 0), table(f"n{i}").introduction(0, A))
    packet = one.introduction(0, ("fd00::ffff", 1, 0, 0))
    assert len(packet) == PACKET_BYTES_MAX
    assert packet[20] == LISTED_MAX
    assert len(one.introduction(0, A)) == 21  # nothing of another IP version


def test_addresses_of_one_machine_are_told_on_it_only() -> None:
    one = table("a")
    one.introduced(0, ("127.0.0.1", 5), table("b").introduction(0, A))
    assert len(one.introduction(0, B)) == 21
    assert len(one.introduction(0, ("127.0.0.1", 6))) == 28


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p[:10],
        lambda p: p[:-1],
        lambda p: p + b"\0",
        lambda p: p[:20] + b"\xff" + p[21:],
        lambda p: p[:21] + b"\5" + p[22:],
        lambda p: p[:22] + b"\xef" + p[23:],
        lambda p: p[:22] + b"\0\0\0\0" + p[26:],
        lambda p: p + bytes(PACKET_BYTES_MAX),
        lambda p: MAGIC[:1] + b"xyz" + p[4:],
    ],
)
def test_nonsense_is_counted_and_dropped(spoil: object) -> None:
    assert callable(spoil)
    other = table("b")
    other.introduced(0, C, table("c").introduction(0, B))
    one = table("a")
    assert not one.introduced(0, B, spoil(other.introduction(0, A)))
    assert one.counts == {"malformed": 1}
    assert not one._peers


def test_chance_bytes_break_nothing() -> None:
    one, random = table("a"), Random(1)
    head = table("b").introduction(0, A)[:20]
    for _ in range(3000):
        one.introduced(0, B, head + random.randbytes(random.randrange(80)))
    one.expire(SECOND)
    one.introduction(SECOND, B)
    assert len(one._peers) <= TABLE_MAX
