"""A transport that cannot be had: one line with the field and the remedy, and nothing left open."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phalanx.config import Config, lan, local, unicast
from phalanx.errors import ConfigurationError, NetworkError
from phalanx.transport import addresses, udp
from phalanx.transport.addresses import Interface, SocketAddress
from phalanx.transport.fanout import open_fanout
from phalanx.transport.open_transport import open_transport


@pytest.fixture(autouse=True)
def _nothing_left_open(files: Callable[[], int]) -> Iterator[None]:
    before = files()
    yield
    assert files() == before


def refusal(config: Config) -> ConfigurationError | NetworkError:
    try:
        open_transport(config, "g").close()
    except (ConfigurationError, NetworkError) as error:
        return error
    pytest.fail("it opened")


@pytest.mark.parametrize(
    ("settings", "field", "part"),
    [
        ({"address": "10.0.0.1"}, "address", "not a multicast address; take one of 239.0.0.0/8"),
        ({"address": "orders"}, "address", "not an IP address; write it like 239.192.7.7"),
        ({"address": "ff02::1%lo"}, "address", "remove the % and the text after it"),
        ({"interface": "nonet9"}, "interface", "no such interface; choose one of: lo"),
        ({"interface": "203.0.113.9"}, "interface", "no interface has this address"),
        ({"interface": "::1"}, "interface", "not an IPv4 address"),
        ({"interface": "127.0.0.1", "address": "ff05::1"}, "interface", "not an IPv6 address"),
        ({"network": "broadcast", "address": "ff02::1"}, "address", "IPv6 has no broadcast"),
        ({"network": "broadcast", "address": "x"}, "address", "not an IP address"),
        (
            {"network": "broadcast", "address": "203.0.113.9", "interface": "lo"},
            "address",
            "cannot listen on 203.0.113.9",
        ),
    ],
)
def test_what_is_wrong_with_a_setting_is_said_with_the_remedy(
    settings: dict[str, Any], field: str, part: str
) -> None:
    error = refusal(lan(**settings))
    assert error.field == field
    assert part in str(error)
    assert "\n" not in str(error)


def test_a_port_of_a_program_that_does_not_share_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        port = other.getsockname()[1]
        error = refusal(local(port=port))
        assert error.field == "port"
        assert "choose another port at every member" in str(error)


def told(up: bool, multicast: bool) -> list[Interface]:
    return [Interface("lo", 1, ("127.0.0.1",), "", up, multicast, loopback=False)]


@pytest.mark.parametrize("network", ["multicast", "broadcast"])
def test_an_interface_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch, network: Any) -> None:
    monkeypatch.setattr(addresses, "interfaces", lambda: told(up=False, multicast=True))
    error = refusal(lan(interface="lo", network=network))
    assert "lo is down; bring it up (ip link set lo up)" in str(error)


def test_an_interface_without_multicast_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "interfaces", lambda: told(up=True, multicast=False))
    assert "lo carries no multicast; choose another" in str(refusal(lan(interface="lo")))


def test_an_interface_without_a_broadcast_address_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "interfaces", lambda: told(up=True, multicast=True))
    error = refusal(lan(interface="lo", network="broadcast"))
    assert "lo has no broadcast address; set address" in str(error)


def test_no_interface_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "interfaces", lambda: told(up=False, multicast=True))
    error = refusal(lan())
    assert "no interface is up that can carry packets to 239." in str(error)


@pytest.mark.parametrize(
    ("code", "field", "part"),
    [
        (errno.EACCES, "port", "choose a port above 1023"),
        (errno.EADDRINUSE, "port", "end that program"),
        (errno.EADDRNOTAVAIL, "address", "leave it empty"),
    ],
)
def test_a_refused_bind_is_told_by_its_cause(code: int, field: str, part: str) -> None:
    error = udp._refused_bind(OSError(code, "no"), ("239.192.0.1", 7), lan())
    assert error.field == field
    assert part in str(error)


@pytest.mark.parametrize(
    ("code", "part"), [(errno.ENOBUFS, "igmp_max_memberships"), (errno.ENODEV, "another interface")]
)
def test_a_refused_join_is_told_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, code: int, part: str
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(udp, "_only_joined", refuse)
    error = refusal(local())
    assert error.field == "interface"
    assert part in str(error)


# ---------------------------------------------------------------------------- fan-out


@pytest.mark.parametrize(
    ("peers", "settings", "field", "part"),
    [
        (["here"], {}, "peers", "write host:port, for example 10.0.0.1:7117"),
        (["a:b"], {}, "peers", "the port must be a number in 1..65535"),
        (["a:0"], {}, "peers", "the port must lie in 1..65535"),
        (["fd00::1:7117"], {}, "peers", "an IPv6 address in brackets"),
        (["[fe80::1%nonet9]:7117"], {}, "peers", "no such interface"),
        (["10.0.0.1:7", "[fd00::1]:7"], {}, "peers", "not of the same IP version"),
        (["[::1]:7"], {"address": "127.0.0.1"}, "peers", "not of the same IP version"),
        (["10.0.0.1:7"], {"address": "239.192.0.1"}, "address", "the local address to bind"),
        (["10.0.0.1:7"], {"address": "203.0.113.9"}, "address", "give an address of this machine"),
        (["10.0.0.1:7"], {"interface": "nonet9"}, "interface", "no such interface"),
        (["no name:7"], {}, "peers", "write host:port"),
    ],
)
def test_what_is_wrong_with_fan_out_is_said_with_the_remedy(
    peers: list[str], settings: dict[str, Any], field: str, part: str
) -> None:
    error = refusal(unicast(*peers, **settings))
    assert error.field == field
    assert part in str(error)


def test_names_of_which_none_can_be_resolved_are_told() -> None:
    def fail(host: str, port: int) -> list[SocketAddress]:
        raise OSError("no such name")

    with pytest.raises(NetworkError, match="none of them can be resolved; check the names"):
        open_fanout(unicast("a.example:7", "b.example:7"), "g", lookup=fail)


def test_fan_out_shares_its_port_with_nobody() -> None:
    first = open_transport(unicast("127.0.0.1:9", address="127.0.0.1", port=0), "g")
    port = int(first.address.rpartition(":")[2])
    error = refusal(unicast("127.0.0.1:9", address="127.0.0.1", port=port))
    first.close()
    assert error.field == "port"
    assert "port = 0 for any that is free" in str(error)
