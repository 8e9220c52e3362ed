"""Multicast and broadcast on real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import Config, lan, local
from phalanx.net.udp import UdpLink

Opener = Callable[..., UdpLink]
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
    assert not any(link.counts for link in links)


def test_two_groups_on_one_port_do_not_hear_each_other(opened: Opener, gathered: Gather) -> None:
    config: Config = local()
    one, same, other = opened(config, "a"), opened(config, "a"), opened(config, "b")
    one.send(0, [b"for a"])
    assert gathered(same, 1) == [b"for a"]
    assert gathered(other) == []


def test_the_address_of_the_receiver_is_the_groups_own(opened: Opener) -> None:
    link = opened(lan(interface="127.0.0.1", address="239.192.1.2", port=7118))
    assert link.target == "239.192.1.2:7118"
    assert link.address.startswith("127.0.0.1:")
