"""The configured tree of sets: which servers belong to which set, and who is the parent of each.

Configuration names servers; which incarnation of them is there is found at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from phalanx.service.values import Gid


class ConfiguredSet(msgspec.Struct, frozen=True):
    """One set. `members` are names of servers in rank order, the parent among them; `above` is the
    set that `parent` links it to. The top set has neither."""

    name: str
    level: int
    members: tuple[str, ...]
    above: str | None = None
    parent: str | None = None


class SetTree(msgspec.Struct, frozen=True, dict=True):
    """All sets of a cluster, by name. `homes`: for each interface its own server. What machines ask
    at every message is indexed, at the first question."""

    sets: dict[str, ConfiguredSet]
    homes: dict[str, str] = {}

    def sets_of(self, server: str) -> tuple[str, ...]:
        """The sets that a server is configured for, upper ones first."""
        mine = [s for s in self.sets.values() if server in s.members]
        return tuple(s.name for s in sorted(mine, key=lambda s: (-s.level, s.name)))

    def above(self, name: str) -> str | None:
        return self.sets[name].above

    def level(self, name: str) -> int:
        return self.sets[name].level

    def path(self, name: str) -> Iterator[str]:
        """A set and those above it, to the top."""
        at: str | None = name
        while at is not None:
            yield at
            at = self.sets[at].above

    def children(self, name: str) -> tuple[str, ...]:
        return self._children.get(name, ())

    def set_of_interface(self, interface: str) -> str:
        """The level-1 set of an interface."""
        return self._lan_sets[self.homes[interface]]

    def is_at_or_above(self, name: str, other: str) -> bool:
        """Whether a set is another one or lies above it; never for a set that is not configured."""
        return other in self.sets and name in self.path(other)

    def child_towards(self, name: str, interface: str) -> str | None:
        """The child of a set below which an interface lies; None if there is none, or if the
        interface is not configured."""
        if interface not in self.homes:
            return None
        for at in self.path(self.set_of_interface(interface)):
            if self.sets[at].above == name:
                return at
        return None

    def spans(self, name: str, interface: str) -> bool:
        """Whether an interface is configured in or below a set."""
        if interface not in self.homes:
            return False
        return name in self.path(self.set_of_interface(interface))

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name in sorted(self.sets):
            if (above := self.sets[name].above) is not None:
                found.setdefault(above, []).append(name)
        return {above: tuple(names) for above, names in found.items()}

    @cached_property
    def _lan_sets(self) -> dict[str, str]:
        """For each server the first set of level 1 that it is a member of."""
        found: dict[str, str] = {}
        for plan in self.sets.values():
            if plan.level == 1:
                for server in plan.members:
                    found.setdefault(server, plan.name)
        return found


def is_configured_parent(topology: SetTree, name: str, server: Gid | None) -> bool:
    return server is not None and topology.sets[name].parent == server.name
