"""Addresses in text, addresses of groups, and interfaces."""

from __future__ import annotations

import ipaddress

import pytest

from phalanx.errors import ConfigurationError
from phalanx.transport.addresses import (
    choose_interface,
    group_address,
    host_and_port,
    interfaces,
    multicast_address,
    text_of,
)


def test_a_group_has_one_address_everywhere_within_the_range_of_organisations() -> None:
    assert group_address("phalanx", "orders") == "239.194.90.46"
    within = ipaddress.ip_network("239.192.0.0/14")
    found = {group_address("c", f"g{i}") for i in range(200)}
    assert len(found) > 190
    assert all(ipaddress.ip_address(a) in within for a in found)


def test_cluster_and_group_both_matter_and_do_not_run_together() -> None:
    assert len({group_address("a", "bc"), group_address("ab", "c"), group_address("a", "b")}) == 3


def test_a_given_address_is_taken() -> None:
    assert multicast_address("FF05::7:0", "c", "g") == "ff05::7:0"
    assert multicast_address("239.1.2.3", "c", "g") == "239.1.2.3"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7117", "10.0.0.1", 7117),
        ("a.example:1", "a.example", 1),
        ("[::1]:65535", "::1", 65_535),
    ],
)
def test_host_and_port_are_read(text: str, host: str, port: int) -> None:
    assert host_and_port("peers", text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:-1",
        "a:1_0",
        "a:²",
        "::1:5",
        "[::1]",
        "[]:1",
        "a b:1",
    ],
)
def test_what_is_not_host_and_port_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(ConfigurationError, match="peers = "):
        host_and_port("peers", text)


def test_addresses_are_told_as_they_are_written() -> None:
    assert text_of(("10.0.0.1", 7)) == "10.0.0.1:7"
    assert text_of(("fd00::1", 7, 0, 0)) == "[fd00::1]:7"


def test_the_loopback_interface_is_found_by_name_and_by_any_of_its_addresses() -> None:
    loopback = next(i for i in interfaces() if i.loopback)
    assert loopback.carries_multicast()
    assert loopback.broadcast == "127.255.255.255"
    for wanted, own in (
        (loopback.name, "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.9", "127.0.0.9"),
    ):
        assert choose_interface(wanted, "239.192.0.1", 7117) == (loopback, own)


def test_the_choice_of_the_system_has_the_address_it_sends_from() -> None:
    interface, own = choose_interface("", "239.192.0.1", 7117)
    assert own in interface.addresses
