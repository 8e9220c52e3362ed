"""Sweeps: sums that do not depend on who did the work."""

from __future__ import annotations

import pytest

from phalanx.sim import sweep as sweeping
from phalanx.sim.generators.fixed_view import random_scenario
from phalanx.sim.run import run
from phalanx.sim.sweep import Seeds, Tally, run_seeds, sweep

SEEDS = Seeds(0, 6, 2, 3)


def test_a_sweep_adds_up_its_runs() -> None:
    tally = run_seeds(SEEDS)
    assert tally.runs == 6
    assert (tally.violations, tally.stuck, tally.failed_runs) == (0, 0, 0)
    assert tally.lowest_failing_seed is None
    assert tally.properties["integrity"]["evaluated"] > 0
    assert tally.steps > 0


def test_two_workers_come_to_the_same_sum_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "CHUNK", 2)
    one, two = sweep(SEEDS, jobs=1), sweep(SEEDS, jobs=2)
    for tally in (one, two):
        tally.slowest_s, tally.slowest_seed = 0, None
    assert one == two


def test_the_lowest_failing_seed_is_kept_whatever_the_order() -> None:
    failing = run(random_scenario(4, 2, 2))
    failing.stuck = True
    tallies = []
    for seed in (9, 4, 7):
        failing.seed = seed
        tally = Tally()
        tally.add_run(failing)
        tallies.append(tally)
    total = Tally()
    for tally in tallies:
        total.add(tally)
    assert total.lowest_failing_seed == 4
    assert total.failing_seeds == [4, 7, 9]
    assert total.lowest_failure == ["stuck"]
    assert (total.failed_runs, total.stuck) == (3, 3)


def test_an_interrupt_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "CHUNK", 1)

    def stop(tally: Tally) -> None:
        if tally.runs == 2:
            raise KeyboardInterrupt

    tally = sweep(SEEDS, jobs=1, progress=stop)
    assert tally.interrupted
    assert tally.runs == 2


def test_what_was_never_evaluated_is_listed() -> None:
    assert "safe-prefix" in Tally().never_evaluated
    assert "integrity" not in run_seeds(Seeds(0, 2)).never_evaluated


def test_a_sweep_of_changing_groups_counts_the_cases_it_went_through() -> None:
    tally = run_seeds(Seeds(0, 4, 3, 4, "membership"))
    facts = tally.summary(1.0)
    assert facts["kind"] == "membership"
    assert facts["cases"]["views_boot"] >= 12
    assert facts["cases"]["views_join"] > 0
    twice = Tally(kind="membership")
    twice.add(tally)
    twice.add(tally)
    assert twice.cases == {case: 2 * times for case, times in tally.cases.items()}


def test_what_never_happened_is_listed() -> None:
    tally = Tally(kind="mesh", cases={"forwarded": 3}, faults={"role": 1})
    assert {"break_both", "initiator_crashed", "proof_by_tag"} <= {*tally.never_happened}
    assert not {"forwarded", "role"} & {*tally.never_happened}
    assert tally.summary(1.0)["never_happened"] == tally.never_happened
    assert Tally(kind="storm").never_happened == []


def test_every_property_is_asked_for_where_members_come_and_go() -> None:
    assert "virtual-synchrony" not in Tally().never_evaluated
    assert "virtual-synchrony" in Tally(kind="membership").never_evaluated
