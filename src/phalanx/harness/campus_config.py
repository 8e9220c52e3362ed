"""The hierarchy of S3's figure 3 as a configuration: LANs in buildings on one campus.

Each building has a building mserver, which links its set of LAN mservers to the set of the campus.
Each LAN has a LAN mserver and a host with an interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PORT = 7200
GROUP_PORT = 7201


@dataclass(frozen=True, slots=True)
class Campus:
    """LANs of each building; figure 3 has eleven in three buildings."""

    lans: tuple[int, ...] = (4, 4, 3)

    @property
    def buildings(self) -> list[str]:
        return [f"building-{number}" for number in range(1, len(self.lans) + 1)]

    def lans_of(self, building: str) -> list[str]:
        """The LAN mservers of a building."""
        at = self.buildings.index(building)
        first = sum(self.lans[:at]) + 1
        return [f"lan-{number}" for number in range(first, first + self.lans[at])]

    @property
    def machines(self) -> list[str]:
        """All mservers; each has a machine, which a LAN mserver shares with the host of its LAN."""
        return [*self.buildings, *(lan for each in self.buildings for lan in self.lans_of(each))]

    @property
    def hosts(self) -> list[str]:
        return [host_of(lan) for each in self.buildings for lan in self.lans_of(each)]

    def machine_of(self, process: str) -> str:
        """The machine on which a mserver or an interface runs."""
        return process.replace("host-", "lan-")


def host_of(lan: str) -> str:
    """The interface of a LAN."""
    return lan.replace("lan-", "host-")


def set_of(building: str) -> str:
    return building.replace("building-", "b")


def campus_config(
    campus: Campus,
    address: Callable[[str], str],
    *,
    key: str = "",
    multicast: bool = False,
    fan_out: str = "",
    port: int = PORT,
) -> str:
    """The configuration as TOML. `address` gives the address of a machine. With `multicast` each
    set has an address, which does not reach the mserver `fan_out`."""
    lines = ['cluster = "campus"']
    if key:
        lines.append(f'key = "{key}"')

    def add_set(name: str, number: int, level: int, members: list[str], *more: str) -> None:
        shown = ", ".join(f'"{each}"' for each in members)
        lines.extend(["", f"[set.{name}]", f"level = {level}", *more, f"members = [{shown}]"])
        if multicast:
            lines.append(f'multicast = "239.192.7.{number}:{port + 1}"')
            if fan_out in members:
                lines.append(f'fan_out = ["{fan_out}"]')

    add_set("campus", 1, 2, campus.buildings)
    for number, building in enumerate(campus.buildings, start=2):
        members = [building, *campus.lans_of(building)]
        add_set(set_of(building), number, 1, members, 'parent = "campus"', f'link = "{building}"')
    for name in campus.machines:
        lines += ["", f"[mserver.{name}]", f'address = "{address(name)}:{port}"']
    for building in campus.buildings:
        for lan in campus.lans_of(building):
            lines += ["", f"[interface.{host_of(lan)}]", f'home = "{lan}"']
            lines.append(f'address = "{address(lan)}:{port + 2}"')
    return "\n".join(lines) + "\n"
