"""Configuration of a hierarchy of sets: one TOML file for all mservers and interfaces of a cluster.

    cluster = "example"
    key = "cluster.key"         # seals all packets; relative to this file

    [set.backbone]
    level = 2
    members = ["t1", "t2"]
    multicast = "239.192.7.2:7201"
    fan_out = ["t2"]            # members that multicast does not reach

    [set.berlin]
    level = 1
    parent = "backbone"         # the set above
    link = "t1"                 # its configured parent: a member of both sets
    members = ["t1", "be1"]

    [mserver.t1]
    address = "10.0.0.1:7200"

    [interface.host-1]
    home = "be1"                # the LAN mserver of this host

Everything is checked before any socket opens, and all problems are found at once: each names its
key and the remedy. docs/service/configuration.md describes the keys.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import FileError
from phalanx.service.set_tree import ConfiguredSet, SetTree


class SetConfig(msgspec.Struct, frozen=True):
    name: str
    level: int
    """1 is just above the interfaces."""
    members: tuple[str, ...]
    """Names of mservers, in rank order. They include the link."""
    parent: str | None
    """The set above; None for the top."""
    link: str | None
    """The configured parent: the member that is in the set above as well."""
    multicast: str = ""
    """The multicast address of the set as host:port; copies to each member if empty."""
    fan_out: tuple[str, ...] = ()
    """Members that multicast does not reach: they send and get copies."""


class ServerConfig(msgspec.Struct, frozen=True):
    name: str
    address: str


class InterfaceConfig(msgspec.Struct, frozen=True):
    name: str
    home: str
    """The LAN mserver of this host."""
    set: str
    """The level-1 set of the home."""
    address: str
    """The local address to bind; any free port of any interface if empty."""


class ServiceConfig(msgspec.Struct, frozen=True):
    """A whole hierarchy. Names are unique within sets, mservers and interfaces."""

    cluster: str
    sets: dict[str, SetConfig]
    servers: dict[str, ServerConfig]
    interfaces: dict[str, InterfaceConfig]
    key: str = ""
    """The file with the keys of the cluster; packets are not sealed if empty."""

    def sets_of(self, server: str) -> list[SetConfig]:
        """The sets that a server is a member of, the highest level first."""
        mine = [each for each in self.sets.values() if server in each.members]
        return sorted(mine, key=lambda each: -each.level)

    @property
    def top(self) -> SetConfig:
        return next(each for each in self.sets.values() if each.parent is None)

    @property
    def set_tree(self) -> SetTree:
        """The tree as the machines see it."""
        sets = {
            each.name: ConfiguredSet(each.name, each.level, each.members, each.parent, each.link)
            for each in self.sets.values()
        }
        return SetTree(sets, {i.name: i.home for i in self.interfaces.values()})

    def below(self, name: str) -> tuple[str, ...]:
        """The servers of a set and of all sets below it: who may ever be a member of it."""
        found = dict.fromkeys(self.sets[name].members)
        for child in self.children_of(name):
            found.update(dict.fromkeys(self.below(child.name)))
        return tuple(found)

    def children_of(self, name: str) -> list[SetConfig]:
        """The sets directly below a set, in the order of the file."""
        return [each for each in self.sets.values() if each.parent == name]


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem of a configuration file."""

    key: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; {self.remedy}"


class ServiceConfigError(FileError):
    """A hierarchy that cannot work. `problems` has all that was found; the message the first."""

    def __init__(self, file: str, problems: list[ConfigProblem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more: --check lists them)" if len(problems) > 1 else ""
        super().__init__(file, None, f"{first.key}: {first.problem}", first.remedy + more)
        self.problems = problems


def read_service_config(path: Path) -> ServiceConfig:
    """The configuration in a file. ServiceConfigError or FileError names file, key and remedy."""
    # The checks stand in a module of their own and use the values of this one.
    from phalanx.mserver.service_config_check import checked_service_config

    file = str(path)
    try:
        text = path.read_bytes().decode()
        data: dict[str, Any] = tomllib.loads(text)
    except OSError as error:
        problem = error.strerror or str(error)
        raise FileError(file, None, problem, "give a file that can be read") from None
    except UnicodeDecodeError:
        raise FileError(file, None, "it is not UTF-8", "write it in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(file, None, f"it is not TOML: {error}", "correct it there") from None
    found = checked_service_config(data)
    if isinstance(found, list):
        raise ServiceConfigError(file, found)
    if not found.key:
        return found
    return msgspec.structs.replace(found, key=str(path.parent / found.key))
