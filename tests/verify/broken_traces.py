"""Hand-made traces that break one property each, by the name of the property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.verify.trace_builder import TraceBuilder, joined_left

from phalanx.journal import schema as ev
from phalanx.verify.checkers import FlowLimits, Mode


def a_member_is_not_in_its_view() -> TraceBuilder:
    return TraceBuilder("abc").install("d", "v1", "abc")


def an_epoch_stands_still() -> TraceBuilder:
    return TraceBuilder("ab").install("ab", "v2", "ab", cause="removal")


def c_acts_without_a_view() -> TraceBuilder:
    return TraceBuilder("abc", boot="ab").send("a", 1, service="CAUSAL").deliver("abc", "a", 1)


def one_name_means_two_views() -> TraceBuilder:
    return TraceBuilder("abc", boot="ab").install("c", "v1", "abc", context="another")


def two_that_see_each_other_part() -> TraceBuilder:
    return TraceBuilder("ab").install("a", "v2", "ab", 1).install("b", "v3", "ab", 1)


def c_invents_a_message() -> TraceBuilder:
    return TraceBuilder("abc").deliver("c", "a", 1, service="CAUSAL").stop()


def c_hears_it_again_in_the_next_view() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("abc", "a", 1)
    tale.install("abc", "v2", "abc", 1)
    return tale.deliver("c", "a", 1, view="v2", origin="v1")


def a_message_is_held_back_by_nobody() -> TraceBuilder:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1)
    return tale.deliver("ab", "a", 1)


def b_takes_a_carried_message_on() -> TraceBuilder:
    """c's message goes up at a in v2; b was there too, and shows it only when they meet again."""
    tale = TraceBuilder("abc").send("c", 1, service="CAUSAL", phase=1).install("ab", "v2", "abc", 1)
    tale.deliver("a", "c", 1).install("b", "v3", "b", 2)
    for letter in "ab":
        tale.install(letter, "v4", "abc", joins=1, components=["v2", "v3"])
    return tale.deliver("b", "c", 1)


def c_moves_on_without_a_message() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.install("abc", "v2", "abc", 1)


def a_is_told_of_a_stranger() -> TraceBuilder:
    return (
        TraceBuilder("ab")
        .install("a", "v2", "ab", 1, transitional="a")
        .install("b", "v2", "ab", 1, transitional="ab")
    )


def a_forgets_its_own_message() -> TraceBuilder:
    return TraceBuilder("ab").send("a", 1, service="CAUSAL").install("a", "v2", "a", 1)


def c_hears_two_before_one() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").send("a", 2, service="CAUSAL")
    tale.deliver("ab", "a", 1).deliver("ab", "a", 2)
    return tale.deliver("c", "a", 2).deliver("c", "a", 1)


def c_hears_the_answer_first() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.send("b", 1, service="CAUSAL").deliver("abc", "b", 1)
    return tale.deliver("c", "a", 1)


def c_hears_only_the_answer() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.send("b", 1, service="CAUSAL").deliver("abc", "b", 1)


def b_turns_the_order_round_and_moves_on() -> TraceBuilder:
    tale = TraceBuilder("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=0).deliver("b", "a", 1, pos=1)
    return tale.install("ab", "v2", "ab", 1)


def c_turns_the_order_round() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1)
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "b", 1, pos=1)
    return tale.deliver("c", "b", 1, pos=0).deliver("c", "a", 1, pos=1)


def c_cuts_the_batch_elsewhere() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1).deliver("abc", "a", 1, pos=0, batch=0)
    return tale.deliver("ab", "b", 1, pos=1, batch=0).deliver("c", "b", 1, pos=1, batch=1)


def c_moves_on_without_a_safe_message() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="SAFE").deliver("a", "a", 1, pos=0)
    return tale.install("c", "v2", "c", 1)


def the_markers_differ() -> TraceBuilder:
    return TraceBuilder("ab").marker("a", 1, "ab").marker("b", 2, "ab").install("ab", "v2", "ab", 1)


def c_hears_the_answer_a_view_early() -> TraceBuilder:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL", phase=1)
    tale.install("b", "v2", "abc", 1, transitional="bc").deliver("b", "a", 1)
    tale.send("b", 1, service="CAUSAL", phase=1, to="c").deliver("c", "b", 1, view="v1")
    return tale.install("c", "v2", "abc", 1, transitional="bc").deliver("c", "a", 1)


def c_never_hears_a_basic_message() -> TraceBuilder:
    return TraceBuilder("abc").send("a", 1, service="BASIC").deliver("ab", "a", 1)


def a_view_holds_one_that_is_out_of_reach() -> TraceBuilder:
    return (
        TraceBuilder("abc")
        .topology("ab", "c")
        .install("c", "v2", "c", 1)
        .row("b", ev.Topology, component=["a", "b", "c"])
    )


def c_never_hears_it() -> TraceBuilder:
    return TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)


def c_crashes_and_nobody_moves_on() -> TraceBuilder:
    return c_never_hears_it().life("c", "CRASH")


def c_never_hears_a_safe_message() -> TraceBuilder:
    return TraceBuilder("abc").send("a", 1, service="SAFE", to="c")


def a_waits_for_an_answer_for_ever() -> TraceBuilder:
    return TraceBuilder("ab").change("a", "START", "COLLECT").change("a", "COMMIT", "COMMIT")


def views_do_not_come_to_rest() -> TraceBuilder:
    tale = TraceBuilder("ab").topology("ab")
    for removals in range(1, 10):
        tale.install("ab", f"v{removals + 1}", "ab", removals)
    return tale


def c_moves_on_without_a_stable_message() -> TraceBuilder:
    tale = TraceBuilder("abc", reports=True).send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.receipts("a", 1).install("c", "v2", "c", 1)


def a_never_hears_that_its_message_is_stable() -> TraceBuilder:
    tale = TraceBuilder("ab", reports=True).send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.ordered("a", 1)


def a_is_not_told_that_c_is_gone() -> TraceBuilder:
    tale = TraceBuilder("abc", reports=True).submit("a", 1, to="bc").install("ab", "v2", "ab", 1)
    return tale.send("a", 1, service="CAUSAL", to="b").deliver("b", "a", 1).receipts("a", 1)


def a_is_told_that_c_joined() -> TraceBuilder:
    tale = TraceBuilder("abc", reports=True).install("b", "v2", "ab", 1, transitional="ab")
    return tale.install("a", "v2", "ab", 1, transitional="ab", **joined_left("c", ""))


def a_merge_forgets_a_message() -> TraceBuilder:
    tale = TraceBuilder("ab", boot="", reports=True).install("a", "va", "a").install("b", "vb", "b")
    tale.send("a", 1, service="CAUSAL").deliver("a", "a", 1).receipts("a", 1)
    tale.change("ab", "COMMIT", "COMMIT").delivered.clear()
    for letter in "ab":
        tale.install(letter, "v1", "ab", joins=1, transitional=letter, components=["va", "vb"])
    return tale.change("ab", "FORGET")


def b_leaves_unasked() -> TraceBuilder:
    return TraceBuilder("ab", reports=True).install("ab", "v2", "ab", 1).life("b", "STOP", "left")


def a_message_gets_lost_in_the_queue() -> TraceBuilder:
    tale = TraceBuilder("ab", reports=True).submit("a", 1).send("a", 1).deliver("ab", "a", 1, pos=0)
    return tale.receipts("a", 1).queue("a", accepted=2).row("a", ev.Life, op="STOP", reason="left")


def a_fills_more_than_its_window() -> TraceBuilder:
    tale = TraceBuilder("ab", reports=True)
    for number in range(1, 40):
        tale.submit("a", number, size=40).send("a", number).deliver(
            "ab", "a", number, pos=number - 1
        )
    return tale.receipts("a", 39).stop()


LIMITS = FlowLimits(window_bytes=1000, frame_bytes=100, leave_ns=0)


@dataclass(frozen=True)
class Broken:
    tale: Callable[[], TraceBuilder]
    says: str
    settled: bool = True
    mode: Mode | None = None
    also: frozenset[str] = frozenset()
    """What cannot be kept while this is broken so."""


UNDELIVERED = frozenset({"multicast-liveness", "termination-of-delivery"})

BROKEN = {
    "self-inclusion": Broken(a_member_is_not_in_its_view, "d.1 installed v1 without being in it"),
    "local-monotonicity": Broken(an_epoch_stands_still, "a.1 installed v2 after v1"),
    "initial-view": Broken(c_acts_without_a_view, "c.1 delivered 1..1 in v1 while in None"),
    "vid-sanity": Broken(one_name_means_two_views, "v1 means one view at a and another at c"),
    "mutual-agreement": Broken(two_that_see_each_other_part, "a.1 installed v2 and b.1 v3"),
    "integrity": Broken(c_invents_a_message, "c.1 delivered a.1#1, which was never sent"),
    "no-duplication": Broken(c_hears_it_again_in_the_next_view, "c.1 delivered a.1#1 again, in v2"),
    "sending-view": Broken(
        a_message_is_held_back_by_nobody, "a.1#1 in v2, it was sent in v1", mode="hold"
    ),
    "same-view": Broken(b_takes_a_carried_message_on, "in v2, b.1 c.1#1 in v4", settled=False),
    "virtual-synchrony": Broken(c_moves_on_without_a_message, "v1 before v2, c.1 did not"),
    "transitional-set": Broken(a_is_told_of_a_stranger, "b.1 is not in a.1's transitional set"),
    "self-delivery": Broken(a_forgets_its_own_message, "never delivered its own", settled=False),
    "fifo": Broken(c_hears_two_before_one, "c.1 delivered a.1#1 after a.1#2 in v1"),
    "causal": Broken(c_hears_the_answer_first, "c.1 delivered b.1#1 in v1, which follows"),
    "reliable-causal": Broken(c_hears_only_the_answer, "never delivered a.1#1", settled=False),
    "weak-total-order": Broken(
        b_turns_the_order_round_and_moves_on,
        "a.1 delivered a.1#1 in v1 before v2, where b.1 delivered b.1#1",
        also=frozenset({"running-prefix"}),
    ),
    "running-prefix": Broken(c_turns_the_order_round, "a.1 has a.1#1 at position 0 of v1, c.1"),
    "toto-refinement": Broken(c_cuts_the_batch_elsewhere, "c.1 b.1#1 in batch 1 of v1"),
    "safe-prefix": Broken(c_moves_on_without_a_safe_message, "c.1 did not", settled=False),
    "safe-marker": Broken(the_markers_differ, "a.1 at 1, b.1 at 2"),
    "no-view-crossing-inversion": Broken(
        c_hears_the_answer_a_view_early, "a.1#1 in the later v2", settled=False
    ),
    "basic": Broken(c_never_hears_a_basic_message, "never delivered a.1#1", also=UNDELIVERED),
    "membership-precision": Broken(
        a_view_holds_one_that_is_out_of_reach, "a.1 ended in v1 of a.1, b.1, c.1, but could reach"
    ),
    "multicast-liveness": Broken(
        c_never_hears_it, "c.1 never delivered a.1#1", also=frozenset({"termination-of-delivery"})
    ),
    "termination-of-delivery": Broken(c_crashes_and_nobody_moves_on, "c.1 never delivered a.1#1"),
    "safe-indication-liveness": Broken(
        c_never_hears_a_safe_message, "a.1#1 (SAFE)", also=UNDELIVERED
    ),
    "protocol-termination": Broken(
        a_waits_for_an_answer_for_ever, "a.1 began a change (COMMIT in c) and never ended it"
    ),
    "bounded-views": Broken(views_do_not_come_to_rest, "a.1 installed 9 views after the last"),
    "receipt-truth": Broken(
        c_moves_on_without_a_stable_message,
        "a.1 has a receipt that a.1#1 is stable in v1, but c.1 did not deliver it there",
        settled=False,
    ),
    "receipt-liveness": Broken(
        a_never_hears_that_its_message_is_stable, "a.1 never got a receipt that a.1#1 is stable"
    ),
    "not-sent-liveness": Broken(
        a_is_not_told_that_c_is_gone,
        "a.1 got no report that a.1#1 does not go to c.1, which is not in v2",
    ),
    "view-delta-truth": Broken(
        a_is_told_that_c_joined,
        "a.1 got a report that c.1 joined and nobody left with v2; nobody did",
    ),
    "merge-report-truth": Broken(
        a_merge_forgets_a_message, "v1 reports that va had delivered a.1#0, but it was a.1#1"
    ),
    "no-needless-stop": Broken(b_leaves_unasked, "b.1 left without being asked to"),
    "accepted-is-sent": Broken(
        a_message_gets_lost_in_the_queue, "a.1 accepted 2 messages, submitted 1 and refused 0"
    ),
    "bounded-window": Broken(
        a_fills_more_than_its_window, "a.1 had 1120 bytes in flight, 1100 at most are allowed"
    ),
}
