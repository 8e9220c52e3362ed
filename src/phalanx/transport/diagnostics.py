"""Whether this machine can carry a group: each check does the real thing and says how to mend it.

A check is a function that returns one Finding and raises nothing. All waits are bounded.
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
    """What a check found, and what to do about it if anything."""

    check: str
    verdict: Verdict
    told: str
    remedy: str = ""


def network_findings(config: Config) -> list[Diagnosis]:
    """All checks of the network. ConfigurationError or NetworkError if the interface that was
    asked for is not there: then there is nothing to check."""
    if config.interface:
        choose_interface(config.interface, group_address(config.cluster, "doctor"), config.port)
    return [
        comes_round(config, "multicast"),
        comes_round(config, "broadcast"),
        receive_buffer(config),
        offload(config),
        own_name(),
    ]


def comes_round(config: Config, network: Network) -> Diagnosis:
    """Two links on the interface: what one sends the other must get. That is as far as one machine
    can tell; whether switches carry it shows between two."""
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
            came += two.receive(0).count(packet)  # a group that broadcasts may be heard too
        way = f"from {one.address} to {one.target}"
    finally:
        one.close()
        two.close()
    if came >= PACKETS:
        return Diagnosis(network, "ok", f"packets come round on this machine, {way}")
    told = f"{came} of {PACKETS} packets came round {way}"
    remedy = f"let the firewall pass UDP port {config.port}, or use {_instead(network)}"
    return Diagnosis(network, _severity(network), told, remedy)


def _pair(config: Config, network: Network) -> tuple[MulticastTransport, MulticastTransport]:
    settings = Config(network=network, interface=config.interface, port=config.port)
    group = f"doctor {urandom(8).hex()}"  # so that two doctors do not meet
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
    """Multicast is what members use unless they are told otherwise."""
    return "problem" if network == "multicast" else "warning"


def _instead(network: Network) -> str:
    return "network = 'fanout'" if network == "broadcast" else "network = 'broadcast' or 'fanout'"


def receive_buffer(config: Config) -> Diagnosis:
    """The window of a group follows the smallest buffer of its members."""
    check = "receive buffer"
    try:
        with _open(config) as link:
            granted = link.receive_bytes
    except (NetworkError, ConfigurationError):
        return Diagnosis(check, "note", "not checked: no link could be opened")
    wanted = config.receive_bytes
    if granted >= wanted:
        return Diagnosis(check, "ok", f"{granted:,} bytes, as asked for")
    told = f"{granted:,} bytes of the {wanted:,} that were asked for"
    remedy = f"sysctl -w net.core.rmem_max={wanted}, and keep it in /etc/sysctl.d"
    return Diagnosis(check, "warning", told, remedy)


def offload(config: Config) -> Diagnosis:
    """Without it members carry about half as much."""
    check = "offload"
    try:
        with _open(config) as link:
            cuts, joins = link.offload
    except (NetworkError, ConfigurationError):
        return Diagnosis(check, "note", "not checked: no link could be opened")
    if cuts and joins:
        return Diagnosis(check, "ok", "the kernel cuts and joins datagrams")
    missing = " and ".join(
        name for name, there in (("UDP_SEGMENT", cuts), ("UDP_GRO", joins)) if not there
    )
    remedy = "use Linux 5.0 or newer for about twice the throughput"
    return Diagnosis(check, "warning", f"the kernel has no {missing}", remedy)


@contextmanager
def _open(config: Config) -> Iterator[MulticastTransport]:
    """A link on loopback: what the kernel grants does not depend on the way."""
    asked = config.receive_bytes
    settings = Config(interface="127.0.0.1", hops=0, port=config.port, receive_bytes=asked)
    link = open_udp(settings, "doctor")
    try:
        yield link
    finally:
        link.close()


def own_name(lookup: Lookup = look_up) -> Diagnosis:
    """Others may look for this machine by its name; a slow name service slows every start."""
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
        told = f"looking up {name!r} took longer than {LOOKUP_SECONDS:.0f} s"
        return Diagnosis(
            check, "warning", told, "mend the name service, or give peers as addresses"
        )
    if failed or not found:
        told = f"{name!r} cannot be resolved"
        return Diagnosis(check, "warning", told, "add it to the name service or to /etc/hosts")
    if all(ip_address(address.partition("%")[0]).is_loopback for address in found):
        told = f"{name!r} is {', '.join(found)}, which other machines cannot reach"
        return Diagnosis(check, "note", told, "in peers of other machines give its address instead")
    return Diagnosis(check, "ok", f"{name!r} is {', '.join(found)}")
