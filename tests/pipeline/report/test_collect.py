"""What the page is told agrees with the rows, stays within its bounds, and mixes no runs."""

from __future__ import annotations

from collections import Counter

import msgspec
from tests.pipeline.report.conftest import journals

from phalanx.journal.schema import Deliver, Event, Life, PeerSuspicion, Sent, ViewInstalled
from phalanx.journal.schema import LinkStats as LinkRow
from phalanx.pipeline.group_tables import GroupKey, GroupTables, groups_of_rows
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.report.collect import report_group
from phalanx.pipeline.report.model import SERVICES, Caps, Page, ReportFinding, RunModel
from phalanx.pipeline.report.time_axis import open_axis
from phalanx.pipeline.time_window import TimeWindow


def run_of(page: Page, name: str) -> RunModel:
    return next(run for run in page.runs if run.run == name)


def instants(rows: list[Event]) -> tuple[int, int]:
    times = [row.sim_ns for row in rows if isinstance(row, Deliver | Sent | ViewInstalled | Life)]
    known = [t for t in times if t is not None]
    return min(known), max(known)


def test_counts_are_those_of_the_rows(page: Page, simulated: list[Event]) -> None:
    run = run_of(page, "simulated")
    sent = [row for row in simulated if isinstance(row, Sent)]
    up = [row for row in simulated if isinstance(row, Deliver)]
    installs = [row for row in simulated if isinstance(row, ViewInstalled)]
    assert run.rows == len(simulated)
    assert run.sent == sum(row.last - row.first + 1 for row in sent)
    assert run.delivered == sum(row.last - row.first + 1 for row in up)
    assert sum(link.messages for link in run.links) == run.delivered
    assert run.sends.total == len(run.sends.at) == len(sent)
    assert run.bands.total == len(run.bands.life) == len(installs)
    assert {view.view for view in run.views} == {row.view for row in installs}
    assert run.suspicions.total == sum(isinstance(row, PeerSuspicion) for row in simulated)
    by_service: Counter[str] = Counter(row.service for row in sent)
    assert [run.sends.service.count(k) for k in range(4)] == [by_service[s] for s in SERVICES]


def test_loss_of_a_link_is_what_its_ends_counted(page: Page, simulated: list[Event]) -> None:
    run = run_of(page, "simulated")
    last = {
        (row.member, row.incarnation, row.peer, row.peer_incarnation, row.view): row
        for row in sorted(simulated, key=lambda row: row.lseq)
        if isinstance(row, LinkRow)
    }
    frames, missed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in last.values():
        frames[row.peer, row.member] += row.frames
        missed[row.peer, row.member] += row.missed
    found = {(run.lanes[link.by], run.lanes[link.to]): link for link in run.links}
    assert any(missed.values())
    for ends, count in frames.items():
        assert found[ends].frames == count
        assert found[ends].loss == (missed[ends] / count if count else None)


def test_lines_lead_from_sending_to_the_delivery_of_the_first_message(
    page: Page, simulated: list[Event]
) -> None:
    run = run_of(page, "simulated")
    start, _ = instants(simulated)
    lives = {(run.lanes[life.lane], life.incarnation): i for i, life in enumerate(run.lives)}
    starts = zip(run.sends.life, run.sends.first, strict=True)
    numbers = {start: i for i, start in enumerate(starts)}
    expected = set()
    for row in simulated:
        if isinstance(row, Deliver):
            by = lives[row.sender, row.sender_incarnation]
            for number in range(row.first, row.last + 1):
                if (by, number) in numbers:
                    assert row.sim_ns is not None
                    at = (row.sim_ns - start) // 1000
                    expected.add((numbers[by, number], lives[row.member, row.incarnation], at))
    found = zip(run.deliveries.send, run.deliveries.life, run.deliveries.at, strict=True)
    assert set(found) == expected


def test_a_simulated_run_has_one_clock_and_knows_its_crash(
    page: Page, simulated: list[Event]
) -> None:
    run = run_of(page, "simulated")
    start, end = instants(simulated)
    assert (run.clock, run.began) == ("simulated", None)
    assert run.span == (end - start) // 1000
    ended = {(run.lanes[life.lane], life.incarnation): life.ended for life in run.lives}
    crashed = {
        (r.member, r.incarnation) for r in simulated if isinstance(r, Life) and r.op == "CRASH"
    }
    assert {life for life, how in ended.items() if how == "CRASH"} == crashed


def test_members_of_one_machine_share_a_clock(page: Page) -> None:
    run = run_of(page, "together")
    assert run.clock == "machine"
    assert run.began is not None
    assert any(not row.own for row in run.latency)
    assert {life.ended for life in run.lives} == {"STOP", "OPEN"}


def test_clocks_of_two_machines_are_never_compared(page: Page) -> None:
    run = run_of(page, "apart")
    assert run.clock == "wall"
    assert [row for row in run.latency if not row.own] == []
    assert [link for link in run.links if link.by != link.to and link.p50 is not None] == []
    assert len({life.machine for life in run.lives}) == len(run.lanes)


def test_runs_are_told_apart(page: Page) -> None:
    assert [run.run for run in page.runs] == ["apart", "simulated", "together"]
    assert page.runs_left_out == 0
    simulated, together = page.runs[1], page.runs[2]
    assert simulated.delivered == together.delivered
    assert simulated.findings
    assert together.findings == []


def test_a_removal_says_who_did_it_on_what_evidence_and_how_long_it_took(page: Page) -> None:
    run = run_of(page, "simulated")
    (crash,) = [r for r in run.removals if r.fate == "CRASHED"]
    assert run.lanes[run.lives[crash.life].lane] == "dov"
    assert crash.by == ["ada", "bea", "cyd", "eli"]
    assert {step.evidence for step in crash.steps if step.what == "SUSPECTED"} == {"SILENCE"}
    installs = [step.at for step in crash.steps if step.what == "INSTALL"]
    assert (min(installs), max(installs)) == (crash.lead, crash.took)
    assert len(installs) == 4
    assert run.views[crash.view].view != run.views[crash.next_view].view
    assert run.removals_total == len(run.removals)


def test_a_counterexample_brings_its_rows(page: Page, simulated: list[Event]) -> None:
    run = run_of(page, "simulated")
    (broken,) = [f for f in run.findings if f.verdict == "violated"]
    assert len(broken.examples) == Caps().examples < broken.violations
    (row,) = broken.examples[0].rows
    meant = next(
        r
        for r in simulated
        if (r.member, r.incarnation, r.lseq) == (row.member, row.incarnation, row.lseq)
    )
    assert isinstance(meant, Deliver)
    assert row.table == "deliver"
    assert f"sender={meant.sender}" in row.text
    assert row.at is not None


def test_what_is_told_is_bounded_and_says_how_much_there_is(small: Page, page: Page) -> None:
    assert len(small.runs) == 2
    assert sum(len(run.sends.at) for run in small.runs) <= 20
    assert sum(len(run.deliveries.at) for run in small.runs) <= 60
    assert small.runs_left_out == 1
    for run in small.runs:
        whole = run_of(page, run.run)
        assert len(run.lanes) == 3
        assert run.lanes_left_out == len(whole.lanes) - 3
        assert len(run.sends.at) < run.sends.total <= whole.sends.total
        assert len(run.removals) == min(2, run.removals_total)
        assert all(len(r.steps) <= 3 and r.steps_total >= len(r.steps) for r in run.removals)
        assert sum(run.bands.count) == run.bands.total
        assert any(n > 1 for n in run.bands.count)
        assert len(run.suspicions.at) <= 2 < run.suspicions.total


def test_a_member_without_a_journal_is_named_all_the_same(simulated: list[Event]) -> None:
    some = [made for made in journals(simulated) if made[0].member != "eli"]
    (group,) = groups_of_rows(some)
    run = open_axis(group, Caps())
    assert run.lanes == ["ada", "bea", "cyd", "dov", "eli"]
    assert "eli" not in {journal.member for journal in run.journals}


def broken(group: GroupTables) -> list[ReportFinding]:
    return [ReportFinding("fifo", "violated", 1, 1)]


def test_a_group_that_is_not_shown_is_judged_and_one_that_was_not_asked_for_is_not(
    groups: list[GroupTables],
) -> None:
    group = groups[0]

    def reported(shown: list[GroupKey], run: str | None) -> tuple[bool, bool]:
        found = report_group(shown, run, Caps(), TimeWindow(), broken, group)
        return found.violated, found.model is not None

    assert reported([group.key], None) == reported([group.key], group.key.run) == (True, True)
    assert reported([], None) == (True, False)
    assert reported([group.key], "another") == (False, False)


def test_a_window_cuts_what_is_drawn(groups: list[GroupTables], page: Page) -> None:
    (group,) = [one for one in groups if one.key.run == "simulated"]
    whole = run_of(page, "simulated")
    middle = Instant(whole.span * 500, simulated=True)
    halves = [TimeWindow(until=middle), TimeWindow(since=middle)]
    models = [
        report_group([group.key], None, Caps(), window, lambda _: [], group).model
        for window in halves
    ]
    for model in models:
        assert model is not None
        assert model.span <= whole.span // 2 + 1
        assert 0 < model.delivered < whole.delivered
    assert sum(model.delivered for model in models if model) == whole.delivered
    late = TimeWindow(since=Instant(1 << 62, simulated=True))
    nothing = report_group([group.key], None, Caps(), late, broken, group)
    assert (nothing.model, nothing.violated) == (None, True)


def test_the_model_survives_its_own_json(page: Page) -> None:
    assert msgspec.json.decode(msgspec.json.encode(page), type=Page) == page
