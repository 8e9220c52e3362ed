"""The checkers against random legal traces, of which no part may ever be called a violation, and
in which every change of a delivery, a receipt or a report must be seen. And how long they take."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.verify.random_traces import held_to, legal_tales
from tests.verify.trace_builder import (
    TraceBuilder,
    incarnations,
    names,
    renumbered,
)

from phalanx.journal import schema as ev
from phalanx.verify.checkers import check


def deliveries(tale: TraceBuilder) -> list[int]:
    return [i for i, row in enumerate(tale.rows) if isinstance(row, ev.Deliver)]


@settings(deadline=None)
@given(legal_tales())
def test_a_legal_trace_breaks_nothing(tale: TraceBuilder) -> None:
    report = tale.check(settled=True, **held_to(tale))
    assert report.violations == []
    assert report.properties["membership-precision"].verdict == "holds"


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_no_loss_of_evidence_makes_a_violation(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. Journals that end anywhere. 2. Journals with holes anywhere."""
    ends = {m: data.draw(st.integers(0, len(tale.rows))) for m in tale.count}
    at = {
        (name, incarnation): ends[m]
        for m in ends
        for name, incarnation in zip(names(m), incarnations(m), strict=True)
    }
    cut = [r for r in tale.rows if r.lseq <= at[r.member, r.incarnation]]
    assert check(cut, expect_liveness=False, **held_to(tale)).violations == []
    lost = data.draw(st.sets(st.integers(0, len(tale.rows) - 1)))
    holed = [r for i, r in enumerate(tale.rows) if i not in lost]
    assert check(holed, expect_liveness=False, **held_to(tale)).violations == []


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_left_out_is_missed(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. In the last view of a member. 2. In an earlier one, if another that moved along
    delivered it, and it was not basic."""
    assume(deliveries(tale))
    at = data.draw(st.sampled_from(deliveries(tale)))
    row = tale.rows[at]
    assert isinstance(row, ev.Deliver)
    rows = renumbered(tale.rows[:at] + tale.rows[at + 1 :])
    mine = _route(rows, (row.member, row.incarnation), row.view)
    along = [
        r
        for r in rows
        if isinstance(r, ev.Deliver)
        and _overlap(r, row)
        and _route(rows, (r.member, r.incarnation), r.view) == mine
    ]
    if mine[1] == "end" or (mine[1] != "gone" and along and row.service != "BASIC"):
        assert check(rows, expect_liveness=True, mode="flow").violated != ()


def _route(rows: list[ev.Event], member: tuple[str, int], view: str) -> tuple[str, str]:
    """The view, and what came after it for this member: a view, the end of the run, or its own end
    before that, by a crash or another stop."""
    here = [r for r in rows if (r.member, r.incarnation) == member]
    after = [r.view for r in here if isinstance(r, ev.ViewInstalled) and r.previous == view]
    gone = any(isinstance(r, ev.Life) and r.reason != "ended" for r in here)
    return view, (*after, "gone" if gone else "end")[0]


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_repeated_or_changed_is_caught(
    tale: TraceBuilder, data: st.DataObject
) -> None:
    assume(deliveries(tale))
    at = data.draw(st.sampled_from(deliveries(tale)))
    row = tale.rows[at]
    assert isinstance(row, ev.Deliver)
    twice = renumbered([*tale.rows[:at], row, *tale.rows[at:]])
    assert "no-duplication" in check(twice, expect_liveness=True).violated
    unsent = msgspec.structs.replace(row, first=row.first + 1000, last=row.last + 1000)
    changed = [*tale.rows[:at], unsent, *tale.rows[at + 1 :]]
    ends = {(r.member, r.incarnation): r for r in tale.rows if isinstance(r, ev.Life)}
    if ends[row.sender, row.sender_incarnation].op == "STOP":
        assert "integrity" in check(changed, expect_liveness=True).violated
    route = _route(tale.rows, (row.member, row.incarnation), row.view)
    if row.pos is not None and route[1] == "end":
        moved_row = msgspec.structs.replace(row, pos=row.pos + 1)
        changed = [*tale.rows[:at], moved_row, *tale.rows[at + 1 :]]
        alone = sum(isinstance(r, ev.Deliver) and _overlap(r, row) for r in tale.rows) == 1
        assert alone or "running-prefix" in check(changed, expect_liveness=True).violated


def _overlap(a: ev.Deliver, b: ev.Deliver) -> bool:
    same = (a.sender, a.sender_incarnation) == (b.sender, b.sender_incarnation)
    return same and a.first <= b.last and b.first <= a.last


# ---------------------------------------------------------------------------- what is told besides

TOLD = (
    ev.Ordered,
    ev.Stable,
    ev.NotSent,
    ev.MergedComponent,
    ev.Transitional,
    ev.Queue,
    ev.ViewInstalled,
)


def false(row: ev.Event) -> list[tuple[ev.Event, str]]:
    """The row with one of the facts changed that an application is told, and what that breaks."""
    stranger = {"members": ["z"], "member_incarnations": [1]}
    changes: list[tuple[dict[str, Any], str]] = []
    match row:
        case ev.Ordered():
            changes = [({"upto": row.upto + 1000}, "receipt-truth")]
        case ev.Stable():
            changes = [({"upto": row.upto + 1000}, "receipt-truth"), (stranger, "receipt-truth")]
            changes.append(({"sender_incarnation": 7}, "receipt-truth"))
        case ev.NotSent():
            changes = [({"rest": row.rest + 1}, "not-sent-liveness")]
            changes.append(({"members": ["z"], "member_incarnations": [1]}, "not-sent-liveness"))
        case ev.MergedComponent():
            for i, number in enumerate(row.delivered_upto):
                upto = [*row.delivered_upto[:i], number + 1, *row.delivered_upto[i + 1 :]]
                changes.append(({"delivered_upto": upto}, "merge-report-truth"))
            changes.append(({"component": "elsewhere"}, "merge-report-truth"))
            changes.append((stranger, "merge-report-truth"))
            alone = {
                "alone": ["z"],
                "alone_incarnations": [1],
                "alone_first": [1],
                "alone_last": [1],
            }
            changes.append((alone, "merge-report-truth"))
        case ev.Transitional():
            changes = [(stranger, "safe-marker")]
        case ev.Queue():
            for column in ("accepted", "submitted", "refused"):
                changes.append(({column: getattr(row, column) + 1}, "accepted-is-sent"))
        case ev.ViewInstalled():
            changes = [
                ({name: ["z"], f"{name}_incarnations": [1]}, "view-delta-truth")
                for name in ("joined", "left")
            ]
        case _:
            pass
    return [(msgspec.structs.replace(row, **columns), name) for columns, name in changes]


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_fact_that_is_told_and_false_is_caught(tale: TraceBuilder, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from([i for i, r in enumerate(tale.rows) if isinstance(r, TOLD)]))
    row, name = data.draw(st.sampled_from(false(tale.rows[at])))
    changed = [*tale.rows[:at], row, *tale.rows[at + 1 :]]
    assert name in check(changed, expect_liveness=True, mode="flow").violated


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_fact_that_is_not_told_is_missed(tale: TraceBuilder, data: st.DataObject) -> None:
    """1. The last receipt of a member that lives. 2. The report of a lost receiver of a message
    that was sent. 3. What a merged view reports of a component."""
    ends = {(r.member, r.incarnation): r for r in tale.rows if isinstance(r, ev.Life)}
    last = {
        (r.member, r.incarnation, type(r)): r
        for r in tale.rows
        if isinstance(r, ev.Ordered | ev.Stable)
    }
    sent = {
        (r.member, r.incarnation, n) for r in tale.rows if isinstance(r, ev.Sent) for n in span(r)
    }
    owed: list[tuple[ev.Event, str]] = [
        (r, "receipt-liveness")
        for r in last.values()
        if ends[r.member, r.incarnation].reason == "ended"
    ]
    owed += [(r, "merge-report-truth") for r in tale.rows if isinstance(r, ev.MergedComponent)]
    owed += [
        (r, "not-sent-liveness")
        for r in tale.rows
        if isinstance(r, ev.NotSent) and (r.member, r.incarnation, r.first) in sent
    ]
    assume(owed)
    row, name = data.draw(st.sampled_from(owed))
    rows = renumbered([r for r in tale.rows if r is not row])
    assert name in check(rows, expect_liveness=True, mode="flow").violated


def span(row: ev.Sent) -> range:
    return range(row.first, row.last + 1)


@settings(deadline=None)
@given(legal_tales())
def test_a_stop_without_a_cause_is_caught(tale: TraceBuilder) -> None:
    """1. Members that left were asked to. 2. A name in use is that of another."""
    for at, row in enumerate(tale.rows):
        if not (isinstance(row, ev.Life) and row.op == "STOP"):
            continue
        views = sum(isinstance(r, ev.ViewInstalled) and _same(r, row) for r in tale.rows)
        namesakes = any(
            r.member == row.member and r.incarnation != row.incarnation for r in tale.rows
        )
        for reason, seen in (("left", views > 1), ("name-in-use", not namesakes)):
            if seen and row.reason == "ended":
                changed = msgspec.structs.replace(row, reason=reason)
                rows = [*tale.rows[:at], changed, *tale.rows[at + 1 :]]
                assert "no-needless-stop" in check(rows, expect_liveness=True).violated


def _same(a: ev.Event, b: ev.Event) -> bool:
    return (a.member, a.incarnation) == (b.member, b.incarnation)


# ---------------------------------------------------------------------------- how long it takes


def test_five_thousand_rows_take_well_under_a_second() -> None:
    tale = TraceBuilder("abcde")
    for turn in range(840):
        sender, first = "abcde"[turn % 5], turn // 5 * 10 + 1
        tale.send(sender, first, first + 9)
        tale.deliver("abcde", sender, first, first + 9, pos=turn * 10, batch=turn)
    began = time.process_time()
    report = tale.check()
    took = time.process_time() - began
    assert report.violations == []
    assert report.properties["causal"].evaluated > 10_000
    assert len(tale.rows) > 5000
    assert took < 1
