"""Rare cases: each is drawn by a few seeds, can be played, and really happens in most of them."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from phalanx.sim.generators import KINDS, Kind, scenario_of
from phalanx.sim.generators.rare_cases import CHANGING, FIXED, Case, with_rare_cases
from phalanx.sim.run import run
from phalanx.sim.scenario.model import MS, SECOND, Scenario, Traffic
from phalanx.sim.scenario.toml_file import parse, to_toml
from phalanx.sim.scenario.validation import flaw_of

SEEDS = range(600)
CHANGING_KINDS: tuple[Kind, ...] = ("membership", "storm")


def drawn(scenario: Scenario) -> list[str]:
    _, _, rare = scenario.about.partition("; ")
    return rare.split(", ") if rare else []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mesh"])
def test_a_few_seeds_draw_each_case_and_most_draw_none(kind: Kind) -> None:
    shares = FIXED if kind == "fixed" else CHANGING
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        cases = drawn(scenario_of(seed, 3, 8, kind))
        counts.update(cases or ["none"])
    assert set(counts) == {*shares, "none"}
    assert counts["none"] > len(SEEDS) // 2
    for case, share in shares.items():
        assert share / 2 < 100 * counts[case] / len(SEEDS) < 2 * share, case


def test_a_range_with_small_and_large_groups_draws_the_small_ones_as_before() -> None:
    small, large = 0, 0
    for seed in range(200):
        wide, narrow = (scenario_of(seed, 3, hi, "membership") for hi in (16, 8))
        if len(wide.members) > 8:
            large += 1
        else:
            small += 1
            assert replace(wide, about="") == replace(narrow, about="")
    assert 2 <= large <= 16
    assert small > 180


@pytest.mark.parametrize("case", CHANGING)
@pytest.mark.parametrize("members", [("a",), ("a", "b"), ("a", "b", "c", "d")])
def test_a_rare_case_can_be_played_by_any_group(case: Case, members: tuple[str, ...]) -> None:
    for seed in range(40):
        plain = Scenario(members=members, seed=seed, traffic=(Traffic(from_="a", count=9),))
        scenario = with_rare_cases("test", plain, {case: 100})
        assert drawn(scenario) == [case]
        assert flaw_of(scenario) is None, seed
        assert parse(to_toml(scenario)) == scenario


def test_rare_cases_last_a_bounded_time() -> None:
    for seed in SEEDS:
        for kind in CHANGING_KINDS:
            scenario = scenario_of(seed, 3, 8, kind)
            assert scenario.horizon_ns() <= 25 * SECOND
            assert [p for p in scenario.pause if p.for_ns > 8 * SECOND] == []


@pytest.mark.parametrize("case", CHANGING)
def test_most_runs_that_draw_a_case_go_through_it(case: Case) -> None:
    """On a sound network, in a group that talks all the time."""
    names = ("ada", "bea", "cyd", "dov")
    talk = tuple(Traffic(from_=n, count=50, every_ns=20 * MS, jitter_ns=40 * MS) for n in names)
    plain = Scenario(members=names, traffic=talk, start="alone", patience_ns=30 * SECOND)
    came = 0
    for seed in range(6):
        result = run(with_rare_cases("test", replace(plain, seed=seed), {case: 100}))
        assert not result.failed, (seed, result.signature)
        came += case in result.cases
    assert came >= 3


def test_two_cases_that_start_namesakes_of_one_member_give_no_incarnation_twice() -> None:
    scenario = scenario_of(11_821, 3, 5, "storm")
    assert {"lower_namesake", "third_namesake"} <= set(drawn(scenario))
    assert flaw_of(scenario) is None
