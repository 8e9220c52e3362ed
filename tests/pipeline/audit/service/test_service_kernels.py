"""The audit of a service and its checkers: the same verdicts on everything.

1. The small service and each alteration that breaks a property.
2. The same without a journal, without the end of one, and with a hole.
3. Simulated runs, of the correct service and with mutants.
4. Simulated runs whose rows were altered at random.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from msgspec.structs import replace
from tests.verify.service.small_service import (
    BROKEN,
    TRUTH,
    Journals,
    header,
    small_service,
)

from phalanx.journal import service_schema as rows
from phalanx.journal.ground_truth import GroundTruth
from phalanx.journal.schema import Event, Row
from phalanx.pipeline.audit import judge_group
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.sim.service.service_journals import ServiceJournals
from phalanx.sim.service.service_run import ServicePlan, run_service
from phalanx.verify.service.service_evidence import ServiceEvidence, judged_rows
from phalanx.verify.service.service_properties import SERVICE_BY_NAME, SERVICE_PROPERTIES

CASES = [(name, i) for name, broken in BROKEN.items() for i in range(len(broken))]
PLAN = ServicePlan(levels=2, calls=12, faults=5, seconds=15)


def tables_of(journals: Journals, truth: GroundTruth) -> GroupTables:
    known = msgspec.to_builtins(truth)
    found = [(header(name, life, known), some) for (name, life), some in journals.items()]
    (tables,) = groups_of_rows(found)
    return tables


def compared(journals: Journals, truth: GroundTruth = TRUTH) -> tuple[str, ...]:
    """The properties that both programs find violated; they agree on all verdicts."""
    evidence = ServiceEvidence("sim", "r", journals)
    found = judged_rows(journals, [truth] * len(journals))
    evidence.trace, evidence.truth, evidence.report = found
    audited = judge_group(tables_of(journals, truth))
    checkers = {name: evidence.judgement(name).verdict for name in SERVICE_PROPERTIES}
    audit = {name: result.verdict for name, result in audited.properties.items()}
    shown = [str(v) for v in evidence.report.violations][:4]
    shown += [str(v) for r in audited.properties.values() for v in r.counterexamples][:4]
    assert audit == checkers, shown
    for result in audited.properties.values():
        assert len(result.counterexamples) == min(3, result.violations)
        assert all(violation.rows for violation in result.counterexamples)
    return evidence.report.violated


def test_both_hold_on_a_service_at_rest() -> None:
    assert compared(small_service()) == ()
    assert compared(small_service(), GroundTruth()) == ()


@pytest.mark.parametrize(("name", "nth"), CASES)
def test_both_find_each_alteration(name: str, nth: int) -> None:
    journals = small_service()
    BROKEN[name][nth](journals)
    assert name in compared(journals)


@pytest.mark.parametrize("who", sorted(small_service()))
def test_both_account_for_missing_evidence_alike(who: tuple[str, int]) -> None:
    journals = small_service()
    del journals[who]
    assert compared(journals) == ()
    for at in range(2, len(small_service()[who]), 3):
        journals = small_service()
        journals[who] = journals[who][:at]
        assert compared(journals) == ()
        journals = small_service()
        del journals[who][at - 1]
        assert compared(journals) == ()


def played(seed: int, mutant: str | None = None) -> tuple[Journals, GroundTruth, set[str]]:
    """The rows of a simulated run, and the rules that its own checks found broken."""
    kept = ServiceJournals(f"service-{seed}")
    run = run_service(seed, PLAN, mutant, kept)
    found = {(head.member, head.incarnation): some for head, some in kept.journals()}
    truths = [head.config["truth"] for head, _ in kept.journals()]
    return found, msgspec.convert(truths[0], GroundTruth), {name for name, _ in run.violations}


@pytest.mark.parametrize("seed", range(2))
def test_both_hold_on_simulated_runs(seed: int) -> None:
    journals, truth, broken = played(seed)
    assert (compared(journals, truth), broken) == ((), set())


@pytest.mark.parametrize("mutant", ["bare-home", "number-reuse", "stable-at-once"])
def test_both_find_what_the_simulator_finds(mutant: str) -> None:
    """In the first run that the simulator finds broken; which it is depends on the protocol."""
    for seed in range(12):
        journals, truth, broken = played(seed, mutant)
        if broken:
            break
    assert broken
    assert {SERVICE_BY_NAME[name].rule for name in compared(journals, truth)} >= broken


@pytest.mark.slow
def test_both_find_what_the_simulator_finds_with_every_mutant() -> None:
    from phalanx.sim.service.service_mutants import SERVICE_MUTANTS

    found = set()
    for mutant in SERVICE_MUTANTS:
        for seed in range(6):
            journals, truth, broken = played(seed, mutant)
            rules = {SERVICE_BY_NAME[name].rule for name in compared(journals, truth)}
            assert rules >= broken, (mutant, seed)
            found |= broken
    assert {"P2", "P3", "P4", "P7", "P9", "C4", "order"} <= found


def altered(journals: Journals, rng: Random) -> Journals:
    """One row of a run left out, repeated elsewhere, or with the values of another one."""
    out = {who: list(some) for who, some in journals.items()}
    kind = rng.choice(ALTERED)
    places = [(who, i) for who, some in out.items() for i, r in enumerate(some) if type(r) is kind]
    if len(places) < 2:
        return out
    (one, i), (other, j) = rng.sample(places, 2)
    row, source = out[one][i], out[other][j]
    own = [n for n in row.__struct_fields__ if n not in _COMMON and n != "op"]
    name = rng.choice(own)
    value = getattr(source, name)
    lists = [n for n in own if isinstance(getattr(row, n), list)]
    changes = {n: getattr(source, n) for n in lists} if name in lists else {name: value}
    out[one][i] = replace(row, **changes)
    return out


_COMMON = frozenset(Row.__struct_fields__)
ALTERED: tuple[type[Event], ...] = (
    rows.SetStateApplied,
    rows.GroupViewDelivered,
    rows.SetStateStable,
    rows.GroupViewInstalled,
    rows.MembershipHeld,
    rows.SetStateHeld,
)


@pytest.mark.parametrize("seed", range(3))
def test_both_judge_altered_runs_alike(seed: int) -> None:
    journals, truth, _ = played(seed)
    rng = Random(seed)
    violated = {name for _ in range(25) for name in compared(altered(journals, rng), truth)}
    assert len(violated) > 3, violated
