"""Runs with the real core: repeatable, checked, and fast enough."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.core.effects import Effect, Input
from phalanx.core.member.member import Member
from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.run import light_traffic, run
from phalanx.sim.scenario.model import SECOND, Peculiarity, Scenario, Traffic
from phalanx.sim.scenario.toml_file import load
from phalanx.verify.properties import FIXED_VIEW

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
DIGESTS = """
from phalanx.sim.generators import scenario_of
from phalanx.sim.run import run
kinds = ("fixed", "membership")
print([run(scenario_of(seed, 3, 5, kind)).digest for kind in kinds for seed in (3, 10, 26)])
"""


def test_the_same_seed_gives_the_same_digest_twice() -> None:
    scenario = load(ROOT / "scenarios" / "lossy.toml")
    first, second = run(scenario), run(scenario)
    assert first.digest == second.digest
    assert first.faults == second.faults


def test_another_seed_gives_another_digest() -> None:
    scenario = load(ROOT / "scenarios" / "lossy.toml")
    assert run(scenario).digest != run(msgspec.structs.replace(scenario, seed=99)).digest


def test_the_digest_does_not_depend_on_how_strings_hash() -> None:
    def digests(hash_seed: str) -> str:
        where = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=os.environ | where,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    one = digests("1")
    assert one.count("'") == 12
    assert one == digests("271828")


@pytest.mark.parametrize("path", [p for p in SCENARIOS if p.stem != "light"], ids=lambda p: p.stem)
def test_every_example_scenario_keeps_every_promise(path: Path) -> None:
    result = run(load(path))
    assert result.signature == ()
    assert not result.failed


def test_the_rough_scenario_exercises_what_it_is_about() -> None:
    faults = run(load(ROOT / "scenarios" / "rough.toml")).faults
    for kind in ("pause", "slow", "overflow", "batch", "burst", "garbage", "window_closed"):
        assert faults.get(kind, 0) > 0, kind


def test_the_scenarios_of_changing_groups_exercise_what_they_are_about() -> None:
    split = run(load(ROOT / "scenarios" / "split.toml"))
    assert split.cases["merges_3_or_more"] > 0
    assert split.faults["cut_off"] > 0
    churn = run(load(ROOT / "scenarios" / "churn.toml"))
    assert churn.cases["restarted_joined"] > 0
    assert churn.cases["stopped_left"] == 1
    assert churn.cases["held"] > 0
    intruders = run(load(ROOT / "scenarios" / "intruders.toml"))
    assert intruders.cases["stopped_name_in_use"] == 1
    assert intruders.faults["forged"] == intruders.faults["replayed"] == 100


def test_the_light_scenario_is_the_one_that_is_measured() -> None:
    written = msgspec.structs.replace(load(ROOT / "scenarios" / "light.toml"), about="")
    assert written == light_traffic(100)


def test_light_traffic_settles_and_reports_its_speed() -> None:
    result = run(light_traffic(3))
    assert not result.failed
    assert 2_500_000_000 < result.sim_ns < 4_000_000_000
    assert result.speed > 1


def test_random_scenarios_together_test_every_property_of_a_fixed_view() -> None:
    evaluated = dict.fromkeys(FIXED_VIEW, 0)
    for seed in range(12):
        result = run(random_scenario(seed, 2, 5))
        assert not result.failed, f"phalanx sim replay --seed {seed} --members 2:5"
        for name in FIXED_VIEW:
            evaluated[name] += result.report.properties[name].evaluated
    assert [name for name, times in evaluated.items() if not times] == []


def test_an_exception_is_a_violation_with_the_last_lines_of_its_traceback() -> None:
    class Fragile(Member):
        def step(self, now: int, given: Input) -> list[Effect]:
            raise ZeroDivisionError("as told")

    scenario = Scenario(members=("a", "b"), traffic=(Traffic(from_="a"),))
    result = run(scenario, Fragile)
    assert result.failed
    assert result.violated["exception"] == 1
    assert "exception" in result.signature
    assert "ZeroDivisionError: as told" in str(result.exception)


def test_a_wrong_body_is_found_by_its_content() -> None:
    class Garbling(Member):
        def step(self, now: int, given: Input) -> list[Effect]:
            effects = super().step(now, given)
            if self.me.name == "b":
                return [
                    msgspec.structs.replace(e, payload=bytes(len(e.payload)))
                    if hasattr(e, "payload")
                    else e
                    for e in effects
                ]
            return effects

    scenario = Scenario(members=("a", "b"), traffic=(Traffic(from_="a", size=50),))
    assert "integrity" in run(scenario, Garbling).violated


def test_clocks_at_their_bound_are_as_good_as_any() -> None:
    names = ("ada", "bea")
    own = tuple(Peculiarity(name=name, clock_ns=1 << 60) for name in names)
    said = (Traffic(from_="ada", count=3, at_ns=600 * SECOND, service="safe"),)
    assert not run(Scenario(members=names, member=own, traffic=said)).failed


def test_the_collector_is_put_aside_for_a_run_and_comes_back() -> None:
    seen: list[bool] = []

    def watched(*given: Any, **named: Any) -> Member:
        seen.append(gc.isenabled())
        return Member(*given, **named)

    run(random_scenario(3), watched)
    assert seen
    assert not any(seen)
    assert gc.isenabled()
