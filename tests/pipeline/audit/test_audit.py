"""The audit against hand-made journals: each property once broken, alone, and all of them kept.

All situations are in one audit: see `conftest`. Where a trace
cannot break one property without another, `Broken.also` of the checkers' tests says which: an
undelivered message is missed by every kind of liveness that it is owed by, and two orders have two
positions for one message.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.pipeline.audit import situations
from tests.pipeline.audit.played import Played, apart, groups_of
from tests.pipeline.audit.reported import LEGAL, WRONG
from tests.verify.broken_traces import BROKEN

from phalanx.cli.audit import lines
from phalanx.errors import PipelineError
from phalanx.journal.reader import Reading
from phalanx.journal.segment import Segment
from phalanx.pipeline.audit import PROPERTIES, Audit, RunVerdicts, audit_groups, wanted
from phalanx.pipeline.audit.sentences import SENTENCES
from phalanx.pipeline.group_tables import groups_of_rows
from phalanx.verify.evidence import judge
from phalanx.verify.properties import Needs, needing

SIMULATED = needing(Needs.SIMULATION)
REPORTED = {wrong.breaks for wrong in WRONG.values()}
AUDITED = tuple(name for name in PROPERTIES if name not in SIMULATED)


def test_there_are_words_for_every_property() -> None:
    assert {kind.partition("/")[0] for kind in SENTENCES} == set(AUDITED)


def test_every_property_is_broken_by_a_trace() -> None:
    assert {*BROKEN, *(wrong.breaks for wrong in WRONG.values())} == set(PROPERTIES)


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_what_is_asked_of_simulations_only_is_not_verified(
    name: str, judged: Audit, runs: dict[str, RunVerdicts]
) -> None:
    for found in (judged.properties[name], runs[name].properties[name]):
        assert (found.verdict, found.checked) == ("unverifiable", 0)
    assert runs[name].properties[name].why == "it is asked of simulations only"
    assert runs[name].violated == ()


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - SIMULATED))
def test_a_trace_that_breaks_one_property_is_blamed_on_it_alone(
    name: str, runs: dict[str, RunVerdicts]
) -> None:
    run = runs[name]
    assert set(run.violated) == {name} | BROKEN[name].also
    result = run.properties[name]
    assert result.violations >= 1
    assert result.checked >= 1
    for found in result.counterexamples:
        assert found.property == name
        assert (found.run, found.group, found.cluster) == (name, "g", "c")
        assert found.members
        assert found.rows
        assert "{" not in found.text


@pytest.mark.parametrize("name", WRONG)
def test_a_report_that_is_wrong_is_blamed_on_its_property_alone(
    name: str, runs: dict[str, RunVerdicts]
) -> None:
    wrong = WRONG[name]
    assert runs[name].violated == (wrong.breaks,)
    found = runs[name].properties[wrong.breaks].counterexamples
    assert any(wrong.says in one.text for one in found), found
    assert all(one.rows and "{" not in one.text for one in found)


@pytest.mark.parametrize("name", AUDITED)
def test_a_legal_trace_keeps_the_property_and_puts_it_to_the_test(
    name: str, runs: dict[str, RunVerdicts]
) -> None:
    trace = "calm" if name == "sending-view" else "odyssey"
    run = runs["told all" if name in REPORTED else trace]
    assert run.properties[name].verdict == "holds"
    assert run.properties[name].checked >= 1


def test_what_is_torn_off_the_end_of_a_journal_is_held_against_nobody(
    runs: dict[str, RunVerdicts],
) -> None:
    assert runs["calm, torn off"].violated == ()


@pytest.mark.parametrize("name", LEGAL)
def test_a_report_that_is_right_is_held_against_nobody(
    name: str, runs: dict[str, RunVerdicts]
) -> None:
    assert runs[name].violated == ()
    older = runs["older receipt at the end of a view"].properties
    assert older["receipt-truth"].verdict == "holds"
    assert older["view-delta-truth"].why == "nothing put it to the test"


def test_every_verdict_on_every_trace_is_that_of_the_checkers(
    traces: dict[str, Played], runs: dict[str, RunVerdicts]
) -> None:
    found = {
        name: apart({n: r.verdict for n, r in runs[name].properties.items()}, run.verdicts())
        for name, run in traces.items()
    }
    assert {name: differs for name, differs in found.items() if differs} == {}


def test_the_counter_example_names_members_view_messages_and_rows(
    runs: dict[str, RunVerdicts],
) -> None:
    (found,) = runs["virtual-synchrony"].properties["virtual-synchrony"].counterexamples
    assert found.text == "a.1 delivered a.1#1 in v1 before v2, c.1 did not"
    assert (found.members, found.view) == (("a", "c"), "v1")
    assert (found.sender, found.sender_incarnation, found.first, found.last) == ("a", 1, 1, 1)
    assert [(row.member, row.incarnation, row.lseq) for row in found.rows] == [("a", 1, 3)]
    (late,) = runs["causal"].properties["causal"].counterexamples
    assert late.text == ("c.1 delivered b.1#1 in v1, which follows, but delivered a.1#1 only later")
    assert {(row.member, row.lseq) for row in late.rows} == {("c", 2), ("c", 3)}


@pytest.mark.parametrize("known", ["", ", settled"])
def test_what_is_missing_is_said_and_held_against_nobody(
    known: str, runs: dict[str, RunVerdicts]
) -> None:
    """Nor is what a simulator knows believed where a part of its journals is missing."""
    absent, torn = runs[f"absent{known}"], runs[f"torn{known}"]
    assert not absent.settled
    assert not torn.settled
    assert absent.absent == ("b.1",)
    assert absent.violated == torn.violated == ()
    assert absent.properties["integrity"].why == "no journal of b.1"
    assert absent.properties["fifo"].verdict == "holds"
    assert torn.torn == ("b.1",)
    assert torn.properties["fifo"].why == "rows are missing of b.1"
    assert torn.properties["bounded-views"].why == "journals do not show that a group has settled"


def test_overall_a_property_is_violated_if_any_run_violates_it(judged: Audit) -> None:
    assert judged.violated == AUDITED
    total = judged.properties["fifo"]
    assert total.violations == sum(run.properties["fifo"].violations for run in judged.runs)
    assert 0 < len(total.counterexamples) <= 3
    facts = json.loads(judged.to_json())
    assert set(facts) == {"properties", "runs"}
    assert set(facts["properties"]) == set(PROPERTIES)
    assert {"verdict", "checked", "violations", "counterexamples", "why"} <= set(
        facts["properties"]["fifo"]
    )


def test_only_the_properties_that_are_asked_for_are_judged() -> None:
    """One group has more members than a word of a mask has bits."""
    names = ("fifo", "virtual-synchrony")
    runs = [run for run in situations.broken() if run.name in names]
    first, lost = situations.MANY[0], situations.MANY[66]
    runs.append(Played("crowd", situations.crowd().rows))
    runs.append(Played("crowd that lacks one", situations.crowd(without=lost).rows))
    found = audit_groups(groups_of(runs), names)
    rows = {
        (run.run, name): result.counterexamples[0]
        for run in found.runs
        for name, result in run.properties.items()
        if result.counterexamples
    }
    broken = {*zip(names, names, strict=True), ("crowd that lacks one", "virtual-synchrony")}
    assert set(rows) == broken
    assert rows["fifo", "fifo"].members == ("c", "a")
    assert rows["crowd that lacks one", "virtual-synchrony"].members == (first, lost)


def test_an_unknown_property_is_named_with_the_choice() -> None:
    with pytest.raises(PipelineError, match=r"'speed': .* choose among self-inclusion, "):
        wanted(["speed"])


def test_settings_that_differ_are_reported_as_the_checkers_report_them() -> None:
    own: dict[str, dict[str, object]] = {
        "a": {"early": False, "order": "toto"},
        "b": {"order": "all-ack"},
        "c": {"early": True},
    }
    journals = [
        (msgspec.structs.replace(header, config=header.config | own[header.member]), rows)
        for header, rows in situations.kept()[0].journals()
    ]
    segments = [Segment(path=Path(header.journal), header=header) for header, _ in journals]
    reading = Reading(segments, {header.journal: rows for header, rows in journals})
    (checked,) = judge(reading)
    (run,) = audit_groups(groups_of_rows(journals), ["self-inclusion"]).runs
    assert run.settings == {
        "order": {"all-ack": ["b.1"], "toto": ["a.1"]},
        "early": {"False": ["a.1"], "True": ["c.1"]},
    }
    assert run.mixed == checked.mixed != []
    assert run.settings == {
        name: {
            value: [f"{member}.{incarnation}" for member, incarnation in who]
            for value, who in values.items()
        }
        for name, values in checked.settings.items()
    }
    assert next(lines(Audit({}, (run,)))) == (
        "settings differ in group g of c, run calm: order is 'all-ack' at b.1, 'toto' at a.1; "
        "early is 'False' at a.1, 'True' at c.1; they must agree"
    )


def test_two_journals_of_one_life_are_refused() -> None:
    journals = situations.kept()[0].journals()
    header, rows = journals[0]
    twice = [*journals, (msgspec.structs.replace(header, journal="another"), rows)]
    with pytest.raises(PipelineError, match=r"a second journal of a\.1"):
        audit_groups(groups_of_rows(twice))


def test_a_clock_that_goes_back_is_reported_by_both_programs() -> None:
    (played,) = [run for run in situations.kept() if run.name == "odyssey without a clock"]
    at = next(i for i, row in enumerate(played.rows) if (row.member, row.lseq) == ("a", 5))
    rows = [
        msgspec.structs.replace(row, t_ns=row.t_ns - 3_600_000_000_000) if i == at else row
        for i, row in enumerate(played.rows)
    ]
    late = Played("back", rows, False, "flow")
    (run,) = audit_groups(groups_of([late])).runs
    assert run.clocks == late.evidence().clocks
    (line,) = run.clocks
    assert line.startswith("the clock of a.1 goes back by 3,")
    assert " s at row 5: " in line
    assert audit_groups(groups_of([played])).runs[0].clocks == []
