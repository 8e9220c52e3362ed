"""A random tree of sets for one seed, and the states with which its servers are installed."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.effects import SetRecord
from phalanx.service.set_state import founded
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import Gid, HomeOf, SetState


def random_tree(rng: Random, levels: int) -> SetTree:
    """A top set of two or three servers; each is parent of a set below, and so on. The servers of
    level 1 that are not parents have interfaces, one or two each."""
    top = tuple(f"t{i}" for i in range(rng.choice((2, 2, 3))))
    sets = {"T": ConfiguredSet("T", levels, top)}
    layer = [("T", name) for name in top]
    for level in range(levels - 1, 0, -1):
        below = []
        for above, parent in layer:
            name = f"{'ABCD'[level]}{len(sets)}"
            count = rng.choice((1, 1, 2)) if levels > 3 else 2
            own = tuple(f"{name.lower()}{i}" for i in range(count))
            sets[name] = ConfiguredSet(name, level, (parent, *own), above, parent)
            below += [(name, server) for server in own]
        layer = below
    homes: dict[str, str] = {}
    for _, server in layer:
        for _ in range(rng.choice((1, 1, 2))):
            homes[f"m{len(homes)}"] = server
    return SetTree(sets, homes)


def installed(topology: SetTree) -> dict[str, dict[str, SetRecord]]:
    """For each server its records at installation: every set whole, with its configured parent."""
    out: dict[str, dict[str, SetRecord]] = {}
    homes: dict[str, dict[str, HomeOf]] = {}
    for interface, home in topology.homes.items():
        lan = topology.set_of_interface(interface)
        homes.setdefault(lan, {})[interface] = HomeOf(MemberId(home), 0)
    for plan in topology.sets.values():
        state = _installed_state(topology, plan, homes)
        for name in plan.members:
            out.setdefault(name, {})[plan.name] = SetRecord(state, state, ())
    return out


def _installed_state(
    topology: SetTree, plan: ConfiguredSet, homes: dict[str, dict[str, HomeOf]]
) -> SetState:
    parent = MemberId(plan.parent) if plan.parent is not None else None
    state = founded(plan.name, [MemberId(name) for name in plan.members], parent)
    kids: dict[str, tuple[Gid, ...]] = {}
    for child in topology.children(plan.name):
        above = topology.sets[child].parent
        assert above is not None
        kids[child] = (MemberId(above),)
    return replace(state, kids=kids, homes=homes.get(plan.name, {}))
