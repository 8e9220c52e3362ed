"""When a view is closed, incomplete, judged again; and that the machine forgets."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from phalanx.pipeline.audit.view_stays import ViewStay
from phalanx.pipeline.watch.closed_views import (
    VIEWS_KEPT,
    ClosedViews,
    JournalEnd,
    JudgeView,
    RowsTaken,
    TimePassed,
    VerdictsWritten,
    has_grown,
    parsed,
)

GRACE = 100
AB = "ada.1 bea.1"


def stay(label: str, view: str, lseq: int, members: str = AB, removals: int = 0) -> ViewStay:
    return ViewStay(
        journal=label,
        lseq=lseq,
        step=lseq,
        own_ns=lseq,
        view=view,
        previous=None,
        joins=0,
        removals=removals,
        members=frozenset(members.split()),
        components=(),
    )


def end(label: str, last: int, stopped: bool = False) -> JournalEnd:
    return JournalEnd(label, label, last, stopped)


def taken(stays: list[ViewStay], *ends: JournalEnd) -> RowsTaken:
    return RowsTaken(tuple(stays), ends)


def begun() -> ClosedViews:
    """Two members in their first view."""
    machine = ClosedViews(GRACE)
    some = [stay("ada.1", "v0", 1), stay("bea.1", "v0", 1)]
    assert machine.step(0, taken(some, end("ada.1", 5), end("bea.1", 5))) == []
    return machine


def test_a_view_is_closed_once_each_member_left_it() -> None:
    machine = begun()
    one = taken([stay("ada.1", "v1", 6, removals=1)], end("ada.1", 9))
    assert machine.step(10, one) == []
    two = taken([stay("bea.1", "v1", 8, removals=1)], end("bea.1", 9))
    assert machine.step(20, two) == [JudgeView("v0", "closed", "ada.1:left:6 bea.1:left:8")]


def test_a_member_that_stopped_is_not_waited_for() -> None:
    machine = begun()
    machine.step(10, taken([], end("bea.1", 9, stopped=True)))
    found = machine.step(20, taken([stay("ada.1", "v1", 6, "ada.1", 1)], end("ada.1", 9)))
    assert found == [JudgeView("v0", "closed", "ada.1:left:6 bea.1:stopped:9")]


def test_a_member_that_never_installed_the_view_but_a_later_one_has_passed_it() -> None:
    machine = ClosedViews(GRACE)
    machine.step(0, taken([stay("ada.1", "v0", 1)], end("ada.1", 1), end("bea.1", 1)))
    machine.step(1, taken([stay("ada.1", "v1", 2, "ada.1", 1)], end("ada.1", 2)))
    found = machine.step(2, taken([stay("bea.1", "w9", 2, "bea.1", 9)], end("bea.1", 2)))
    assert found == [JudgeView("v0", "closed", "ada.1:left:2 bea.1:passed:2")]


def test_a_silent_member_makes_the_view_incomplete_after_the_grace() -> None:
    machine = begun()
    machine.step(10, taken([stay("ada.1", "v1", 6, "ada.1", 1)], end("ada.1", 9)))
    assert machine.deadline() == GRACE
    assert machine.step(GRACE - 1, TimePassed()) == []
    found = machine.step(GRACE, TimePassed())
    assert found == [JudgeView("v0", "incomplete", "ada.1:left:6 bea.1:silent:5")]


def test_a_member_without_a_journal_makes_the_view_incomplete_after_the_grace() -> None:
    machine = ClosedViews(GRACE)
    machine.step(0, taken([stay("ada.1", "v0", 1)], end("ada.1", 1)))
    machine.step(50, taken([stay("ada.1", "v1", 2, "ada.1", 1)], end("ada.1", 2)))
    found = machine.step(GRACE, TimePassed())
    assert JudgeView("v0", "incomplete", "ada.1:left:2 bea.1:absent:0") in found


def test_a_view_is_judged_again_when_late_rows_arrive_and_only_then() -> None:
    machine = begun()
    machine.step(10, taken([stay("ada.1", "v1", 6, "ada.1", 1)], end("ada.1", 9)))
    (found,) = machine.step(GRACE, TimePassed())
    assert machine.step(GRACE, TimePassed()) == [found], "until the verdict is written"
    machine.step(GRACE, VerdictsWritten({"v0": found.evidence}))
    assert machine.step(GRACE + 1, taken([], end("ada.1", 20))) == []
    late = taken([stay("bea.1", "v1", 30, "bea.1", 1)], end("bea.1", 31))
    again = machine.step(GRACE + 2, late)
    assert again == [JudgeView("v0", "closed", "ada.1:left:6 bea.1:left:30")]


def test_evidence_that_has_become_less_is_no_reason_to_judge_again() -> None:
    assert has_grown(None, "ada.1:left:6")
    assert has_grown("ada.1:silent:6", "ada.1:stopped:6")
    assert has_grown("ada.1:left:6", "ada.1:left:6 bea.1:left:3")
    assert not has_grown("ada.1:left:6 bea.1:left:3", "ada.1:left:6 bea.1:absent:0")
    assert not has_grown("ada.1:left:6", "ada.1:left:6")


def test_what_is_remembered_is_bounded_by_members_not_by_views() -> None:
    machine = ClosedViews(GRACE)
    for nth in range(4 * VIEWS_KEPT):
        some = [stay(label, f"v{nth}", nth + 1, removals=nth) for label in AB.split()]
        ends = (end(label, nth + 1) for label in AB.split())
        for found in machine.step(nth, taken(some, *ends)):
            machine.step(nth, VerdictsWritten({found.view: found.evidence}))
        assert machine.size <= 2 * (2 * VIEWS_KEPT + 2)


def test_a_late_stay_in_a_forgotten_view_is_judged() -> None:
    machine = ClosedViews(GRACE)
    three = "ada.1 bea.1 cyd.1"
    for nth in range(4 * VIEWS_KEPT):
        some = [stay(label, f"v{nth}", nth + 1, three, nth) for label in AB.split()]
        ends = (end(label, nth + 1) for label in AB.split())
        for found in machine.step(GRACE * nth, taken(some, *ends)):
            machine.step(GRACE * nth, VerdictsWritten({found.view: found.evidence}))
    views = range(4 * VIEWS_KEPT)
    some = [stay("cyd.1", f"v{nth}", nth + 1, three, nth) for nth in views]
    again = machine.step(GRACE * len(views), taken(some, end("cyd.1", len(views))))
    assert {found.view for found in again} >= {f"v{nth}" for nth in views[:-1]}


def test_rows_in_any_order_and_portions_close_the_same_views() -> None:
    """1. each view is reported closed, 2. with the same evidence, whatever the order of taking."""
    labels = AB.split()
    for seed in range(30):
        dice = Random(seed)
        machine = ClosedViews(GRACE)
        left = dict.fromkeys(labels, 0)
        written: dict[str, str] = {}
        while any(count < 6 for count in left.values()):
            label = dice.choice([one for one in labels if left[one] < 6])
            upto = dice.randint(left[label] + 1, 6)
            some = [stay(label, f"v{n}", n + 1, removals=n) for n in range(left[label], upto)]
            left[label] = upto
            for found in machine.step(0, taken(some, end(label, upto))):
                machine.step(0, VerdictsWritten({found.view: found.evidence}))
                written[found.view] = found.evidence
        assert written == {f"v{n}": f"ada.1:left:{n + 2} bea.1:left:{n + 2}" for n in range(5)}, (
            seed
        )


def test_names_with_blanks_and_signs_are_evidence_like_others() -> None:
    labels = ["ada lovelace.1", "100%.1", "a:left:7 b.1", "tab\tnew\nline.1", "%20.1"]
    machine = ClosedViews(GRACE)
    stays = [replace(stay(label, "v0", 1), members=frozenset(labels)) for label in labels]
    ends = [end(label, 5, stopped=True) for label in labels]
    (found,) = machine.step(0, taken(stays, *ends))
    assert parsed(found.evidence) == dict.fromkeys(labels, ("stopped", 5))
    machine.step(1, VerdictsWritten({"v0": found.evidence}))
    assert machine.step(2, TimePassed()) == []


def test_a_text_that_is_no_evidence_is_judged_again() -> None:
    assert has_grown("ada lovelace.1:left:7", "ada%20lovelace.1:left:7")
