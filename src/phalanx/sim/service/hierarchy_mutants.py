"""Mutants of the tree of sets and of unions of components (docs/service/rules.md)."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.service import hierarchy, server_machine
from phalanx.service.entries import Entry
from phalanx.service.server_machine import Mserver
from phalanx.service.set_log import Effects, SetLog
from phalanx.service.set_tree import SetTree
from phalanx.service.values import Gid, SetState
from phalanx.sim.mutants.mutant import Patch

_parent_wanted: Callable[..., Entry | None] = hierarchy.parent_wanted


def no_acting_parent(topology: SetTree, me: Gid, state: SetState) -> Entry | None:
    configured = topology.sets[state.set].parent
    if all(member.name != configured for member in state.view):
        return None
    return _parent_wanted(topology, me, state)


def waits_without_end(self: SetLog, now: int, servers: tuple[Gid, ...]) -> Effects:
    return []


def keeps_one_side(one: SetState, other: SetState, parent: str | None) -> SetState:
    return one


def never_returns(topology: SetTree, me: Gid, states: object, name: str) -> Entry | None:
    return None


def settled_always(self: Mserver, name: str) -> bool:
    return True


HIERARCHY_MUTANTS: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "no-acting": (
        "H1: a set without its configured parent has none",
        ((hierarchy, "parent_wanted", no_acting_parent),),
    ),
    "no-return": (
        "H2: an acting parent stays although the configured one is back",
        ((hierarchy, "parent_returns", never_returns),),
    ),
    "never-isolates": (
        "C3: silent members are waited for without end",
        ((SetLog, "_isolate", waits_without_end),),
    ),
    "one-sided-union": (
        "H5: the union of two components has the view of one of them",
        ((server_machine, "united", keeps_one_side),),
    ),
    "unsettled-announcement": (
        "H4: components unite while something is under way",
        ((Mserver, "_settled", settled_always),),
    ),
}
"""For each mutant the rule that it breaks, and what stands in for it."""
