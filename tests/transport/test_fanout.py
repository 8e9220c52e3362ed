"""The multicast emulator on real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import Config, unicast
from phalanx.transport import resolver as module
from phalanx.transport.addresses import SocketAddress, host_and_port, interfaces
from phalanx.transport.base import Transport
from phalanx.transport.fanout import FanoutTransport, open_fanout
from phalanx.transport.open_transport import open_transport
from phalanx.transport.peer_discovery import MAGIC

Spread = Callable[..., FanoutTransport]
Gather = Callable[..., list[bytes]]
Until = Callable[..., None]

NOBODY = "127.0.0.1:9"
PACKETS = [bytes([i % 200]) * 1200 for i in range(150)] + [b"tail", b"longer than the tail"]


def here(*peers: str, **settings: Any) -> Config:
    return unicast(*peers, **({"address": "127.0.0.1", "port": 0} | settings))


def know(count: int, *links: FanoutTransport) -> Callable[[], bool]:
    return lambda: all(len(transport.peers) == count for transport in links)


@pytest.mark.parametrize("offload", [True, False])
def test_three_members_that_know_one_address_reach_each_other(
    spread: Spread, until: Until, gathered: Gather, offload: bool
) -> None:
    one = spread(here(NOBODY, offload=offload))
    two = spread(here(one.address, offload=offload))
    three = spread(here(one.address, offload=offload))
    until([one, two, three], know(2, one, two, three))
    assert sorted(three.peers) == sorted([one.address, two.address])
    three.send(0, PACKETS)
    assert gathered(one, len(PACKETS)) == PACKETS
    assert gathered(two, len(PACKETS)) == PACKETS
    assert gathered(three) == []


def test_members_meet_by_ipv6_too(spread: Spread, until: Until, gathered: Gather) -> None:
    try:
        one = spread(unicast("[::1]:9", address="::1", port=0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    two = spread(unicast(one.address, port=0))
    until([one, two], know(1, one, two))
    assert two.address.startswith("[::1]:")
    one.send(0, [b"x"])
    assert gathered(two, 1) == [b"x"]


def test_a_member_never_sends_to_itself(spread: Spread, until: Until, gathered: Gather) -> None:
    one = spread(here(NOBODY))
    port = host_and_port("", one.address)[1]
    one.close()
    one = spread(here(f"127.0.0.1:{port}", f"localhost:{port}", port=port, address=""))
    two = spread(here(f"127.0.0.1:{port}"))
    until([one, two], know(1, one, two))
    one.send(0, [b"x"])
    assert gathered(two, 1) == [b"x"]
    assert gathered(one) == []
    assert one.peers == [two.address]


def test_groups_and_clusters_on_one_machine_do_not_mix(
    spread: Spread, until: Until, gathered: Gather
) -> None:
    one = spread(here(NOBODY))
    other = spread(here(one.address), "other")
    stranger = spread(here(one.address, cluster="stranger"))
    same = spread(here(one.address))
    until([one, other, stranger, same], know(1, one, same))
    until([one, other, stranger], lambda: one.counts["foreign"] >= 4)
    assert not other.peers
    assert not stranger.peers


def test_introductions_stay_below_and_other_packets_go_up(
    spread: Spread, until: Until, gathered: Gather
) -> None:
    one = spread(here(NOBODY))
    two = spread(here(one.address))
    until([one, two], know(1, one, two))
    one.send(0, [b"\1before", MAGIC + b"nonsen", b"\1behind"])
    assert gathered(two, 2) == [b"\1before", b"\1behind"]
    assert two.counts == {"malformed": 1}


def test_a_name_that_moves_is_followed(
    spread: Spread, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(module, "SOON_SECONDS", 0.02)
    service: dict[str, list[SocketAddress]] = {}

    def lookup(host: str, port: int) -> list[SocketAddress]:
        if host not in service:
            raise OSError("no such name")
        return service[host]

    one, two = spread(here(NOBODY)), spread(here(NOBODY))
    seeker = spread(here(NOBODY, "members.example:7"), lookup=lookup)
    until([one, two, seeker], lambda: seeker._resolver.failures > 0)
    assert not seeker.peers
    service["members.example"] = [host_and_port("", one.address), ("::1", 7, 0, 0)]
    until([one, two, seeker], know(1, seeker))
    service["members.example"] = [host_and_port("", two.address)]
    until([one, two, seeker], know(2, one, two, seeker))


def test_faults_cut_both_ways_and_one_way(spread: Spread, until: Until, gathered: Gather) -> None:
    one = spread(here(NOBODY))
    two = spread(here(one.address))
    until([one, two], know(1, one, two))
    one.faults.cut(two.address)
    one.send(0, [b"out"])
    two.send(0, [b"in"])
    assert gathered(two) == gathered(one) == []
    one.faults.heal(two.address)
    one.faults.cut_from(two.address)
    one.send(0, [b"out"])
    two.send(0, [b"in"])
    assert gathered(two, 1) == [b"out"]
    assert gathered(one) == []
    one.faults.heal()
    two.send(0, [b"in"])
    assert gathered(one, 1) == [b"in"]


def test_cut_members_do_not_meet_by_introductions(spread: Spread, until: Until) -> None:
    one = spread(here(NOBODY))
    two = spread(here(one.address))
    one.faults.cut(two.address)
    until([one, two], lambda: one.faults.counts["cut"] >= 3)
    assert not one.peers
    one.faults.heal()
    until([one, two], know(1, one, two))


def test_no_introduction_goes_to_a_cut_address(spread: Spread, until: Until) -> None:
    one = spread(here(NOBODY))
    two = spread(here(one.address))
    two.faults.cut(one.address)
    until([one, two], lambda: two._peer_table._rounds >= 3)
    assert not one.peers
    two.faults.heal()
    until([one, two], know(1, one, two))


def test_a_member_bound_to_any_address_knows_all_its_own_from_the_start(spread: Spread) -> None:
    one = spread(here(NOBODY, address=""))
    port = host_and_port("", one.address)[1]
    found = [a for i in interfaces() for a in i.addresses if ":" not in a]
    assert "127.0.0.1" in found
    assert all(one._peer_table.is_own((address, port)) for address in found)
    bound = spread(here(NOBODY))
    assert bound._peer_table.is_own(host_and_port("", bound.address))
    assert not bound._peer_table.is_own(("127.0.0.2", port))


def test_losses_and_delays_spare_introductions(
    spread: Spread, until: Until, gathered: Gather
) -> None:
    one = spread(here(NOBODY))
    two = spread(here(one.address))
    two.faults.lose(1.0)
    until([one, two], know(1, one, two))
    one.send(0, [b"lost"])
    assert gathered(two) == []
    two.faults.heal()
    two.faults.delay(20_000_000)
    one.send(0, [b"late"])
    assert gathered(two, 1) == [b"late"]


def test_a_link_closes_twice_and_leaves_nothing_open(files: Callable[[], int]) -> None:
    before = files()
    transport: Transport = open_fanout(here(NOBODY), "g")
    assert files() == before + 1
    transport.close()
    transport.close()
    assert files() == before


def test_the_configuration_chooses_the_kind_of_link() -> None:
    transport = open_transport(here(NOBODY), "g")
    assert isinstance(transport, FanoutTransport)
    transport.close()
