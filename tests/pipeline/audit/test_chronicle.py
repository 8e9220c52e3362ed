"""Lives and views, one run at a time and without Spark: verdicts against those of the checkers."""

from __future__ import annotations

import pytest
from tests.pipeline.audit import situations
from tests.pipeline.audit.played import Played, groups_of
from tests.verify.trace_builder import TraceBuilder, odyssey

from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.pipeline.audit.message_columns import GroupColumns
from phalanx.pipeline.audit.reports import reports
from phalanx.pipeline.audit.view_checks import view_checks, view_trace
from phalanx.sim.generators import KINDS, MEMBERS, Kind
from phalanx.verify.properties import Judges, judged_by

OF_VIEWS = (*judged_by(Judges.ONE_PROGRAM), "accepted-is-sent", "receipt-liveness")
"""Judged in Python. Of the first, only the way of the rows to the checkers can be wrong here."""
SEEDS = 6


def chronicle(played: Played) -> Chronicle:
    (group,) = groups_of([played])
    return GroupColumns(group).run


def verdicts(played: Played) -> dict[str, str]:
    run, out = chronicle(played), GroupFindings()
    view_checks(run, out)
    reports(run, out)
    broken = {kind.partition("/")[0] for kind in out.counts}
    return {
        name: "violated" if name in broken else "holds" if out.times[name] else "unverifiable"
        for name in OF_VIEWS
    }


def expected(played: Played) -> dict[str, str]:
    report = played.evidence().report
    return {name: report.properties[name].verdict for name in OF_VIEWS}


def test_hand_made_traces_are_judged_as_by_the_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [*situations.broken(), *situations.kept(), *situations.told(monkeypatch)]
    runs += situations.reported()
    assert {r.name for r in runs if verdicts(r) != expected(r)} == set()


def test_changed_traces_are_judged_as_by_the_checkers() -> None:
    """`test_differential` has many more, in its slow test."""
    runs = situations.changed(100) + situations.misreported(70)
    found = {run.name: verdicts(run) for run in runs}
    assert {run.name for run in runs if found[run.name] != expected(run)} == set()
    kinds = {kind for verdict in found.values() for kind in verdict.values()}
    assert kinds == {"holds", "violated", "unverifiable"}


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_runs_are_judged_as_by_the_checkers(kind: Kind) -> None:
    for seed in range(SEEDS):
        played = situations.simulated(KINDS[kind](seed, *MEMBERS[kind]))
        assert verdicts(played) == expected(played), f"{kind} {seed}"


def test_violations_of_views_are_those_of_the_checkers_with_their_rows_and_views() -> None:
    for played in situations.broken():
        run, out = chronicle(played), GroupFindings()
        view_checks(run, out)
        found = {
            (
                one.property,
                one.note,
                None if one.v is None else run.vids[one.v],
                tuple((run.members[k].label, lseq) for k, lseq in one.rows),
            )
            for kept in out.kept.values()
            for one in kept
        }
        assert found == {
            (
                v.property,
                v.text,
                v.view,
                tuple((f"{p.member}.{p.incarnation}", p.lseq) for p in v.places),
            )
            for v in played.evidence().report.violations
            if v.property in judged_by(Judges.ONE_PROGRAM)
        }, played.name
        assert bool(found) is (played.name in judged_by(Judges.ONE_PROGRAM)), played.name


def test_a_change_that_begins_is_no_disturbance() -> None:
    """Steps of a change say START as lives do."""
    tale = TraceBuilder("ab").topology("ab")
    since = tale.now
    for removals in range(1, 10):
        tale.change("ab", "START", "COLLECT").install("ab", f"v{removals + 1}", "ab", removals)
    run = chronicle(Played("r", tale.rows))
    assert view_trace(run).lives.changed_ns == since
    assert verdicts(Played("r", tale.rows))["bounded-views"] == "violated"


def test_routes_are_who_went_through_a_view_alike() -> None:
    run = chronicle(Played("odyssey", odyssey().rows))
    told = {
        (run.vids[route.v], None if route.w is None else run.vids[route.w]): [
            m.label for m in route.members
        ]
        for route in run.routes
    }
    assert told["v1", "v2"] == ["a.1", "b.1"]
    assert told["v1", "v3"] == ["c.1", "d.1"]
    assert told["v6", None] == ["a.1", "c.1", "d.2"]
    assert ("v3", None) not in told, "d crashed in it, and c moved on"
