"""The checkers against hand-made traces: each property once kept and once broken, alone.

The finer points are in `test_checkers_messages.py`, `test_checkers_views.py` and
`test_checkers_reports.py`, random legal traces in `test_checkers_random.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.verify.broken_traces import (
    BROKEN,
    LIMITS,
    a_waits_for_an_answer_for_ever,
    c_hears_two_before_one,
    c_turns_the_order_round,
)
from tests.verify.trace_builder import TraceBuilder, calm, everywhere_at_once, odyssey

from phalanx.verify.checkers import Mode, check
from phalanx.verify.properties import FIXED_VIEW, PROPERTIES

# ---------------------------------------------------------------------------- broken


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_trace_that_breaks_the_property_is_caught_and_blamed_on_it_alone(name: str) -> None:
    broken = BROKEN[name]
    report = broken.tale().check(broken.settled, mode=broken.mode, limits=LIMITS)
    assert set(report.violated) == {name} | broken.also, "\n".join(map(str, report.violations))
    result = report.properties[name]
    assert result.verdict == "violated"
    assert result.evaluated > 0
    assert broken.says in result.violations[0].text
    assert all(v.property == name and v.members and v.places for v in result.violations)


# ---------------------------------------------------------------------------- kept


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_legal_trace_keeps_the_property_and_puts_it_to_the_test(name: str) -> None:
    tale, mode = (calm(), "hold") if name == "sending-view" else (odyssey(), "flow")
    report = tale.check(mode=mode, inserted=everywhere_at_once(tale), limits=LIMITS)
    assert report.violations == []
    assert report.properties[name].verdict == "holds"


@pytest.mark.parametrize("mode", ["hold", "flow", None])
def test_a_fixed_view_leaves_what_needs_two_views_unverifiable(mode: Mode | None) -> None:
    report = calm().check(mode=mode, limits=LIMITS)
    verdicts = {name: result.verdict for name, result in report.properties.items()}
    fixed = {name for name in FIXED_VIEW if name != "sending-view" or mode == "hold"}
    assert {n for n, v in verdicts.items() if v == "holds"} == fixed
    assert {n for n, v in verdicts.items() if v == "unverifiable"} == set(PROPERTIES) - fixed


def test_an_empty_trace_proves_nothing() -> None:
    report = check([], expect_liveness=True)
    assert {r.verdict for r in report.properties.values()} == {"unverifiable"}


@pytest.mark.parametrize("letter", "abcdD")
def test_no_loss_of_the_end_of_a_journal_makes_a_violation(letter: str) -> None:
    """A journal may end after any of its rows; nothing of the rest is held against it."""
    tale = odyssey()
    for last in range(tale.count[letter]):
        rows = [
            r for r in tale.rows if (r.member, r.incarnation) != _life(letter) or r.lseq <= last
        ]
        assert check(rows, expect_liveness=False, mode="flow").violations == [], f"up to row {last}"


@pytest.mark.parametrize("letter", "abcdD")
def test_no_row_that_is_missing_makes_a_violation(letter: str) -> None:
    tale = odyssey()
    for lost in range(1, tale.count[letter]):
        rows = [r for r in tale.rows if (r.member, r.incarnation, r.lseq) != (*_life(letter), lost)]
        report = check(rows, expect_liveness=False, mode="flow")
        assert report.violations == [], f"without row {lost}"
        assert report.statistics["torn-journals"] == 1


def _life(letter: str) -> tuple[str, int]:
    return letter.lower(), 1 + letter.isupper()


# ---------------------------------------------------------------------------- the report


def test_a_violation_names_its_rows_members_and_moment() -> None:
    (violation,) = c_hears_two_before_one().check().properties["fifo"].violations
    assert violation.members == ("c", "a")
    assert [(p.member, p.lseq, p.sim_ns) for p in violation.places] == [("c", 2, 90), ("c", 3, 100)]
    assert str(violation) == (
        "fifo: c.1 delivered a.1#1 after a.1#2 in v1 [c.1 row 2 at 0.000 ms, c.1 row 3 at 0.000 ms]"
    )


def test_rows_of_two_groups_are_refused() -> None:
    rows = [
        *TraceBuilder("a").rows,
        msgspec.structs.replace(TraceBuilder("b").rows[0], group="other"),
    ]
    with pytest.raises(ValueError, match="one at a time"):
        check(rows, expect_liveness=False)


@pytest.mark.parametrize(
    ("tale", "counted"),
    [
        (calm, {"strong-total-order": 0, "other-view-deliveries": 0, "torn-journals": 0}),
        (odyssey, {"strong-total-order": 0, "other-view-deliveries": 2, "commits-max": 1}),
        (c_turns_the_order_round, {"strong-total-order": 2}),
        (a_waits_for_an_answer_for_ever, {"commits-max": 1}),
    ],
)
def test_statistics_count_and_are_never_a_verdict(
    tale: Callable[[], TraceBuilder], counted: dict[str, Any]
) -> None:
    statistics = tale().check().statistics
    assert {name: statistics[name] for name in counted} == counted
    assert set(statistics) == {
        "torn-journals",
        "successors-apart",
        "other-view-deliveries",
        "strong-total-order",
        "false-removals",
        "commits-max",
        "hold-gap-ns",
    }
