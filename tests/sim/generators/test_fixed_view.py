"""Random scenarios: repeatable, playable, and of every kind."""

from __future__ import annotations

from collections import Counter

import pytest

from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.scenario.validation import flaw_of

SEEDS = range(400)


def test_the_same_seed_draws_the_same_scenario() -> None:
    assert all(random_scenario(seed) == random_scenario(seed) for seed in SEEDS)


def test_every_random_scenario_can_be_played() -> None:
    assert [seed for seed in SEEDS if flaw_of(random_scenario(seed))] == []


@pytest.mark.parametrize(("lo", "hi"), [(1, 1), (2, 2), (3, 5), (14, 15)])
def test_groups_are_as_large_as_asked_for(lo: int, hi: int) -> None:
    sizes = sorted({len(random_scenario(seed, lo, hi).members) for seed in range(60)})
    assert sizes == list(range(lo, hi + 1))


def test_every_kind_of_fault_and_setting_is_on_in_some_runs_and_off_in_others() -> None:
    drawn: Counter[str] = Counter()
    for seed in SEEDS:
        scenario = random_scenario(seed)
        drawn.update(list(scenario.config))
        drawn.update(
            k for k in ("link", "pause", "reader", "burst", "garbage") if getattr(scenario, k)
        )
        drawn.update(
            k
            for k in ("jitter_ns", "loss_ppm", "duplicate_ppm", "reorder_ppm", "spacing_ns")
            if getattr(scenario.network, k)
        )
        drawn.update(t for t in ("slow",) if any(m.cpu_ns for m in scenario.member))
        drawn.update({f"service {t.service}" for t in scenario.traffic})
        drawn.update({"subset"} if any(t.to != "all" for t in scenario.traffic) else set())
        drawn.update([scenario.about.split(",")[0]])
        drawn.update([f"{len(scenario.members)} members"])
    assert len(drawn) >= 40
    few = [kind for kind, runs in drawn.items() if not 10 <= runs <= 390]
    assert {f"{n} members" for n in range(9, 17)} >= set(few)
    assert 4 <= sum(drawn[size] for size in few) <= 16
