"""The properties of the service: each holds on a small service, and each can be broken.

Missing evidence is never a violation: without any one journal, without its end, or with a hole.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.verify.service.small_service import BROKEN, TRUTH, Journals, small_service

from phalanx.journal.ground_truth import GroundTruth
from phalanx.verify.properties import PROPERTIES
from phalanx.verify.service.service_evidence import ServiceEvidence, judged_rows
from phalanx.verify.service.service_properties import SERVICE_CATALOGUE, SERVICE_PROPERTIES

ROOT = Path(__file__).resolve().parents[3]
CASES = [(name, i) for name, broken in BROKEN.items() for i in range(len(broken))]
MEANING_MAX = 66


def judged(journals: Journals, truth: GroundTruth = TRUTH) -> ServiceEvidence:
    evidence = ServiceEvidence("sim", "r", journals)
    found = judged_rows(journals, [truth] * len(journals))
    evidence.trace, evidence.truth, evidence.report = found
    return evidence


def test_every_property_holds_on_a_service_at_rest() -> None:
    evidence = judged(small_service())
    verdicts = {name: evidence.judgement(name) for name in SERVICE_PROPERTIES}
    wanted = dict.fromkeys(SERVICE_PROPERTIES, "holds")
    wanted["subgroup-inclusion"] = "unverifiable"  # there is no subgroup
    assert {name: v.verdict for name, v in verdicts.items()} == wanted, verdicts


@pytest.mark.parametrize(("name", "nth"), CASES)
def test_an_alteration_breaks_its_property(name: str, nth: int) -> None:
    journals = small_service()
    BROKEN[name][nth](journals)
    evidence = judged(journals)
    assert name in evidence.report.violated
    assert all(violation.text for violation in evidence.report.violations)


def test_every_property_can_be_broken() -> None:
    assert set(BROKEN) == set(SERVICE_PROPERTIES)
    assert all(BROKEN.values())


@pytest.mark.parametrize("who", sorted(small_service()))
def test_a_missing_journal_is_held_against_nobody(who: tuple[str, int]) -> None:
    journals = small_service()
    del journals[who]
    evidence = judged(journals)
    assert evidence.report.violated == ()
    assert evidence.absent == [f"{who[0]}.1" if who[0] in "ab" else who[0]]
    assert evidence.judgement("set-view-agreement").verdict == "unverifiable"
    assert evidence.judgement("service-rest").verdict == "unverifiable"


@pytest.mark.parametrize("who", sorted(small_service()))
def test_rows_that_a_kill_has_cost_are_held_against_nobody(who: tuple[str, int]) -> None:
    for end in range(2, len(small_service()[who])):
        journals = small_service()
        journals[who] = journals[who][:end]
        assert judged(journals).report.violated == (), end


@pytest.mark.parametrize("who", sorted(small_service()))
def test_a_hole_in_a_journal_is_held_against_nobody(who: tuple[str, int]) -> None:
    for at in range(2, len(small_service()[who]) - 1):
        journals = small_service()
        del journals[who][at]
        evidence = judged(journals)
        assert evidence.report.violated == (), at
        assert evidence.judgement("view-chain").verdict == "unverifiable"


def test_liveness_is_asked_of_settled_runs_only() -> None:
    evidence = judged(small_service(), GroundTruth())
    asked = {p.name for p in SERVICE_CATALOGUE if p.rule in ("P5", "P6", "P7", "P8", "P9")}
    for name in asked:
        verdict, why = evidence.judgement(name)
        assert verdict == "unverifiable"
        assert "come to rest" in why


def test_names_are_those_of_no_group_property_and_meanings_are_short() -> None:
    assert not set(SERVICE_PROPERTIES) & set(PROPERTIES)
    assert len(SERVICE_PROPERTIES) == len(set(SERVICE_PROPERTIES))
    for found in SERVICE_CATALOGUE:
        assert 0 < len(found.meaning) <= MEANING_MAX, found.name
        assert not found.meaning.endswith(".")


def test_the_guide_to_guarantees_lists_every_property_of_the_service() -> None:
    text = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    section = text.partition("\n## The membership service\n")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"^\| `([a-z-]+)` \| ([A-Za-z0-9]+) \|", section, re.MULTILINE))
    assert shown == {p.name: p.rule for p in SERVICE_CATALOGUE}
