"""The finer points of what the checkers ask of receipts and reports: what an application is told
besides its messages, and what older or shortened journals do not say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.verify.trace_builder import (
    TraceBuilder,
    calm,
    everywhere_at_once,
    joined_left,
    odyssey,
    renumbered,
)

from phalanx.core.ids import MEMBERS_MAX
from phalanx.journal import schema as ev
from phalanx.verify.checkers import FlowLimits, check
from phalanx.verify.checkers import merge_reports as merges

B_HAS, C_HAS = ("b", 1, "a", 1, 1), ("c", 1, "a", 1, 1)


def today(members: str = "ab", boot: str | None = None) -> TraceBuilder:
    """Journals that record all that an application is told."""
    return TraceBuilder(members, boot, reports=True)


def only(report: Any, name: str, says: str) -> None:
    assert report.violated == (name,), "\n".join(map(str, report.violations))
    assert says in report.violations[0].text


# ---------------------------------------------------------------------------- receipts: what for


def one_message(members: str = "ab", **given: Any) -> TraceBuilder:
    """a's message, delivered by all."""
    tale = today(members).send("a", 1, service="CAUSAL", **given)
    return tale.deliver(members, "a", 1)


@pytest.mark.parametrize("kind", ["ordered", "stable"])
def test_a_receipt_for_what_was_never_sent(kind: str) -> None:
    tale = one_message().receipts("a", 1)
    assert tale.check().violated == ()
    wrong = tale.ordered("a", 3) if kind == "ordered" else tale.stable("a", 3)
    only(wrong.check(), "receipt-truth", "a.1 has a receipt for a.1#2..3, never sent")


@pytest.mark.parametrize("kind", ["ordered", "stable"])
def test_a_receipt_in_the_wrong_view(kind: str) -> None:
    """A message of a change belongs to the next view."""
    tale = today().send("a", 1, service="CAUSAL", phase=1)
    early = tale.ordered("a", 1) if kind == "ordered" else tale.stable("a", 1)
    early.install("ab", "v2", "ab", 1).deliver("ab", "a", 1)
    says = "a.1 has a receipt for a.1#1 in v1, but it belongs to v2"
    only(early.check(settled=False), "receipt-truth", says)
    late = today().send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1)
    assert late.deliver("ab", "a", 1).receipts("a", 1).check().violated == ()


def test_a_receipt_that_says_nothing_new_is_no_fault() -> None:
    tale = one_message().receipts("a", 1).receipts("a", 1)
    assert tale.check(inserted={B_HAS: 0}).violated == ()


def test_a_message_for_nobody_needs_no_sending_to_be_part_of_a_receipt() -> None:
    tale = today("abc").submit("a", 1, to="c").install("ab", "v2", "ab", 1).lost("a", "c", 0, 1)
    tale.send("a", 2, service="CAUSAL").deliver("ab", "a", 2).receipts("a", 2)
    assert tale.check().violated == ()


def test_a_receipt_for_messages_of_another() -> None:
    tale = one_message().receipts("a", 1).stable("b", 1, sender="a")
    assert "receipt-truth" in tale.check().violated
    texts = [v.text for v in tale.check().violations]
    assert "b.1 has a receipt for messages of a.1" in texts


# ---------------------------------------------------------------------------- receipts: stable


def test_stable_waits_until_every_member_of_the_view_has_the_frame() -> None:
    """Those that were not addressed included."""
    tale = today("abc").send("a", 1, service="CAUSAL", to="ab").deliver("ab", "a", 1)
    tale.receipts("a", 1)
    assert tale.check(inserted={B_HAS: 0, C_HAS: tale.now}).violated == ()
    says = "is stable in v1, but c.1 lacked frame 1 at"
    only(tale.check(inserted={B_HAS: 0, C_HAS: tale.now + 1}), "receipt-truth", says)
    only(tale.check(inserted={B_HAS: 0}), "receipt-truth", says)
    assert tale.check().violated == (), "journals do not show it"


def test_what_an_earlier_life_had_is_not_stable() -> None:
    tale = today("aB").send("a", 1, service="CAUSAL").deliver("aB", "a", 1).receipts("a", 1)
    assert tale.check(inserted={("b", 2, "a", 1, 1): 0}).violated == ()
    only(tale.check(inserted={("b", 1, "a", 1, 1): 0}), "receipt-truth", "b.2 lacked frame 1")


def test_stable_though_a_member_that_stays_never_delivers() -> None:
    tale = today().send("a", 1, service="CAUSAL").deliver("a", "a", 1).receipts("a", 1)
    assert tale.check(settled=False).violated == (), "it may deliver later"
    report = tale.check()
    assert "receipt-truth" in report.violated
    assert "b.1 did not deliver it there" in report.properties["receipt-truth"].violations[0].text
    assert "receipt-truth" not in tale.life("b", "CRASH").check().violated


def test_stable_though_a_member_delivers_it_elsewhere() -> None:
    tale = today().send("a", 1, service="BASIC").deliver("a", "a", 1).receipts("a", 1)
    tale.install("ab", "v2", "ab", 1).deliver("b", "a", 1)
    only(tale.check(settled=False), "receipt-truth", "b.1 did not deliver it there")


@pytest.mark.parametrize(
    ("end", "known", "wrong"),
    [("CRASH", True, True), ("CRASH", False, False), ("STOP", False, True), (None, True, False)],
)
def test_nothing_is_stable_in_a_view_that_a_member_never_installed(
    end: str | None, known: bool, wrong: bool
) -> None:
    tale = today("abc", boot="").install("abc", "v0", "abc").install("ab", "v1", "abc", 1)
    tale.send("a", 1, service="CAUSAL", to="a").deliver("a", "a", 1).receipts("a", 1)
    if end is not None:
        tale.life("c", end)
    had = {B_HAS: 0, C_HAS: 0} if known else None
    report = tale.check(settled=False, inserted=had)
    if wrong:
        only(report, "receipt-truth", "is stable in v1, but c.1 never installed it")
    else:
        assert report.violated == ()


def test_of_members_without_a_whole_journal_nothing_contradicts_a_receipt() -> None:
    tale = today().send("a", 1, service="CAUSAL").deliver("a", "a", 1).receipts("a", 1)
    tale.install("b", "v2", "b", 1)
    assert tale.check(settled=False).violated == ("receipt-truth",)
    absent = [r for r in tale.rows if r.member != "b"]
    assert check(absent, expect_liveness=False).violated == ()
    torn = [r for r in tale.rows if (r.member, r.lseq) != ("b", 1)]
    assert check(torn, expect_liveness=False).violated == ()


# ---------------------------------------------------------------------------- at the end of a view


def ending(at: str | None = "ab") -> TraceBuilder:
    """a's message is not at c; a and b move on."""
    tale = today("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    if at is not None:
        tale.closing("a", 1, at)
    else:
        tale.ordered("a", 1, step=tale.step["a"] + 1).stable("a", 1)
    tale.install("a", "v2", "ab", 1, transitional="ab", step=tale.step["a"])
    return tale.install("b", "v2", "ab", 1, transitional="ab")


def test_a_receipt_at_the_end_of_a_view_speaks_of_those_who_move_along() -> None:
    tale = ending()
    assert tale.check(inserted={B_HAS: tale.now}).violated == (), "c did not move along"
    only(tale.check(inserted={B_HAS: tale.now + 1}), "receipt-truth", "b.1 lacked frame 1 at")
    had = {B_HAS: tale.now}
    tale.install("c", "v3", "c", 1)
    assert tale.check(inserted=had).violated == (), "c need not have it"


@pytest.mark.parametrize("at", ["abc", "a", "", "aB"])
def test_a_receipt_at_the_end_of_a_view_names_others(at: str) -> None:
    says = "at the end of v1, but a.1 b.1 move on together"
    only(ending(at).check(), "receipt-truth", says)


def test_a_receipt_for_all_in_the_step_that_ends_the_view_is_for_all() -> None:
    tale = ending(None).install("c", "v3", "c", 1)
    only(tale.check(settled=False), "receipt-truth", "c.1 did not deliver it there")


def test_a_receipt_names_members_though_the_view_goes_on() -> None:
    tale = one_message().ordered("a", 1).stable("a", 1, at="ab").stop()
    only(tale.check(), "receipt-truth", "names a.1 b.1 at the end of v1, but the view did not end")


def test_one_that_moves_on_without_the_message_makes_the_receipt_wrong() -> None:
    tale = today().send("a", 1, service="BASIC").deliver("a", "a", 1).closing("a", 1, "ab")
    tale.install("a", "v2", "ab", 1, transitional="ab", step=tale.step["a"])
    assert tale.check(settled=False).violated == (), "b did not come"
    tale.install("b", "v2", "ab", 1, transitional="ab")
    only(tale.check(settled=False), "receipt-truth", "b.1 did not deliver it there")


def test_a_step_that_was_torn_off_in_the_middle_is_no_fault() -> None:
    """1. The receipt without the view. 2. The view without the report of lost receivers.
    3. The view without what it reports of its components."""
    rows = ending().rows
    for last in range(1, 7):
        cut = [r for r in rows if r.member != "a" or r.lseq <= last]
        assert check(cut, expect_liveness=False).violated == ()
    carried = today("abc").submit("a", 1, to="bc").send("a", 1, service="CAUSAL", phase=1, to="bc")
    rows = carried.install("ab", "v2", "ab", 1).rows
    assert check(rows, expect_liveness=False).violated == ()
    rows = merged().rows
    for last in range(1, 12):
        cut = [r for r in rows if r.member != "b" or r.lseq <= last]
        assert check(cut, expect_liveness=False).violated == ()


# ---------------------------------------------------------------------------- receipts: ordered


def in_order() -> TraceBuilder:
    """b's message comes before a's."""
    tale = today().send("a", 1).send("b", 1)
    tale.deliver("ab", "b", 1, pos=0, batch=0).deliver("ab", "a", 1, pos=1, batch=1)
    return tale.receipts("a", 1).receipts("b", 1)


def test_ordered_waits_for_all_that_comes_before() -> None:
    tale = in_order()
    had = everywhere_at_once(tale)
    assert tale.check(inserted=had).violated == ()
    late = {**had, ("a", 1, "b", 1, 1): tale.now + 1}
    only(tale.check(inserted=late), "receipt-truth", "that a.1#1 is ordered in v1, but something")
    never = {key: ns for key, ns in had.items() if key != ("a", 1, "b", 1, 1)}
    assert "receipt-truth" in tale.check(inserted=never).violated
    assert tale.check().violated == (), "journals do not show it"


def test_each_message_that_is_ordered_is_asked_for_its_own_past() -> None:
    """Two of a's messages, with one of b's in between that comes late."""
    tale = today().send("a", 1, 2).send("b", 1)
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "b", 1, pos=1).deliver("ab", "a", 2, pos=2)
    tale.ordered("a", 2)
    had = {**everywhere_at_once(tale), ("a", 1, "b", 1, 1): tale.now + 1}
    assert "a.1#2 is ordered" in str(tale.check(settled=False, inserted=had).violations[0])


def test_causal_messages_are_ordered_when_they_are_sent() -> None:
    tale = today().send("b", 1).send("a", 1, service="CAUSAL").ordered("a", 1)
    tale.deliver("ab", "a", 1).deliver("ab", "b", 1, pos=0).stable("a", 1).receipts("b", 1)
    had = {**everywhere_at_once(tale), ("a", 1, "b", 1, 1): tale.now}
    assert tale.check(inserted=had).violated == ()


# ---------------------------------------------------------------------------- receipts: all of them


@pytest.mark.parametrize("missing", ["ordered", "stable"])
def test_a_living_sender_gets_both_receipts_for_all(missing: str) -> None:
    tale = today().send("a", 1, 3, service="CAUSAL").deliver("ab", "a", 1, 3)
    tale.ordered("a", 1 if missing == "ordered" else 3)
    tale.stable("a", 1 if missing == "stable" else 3)
    assert tale.check(settled=False).violated == ()
    says = f"a.1 never got a receipt that a.1#2..3 is {missing}"
    only(tale.check(), "receipt-liveness", says)
    tale.life("a", "CRASH")
    assert tale.check().violated == ()


def test_a_sender_that_leaves_or_whose_journal_is_torn_owes_no_receipts() -> None:
    left = one_message("abc").change("a", "LEAVE").install("bc", "v2", "bc", 1)
    assert left.check().violated == ()
    torn = one_message().row("a", ev.Corrupt, file="x", offset=0, length=9)
    assert torn.check().violated == ()


# ---------------------------------------------------------------------------- lost receivers


def narrowed(gone: str = "c", rest: int = 1) -> TraceBuilder:
    """c goes before a's message for b and c is sent."""
    tale = today("abc").submit("a", 1, to="bc").install("ab", "v2", "ab", 1)
    tale.lost("a", gone, rest, 1).send("a", 1, service="CAUSAL", to="b").deliver("b", "a", 1)
    return tale.receipts("a", 1)


def test_a_receiver_that_is_gone_is_reported() -> None:
    report = narrowed().check()
    assert report.violated == ()
    assert report.properties["not-sent-liveness"].evaluated == 2


def test_a_receiver_that_is_gone_is_reported_for_every_message() -> None:
    tale = today("abc").submit("a", 1, 3, to="bc").install("ab", "v2", "ab", 1)
    tale.lost("a", "c", 1, 1, 2).send("a", 1, 3, service="CAUSAL", to="b").deliver("b", "a", 1, 3)
    says = "a.1 got no report that a.1#3 does not go to c.1, which is not in v2"
    only(tale.receipts("a", 3).check(), "not-sent-liveness", says)


def test_a_receiver_lost_during_a_change_is_reported_too() -> None:
    def carried() -> TraceBuilder:
        tale = today("abc").submit("a", 1, to="bc")
        tale.send("a", 1, service="CAUSAL", phase=1, to="bc")
        return tale.install("ab", "v2", "ab", 1)

    report = carried().deliver("b", "a", 1).receipts("a", 1).check()
    assert report.violated == ("not-sent-liveness",)
    legal = carried().lost("a", "c", 1, 1).deliver("b", "a", 1).receipts("a", 1)
    assert legal.check().violated == ()
    legal.install("c", "v3", "ac", 1, transitional="c").deliver("c", "a", 1)
    assert legal.check(settled=False).violated == (), "it may go up in a view without a"
    wrong = carried().lost("a", "b", 1, 1).lost("a", "c", 0, 1).deliver("b", "a", 1)
    only(wrong.check(settled=False), "not-sent-liveness", "does not go to b.1, which is in v2")


def test_a_receiver_is_reported_though_it_delivers() -> None:
    tale = narrowed().install("c", "v3", "ac", 1, transitional="c")
    tale.deliver("c", "a", 1, to=["b", "c"], to_incarnations=[1, 1], view="v3")
    report = tale.check(settled=False)
    assert "not-sent-liveness" in report.violated
    says = "a.1 got a report that a.1#1 does not go to c.1, which delivered it"
    assert says in report.properties["not-sent-liveness"].violations[0].text


def test_a_message_for_nobody_is_delivered_by_nobody() -> None:
    tale = today("abc").submit("a", 1, to="c").install("ab", "v2", "ab", 1).lost("a", "c", 0, 1)
    assert tale.check().violated == ()
    tale.send("a", 1, service="CAUSAL", to="").receipts("a", 1)
    assert tale.check().violated == (), "to nobody"
    report = tale.deliver("b", "a", 1).check()
    assert "not-sent-liveness" in report.violated


def test_a_member_is_reported_that_was_not_addressed() -> None:
    tale = today("abcd").submit("a", 1, to="bc").install("ab", "v2", "ab", 1).lost("a", "c", 1, 1)
    tale.lost("a", "d", 1, 1).send("a", 1, service="CAUSAL", to="b").deliver("b", "a", 1)
    says = "does not go to d.1, which was not addressed"
    only(tale.receipts("a", 1).check(), "not-sent-liveness", says)
    earlier = narrowed("C").check()
    assert "does not go to c.2, which was not addressed" in str(earlier.violations[0])


def test_a_member_is_reported_that_was_there_all_the_time() -> None:
    tale = today("abc").submit("a", 1, to="bc").install("abc", "v2", "abc", 1)
    tale.lost("a", "c", 1, 1).send("a", 1, service="CAUSAL", to="bc").deliver("b", "a", 1)
    says = "does not go to c.1, which was in its view all the time"
    only(tale.receipts("a", 1).check(settled=False), "not-sent-liveness", says)


@pytest.mark.parametrize("rest", [0, 2])
def test_the_number_of_receivers_that_are_left_is_right(rest: int) -> None:
    tale = narrowed(rest=rest)
    report = tale.check(settled=False)
    assert "not-sent-liveness" in report.violated
    says = f"a.1 got a report that {rest} receivers of a.1#1 are left, but there are 1"
    assert says in [v.text for v in report.violations]


def test_receivers_are_lost_one_after_the_other() -> None:
    tale = today("abcd").submit("a", 1, to="bcd").install("abc", "v2", "abc", 1)
    tale.lost("a", "d", 2, 1).submit("a", 2, to="bc").install("ab", "v3", "ab", 2)
    tale.lost("a", "c", 1, 1, 2).send("a", 1, 2, service="CAUSAL", to="b")
    assert tale.deliver("b", "a", 1, 2).receipts("a", 2).check().violated == ()


def test_a_report_may_speak_of_many_submissions() -> None:
    """Of the second of which the reported member was not a receiver."""
    tale = today("abc").submit("a", 1, to="bc").submit("a", 2, to="b")
    tale.install("ab", "v2", "ab", 1).lost("a", "c", 1, 1, 2)
    tale.send("a", 1, 2, service="CAUSAL", to="b").deliver("b", "a", 1, 2).receipts("a", 2)
    only(tale.check(), "not-sent-liveness", "a.1#2 does not go to c.1, which was not addressed")


# ---------------------------------------------------------------------------- joined and left


@pytest.mark.parametrize(
    ("joined", "left", "legal"),
    [("", "c", True), ("c", "", False), ("", "", False), ("", "bc", False), ("", "C", False)],
)
def test_a_view_says_who_joined_and_left(joined: str, left: str, legal: bool) -> None:
    tale = today("abc").install("ab", "v2", "ab", 1, **joined_left(joined, left))
    assert tale.check().violated == (() if legal else ("view-delta-truth",))


def test_in_a_first_view_nobody_is_new() -> None:
    tale = today("ab", boot="a").install("b", "v1", "ab", **joined_left("a", ""))
    only(
        tale.check(), "view-delta-truth", "b.1 got a report that a.1 joined and nobody left with v1"
    )


def test_the_next_life_of_a_name_joins_and_the_one_before_leaves() -> None:
    def returned(**given: Any) -> TraceBuilder:
        tale = today().life("b", "CRASH").install("B", "vB", "B").change("aB", "COMMIT", "COMMIT")
        tale.install("B", "v2", "aB", joins=1, components=["v1", "vB"], transitional="B")
        tale.install("a", "v2", "aB", joins=1, components=["v1", "vB"], transitional="a", **given)
        return tale.stop()

    assert returned().check().violated == ()
    only(returned(**joined_left("", "")).check(), "view-delta-truth", "b.2 did, and b.1")


# ---------------------------------------------------------------------------- merges


def merged(
    change: Callable[[list[dict[str, Any]]], None] | None = None, other: str = ""
) -> TraceBuilder:
    """a and b part, a delivers two messages alone and b one, and they meet again. What is reported
    may be changed, for all or for one of them."""
    tale = today().send("a", 1, service="CAUSAL").deliver("ab", "a", 1).receipts("a", 1)
    tale.install("a", "v2", "a", 1).install("b", "v3", "b", 1)
    tale.send("a", 2, 3, service="CAUSAL").deliver("a", "a", 2, 3).receipts("a", 3)
    tale.send("b", 1, service="CAUSAL").deliver("b", "b", 1).receipts("b", 1)
    tale.change("ab", "COMMIT", "COMMIT")
    for letter in "ab":
        if change is not None and letter in (other or "a"):
            tale.sides["v4"] = _sides()
            change(tale.sides["v4"])
        tale.install(letter, "v4", "ab", joins=1, transitional=letter, components=["v2", "v3"])
        if other == letter:
            tale.sides["v4"] = _sides()
    return tale.stop()


def _sides() -> list[dict[str, Any]]:
    alone = {"alone": ["a"], "alone_incarnations": [1], "alone_first": [2], "alone_last": [3]}
    one = {"component": "v2", "members": ["a"], "member_incarnations": [1], "delivered": ["a", "b"]}
    two = {"component": "v3", "members": ["b"], "member_incarnations": [1], "delivered": ["a", "b"]}
    both: dict[str, Any] = {"delivered_incarnations": [1, 1]}
    own = {"alone": ["b"], "alone_incarnations": [1], "alone_first": [1], "alone_last": [1]}
    return [
        one | both | {"delivered_upto": [3, 0]} | alone,
        two | both | {"delivered_upto": [1, 1]} | own,
    ]


def _set(side: int, **columns: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda sides: sides[side].update(columns)


def test_a_merged_view_reports_what_each_component_had_delivered() -> None:
    report = merged().check()
    assert report.violated == ()
    assert report.properties["merge-report-truth"].evaluated == 4
    told = [r for r in merged().rows if isinstance(r, ev.MergedComponent) and r.member == "a"]
    assert [{c: getattr(r, c) for c in _sides()[0]} for r in told] == _sides()


NONE_ALONE: dict[str, Any] = {
    "alone": [],
    "alone_incarnations": [],
    "alone_first": [],
    "alone_last": [],
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            _set(0, delivered_upto=[2, 0], alone_last=[2]),
            "v2 had delivered a.1#2, but it was a.1#3",
        ),
        (
            _set(0, delivered_upto=[4, 0], alone_last=[4]),
            "v2 had delivered a.1#4, but it was a.1#3",
        ),
        (_set(0, delivered_upto=[3, 1]), "v2 had delivered b.1#1, but it was b.1#0"),
        (
            _set(0, delivered=["b"], delivered_incarnations=[1], delivered_upto=[0], **NONE_ALONE),
            "a.1#0, but it was a.1",
        ),
        (_set(0, alone_last=[2]), "wrongly what only v2 had delivered"),
        (_set(0, alone_first=[1]), "wrongly what only v2 had delivered"),
        (_set(0, **NONE_ALONE), "wrongly what only v2 had delivered"),
        (_set(1, alone=["a"], alone_first=[1]), "wrongly what only v3 had delivered"),
        (_set(0, members=["b"]), "v2 was of b.1, but it was of a.1"),
        (_set(0, component="v3"), "got no report of each component of v4"),
        (list.pop, "got no report of each component of v4"),
        (list.clear, "got no report of each component of v4"),
    ],
)
def test_a_wrong_merge_report(change: Callable[[list[Any]], None], says: str) -> None:
    report = merged(change).check()
    assert report.violated == ("merge-report-truth",), "\n".join(map(str, report.violations))
    assert any(says in v.text for v in report.violations)


@pytest.mark.parametrize("letter", "ab")
def test_two_members_with_different_reports(letter: str) -> None:
    report = merged(_set(0, delivered_incarnations=[1, 2]), letter).check()
    assert report.violated == ("merge-report-truth",)
    texts = [v.text for v in report.violations]
    assert "b.1 and a.1 got different reports of v4" in texts


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_delivered_after_the_proposal_may_be_reported(number: int) -> None:
    tale = today("ab", boot="").install("a", "va", "a").install("b", "vb", "b")
    tale.send("a", 1, service="CAUSAL").change("ab", "COMMIT", "COMMIT").deliver("a", "a", 1)
    tale.receipts("a", 1)
    sides = [{"component": "va", "members": ["a"]}, {"component": "vb", "members": ["b"]}]
    lists: dict[str, Any] = {"member_incarnations": [1], **NONE_ALONE}
    lists |= {"delivered": ["a"], "delivered_incarnations": [1], "delivered_upto": [number]}
    nothing: dict[str, Any] = {
        "delivered": [],
        "delivered_incarnations": [],
        "delivered_upto": [],
    }
    tale.sides["v1"] = [sides[0] | lists, sides[1] | lists | nothing]
    for letter in "ab":
        tale.install(letter, "v1", "ab", joins=1, transitional=letter, components=["va", "vb"])
    assert tale.stop().check().violated == (("merge-report-truth",) if number > 1 else ())


def parted(**alone: Any) -> TraceBuilder:
    """b and c met a when it had sent two messages; c delivers the third and b does not, and a
    crashes."""
    tale = today("abc", boot="").install("a", "va", "a")
    tale.install("b", "vb", "b").install("c", "vc", "c")
    tale.send("a", 1, 2, service="CAUSAL").deliver("a", "a", 1, 2).receipts("a", 2)
    tale.change("abc", "COMMIT", "COMMIT")
    for letter in "abc":
        parts = ["va", "vb", "vc"]
        tale.install(letter, "v1", "abc", joins=1, transitional=letter, components=parts)
    tale.install("b", "v2", "b", 1, 1).send("a", 3, service="CAUSAL").deliver("ac", "a", 3)
    tale.life("a", "CRASH").install("c", "v3", "c", 1, 1)
    tale.change("bc", "COMMIT", "COMMIT")
    if alone:
        known: dict[str, Any] = {"delivered": ["a"], "delivered_incarnations": [1]}
        tale.sides["v4"] = [
            {"component": "v2", "members": ["b"], "member_incarnations": [1]}
            | known
            | {"delivered_upto": [0], **NONE_ALONE},
            {"component": "v3", "members": ["c"], "member_incarnations": [1]}
            | known
            | {"delivered_upto": [3], **NONE_ALONE, **alone},
        ]
    for letter in "bc":
        tale.install(letter, "v4", "bc", joins=2, transitional=letter, components=["v2", "v3"])
    return tale.stop()


@pytest.mark.parametrize(("first", "right"), [(3, True), (2, False), (1, False)])
def test_what_was_sent_before_the_sender_was_met_is_nobodys_alone(first: int, right: bool) -> None:
    alone = {"alone": ["a"], "alone_incarnations": [1], "alone_first": [first], "alone_last": [3]}
    assert parted(**alone).check().violated == (() if right else ("merge-report-truth",))
    assert parted(**NONE_ALONE).check().violated == ("merge-report-truth",)
    made = [r for r in parted().rows if isinstance(r, ev.MergedComponent) and r.component == "v3"]
    assert [r.alone_first for r in made] == [[3], [3]]


def test_of_a_member_whose_proposal_is_missing_a_report_may_know_more() -> None:
    wrong = merged(_set(0, delivered_upto=[4, 0], alone_last=[4]))
    absent = [r for r in wrong.rows if r.member != "a"]
    assert check(absent, expect_liveness=False).violated == ()
    crashed = [r for r in wrong.rows if r.member != "a" or not isinstance(r, ev.ViewChangeStep)]
    assert check(renumbered(crashed), expect_liveness=False).violated == ()
    low = merged(_set(1, delivered_upto=[0, 1], alone=["b"]))
    assert check([r for r in low.rows if r.member != "a"], expect_liveness=False).violated != ()


def test_those_of_a_component_count_that_come_from_it() -> None:
    """b is in both components, and comes from the second."""
    tale = today("ab").install("b", "v2", "b", 1)
    tale.send("b", 1, service="CAUSAL").deliver("b", "b", 1).receipts("b", 1)
    tale.change("ab", "COMMIT", "COMMIT")
    for letter in "ab":
        tale.install(letter, "v3", "ab", joins=1, transitional=letter, components=["v1", "v2"])
    assert tale.stop().check().violated == ()
    side = next(r for r in tale.rows if isinstance(r, ev.MergedComponent))
    assert (side.component, side.members, side.delivered_upto) == ("v1", ["a", "b"], [])


def test_members_that_were_forgotten_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert merges.REMEMBERED_MAX == MEMBERS_MAX
    low = merged(
        _set(0, delivered=["b"], delivered_incarnations=[1], delivered_upto=[0], **NONE_ALONE)
    )
    assert "merge-report-truth" in low.check().violated
    monkeypatch.setattr(merges, "REMEMBERED_MAX", 1)
    texts = [v.text for v in low.check().violations]
    assert not any("had delivered a.1" in text for text in texts)


# ---------------------------------------------------------------------------- stops


def test_a_name_is_in_use_only_if_another_uses_it() -> None:
    def stopped(rival: bool) -> TraceBuilder:
        tale = today("b").install("a", "va", "a")
        if rival:
            tale.install("A", "vA", "A")
        return tale.life("a", "STOP", "name-in-use").stop()

    assert stopped(True).check().violated == ()
    assert stopped(True).check().properties["no-needless-stop"].verdict == "holds"
    says = "a.1 stopped because its name is in use, and nobody used it"
    only(stopped(False).check(), "no-needless-stop", says)
    assert stopped(False).check(settled=False).violated == (), "the namesake's journal may miss"
    apart = [msgspec.structs.replace(r, sim_ns=None) for r in stopped(False).rows]
    assert check(apart, expect_liveness=False).violated == ()


def test_a_member_that_a_group_has_accepted_does_not_stop_for_its_name() -> None:
    tale = today().install("A", "vA", "A").life("a", "STOP", "name-in-use")
    says = "a.1 stopped because its name is in use, though it was accepted in v1"
    only(tale.install("b", "v2", "b", 1).stop().check(), "no-needless-stop", says)


def test_a_member_that_leaves_waits_for_the_others() -> None:
    def left(first: str) -> TraceBuilder:
        tale = today().install("ab", "v2", "ab", 1).change("b", "LEAVE")
        if first == "a":
            tale.install("a", "v3", "a", 2).life("b", "STOP", "left")
        else:
            tale.life("b", "STOP", "left").install("a", "v3", "a", 2)
        return tale.stop()

    limits = FlowLimits(1000, 100, leave_ns=1000)
    assert left("a").check(limits=limits).violated == ()
    says = "b.1 stopped before a.1 had left it out"
    only(left("b").check(limits=limits), "no-needless-stop", says)
    assert left("b").check(limits=FlowLimits(1000, 100, leave_ns=1)).violated == (), "time was over"


def test_a_namesake_that_lived_at_another_time_is_no_reason() -> None:
    tale = today("b").install("a", "va", "a").life("a", "STOP", "name-in-use")
    later = tale.install("A", "vA", "A").stop()
    assert "no-needless-stop" in later.check().violated
    assert "no-needless-stop" not in later.check(settled=False).violated
    torn = [r for r in later.rows if (r.member, r.incarnation, r.lseq) != ("a", 2, 1)]
    assert "no-needless-stop" not in check(torn, expect_liveness=True).violated
    earlier = today("b").install("a", "va", "a").life("a", "CRASH").install("A", "vA", "A")
    earlier.life("A", "STOP", "name-in-use")
    assert "no-needless-stop" in earlier.stop().check().violated


def test_a_member_leaves_when_it_is_asked_to() -> None:
    asked = today().install("ab", "v2", "ab", 1).change("b", "LEAVE").life("b", "STOP", "left")
    report = asked.install("a", "v3", "a", 2).stop().check()
    assert (report.violated, report.properties["no-needless-stop"].evaluated) == ((), 1)
    alone = today("a").life("a", "STOP", "left")
    assert alone.check().properties["no-needless-stop"].verdict == "unverifiable"


@pytest.mark.parametrize("reason", ["ended", "failed"])
def test_a_member_that_was_ended_need_not_be_asked(reason: str) -> None:
    tale = today().install("ab", "v2", "ab", 1).life("b", "STOP", reason)
    assert tale.check(settled=False).violated == ()


# ---------------------------------------------------------------------------- queues


def queued(reason: str | None = "left", **counts: Any) -> TraceBuilder:
    """a accepts five messages, submits three and refuses two at its end."""
    tale = today().submit("a", 1, 2).submit("a", 3).send("a", 1, 3)
    tale.deliver("ab", "a", 1, 3, pos=0).receipts("a", 3)
    tale.queue("a", **{"accepted": 5, "submitted": 3, "refused": 2} | counts)
    return tale.row("a", ev.Life, op="STOP", reason=reason)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"accepted": 6}, "a.1 accepted 6 messages, submitted 3 and refused 2"),
        ({"accepted": 4}, "the counts of its queue contradict each other"),
        ({"submitted": 2}, "a.1 submitted 3 messages, its queue counts 2"),
        ({"submitted": 4, "refused": 1}, "a.1 submitted 3 messages, its queue counts 4"),
        ({"refused": 1}, "a.1 accepted 5 messages, submitted 3 and refused 1"),
    ],
)
def test_queue_counts_add_up(counts: dict[str, Any], says: str) -> None:
    assert queued().check().violated == ()
    only(queued(**counts).check(), "accepted-is-sent", says)


@pytest.mark.parametrize("reason", ["ended", "failed"])
def test_what_waits_when_a_run_is_cut_short_is_not_lost(reason: str) -> None:
    assert queued(reason, accepted=6).check(settled=False).violated == ()
    assert queued(reason, submitted=2).check(settled=False).violated == ("accepted-is-sent",)
    assert queued("left", accepted=6).check(settled=False).violated == ("accepted-is-sent",)


def test_what_is_refused_before_the_end_has_a_reason() -> None:
    def refused(reason: str | None) -> TraceBuilder:
        tale = today().submit("a", 1).queue("a", refused=1, reason=reason)
        tale.send("a", 1).deliver("ab", "a", 1, pos=0).receipts("a", 1).queue("a", refused=1)
        return tale.row("a", ev.Life, op="STOP", reason="left")

    assert refused("NoReceiver").check().violated == ()
    only(refused(None).check(), "accepted-is-sent", "contradict each other")
    cut = [r for r in refused(None).rows if r.member != "a" or r.lseq <= 3]
    assert check(cut, expect_liveness=False).violated == (), "this may be the end"


def test_queue_counts_never_shrink() -> None:
    tale = today("a").submit("a", 1, 2).queue("a", refused=1, reason="NoReceiver")
    only(tale.queue("a").check(settled=False), "accepted-is-sent", "contradict each other")


# ---------------------------------------------------------------------------- older journals


def older(rows: list[ev.Event]) -> list[ev.Event]:
    """The rows as schema 5 had them."""
    lost = ("joined", "joined_incarnations", "left", "left_incarnations", "reason")
    kept: list[ev.Event] = []
    for row in rows:
        if isinstance(row, ev.Ordered | ev.MergedComponent | ev.Queue):
            continue
        if isinstance(row, ev.NotSent):
            if row.rest:
                continue
            row = msgspec.structs.replace(row, members=None, member_incarnations=None)
        if isinstance(row, ev.Stable | ev.Transitional):
            row = msgspec.structs.replace(row, members=None, member_incarnations=None)
        columns = {name: None for name in lost if hasattr(row, name)}
        kept.append(msgspec.structs.replace(row, **columns))
    return renumbered(kept)


@pytest.mark.parametrize("tale", [calm, odyssey, narrowed, merged, ending, queued])
@pytest.mark.parametrize("settled", [True, False])
def test_an_older_journal_of_a_sound_run_violates_nothing(
    tale: Callable[[], TraceBuilder], settled: bool
) -> None:
    told = tale()
    for inserted in (None, everywhere_at_once(told)):
        report = check(older(told.rows), expect_liveness=settled, inserted=inserted)
        assert report.violated == ()
    for name in ("receipt-liveness", "view-delta-truth", "merge-report-truth", "accepted-is-sent"):
        assert report.properties[name].verdict == "unverifiable"


def test_a_receipt_of_an_older_journal_can_still_be_wrong() -> None:
    tale = today("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1).receipts("a", 1)
    rows = older(tale.install("c", "v2", "c", 1).life("a", "STOP").rows)
    assert check(rows, expect_liveness=False).violated == ("receipt-truth",)
    at_end = ending()
    moved = {B_HAS: at_end.now + 1}
    found = check(older(at_end.rows), expect_liveness=True, inserted=moved).violated
    assert found == ("receipt-truth",)


def test_names_without_incarnations_are_not_judged() -> None:
    """Columns that contradict each other are no reason to fail."""
    tale = today("abc").submit("a", 1, to="bc").install("ab", "v2", "ab", 1, joined=["x"])
    tale.told("a", ev.NotSent, first=1, last=1, members=["x"], rest=1)
    tale.row("a", ev.Stable, sender="a", sender_incarnation=1, upto=0, view="v2", members=["x"])
    rows = [
        msgspec.structs.replace(r, joined_incarnations=None)
        if isinstance(r, ev.ViewInstalled)
        else r
        for r in tale.row("a", ev.Transitional, view="v2", pos=0, members=["x"]).rows
    ]
    assert "view-delta-truth" not in check(rows, expect_liveness=False).violated


# ---------------------------------------------------------------------------- how long it takes


def test_receipts_of_many_messages_take_time_in_proportion() -> None:
    """20,000 sends with a submission and two receipts each, lost receivers among them: loops over
    all of them for each would take minutes."""
    count = 20_000
    tale = today("abc")
    for number in range(1, count + 1):
        tale.submit("a", number, to="abc")
    tale.install("ab", "v2", "ab", 1)
    for number in range(1, count + 1):
        tale.lost("a", "c", 2, number)
    for number in range(1, count + 1):
        tale.send("a", number, to="ab")
        tale.deliver("ab", "a", number, pos=number - 1, batch=number).receipts("a", number)
    inserted = everywhere_at_once(tale)
    began = time.process_time()
    report = tale.check(inserted=inserted)
    took = time.process_time() - began
    assert report.violations == []
    assert report.properties["receipt-truth"].evaluated > 4 * count
    assert report.properties["not-sent-liveness"].evaluated == 2 * count
    assert took < 15
