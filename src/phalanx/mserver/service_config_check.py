"""Checks of a configuration: from parsed TOML to a `ServiceConfig`, or to all of its problems.

First the form of each table on its own, then, if all forms are right, what they say of each other.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from phalanx.errors import ConfigurationError
from phalanx.mserver.service_config import (
    ConfigProblem,
    InterfaceConfig,
    ServerConfig,
    ServiceConfig,
    SetConfig,
)
from phalanx.service.values import SERVERS_MAX
from phalanx.transport.addresses import host_and_port

LEVEL_MAX = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TABLES = ("set", "mserver", "interface")
KEYS: dict[str, dict[str, type]] = {
    "set": {
        "level": int,
        "members": list,
        "parent": str,
        "link": str,
        "multicast": str,
        "fan_out": list,
    },
    "mserver": {"address": str},
    "interface": {"home": str, "set": str, "address": str},
}
NEEDED = {"set": ("level", "members"), "mserver": ("address",), "interface": ("home",)}
KINDS = {int: "a whole number", str: "a string", list: "a list of names"}


def checked_service_config(data: dict[str, Any]) -> ServiceConfig | list[ConfigProblem]:
    """The configuration, or everything that is wrong with it."""
    problems = [*_forms(data)]
    if problems:
        return problems
    sets = {
        name: SetConfig(
            name,
            row["level"],
            tuple(row["members"]),
            row.get("parent"),
            row.get("link"),
            row.get("multicast", ""),
            tuple(row.get("fan_out", ())),
        )
        for name, row in data["set"].items()
    }
    servers = {name: ServerConfig(name, row["address"]) for name, row in data["mserver"].items()}
    interfaces = {
        name: InterfaceConfig(
            name,
            row["home"],
            row.get("set") or _only_level_1_set(sets, row["home"]),
            row.get("address", ""),
        )
        for name, row in data.get("interface", {}).items()
    }
    config = ServiceConfig(data["cluster"], sets, servers, interfaces, data.get("key", ""))
    problems = [
        *_sets(config),
        *_links(config),
        *_groups(config),
        *_servers(config),
        *_interfaces(config),
    ]
    return problems or config


def _only_level_1_set(sets: dict[str, SetConfig], server: str) -> str:
    own = [name for name, each in sets.items() if each.level == 1 and server in each.members]
    return own[0] if len(own) == 1 else ""


# ---------------------------------------------------------------------------- each table


def _forms(data: dict[str, Any]) -> Iterator[ConfigProblem]:
    for key in data:
        if key not in ("cluster", "key", *TABLES):
            known = ", ".join(("cluster", "key", *TABLES))
            yield ConfigProblem(key, "unknown key", f"known keys are {known}")
    cluster = data.get("cluster")
    if not isinstance(cluster, str) or not cluster.isprintable() or not cluster:
        yield ConfigProblem("cluster", "missing or no printable text", 'write cluster = "NAME"')
    key = data.get("key", "unused")
    if not isinstance(key, str) or not key or not key.isprintable():
        yield ConfigProblem("key", "no name of a file", 'write key = "FILE", or leave it out')
    for table in TABLES:
        rows = data.get(table, {})
        if not isinstance(rows, dict):
            yield ConfigProblem(table, "not a table", f"write [{table}.NAME]")
        elif not rows and table != "interface":
            yield ConfigProblem(table, "there is none", f"add [{table}.NAME]")
        else:
            for name, row in rows.items():
                yield from _form(table, name, row)


def _form(table: str, name: str, row: Any) -> Iterator[ConfigProblem]:
    place = f"{table}.{name}"
    if not NAME.fullmatch(name):
        remedy = "take letters, digits, _, . and -, at most 64, the first a letter or digit"
        yield ConfigProblem(place, "not a name", remedy)
    if not isinstance(row, dict):
        yield ConfigProblem(place, "not a table", f"write [{place}]")
        return
    for key in NEEDED[table]:
        if key not in row:
            yield ConfigProblem(f"{place}.{key}", "missing", f"add {key} to [{place}]")
    for key, value in row.items():
        yield from _value(table, f"{place}.{key}", key, value)


def _value(table: str, place: str, key: str, value: Any) -> Iterator[ConfigProblem]:
    kind = KEYS[table].get(key)
    if kind is None:
        known = ", ".join(KEYS[table])
        yield ConfigProblem(place, "unknown key", f"known keys are {known}")
    elif not _fits(kind, value):
        yield ConfigProblem(place, f"{value!r:.60}", f"must be {KINDS[kind]}")
    elif key == "level" and not 1 <= value <= LEVEL_MAX:
        yield ConfigProblem(place, str(value), f"must lie in 1..{LEVEL_MAX}")
    elif key == "multicast":
        yield from _multicast(place, value)
    elif key == "address":
        yield from _address(place, value, optional=table == "interface")


def _fits(kind: type, value: Any) -> bool:
    if isinstance(value, list):
        return kind is list and all(isinstance(each, str) for each in value)
    return type(value) is kind


def _address(place: str, text: str, *, optional: bool) -> Iterator[ConfigProblem]:
    if optional and not text:
        return
    try:
        host_and_port("address", text)
    except ConfigurationError as error:
        yield ConfigProblem(place, repr(text), error.remedy)


def _multicast(place: str, text: str) -> Iterator[ConfigProblem]:
    try:
        host, _ = host_and_port("multicast", text)
        good = ipaddress.ip_address(host).is_multicast
    except (ConfigurationError, ValueError):
        good = False
    if not good:
        remedy = "give an IP multicast address and a port, such as 239.192.7.1:7201"
        yield ConfigProblem(place, repr(text), remedy)


# ---------------------------------------------------------------------------- together


def _sets(config: ServiceConfig) -> Iterator[ConfigProblem]:
    tops = [each.name for each in config.sets.values() if each.parent is None]
    if not tops:
        yield ConfigProblem("set", "every set has a parent", "one set, the top, must have none")
    for name in tops[1:]:
        remedy = f"give it a parent; only one set, such as {tops[0]}, has none"
        yield ConfigProblem(f"set.{name}.parent", "missing", remedy)
    for each in config.sets.values():
        place = f"set.{each.name}.members"
        if not each.members:
            yield ConfigProblem(place, "empty", "name at least one mserver")
        if len(each.members) > SERVERS_MAX:
            remedy = f"a set has at most {SERVERS_MAX}: make several sets with one parent"
            yield ConfigProblem(place, f"{len(each.members)} mservers", remedy)
        for name in sorted({name for name in each.members if each.members.count(name) > 1}):
            yield ConfigProblem(place, f"{name!r} is there twice", "remove one")
        for name in dict.fromkeys(each.members):
            if name not in config.servers:
                yield ConfigProblem(place, f"there is no mserver {name!r}", f"add [mserver.{name}]")


def _links(config: ServiceConfig) -> Iterator[ConfigProblem]:
    for each in config.sets.values():
        place = f"set.{each.name}"
        if each.parent is None:
            if each.link is not None:
                yield ConfigProblem(f"{place}.link", "the set has no parent", "remove the link")
            continue
        above = config.sets.get(each.parent)
        if above is None:
            known = ", ".join(config.sets)
            problem = f"there is no set {each.parent!r}"
            yield ConfigProblem(f"{place}.parent", problem, f"sets are {known}")
            continue
        if above.level <= each.level:
            problem = f"{above.name} has level {above.level}, not above {each.level}"
            yield ConfigProblem(f"{place}.parent", problem, "give the parent a higher level")
        if each.link is None:
            remedy = f"name a member of {above.name} that is a member of this set too"
            yield ConfigProblem(f"{place}.link", "missing", remedy)
            continue
        for name, members in ((each.name, each.members), (above.name, above.members)):
            if each.link not in members:
                problem = f"{each.link!r} is no member of {name}"
                yield ConfigProblem(f"{place}.link", problem, f"add it to set.{name}.members")


def _groups(config: ServiceConfig) -> Iterator[ConfigProblem]:
    """Multicast: each set has an address of its own, of the family of its members' addresses."""
    used: dict[str, str] = {}
    for each in config.sets.values():
        place = f"set.{each.name}"
        for name in each.fan_out:
            if name not in each.members:
                problem = f"{name!r} is no member of {each.name}"
                yield ConfigProblem(f"{place}.fan_out", problem, "name members of the set")
        if not each.multicast:
            if each.fan_out:
                remedy = "give the set a multicast address, or leave fan_out out"
                yield ConfigProblem(f"{place}.fan_out", "the set has no multicast", remedy)
            continue
        other = used.setdefault(each.multicast, each.name)
        if other != each.name:
            problem = f"{each.multicast!r} is the address of {other} too"
            yield ConfigProblem(f"{place}.multicast", problem, "give each set its own")
        six = ":" in each.multicast.rpartition(":")[0]
        for name in each.members:
            server = config.servers.get(name)
            if server is None or name in each.fan_out or _is_six(server.address) in (six, None):
                continue
            problem = f"{name} has an address of another version of IP"
            yield ConfigProblem(f"{place}.multicast", problem, f"name {name} in fan_out")


def _is_six(address: str) -> bool | None:
    """Whether the address is one of IPv6; None for a host name."""
    try:
        return ipaddress.ip_address(host_and_port("address", address)[0]).version == 6
    except ValueError:
        return None


def _servers(config: ServiceConfig) -> Iterator[ConfigProblem]:
    addresses: dict[str, str] = {}
    for name, server in config.servers.items():
        place = f"mserver.{name}"
        other = addresses.setdefault(server.address, name)
        if other != name:
            problem = f"{server.address!r} is the address of {other} too"
            yield ConfigProblem(f"{place}.address", problem, "give each mserver its own")
        own = config.sets_of(name)
        if not own:
            yield ConfigProblem(place, "it is in no set", "add it to the members of one")
        # A server belongs to one set; it is in others only as the link of sets below it.
        homes = [each.name for each in own if each.link != name]
        if len(homes) > 1:
            problem = f"it is in {' and '.join(homes)} without linking them"
            yield ConfigProblem(place, problem, "leave it in one, or make it the link of the lower")


def _interfaces(config: ServiceConfig) -> Iterator[ConfigProblem]:
    for name, interface in config.interfaces.items():
        place = f"interface.{name}"
        if name in config.servers:
            yield ConfigProblem(place, "there is a mserver of that name", "take another name")
        if interface.home not in config.servers:
            problem = f"there is no mserver {interface.home!r}"
            yield ConfigProblem(f"{place}.home", problem, f"add [mserver.{interface.home}]")
            continue
        if not interface.set:
            problem = f"{interface.home} is not in exactly one set of level 1"
            yield ConfigProblem(f"{place}.set", problem, "name the set, or another home")
            continue
        own = config.sets.get(interface.set)
        if own is None or own.level != 1 or interface.home not in own.members:
            problem = f"{interface.home} is in no set {interface.set!r} of level 1"
            yield ConfigProblem(f"{place}.set", problem, "name a level-1 set that the home is in")
