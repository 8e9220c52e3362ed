"""Mutants of groups, names and interfaces: each breaks one rule, and a run shows what for.

The table in docs/service/rules.md has them all; here is one seed for some that the simulator finds,
with the property that is violated. Another change of the service may move what a seed shows, so the
seeds behind it are tried too.
"""

from __future__ import annotations

import pytest

from phalanx.sim.service.service_run import ServicePlan, run_service

USUAL = ServicePlan(faults=8, calls=20)
MANY_CALLS = ServicePlan(faults=8, calls=60)
SEEDS_MAX = 20


@pytest.mark.parametrize(
    ("mutant", "plan", "seed", "found"),
    [
        ("no-rehome", USUAL, 0, "P7"),
        ("number-reuse", USUAL, 1, "P3"),
        ("no-seen", USUAL, 3, "P4"),
        ("bare-home", USUAL, 0, "P7"),
        ("no-want", MANY_CALLS, 1, "P8"),
        ("disk-lost", USUAL, 1, "order"),
        ("no-pin", USUAL, 12, "P8"),
        ("no-suffix", USUAL, 0, "P6"),
        ("no-recall", USUAL, 4, "P5"),
        ("epoch-wins", USUAL, 5, "P7"),
        ("mi-volatile", USUAL, 1, "P1"),
    ],
)
def test_a_broken_rule_of_groups_is_found(
    mutant: str, plan: ServicePlan, seed: int, found: str
) -> None:
    for tried in range(seed, seed + SEEDS_MAX):
        if found in {name for name, _ in run_service(tried, plan, mutant).violations}:
            assert run_service(tried, plan).violations == ()
            return
    pytest.fail(f"no seed up to {seed + SEEDS_MAX} shows {found}")
