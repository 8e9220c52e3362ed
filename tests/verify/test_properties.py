"""The catalogue of properties: complete, and the only place where properties are described."""

from __future__ import annotations

import re
from pathlib import Path

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.evidence import missing_evidence
from phalanx.verify.properties import (
    ALL,
    BY_NAME,
    CATALOGUE,
    FIXED_VIEW,
    MEANING,
    PROPERTIES,
    Judges,
    Needs,
    judged_by,
    needing,
)

ROOT = Path(__file__).resolve().parents[2]
MEANING_MAX = 66
"""Columns that a line of verdicts leaves for the meaning."""


def documented(title: str) -> dict[str, str]:
    """The services of each property in one section of docs/guarantees.md."""
    text = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([a-z-]+)` \| .* \| ([a-z, ]*)\|$", section, re.MULTILINE))


def test_names_and_meanings_are_unique() -> None:
    assert len(set(PROPERTIES)) == len(set(MEANING.values())) == len(CATALOGUE) == len(BY_NAME)


def test_a_meaning_is_one_short_sentence_that_stands_alone() -> None:
    for name, meaning in MEANING.items():
        assert 0 < len(meaning) <= MEANING_MAX, name
        assert not meaning.endswith("."), name
        assert not re.match(r"(?i)(and|who|\.\.\.)\b", meaning), name


def test_a_report_of_the_checkers_has_every_property_in_the_order_of_the_catalogue() -> None:
    assert tuple(Findings().report.properties) == PROPERTIES


def test_every_property_is_judged_by_one_kind_of_programs() -> None:
    names = [name for judges in Judges for name in judged_by(judges)]
    assert sorted(names) == sorted(PROPERTIES)


def test_the_audit_cannot_judge_what_only_a_simulation_knows() -> None:
    assert set(judged_by(Judges.CHECKERS_ONLY)) == needing(Needs.SIMULATION)


def test_properties_that_need_two_views_are_not_expected_of_a_fixed_view() -> None:
    assert set(FIXED_VIEW) == set(PROPERTIES) - needing(Needs.TWO_VIEWS)


def test_missing_evidence_follows_from_what_a_property_needs() -> None:
    for found in CATALOGUE:
        without = {
            absent: missing_evidence(
                found.name,
                settled=Needs.SETTLED_RUN in found.needs,
                mode="hold",
                absent=absent,
                torn=(),
                checked=1,
            )
            for absent in ((), ("b.1",))
        }
        assert without[()] == "", found.name
        assert bool(without["b.1",]) is (Needs.ALL_JOURNALS in found.needs), found.name


def test_the_guide_to_guarantees_lists_every_property_with_its_services() -> None:
    shown = documented("Safety") | documented("Liveness")
    wanted = {p.name: "all" if p.services == ALL else ", ".join(p.services) for p in CATALOGUE}
    assert {name: services.strip() for name, services in shown.items()} == wanted


def test_the_guide_to_the_audit_lists_which_programs_judge_each_property() -> None:
    text = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    section = text.partition("\n## Two programs or one\n")[2].partition("\n## ")[0]
    lists = dict(re.findall(r"^\| ([a-z ]+) \|.*\| ((?:`[a-z-]+`(?:, )?)+) \|$", section, re.M))
    shown = {title: tuple(re.findall(r"`([a-z-]+)`", names)) for title, names in lists.items()}
    assert shown == {judges.value: judged_by(judges) for judges in Judges}
