"""Multicast and broadcast on real sockets."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import lan, local
from phalanx.errors import NetworkError
from phalanx.transport import sockets, udp
from phalanx.transport.addresses import Interface
from phalanx.transport.base import CHECK_NS, CHECK_SOON_NS, PACKETS_MAX, Transport
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.udp import MulticastTransport, open_udp

Opener = Callable[..., MulticastTransport]
Gather = Callable[..., list[bytes]]

PACKETS = [bytes([i]) * 1200 for i in range(150)] + [b"tail", b"longer than the tail"]


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("network", ["multicast", "broadcast"])
def test_packets_reach_every_other_member_in_order(
    opened: Opener, gathered: Gather, network: Any, offload: bool
) -> None:
    config = local(network=network, offload=offload)
    links = [opened(config) for _ in range(3)]
    links[0].send(0, PACKETS)
    for other in links[1:]:
        assert gathered(other, len(PACKETS)) == PACKETS
    assert gathered(links[0]) == []
    assert not any(transport.counts for transport in links)


@pytest.mark.parametrize(("sender", "receiver"), [(True, False), (False, True)])
def test_members_with_and_without_offload_understand_each_other(
    opened: Opener, gathered: Gather, sender: bool, receiver: bool
) -> None:
    one, two = opened(local(offload=sender)), opened(local(offload=receiver))
    one.send(0, PACKETS)
    assert gathered(two, len(PACKETS)) == PACKETS


@pytest.mark.parametrize("address", ["ff02::7117", "ff05::7117"])
@pytest.mark.parametrize("offload", [True, False])
def test_packets_travel_by_ipv6_too(
    opened: Opener, gathered: Gather, ipv6: str, address: str, offload: bool
) -> None:
    config = lan(address=address, interface=ipv6, offload=offload)
    one, two = opened(config), opened(config)
    one.send(0, PACKETS)
    assert gathered(two, len(PACKETS)) == PACKETS
    assert gathered(one) == []
    assert not one.counts
    assert one.address.startswith("[")


@pytest.mark.parametrize("offload", [True, False])
def test_own_packets_are_dropped_without_the_kernels_help_as_well(
    opened: Opener, gathered: Gather, monkeypatch: pytest.MonkeyPatch, offload: bool
) -> None:
    monkeypatch.setattr(sockets, "refuse_own", lambda sock, own: False)
    one, two = opened(local(offload=offload)), opened(local(offload=offload))
    one.send(0, PACKETS)
    assert gathered(two, len(PACKETS)) == PACKETS
    assert gathered(one) == []
    assert one.counts == {"own": len(PACKETS)}


def test_two_groups_on_one_port_do_not_hear_each_other(opened: Opener, gathered: Gather) -> None:
    one, same, other = opened(local(), "a"), opened(local(), "a"), opened(local(), "b")
    one.send(0, [b"for a"])
    assert gathered(same, 1) == [b"for a"]
    assert gathered(other) == []


def test_a_link_sends_to_the_address_it_was_given_from_that_of_its_interface(
    opened: Opener, port: int
) -> None:
    transport = opened(lan(interface="127.0.0.1", address="239.192.1.2"))
    assert transport.target == f"239.192.1.2:{port}"
    assert transport.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("hops", [0, 1, 5])
def test_packets_pass_as_many_routers_as_hops_says(opened: Opener, hops: int) -> None:
    sender = opened(local(hops=hops))._sender
    assert sender.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == hops


def test_packets_larger_than_a_segment_may_be_travel_singly(
    opened: Opener, gathered: Gather
) -> None:
    packets = [b"a" * 40_000, b"b" * 40_000, b"c" * 65_000, *PACKETS]
    one, two = opened(local()), opened(local())
    one.send(0, packets)
    assert gathered(two, len(packets)) == packets
    assert one.offload == two.offload


def test_what_fits_no_datagram_is_counted_and_the_rest_goes_on(
    opened: Opener, gathered: Gather
) -> None:
    one, two = opened(local()), opened(local())
    one.send(0, [b"a", b"b" * 70_000, b"c"])
    assert gathered(two, 2) == [b"a", b"c"]
    assert one.counts == {"oversized": 1}


def test_a_busy_link_lets_others_have_their_turn(opened: Opener, gathered: Gather) -> None:
    one, two = opened(local()), opened(local())
    total = PACKETS_MAX + 1000
    one.send(0, [b"x" * 100] * total)
    first = two.receive(0)
    assert PACKETS_MAX <= len(first) < total
    assert len(first) + len(gathered(two, total - len(first))) == total


def test_the_granted_buffer_is_told_as_payload(opened: Opener) -> None:
    transport = opened(local(receive_bytes=100_000))
    assert transport.receive_bytes == 100_000
    with socket.socket(fileno=os.dup(transport.fileno())) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 200_000


def test_a_link_closes_twice_and_leaves_nothing_open(files: Callable[[], int]) -> None:
    before = files()
    transport: Transport = open_udp(local(), "g")
    assert files() == before + 2
    transport.close()
    transport.close()
    assert files() == before


def test_a_link_drops_what_faults_take(opened: Opener, gathered: Gather) -> None:
    faults = FaultInjector()
    one, two = opened(local()), opened(local())
    three = opened(local(), faults=faults)
    faults.cut(one.address)
    one.send(0, [b"cut"])
    two.send(0, [b"heard"])
    assert gathered(three, 1) == [b"heard"]
    faults.heal()
    one.send(0, [b"healed"])
    assert gathered(three, 1) == [b"healed"]
    faults.delay(20_000_000)
    one.send(0, [b"a", b"b"])
    assert gathered(three, 2) == [b"a", b"b"]
    assert faults.counts == {"cut": 1, "delayed": 2}


def test_a_link_whose_address_is_gone_opens_new_sockets(
    opened: Opener, gathered: Gather, files: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(local()), opened(local())
    before, open_files = one.address, files()
    two.send(0, [b"waits in the old socket"])
    monkeypatch.setattr(udp.PacketRoute, "is_valid", lambda way: False)
    due = one.deadline()
    assert due is not None
    assert one.expire(due - 1) == []
    assert one.address == before
    assert one.expire(due) == [b"waits in the old socket"]
    assert one.address != before
    assert one.counts == {"address-lost": 1, "address-changed": 1}
    assert files() == open_files
    one.send(0, [b"from the new one"])
    assert gathered(two, 1) == [b"from the new one"]
    two.send(0, [b"to the new one"])
    assert gathered(one, 1) == [b"to the new one"]


def test_a_link_without_an_address_keeps_its_sockets_and_looks_again_soon(
    opened: Opener, gathered: Gather, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(local()), opened(local())
    monkeypatch.setattr(udp.PacketRoute, "is_valid", lambda way: False)
    monkeypatch.setattr(udp, "_route", refuse)
    due = one.deadline()
    assert due is not None
    for _ in range(3):
        assert one.expire(due) == []
        following = one.deadline()
        assert following == due + CHECK_SOON_NS
        due = following
    assert one.counts["address-lost"] == 1, "counted once"
    two.send(0, [b"still heard"])
    assert gathered(one, 1) == [b"still heard"]


def refuse(config: Any, group: str) -> Any:
    raise NetworkError("interface", "", "it has no IPv4 address", "give it one")


def test_a_refused_packet_makes_a_link_look_at_its_address_soon(opened: Opener) -> None:
    transport = opened(local())
    calm = transport.deadline()
    transport.send(0, [b"x"])
    assert transport.deadline() == calm
    transport.counts["unreachable"] += 1
    transport.send(0, [b"x"])
    soon = transport.deadline()
    assert calm is not None
    assert soon == calm - CHECK_NS + CHECK_SOON_NS


def test_a_link_never_moves_from_a_network_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's choice without any other address; there it would hear nobody, for ever."""
    transport = open_udp(local(), "g")
    try:
        gone = vanished(transport._route.interface)
        transport._route = udp.PacketRoute(gone, transport._route.own, transport._route.to)
        with pytest.raises(NetworkError, match="it is gone"):
            transport._next_route()
    finally:
        transport.close()


def vanished(interface: Interface) -> Interface:
    return dataclasses.replace(interface, name="gone0", loopback=False)
