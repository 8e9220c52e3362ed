"""The finer points of what the checkers ask of messages: what was sent, in which order, to whom,
and what the members owe each other in the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.verify.trace_builder import TraceBuilder

from phalanx.journal import schema as ev
from phalanx.verify.checkers import check

UNDELIVERED = frozenset({"multicast-liveness", "termination-of-delivery"})

# ---------------------------------------------------------------------------- integrity


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"to": ["a", "b", "c"]}, "was shown to a stranger, c.1"),
        ({"service": "AGREED", "pos": 0}, "delivered a.1#1 as AGREED, it was sent as CAUSAL"),
        ({"frame": 7}, "from frame 7, it left in frame 1"),
        ({"origin": "v0"}, "as sent in v0, it was sent in v1"),
    ],
)
def test_integrity_holds_a_delivery_to_what_was_sent(columns: dict[str, Any], says: str) -> None:
    to = ["a", "b"] if "to" in columns else None
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", to=to).deliver("ab", "a", 1)
    report = tale.deliver("c", "a", 1, **columns).check()
    assert report.violated == ("integrity",)
    assert says in report.violations[0].text


@pytest.mark.parametrize("to", ["ab", ["a", "b"]])
def test_integrity_sees_a_subset_that_was_changed_on_the_way(to: str | list[str]) -> None:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", to=to).deliver("a", "a", 1)
    report = tale.deliver("b", "a", 1, to=None, to_incarnations=None).check()
    assert report.violated == ("integrity",)
    assert "as sent to all, it was sent to a" in report.violations[0].text


@pytest.mark.parametrize(("sent", "legal"), [("ab", True), ("a", False), ("ac", False)])
def test_integrity_holds_a_sending_to_what_was_accepted(sent: str, legal: bool) -> None:
    tale = TraceBuilder("abc").submit("a", 1, to="ab").send("a", 1, service="CAUSAL", to=sent)
    report = tale.deliver(sent, "a", 1).check()
    assert report.violated == (() if legal else ("integrity",))
    if not legal:
        assert "a.1#1 was accepted for a.1, b.1 and sent to a.1" in report.violations[0].text


def test_who_has_left_the_view_since_need_not_be_sent_to() -> None:
    tale = TraceBuilder("abc").submit("a", 1, to="bc").install("ab", "v2", "ab", 1)
    tale.send("a", 1, service="CAUSAL", to="b").deliver("b", "a", 1)
    assert tale.check(settled=False).violated == ()


def test_what_is_for_an_earlier_life_is_not_for_the_next() -> None:
    tale = TraceBuilder("aB").send("a", 1, service="CAUSAL", to="ab").deliver("a", "a", 1)
    assert tale.check().violated == ()
    report = tale.deliver("B", "a", 1).check()
    assert report.violated == ("integrity",)
    assert "a.1#1 for a.1, b.1 was shown to a stranger, b.2" in report.violations[0].text


def test_a_carried_message_names_those_of_its_receivers_that_are_left() -> None:
    for named, legal in (("ab", True), ("a", False)):
        tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", phase=1, to="abc")
        tale.install("ab", "v2", "ab", 1)
        tale.deliver("ab", "a", 1, to=list(named), to_incarnations=[1] * len(named))
        assert tale.check(settled=False).violated == (() if legal else ("integrity",))


def test_integrity_sees_a_delivery_before_the_sending() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    send, own, other = tale.rows[2:]
    for late in (other, own):
        rows = [r for r in tale.rows if r is not late]
        early = msgspec.structs.replace(late, sim_ns=send.sim_ns - 1 if send.sim_ns else 0, step=1)
        assert check([*rows, early], expect_liveness=True).violated == ("integrity",)


def test_integrity_sees_a_message_that_depends_on_itself() -> None:
    tale = TraceBuilder("ab")
    tale.send("a", 1, service="CAUSAL", dep_senders=["b"], dep_incarnations=[1], dep_numbers=[1])
    tale.send("b", 1, service="CAUSAL", dep_senders=["a"], dep_incarnations=[1], dep_numbers=[1])
    report = tale.check(settled=False)
    assert report.violated == ("integrity",)
    assert "depends on itself" in report.violations[0].text


def test_integrity_compares_the_bodies_that_members_got() -> None:
    tale = TraceBuilder("abc").send("a", 1, 2, service="CAUSAL").deliver("ab", "a", 1, 2, digest=5)
    assert tale.check(settled=False).violated == ()
    assert tale.deliver("c", "a", 1, 2, digest=6).check().violated == ("integrity",)


def test_integrity_compares_bodies_with_the_truth_where_it_is_known() -> None:
    asked = []

    def contents(sender: str, incarnation: int, first: int, last: int) -> int:
        asked.append((sender, incarnation, first, last))
        return 5

    tale = TraceBuilder("Ab").send("A", 1, 2, service="CAUSAL").deliver("Ab", "A", 1, 2, digest=5)
    assert tale.check(contents=contents).violated == ()
    assert asked == [("a", 2, 1, 2)] * 2
    both_wrong = TraceBuilder("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1, digest=6)
    assert both_wrong.check(contents=contents).properties["integrity"].found == 2


def test_bodies_are_those_that_were_submitted() -> None:
    tale = (
        TraceBuilder("ab").submit("a", 1, digest=5, service="CAUSAL").send("a", 1, service="CAUSAL")
    )
    assert tale.deliver("a", "a", 1, digest=5).check(settled=False).violated == ()
    report = tale.deliver("b", "a", 1, digest=6).check()
    assert report.violated == ("integrity",)
    told = "b.1 delivered a.1#1 with other bodies than were submitted"
    assert told in report.violations[0].text
    both_wrong = TraceBuilder("ab").submit("a", 1, digest=5, service="CAUSAL")
    both_wrong.send("a", 1, service="CAUSAL").deliver("ab", "a", 1, digest=6)
    assert both_wrong.check().properties["integrity"].found == 2


@pytest.mark.parametrize("settled", [True, False])
def test_integrity_sees_a_sender_that_is_not_in_the_view(settled: bool) -> None:
    report = TraceBuilder("abc").deliver("a", "e", 1, service="CAUSAL").stop().check(settled)
    assert "integrity" in report.violated
    assert "a.1 delivered e.1#1, whose sender is not in v1" in str(report.violations[0])


def test_a_message_goes_up_only_in_a_view_with_its_sender() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1).install("b", "v2", "b", 1)
    report = tale.deliver("b", "a", 1).check(settled=False)
    assert report.violated == ("integrity",)
    assert "b.1 delivered a.1#1, whose sender is not in v2" in report.violations[0].text


def test_a_member_of_the_view_without_a_journal_may_have_sent_anything() -> None:
    tale = TraceBuilder("abc", boot="ab").deliver("a", "c", 1, service="CAUSAL")
    assert tale.check(settled=False).violated == ()


def test_a_number_that_is_sent_twice_is_a_duplicate() -> None:
    tale = TraceBuilder("ab").send("a", 1, 2).send("a", 2, 3)
    assert "no-duplication" in tale.check(settled=False).violated


def test_two_lives_of_one_name_may_send_the_same_numbers() -> None:
    tale = (
        TraceBuilder("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1).life("a", "CRASH")
    )
    tale.install("b", "v2", "b", 1).install("A", "vA", "A")
    for letter in "bA":
        tale.install(letter, "v3", "bA", joins=1, components=["v2", "vA"])
    tale.send("A", 1, service="CAUSAL").deliver("Ab", "A", 1)
    assert tale.stop().check().violated == ()


def test_an_overlap_with_an_earlier_delivery_is_a_duplicate_of_the_overlap_alone() -> None:
    tale = TraceBuilder("ab").send("a", 1, 5, service="CAUSAL").deliver("a", "a", 1, 5)
    tale.deliver("b", "a", 1, 3).deliver("b", "a", 3, 5)
    assert tale.check().violated == ("no-duplication",)


@pytest.mark.parametrize("op", [None, "CRASH"])
def test_what_lies_beyond_an_unclean_end_is_unverifiable(op: str | None) -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    if op is not None:
        tale.life("a", op)
    tale.deliver("b", "a", 2, service="CAUSAL", frame=2)
    report = tale.check(settled=False)
    assert report.violated == ()
    assert report.properties["integrity"].evaluated == 2


def test_a_hole_before_the_last_known_send_is_no_unclean_end() -> None:
    tale = TraceBuilder("ab").send("a", 2, service="CAUSAL").deliver("b", "a", 1, service="CAUSAL")
    assert "integrity" in tale.check(settled=False).violated


def test_a_basic_message_heard_twice_breaks_basic_too() -> None:
    tale = (
        TraceBuilder("ab").send("a", 1, service="BASIC").deliver("ab", "a", 1).deliver("b", "a", 1)
    )
    assert tale.check().violated == ("no-duplication", "basic")


# ---------------------------------------------------------------------------- causality


def relayed() -> TraceBuilder:
    """m1 goes to a and b, b tells c, c tells all: a must know m1 before it hears c."""
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", to="ab").deliver("b", "a", 1)
    tale.send("b", 1, service="CAUSAL", to="bc").deliver("bc", "b", 1)
    return tale.send("c", 1, service="CAUSAL")


def test_cause_and_effect_reach_through_members_that_were_not_addressed() -> None:
    legal = relayed().deliver("a", "a", 1).deliver("abc", "c", 1)
    assert legal.check().violated == ()
    assert legal.check().properties["causal"].evaluated >= 3
    late = relayed().deliver("abc", "c", 1).deliver("a", "a", 1)
    assert late.check().violated == ("causal",)
    never = relayed().deliver("abc", "c", 1)
    assert never.check(settled=False).violated == ("reliable-causal",)


def test_a_basic_message_carries_its_senders_causality_on_but_owes_none() -> None:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.send("b", 1, service="BASIC").deliver("abc", "b", 1)
    assert tale.check(settled=False).violated == ()
    tale.send("b", 2, service="CAUSAL").deliver("abc", "b", 2)
    assert tale.check(settled=False).violated == ("reliable-causal",)


# ---------------------------------------------------------------------------- order


def with_a_secret() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1).send("a", 2, to="ab").send("a", 3)
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "a", 2, pos=1).deliver("ab", "a", 3, pos=2)
    return tale


def test_a_hole_in_the_positions_is_legal_where_the_message_was_for_others() -> None:
    tale = with_a_secret().deliver("c", "a", 1, pos=0).deliver("c", "a", 3, pos=2)
    assert tale.check().violated == ()


def test_positions_must_count_what_was_for_others() -> None:
    tale = with_a_secret().deliver("c", "a", 1, pos=0).deliver("c", "a", 3, pos=1)
    assert tale.check().violated == ("running-prefix",)


def test_a_hole_is_a_skip_where_the_message_was_for_the_member() -> None:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1).deliver("ab", "a", 1, pos=0)
    tale.deliver("abc", "b", 1, pos=1)
    report = tale.check(settled=False)
    assert report.violated == ("running-prefix",)
    assert "c.1 skipped a.1#1 at position 0" in report.violations[0].text


def test_a_shorter_sequence_is_a_prefix() -> None:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1).deliver("abc", "a", 1, pos=0)
    assert tale.deliver("ab", "b", 1, pos=1).check(settled=False).violated == ()


def test_one_message_has_one_position_even_where_nothing_else_is_known() -> None:
    tale = TraceBuilder("ab").send("a", 1).deliver("a", "a", 1, pos=0).deliver("b", "a", 1, pos=4)
    assert tale.check().violated == ("running-prefix",)


def test_positions_grow_at_each_member() -> None:
    tale = TraceBuilder("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=1).deliver("b", "a", 1, pos=0)
    assert tale.check().violated == ("running-prefix",)


def test_an_ordered_message_has_a_position() -> None:
    assert TraceBuilder("a").send("a", 1).deliver("a", "a", 1).check().violated == (
        "running-prefix",
    )


def test_ranges_need_not_be_cut_at_the_same_places() -> None:
    tale = TraceBuilder("abc").send("a", 1, 4, frame=1).send("a", 5, 6, frame=1)
    tale.deliver("a", "a", 1, 6, pos=0, batch=0)
    tale.deliver("b", "a", 1, 2, pos=0, batch=0).deliver("b", "a", 3, 6, pos=2, batch=0)
    tale.deliver("c", "a", 1, 5, pos=0, batch=0).deliver("c", "a", 6, pos=5, batch=0)
    assert tale.check().violated == ()


def test_a_batch_is_in_the_order_of_senders() -> None:
    tale = TraceBuilder("ab").send("a", 1).send("b", 1)
    tale.deliver("ab", "b", 1, pos=0, batch=0).deliver("ab", "a", 1, pos=1, batch=0)
    assert tale.check().violated == ("toto-refinement",)


def test_a_batch_holds_nothing_that_follows_another_in_it() -> None:
    tale = TraceBuilder("ab").send("a", 1).deliver("ab", "a", 1, pos=0, batch=0).send("b", 1)
    assert tale.deliver("ab", "b", 1, pos=1, batch=0).check().violated == ("toto-refinement",)
    two_frames = TraceBuilder("a").send("a", 1).send("a", 2)
    two_frames.deliver("a", "a", 1, pos=0, batch=0).deliver("a", "a", 2, pos=1, batch=0)
    assert two_frames.check().violated == ("toto-refinement",)


def test_batches_do_not_go_back() -> None:
    tale = TraceBuilder("ab").send("a", 1).deliver("ab", "a", 1, pos=0, batch=1).send("b", 1)
    assert tale.deliver("ab", "b", 1, pos=1, batch=0).check().violated == ("toto-refinement",)


# ---------------------------------------------------------------------------- liveness


def test_nothing_is_owed_before_the_run_has_settled() -> None:
    tale = TraceBuilder("abc").send("a", 1, service="SAFE")
    assert tale.check(settled=False).violated == ()
    assert set(tale.check(settled=True).violated) == {
        "self-delivery",
        "safe-indication-liveness",
        *UNDELIVERED,
    }


def test_only_the_addressed_owe_a_delivery() -> None:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", to="b").deliver("b", "a", 1)
    report = tale.check()
    assert report.violated == ()
    assert report.properties["multicast-liveness"].evaluated == 1
    assert report.properties["self-delivery"].evaluated == 0


@pytest.mark.parametrize("how", ["STOP", "LEAVE", "CRASH"])
def test_a_member_that_is_gone_before_the_end_owes_nothing(how: str) -> None:
    tale = TraceBuilder("abc")
    if how == "LEAVE":
        tale.change("c", "LEAVE")
    else:
        tale.life("c", how)
    tale.send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    assert tale.stop().check().violated == ("termination-of-delivery",)
    tale.install("ab", "v2", "ab", 1)
    assert tale.check().violated == ()


def test_members_out_of_reach_owe_nothing_to_each_other() -> None:
    tale = TraceBuilder("ab").topology("a", "b").send("a", 1, service="CAUSAL")
    assert "multicast-liveness" not in tale.deliver("a", "a", 1).check().violated


def test_a_carried_message_is_owed_in_the_next_view_of_its_sender() -> None:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", phase=1)
    assert set(tale.check().violated) == {"self-delivery", *UNDELIVERED}, "no change came"
    tale.install("ab", "v2", "ab", 1)
    assert set(tale.check().violated) == {"self-delivery", *UNDELIVERED}, "not carried"
    assert set(tale.deliver("a", "a", 1).check().violated) == UNDELIVERED, "not carried at b"
    assert tale.deliver("b", "a", 1).check().violated == ()


def test_a_sender_that_left_a_messages_home_owes_itself_even_if_it_crashes() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1)
    assert tale.life("a", "CRASH").check(settled=False).violated == ()
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1)
    tale.install("ab", "v3", "ab", 2).life("a", "CRASH")
    assert tale.check(settled=False).violated == ("self-delivery",)


def test_in_a_view_that_stays_a_safe_message_is_delivered_as_such() -> None:
    tale = (
        TraceBuilder("ab").send("a", 1, service="SAFE").deliver("a", "a", 1, pos=0).marker("b", 0)
    )
    report = tale.deliver("b", "a", 1, pos=0, region="TRANSITIONAL").check()
    assert report.violated == ("safe-indication-liveness",)
    assert "though the view stayed" in report.violations[0].text


# ---------------------------------------------------------------------------- accepted


def test_what_was_accepted_is_sent() -> None:
    tale = TraceBuilder("ab").submit("a", 1, 2, to="b").send("a", 1, service="CAUSAL", to="b")
    tale.deliver("b", "a", 1)
    assert tale.check(settled=False).violated == ()
    report = tale.check()
    assert report.violated == ("multicast-liveness",)
    assert "a.1 accepted a.1#2 and never sent it" in report.violations[0].text


def test_what_was_accepted_for_oneself_is_delivered_to_oneself() -> None:
    report = TraceBuilder("ab").submit("a", 1, to="ab").check()
    assert report.violated == ("self-delivery", "multicast-liveness")


def test_what_is_for_nobody_any_more_is_reported_instead() -> None:
    tale = TraceBuilder("abc").submit("a", 1, 2, to="c").install("ab", "v2", "ab", 1)
    assert tale.check().violated == ("multicast-liveness",)
    assert tale.row("a", ev.NotSent, first=1, last=2).check().violated == ()


def test_a_receiver_that_went_and_came_back_may_have_missed_it() -> None:
    tale = (
        TraceBuilder("ab")
        .submit("a", 1, to="b")
        .install("a", "v2", "a", 1)
        .install("b", "v3", "b", 1)
    )
    for letter in "ab":
        tale.install(letter, "v4", "ab", joins=1, components=["v2", "v3"])
    assert tale.row("a", ev.NotSent, first=1, last=1).check().violated == ()


def test_a_message_for_somebody_who_stays_is_not_for_nobody() -> None:
    tale = TraceBuilder("abc").install("ab", "v2", "ab", 1).submit("a", 1, to="b")
    report = tale.row("a", ev.NotSent, first=1, last=1).check()
    assert report.violated == ("multicast-liveness",)
    assert "goes to nobody, but b.1 was in its view all the time" in report.violations[0].text
