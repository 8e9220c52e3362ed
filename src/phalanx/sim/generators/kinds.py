"""The kinds of random scenarios that sweeps are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.generators.membership import random_membership_scenario
from phalanx.sim.generators.storm import random_storm
from phalanx.sim.scenario.model import Scenario

Kind = Literal["fixed", "membership", "storm"]

KINDS: dict[Kind, Callable[[int, int, int], Scenario]] = {
    "fixed": random_scenario,
    "membership": random_membership_scenario,
    "storm": random_storm,
}
"""`fixed`: one view from beginning to end. `membership`: members come and go. `storm`: faster than
the group can follow."""

MEMBERS: dict[Kind, tuple[int, int]] = {"fixed": (2, 16), "membership": (3, 16), "storm": (3, 5)}
"""How many members a group has unless told; of 9 and more few (`rare_cases.size_of_group`)."""


def scenario_of(seed: int, lo: int, hi: int, kind: Kind = "fixed") -> Scenario:
    """The scenario of a seed: what a sweep of this kind plays, and a replay plays again."""
    return msgspec.structs.replace(KINDS[kind](seed, lo, hi), ask_delivery=True)
