"""Generators of random scenarios: one module for each kind, and the scenario of a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from phalanx.sim.generators import fixed_view, membership, mesh, storm
from phalanx.sim.scenario.model import Scenario

Kind = Literal["fixed", "membership", "storm", "mesh"]

KINDS: dict[Kind, Callable[[int, int, int], Scenario]] = {
    "fixed": fixed_view.random_scenario,
    "membership": membership.random_membership_scenario,
    "storm": storm.random_storm,
    "mesh": mesh.random_mesh,
}
"""`fixed`: one view from beginning to end. `membership`: members come and go. `storm`: view changes
overlap. `mesh`: channels between two members break."""

MEMBERS: dict[Kind, tuple[int, int]] = {
    "fixed": (fixed_view.MEMBERS_LO, fixed_view.MEMBERS_HI),
    "membership": (membership.MEMBERS_LO, membership.MEMBERS_HI),
    "storm": (storm.MEMBERS_LO, storm.MEMBERS_HI),
    "mesh": (mesh.MEMBERS_LO, mesh.MEMBERS_HI),
}
"""Default group sizes; few groups have 9 members or more (`rare_cases.size_of_group`)."""

CASES: dict[Kind, tuple[str, ...]] = {"mesh": mesh.CASES}
"""Faults and cases that a sweep of this kind must go through."""


def scenario_of(seed: int, lo: int, hi: int, kind: Kind = "fixed") -> Scenario:
    """The scenario that a sweep of this kind plays for a seed, and that a replay plays again."""
    return msgspec.structs.replace(KINDS[kind](seed, lo, hi), ask_delivery=True)
