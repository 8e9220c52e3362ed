"""The audit against the checkers of the simulator on simulated runs: two programs that share
nothing but the schema say the same of every property of every run.

1. Correct runs: every verdict is equal, and nothing is violated.
2. Runs of broken protocols (mutants): every verdict is equal, and each counter-example names
   members and messages that the checkers name too.
A failure prints the names of the runs; `situations.simulated` plays them again.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.audit.played import Played, apart, tables_of
from tests.pipeline.audit.situations import by_seed, mutated

from phalanx.pipeline.audit import Audit, audit
from phalanx.sim.checkers import PROPERTIES
from phalanx.sim.kinds import KINDS, Kind
from phalanx.sim.mutants import MUTANTS


def differences(found: Audit, runs: list[Played]) -> dict[str, object]:
    by_name = {run.run: run for run in found.runs}
    told: dict[str, object] = {}
    for run in runs:
        verdicts = {name: r.verdict for name, r in by_name[run.name].properties.items()}
        if differs := apart(verdicts, run.verdicts()):
            told[run.name] = differs
    return told


def test_simulated_runs_are_judged_as_by_the_checkers(
    good: list[Played], bad: list[Played], judged: Audit
) -> None:
    assert differences(judged, [*good, *bad]) == {}
    names = {run.name for run in (*good, *bad)}
    violated = {run.run for run in judged.runs if run.violated and run.run in names}
    assert violated == {run.name for run in bad}, "each mutant is caught, and nothing else"
    for run in bad:
        assert_same_blame(run, judged)


def assert_same_blame(run: Played, found: Audit) -> None:
    """Who did it, and whose message it is about, are among those that the checkers blame for the
    same property. They may name another message of the same past."""
    (mine,) = [r for r in found.runs if r.run == run.name]
    report = run.report()
    for name in mine.violated:
        blamed = {node for v in report.properties[name].violations for node in v.nodes}
        for example in mine.properties[name].counterexamples:
            assert example.rows or example.first is not None
            told = {example.nodes[0], example.sender or example.nodes[0]}
            assert told <= blamed, (name, example.text)


@pytest.mark.slow
def test_five_thousand_correct_runs_audited_together_raise_no_alarm(spark: SparkSession) -> None:
    seeds = {kind: range(1000, 1000 + n) for kind, n in zip(KINDS, (2000, 2000, 1000), strict=True)}
    runs = list(by_seed(seeds))
    found = audit(tables_of(spark, runs))
    assert found.violated == ()
    assert differences(found, runs) == {}
    assert all(found.properties[name].verdict == "holds" for name in PROPERTIES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_every_mutant_are_judged_as_by_the_checkers(
    spark: SparkSession, kind: Kind
) -> None:
    grounds = ("fixed",) if kind == "fixed" else ("walk", "membership")
    runs = [
        mutated(mutant, kind, seed)
        for mutant, broken in MUTANTS.items()
        if broken.ground in grounds
        for seed in range(2)
    ]
    found = audit(tables_of(spark, runs))
    assert differences(found, runs) == {}
    for run in runs:
        assert_same_blame(run, found)
