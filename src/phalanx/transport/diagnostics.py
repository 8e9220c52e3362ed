"""Diagnosis of this machine's network: each check tries the real thing and suggests a fix.

A check is a function that returns one Diagnosis and raises nothing. All waits are bounded.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from os import urandom
from threading import Thread
from time import monotonic
from typing import Literal

from phalanx.config import Config, Network
from phalanx.errors import ConfigurationError, NetworkError, PhalanxError
from phalanx.transport.addresses import choose_interface, group_address
from phalanx.transport.resolver import Lookup, look_up
from phalanx.transport.udp import MulticastTransport, open_udp

Verdict = Literal["ok", "note", "warning", "problem"]

ROUND_TRIP_SECONDS = 1.0
LOOKUP_SECONDS = 3.0
PACKETS = 8


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and the remedy if there is a problem."""

    check: str
    verdict: Verdict
    text: str
    remedy: str = ""


def network_findings(config: Config) -> list[Diagnosis]:
    """All checks of the network. Raises ConfigurationError or NetworkError if the configured
    interface does not exist: then there is nothing to check."""
    if config.interface:
        choose_interface(config.interface, group_address(config.cluster, "doctor"), config.port)
    return [
        loops_back(config, "multicast"),
        loops_back(config, "broadcast"),
        receive_buffer(config),
        offload(config),
        own_name(),
    ]


def loops_back(config: Config, network: Network) -> Diagnosis:
    """Send packets from one transport on the interface to another. This tests one machine; whether
    the switches forward multicast shows only between two."""
    try:
        one, two = _pair(config, network)
    except (NetworkError, ConfigurationError) as error:
        return _unusable(network, error)
    packet = b"phalanx doctor " + urandom(985)
    try:
        one.send(0, [packet] * PACKETS)
        end = monotonic() + ROUND_TRIP_SECONDS
        came = 0
        while came < PACKETS and (left := end - monotonic()) > 0:
            select.select([two], [], [], left)
            came += two.receive(0).count(packet)  # other groups may broadcast too
        way = f"from {one.address} to {one.target}"
    finally:
        one.close()
        two.close()
    if came >= PACKETS:
        return Diagnosis(network, "ok", f"packets arrive on this machine, {way}")
    text = f"{came} of {PACKETS} packets arrived {way}"
    remedy = f"let the firewall pass UDP port {config.port}, or use {_instead(network)}"
    return Diagnosis(network, _severity(network), text, remedy)


def _pair(config: Config, network: Network) -> tuple[MulticastTransport, MulticastTransport]:
    settings = Config(network=network, interface=config.interface, port=config.port)
    group = f"doctor {urandom(8).hex()}"  # so that two runs of the doctor do not meet
    one = open_udp(settings, group)
    try:
        return one, open_udp(settings, group)
    except PhalanxError:
        one.close()
        raise


def _unusable(network: Network, error: NetworkError | ConfigurationError) -> Diagnosis:
    problem = error.problem if isinstance(error, NetworkError) else "cannot be used"
    return Diagnosis(network, _severity(network), f"{error.field}: {problem}", error.remedy)


def _severity(network: Network) -> Verdict:
    """Multicast is the default, so its failure is a problem; the others are alternatives."""
    return "problem" if network == "multicast" else "warning"


def _instead(network: Network) -> str:
    return "network = 'fanout'" if network == "broadcast" else "network = 'broadcast' or 'fanout'"


def receive_buffer(config: Config) -> Diagnosis:
    """The smallest receive buffer of the members limits the window of the group."""
    check = "receive buffer"
    try:
        with _open(config) as transport:
            granted = transport.receive_bytes
    except (NetworkError, ConfigurationError):
        return Diagnosis(check, "note", "not checked: no transport could be opened")
    wanted = config.receive_bytes
    if granted >= wanted:
        return Diagnosis(check, "ok", f"{granted:,} bytes, as requested")
    text = f"{granted:,} bytes of the {wanted:,} requested"
    remedy = f"sysctl -w net.core.rmem_max={wanted}, and keep it in /etc/sysctl.d"
    return Diagnosis(check, "warning", text, remedy)


def offload(config: Config) -> Diagnosis:
    """Without offload the throughput is about half."""
    check = "offload"
    try:
        with _open(config) as transport:
            splits, joins = transport.offload
    except (NetworkError, ConfigurationError):
        return Diagnosis(check, "note", "not checked: no transport could be opened")
    if splits and joins:
        return Diagnosis(check, "ok", "the kernel splits and joins datagrams")
    missing = " and ".join(
        name for name, there in (("UDP_SEGMENT", splits), ("UDP_GRO", joins)) if not there
    )
    remedy = "use Linux 5.0 or newer for about twice the throughput"
    return Diagnosis(check, "warning", f"the kernel has no {missing}", remedy)


@contextmanager
def _open(config: Config) -> Iterator[MulticastTransport]:
    """A transport on loopback: what the kernel grants does not depend on the interface."""
    asked = config.receive_bytes
    settings = Config(interface="127.0.0.1", hops=0, port=config.port, receive_bytes=asked)
    transport = open_udp(settings, "doctor")
    try:
        yield transport
    finally:
        transport.close()


def own_name(lookup: Lookup = look_up) -> Diagnosis:
    """Other members may use this machine's name, and a slow name service delays every start."""
    check = "own name"
    name = socket.gethostname()
    found: list[str] = []
    failed: list[OSError] = []

    def ask() -> None:
        try:
            found.extend(dict.fromkeys(address[0] for address in lookup(name, 7117)))
        except OSError as error:
            failed.append(error)

    asker = Thread(target=ask, daemon=True)
    asker.start()
    asker.join(LOOKUP_SECONDS)
    if asker.is_alive():
        text = f"looking up {name!r} took longer than {LOOKUP_SECONDS:.0f} s"
        return Diagnosis(check, "warning", text, "fix the name service, or give peers as addresses")
    if failed or not found:
        text = f"{name!r} cannot be resolved"
        return Diagnosis(check, "warning", text, "add it to the name service or to /etc/hosts")
    if all(ip_address(address.partition("%")[0]).is_loopback for address in found):
        text = f"{name!r} is {', '.join(found)}, which other machines cannot reach"
        return Diagnosis(check, "note", text, "in the peers of other machines, use its IP address")
    return Diagnosis(check, "ok", f"{name!r} is {', '.join(found)}")
