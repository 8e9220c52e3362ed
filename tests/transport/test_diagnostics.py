"""Checks of the network: what is sound is told so, and what is not is told with the remedy."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from phalanx.config import lan, local
from phalanx.errors import NetworkError
from phalanx.transport import addresses, sockets
from phalanx.transport import diagnostics as health
from phalanx.transport.addresses import Interface, SocketAddress
from phalanx.transport.udp import MulticastTransport


@pytest.mark.parametrize("network", ["multicast", "broadcast"])
def test_packets_that_come_round_are_told(network: Any, files: Callable[[], int]) -> None:
    before = files()
    finding = health.loops_back(local(), network)
    assert (finding.check, finding.verdict) == (network, "ok")
    assert "from 127.0.0.1:" in finding.text
    assert files() == before


@pytest.mark.parametrize(
    ("network", "verdict", "instead"),
    [("multicast", "problem", "'broadcast' or 'fanout'"), ("broadcast", "warning", "'fanout'")],
)
def test_packets_that_do_not_come_round_are_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, network: Any, verdict: str, instead: str
) -> None:
    monkeypatch.setattr(health, "ROUND_TRIP_SECONDS", 0.02)
    monkeypatch.setattr(MulticastTransport, "send", lambda self, now, packets: None)
    finding = health.loops_back(local(), network)
    assert finding.verdict == verdict
    assert finding.text.startswith("0 of 8 packets arrived")
    assert finding.remedy == f"let the firewall pass UDP port 7117, or use network = {instead}"


def test_a_port_in_use_is_a_problem(files: Callable[[], int]) -> None:
    before = files()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        finding = health.loops_back(local(port=other.getsockname()[1]), "multicast")
    assert finding.verdict == "problem"
    assert "does not share it" in finding.text
    assert "another port" in finding.remedy
    assert files() == before


def test_an_interface_that_is_down_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    down = Interface("x0", 9, ("127.0.0.1",), "", up=False, multicast=True, loopback=False)
    monkeypatch.setattr(addresses, "interfaces", lambda: [down])
    finding = health.loops_back(lan(interface="x0"), "multicast")
    assert (finding.verdict, finding.text) == ("problem", "interface: x0 is down")


def test_an_interface_that_is_not_there_is_the_callers_mistake() -> None:
    with pytest.raises(NetworkError, match="no such interface"):
        health.network_findings(lan(interface="nonet9"))


def test_a_small_receive_buffer_is_told_with_the_setting_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert health.receive_buffer(lan(receive_bytes=4096)).verdict == "ok"
    monkeypatch.setattr(sockets, "set_buffer", lambda sock, send, wanted: 212_992)
    finding = health.receive_buffer(lan())
    assert finding.verdict == "warning"
    assert finding.text == "212,992 bytes of the 8,388,608 requested"
    assert "net.core.rmem_max=8388608" in finding.remedy


def test_a_kernel_without_offload_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "segmentation", lambda sock: False)
    finding = health.offload(lan())
    assert finding.verdict == "warning"
    assert "UDP_SEGMENT" in finding.text


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ([("192.0.2.7", 7117)], "ok"),
        ([("127.0.1.1", 7117), ("::1", 7117, 0, 0)], "note"),
        ([], "warning"),
    ],
)
def test_the_own_name_is_judged_by_its_addresses(answer: list[SocketAddress], verdict: str) -> None:
    assert health.own_name(lambda host, port: answer).verdict == verdict


def test_a_name_service_that_fails_or_sleeps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(host: str, port: int) -> list[SocketAddress]:
        raise OSError("no such name")

    assert "cannot be resolved" in health.own_name(fail).text
    monkeypatch.setattr(health, "LOOKUP_SECONDS", 0.02)
    awake = Event()

    def sleep(host: str, port: int) -> list[SocketAddress]:
        awake.wait(5)
        return []

    assert "took longer" in health.own_name(sleep).text
    awake.set()
