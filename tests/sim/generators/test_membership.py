"""Random scenarios in which members come and go: repeatable, playable, and of every kind."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from phalanx.sim.generators import KINDS, MEMBERS, scenario_of
from phalanx.sim.generators.membership import random_membership_scenario
from phalanx.sim.scenario.model import CHANGES, MS
from phalanx.sim.scenario.toml_file import parse, to_toml
from phalanx.sim.scenario.validation import flaw_of

SEEDS = range(400)
TABLES = (*CHANGES, "pause", "reader", "burst", "garbage", "link", "member")
LARGE = {f"{n} members" for n in range(9, 17)}


def test_the_same_seed_draws_the_same_scenario() -> None:
    assert all(
        random_membership_scenario(seed) == random_membership_scenario(seed) for seed in SEEDS
    )


def test_every_random_scenario_can_be_played_and_written_down() -> None:
    for seed in SEEDS:
        scenario = random_membership_scenario(seed)
        assert flaw_of(scenario) is None, seed
        assert parse(to_toml(scenario)) == scenario, seed


@pytest.mark.parametrize(("lo", "hi"), [(1, 1), (2, 2), (3, 5), (14, 15)])
def test_groups_are_as_large_as_asked_for(lo: int, hi: int) -> None:
    scenarios = [random_membership_scenario(seed, lo, hi) for seed in range(60)]
    assert sorted({len(s.members) for s in scenarios}) == list(range(lo, hi + 1))
    assert [s.seed for s in scenarios if flaw_of(s)] == []


def test_every_kind_of_fault_and_setting_is_on_in_some_runs_and_off_in_others() -> None:
    drawn: Counter[str] = Counter()
    for seed in SEEDS:
        scenario = random_membership_scenario(seed)
        drawn.update(table for table in TABLES if getattr(scenario, table))
        drawn.update(key for key in scenario.config if key != "mode")
        drawn.update([scenario.start, str(scenario.config["mode"])])
        drawn.update([f"{len(scenario.members)} members"])
        drawn.update({f"garbage {g.kind}" for g in scenario.garbage})
        drawn.update({f"cut both {c.both}" for c in scenario.cut})
        drawn.update({f"partition {len(p.groups) + 1}" for p in scenario.partition})
        drawn.update({f"service {t.service}" for t in scenario.traffic})
        drawn.update(["subset"] if any(t.to != "all" for t in scenario.traffic) else [])
        drawn.update(["large"] if any(t.size > 1472 for t in scenario.traffic) else [])
    assert len(drawn) >= 50
    assert [k for k, runs in drawn.items() if not 8 <= runs <= 392 and k not in LARGE] == []
    assert len(LARGE & set(drawn)) >= 5
    assert 8 <= sum(drawn[size] for size in LARGE) <= 24


def test_faults_often_fall_within_the_change_that_another_began() -> None:
    close = total = 0
    for seed in SEEDS:
        scenario = random_membership_scenario(seed)
        tables = ("partition", "heal", "cut", "crash", "restart", "leave", "imposter", "pause")
        times = sorted(row.at_ns for table in tables for row in getattr(scenario, table))
        total += len(times) - 1
        close += sum(b - a < 400 * MS for a, b in pairwise(times))
    assert total > 2 * len(SEEDS)
    assert close > total // 2


def test_members_speak_before_during_and_after() -> None:
    for seed in range(100):
        scenario = random_membership_scenario(seed)
        first = min(t.at_ns for t in scenario.traffic)
        last = max(t.at_ns + (t.count - 1) * t.every_ns for t in scenario.traffic)
        assert last - first < scenario.horizon_ns() <= 20_000 * MS
        assert sum(t.count * t.batch for t in scenario.traffic) <= 2500


def test_a_kind_names_a_generator() -> None:
    assert scenario_of(7, 2, 8) == scenario_of(7, 2, 8, "fixed")
    made = msgspec.structs.replace(random_membership_scenario(7), ask_delivery=True)
    assert scenario_of(7, 3, 16, "membership") == made
    assert list(KINDS) == list(MEMBERS)
