"""The checkers against hand-made traces: each property once kept and once broken, the finer
points, and random legal traces, of which no part may ever be called a violation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.journal import events as ev
from phalanx.sim.checkers import FIXED_VIEW, PROPERTIES, Report, check


class Tale:
    """Members with one-letter names, told in the order of the simulator's time.

    Columns that are not given are the right ones: the view a member is in, the frame and the
    addressees of the message, what the member delivered since its last send.
    """

    def __init__(self, names: str, boot: str | None = None) -> None:
        self.names = names
        self.rows: list[ev.Event] = []
        self.vid: dict[str, str] = {}
        self.sent: dict[tuple[str, int], ev.Send] = {}
        self.since: dict[str, dict[str, int]] = {n: {} for n in names}
        self.frames: dict[str, int] = {}
        self.count: dict[str, int] = {}
        for name in names if boot is None else boot:
            self.install(name, "v1", names)

    def common(self, node: str) -> dict[str, Any]:
        lseq = self.count[node] = self.count.get(node, 0) + 1
        now = len(self.rows) * 10
        told = {"run": "r", "profile": "T", "group": "g", "node": node, "inc": 1}
        return told | {"lseq": lseq, "step": lseq, "t_ns": now, "sim_ns": now}

    def install(self, nodes: str, vid: str, members: str, removals: int = 0, **given: Any) -> Tale:
        for node in nodes:
            columns: dict[str, Any] = {
                "vid": vid,
                "joins": 0,
                "removals": removals,
                "members": list(members),
                "member_incs": [1] * len(members),
                "context": "c",
                "cause": "REMOVE" if removals else "BOOT",
                "prev_vid": self.vid.get(node),
            }
            if "trans" in given:
                columns["trans"] = list(given["trans"])
                columns["trans_incs"] = [1] * len(given["trans"])
            columns |= {k: v for k, v in given.items() if k != "trans"}
            self.vid[node] = vid
            self.rows.append(ev.ViewInstall(**self.common(node), **columns))
        return self

    def send(self, node: str, first: int, last: int = 0, **given: Any) -> Tale:
        since, self.since[node] = self.since[node], {}
        self.frames[node] = given.get("frame", self.frames.get(node, 0) + 1)
        columns = {
            "service": "AGREED",
            "vid": self.vid[node],
            "phase": 0,
            "frame": self.frames[node],
            "dep_nodes": list(since),
            "dep_incs": [1] * len(since),
            "dep_numbers": list(since.values()),
            **given,
        }
        last = max(first, last)
        row = ev.Send(**self.common(node), first=first, last=last, **columns)
        self.sent |= {(node, n): row for n in range(first, last + 1)}
        self.rows.append(row)
        return self

    def deliver(self, nodes: str, sender: str, first: int, last: int = 0, **given: Any) -> Tale:
        for node in nodes:
            send = self.sent.get((sender, first))
            columns = {
                "sender_inc": 1,
                "service": send.service if send else "AGREED",
                "vid": self.vid.get(node, "v1"),
                "phase": 0,
                "region": "REGULAR",
                "frame": send.frame if send else 1,
                "origin_vid": send.vid if send else "v1",
                "to": send.to if send else None,
                **given,
            }
            last = max(first, last)
            row = ev.Deliver(**self.common(node), sender=sender, first=first, last=last, **columns)
            if node != sender and row.service != "BASIC":
                self.since[node][sender] = last
            self.rows.append(row)
        return self

    def row(self, nodes: str, table: type[ev.Row], **columns: Any) -> Tale:
        for node in nodes:
            row: Any = table(**self.common(node), **columns)
            self.rows.append(row)
        return self

    def life(self, nodes: str, op: str) -> Tale:
        return self.row(nodes, ev.Life, op=op)

    def stop(self) -> Tale:
        """All at one instant, as at the end of a run."""
        self.life(self.names, "STOP")
        now = self.rows[-1].sim_ns
        for i in range(len(self.names)):
            self.rows[-1 - i] = msgspec.structs.replace(self.rows[-1 - i], sim_ns=now)
        return self

    def check(self, settled: bool = True, **known: Any) -> Report:
        return check(self.rows, expect_liveness=settled, **known)


# ---------------------------------------------------------------------------- kept


def calm() -> Tale:
    """Three members in one view: every service, a subset, a batch of two, a receipt."""
    tale = Tale("abc")
    tale.row("abc", ev.Topology, component=list("abc"))
    tale.send("a", 1, 2).send("b", 1, service="SAFE")
    tale.deliver("abc", "a", 1, 2, pos=0, batch=0).deliver("abc", "b", 1, pos=2, batch=0)
    tale.send("c", 1, service="CAUSAL", to=["a", "c"]).send("c", 2, service="BASIC")
    tale.deliver("ab", "c", 2).deliver("ac", "c", 1).deliver("c", "c", 2)
    tale.send("a", 3, to=["a", "b"]).deliver("ab", "a", 3, pos=3, batch=1)
    tale.row("a", ev.Stable, sender="a", sender_inc=1, upto=3, vid="v1")
    return tale.stop()


def moved() -> Tale:
    """c crashes; a and b close v1 with a marker and go on together."""
    tale = Tale("abc").life("c", "CRASH")
    tale.send("a", 1).send("b", 1, service="SAFE")
    tale.deliver("ab", "a", 1, pos=0).row("ab", ev.TransMarker, vid="v1", at_pos=1)
    tale.deliver("ab", "b", 1, pos=1, region="TRANSITIONAL")
    tale.install("ab", "v2", "ab", 1, trans="ab")
    return tale.send("b", 2).deliver("ab", "b", 2, pos=0).stop()


# ---------------------------------------------------------------------------- broken


def a_member_is_not_in_its_view() -> Tale:
    return Tale("abc").install("d", "v1", "abc")


def an_epoch_stands_still() -> Tale:
    return Tale("ab").install("ab", "v2", "ab", 0, trans="ab")


def c_acts_without_a_view() -> Tale:
    return Tale("abc", boot="ab").send("a", 1, service="CAUSAL").deliver("abc", "a", 1)


def one_name_means_two_views() -> Tale:
    return Tale("abc", boot="ab").install("c", "v1", "abc", context="another")


def two_that_see_each_other_part() -> Tale:
    return Tale("ab").install("a", "v2", "ab", 1, trans="a").install("b", "v3", "ab", 1, trans="b")


def c_invents_a_message() -> Tale:
    return Tale("abc").deliver("c", "a", 1, service="CAUSAL").stop()


def c_hears_it_twice() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("abc", "a", 1)
    return tale.deliver("c", "a", 1)


def a_message_claims_another_view() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.deliver("c", "a", 1, origin_vid="v0")


def b_takes_a_carried_message_on() -> Tale:
    tale = (
        Tale("ab").send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1, trans="ab")
    )
    tale.deliver("a", "a", 1, phase=1).install("b", "v3", "b", 2, trans="b")
    return tale.deliver("b", "a", 1, phase=1)


def c_moves_on_without_a_message() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.install("abc", "v2", "abc", 1, trans="abc")


def a_is_told_of_a_stranger() -> Tale:
    return Tale("ab").install("a", "v2", "ab", 1, trans="a").install("b", "v2", "ab", 1, trans="ab")


def a_forgets_its_own_message() -> Tale:
    return Tale("ab").send("a", 1, service="CAUSAL").install("a", "v2", "a", 1, trans="a")


def c_hears_two_before_one() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").send("a", 2, service="CAUSAL")
    tale.deliver("ab", "a", 1).deliver("ab", "a", 2)
    return tale.deliver("c", "a", 2).deliver("c", "a", 1)


def c_hears_the_answer_first() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.send("b", 1, service="CAUSAL").deliver("abc", "b", 1)
    return tale.deliver("c", "a", 1)


def c_hears_only_the_answer() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    return tale.send("b", 1, service="CAUSAL").deliver("abc", "b", 1)


def b_turns_the_order_round_and_moves_on() -> Tale:
    tale = Tale("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=0).deliver("b", "a", 1, pos=1)
    return tale.install("ab", "v2", "ab", 1, trans="ab")


def c_turns_the_order_round() -> Tale:
    tale = Tale("abc").send("a", 1).send("b", 1)
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "b", 1, pos=1)
    return tale.deliver("c", "b", 1, pos=0).deliver("c", "a", 1, pos=1)


def c_cuts_the_batch_elsewhere() -> Tale:
    tale = Tale("abc").send("a", 1).send("b", 1).deliver("abc", "a", 1, pos=0, batch=0)
    return tale.deliver("ab", "b", 1, pos=1, batch=0).deliver("c", "b", 1, pos=1, batch=1)


def c_moves_on_without_a_safe_message() -> Tale:
    tale = Tale("abc").send("a", 1, service="SAFE").deliver("a", "a", 1, pos=0)
    return tale.install("c", "v2", "c", 1, trans="c")


def the_markers_differ() -> Tale:
    tale = Tale("ab").row("a", ev.TransMarker, vid="v1", at_pos=1)
    return tale.row("b", ev.TransMarker, vid="v1", at_pos=2).install(
        "ab", "v2", "ab", 1, trans="ab"
    )


def c_hears_the_answer_a_view_early() -> Tale:
    tale = Tale("abc").send("a", 1, service="CAUSAL", phase=1)
    tale.install("b", "v2", "abc", 1, trans="bc").deliver("b", "a", 1, phase=1)
    tale.send("b", 1, service="CAUSAL", phase=1, to=["c"]).deliver("c", "b", 1, phase=1)
    return tale.install("c", "v2", "abc", 1, trans="bc").deliver("c", "a", 1, phase=1)


def c_never_hears_a_basic_message() -> Tale:
    return Tale("abc").send("a", 1, service="BASIC").deliver("ab", "a", 1)


def a_view_holds_one_that_is_gone() -> Tale:
    return Tale("abc").row("a", ev.Topology, component=["a", "b"])


def c_never_hears_it() -> Tale:
    return Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)


def c_crashes_and_nobody_moves_on() -> Tale:
    return c_never_hears_it().life("c", "CRASH")


def c_never_hears_a_safe_message() -> Tale:
    tale = Tale("abc").send("a", 1, service="SAFE")
    return tale.deliver("ab", "a", 1, pos=0, region="TRANSITIONAL")


@dataclass(frozen=True)
class Broken:
    tale: Callable[[], Tale]
    says: str
    settled: bool = True
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
    "no-duplication": Broken(c_hears_it_twice, "c.1 delivered a.1#1 again"),
    "sending-view": Broken(a_message_claims_another_view, "as sent in v0, it was sent in v1"),
    "same-view": Broken(b_takes_a_carried_message_on, "in v2, b.1 a.1#1 in v3", settled=False),
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
    "membership-precision": Broken(a_view_holds_one_that_is_gone, "but could reach a, b"),
    "multicast-liveness": Broken(
        c_never_hears_it, "c.1 never delivered a.1#1", also=frozenset({"termination-of-delivery"})
    ),
    "termination-of-delivery": Broken(c_crashes_and_nobody_moves_on, "c.1 never delivered a.1#1"),
    "safe-indication-liveness": Broken(
        c_never_hears_a_safe_message, "a.1#1 (SAFE)", also=UNDELIVERED
    ),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_legal_trace_keeps_the_property_and_puts_it_to_the_test(name: str) -> None:
    report = calm().check() if name in FIXED_VIEW else moved().check(settled=False)
    assert report.violations == []
    assert report.properties[name].verdict == "holds"


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_trace_that_breaks_the_property_is_caught_and_blamed_on_it_alone(name: str) -> None:
    broken = BROKEN[name]
    report = broken.tale().check(broken.settled)
    assert set(report.violated) == {name} | broken.also, "\n".join(map(str, report.violations))
    result = report.properties[name]
    assert result.verdict == "violated"
    assert result.evaluated > 0
    assert broken.says in result.violations[0].text
    assert all(v.property == name and v.nodes and v.places for v in result.violations)


def test_a_fixed_view_leaves_what_needs_two_views_unverifiable() -> None:
    report = calm().check()
    verdicts = {name: result.verdict for name, result in report.properties.items()}
    assert {n for n, v in verdicts.items() if v == "unverifiable"} == set(PROPERTIES) - set(
        FIXED_VIEW
    )


def test_an_empty_trace_proves_nothing() -> None:
    report = check([], expect_liveness=True)
    assert {r.verdict for r in report.properties.values()} == {"unverifiable"}


def test_a_violation_names_its_rows_members_and_moment() -> None:
    (violation,) = c_hears_two_before_one().check().properties["fifo"].violations
    assert violation.nodes == ("c", "a")
    assert [(p.node, p.lseq, p.sim_ns) for p in violation.places] == [("c", 2, 90), ("c", 3, 100)]
    assert str(violation) == (
        "fifo: c.1 delivered a.1#1 after a.1#2 in v1 [c.1 row 2 at 0.000 ms, c.1 row 3 at 0.000 ms]"
    )


def test_rows_of_two_groups_are_refused() -> None:
    rows = [*Tale("a").rows, msgspec.structs.replace(Tale("b").rows[0], group="other")]
    with pytest.raises(ValueError, match="one at a time"):
        check(rows, expect_liveness=False)


# ---------------------------------------------------------------------------- integrity


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"to": ["a", "b", "c"]}, "was shown to a stranger, c.1"),
        ({"service": "AGREED", "pos": 0}, "delivered a.1#1 as AGREED, it was sent as CAUSAL"),
        ({"frame": 7}, "from frame 7, it left in frame 1"),
    ],
)
def test_integrity_holds_a_delivery_to_what_was_sent(columns: dict[str, Any], says: str) -> None:
    to = ["a", "b"] if "to" in columns else None
    tale = Tale("abc").send("a", 1, service="CAUSAL", to=to).deliver("ab", "a", 1)
    report = tale.deliver("c", "a", 1, **columns).check()
    assert report.violated == ("integrity",)
    assert says in report.violations[0].text


def test_integrity_sees_a_subset_that_was_changed_on_the_way() -> None:
    tale = Tale("abc").send("a", 1, service="CAUSAL", to=["a", "b"]).deliver("a", "a", 1)
    report = tale.deliver("b", "a", 1, to=None).check()
    assert report.violated == ("integrity",)
    assert "as sent to None" in report.violations[0].text


def test_integrity_sees_a_delivery_before_the_sending() -> None:
    tale = Tale("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    send, own, other = tale.rows[2:]
    for late in (other, own):
        rows = [r for r in tale.rows if r is not late]
        early = msgspec.structs.replace(late, sim_ns=send.sim_ns - 1 if send.sim_ns else 0, step=1)
        assert check([*rows, early], expect_liveness=True).violated == ("integrity",)


def test_integrity_sees_a_message_that_depends_on_itself() -> None:
    tale = Tale("ab")
    tale.send("a", 1, service="CAUSAL", dep_nodes=["b"], dep_incs=[1], dep_numbers=[1])
    tale.send("b", 1, service="CAUSAL", dep_nodes=["a"], dep_incs=[1], dep_numbers=[1])
    report = tale.check(settled=False)
    assert report.violated == ("integrity",)
    assert "depends on itself" in report.violations[0].text


def test_integrity_compares_the_bodies_that_members_got() -> None:
    tale = Tale("abc").send("a", 1, 2, service="CAUSAL").deliver("ab", "a", 1, 2, digest=5)
    assert tale.check(settled=False).violated == ()
    assert tale.deliver("c", "a", 1, 2, digest=6).check().violated == ("integrity",)


def test_integrity_compares_bodies_with_the_truth_where_it_is_known() -> None:
    asked = []

    def contents(sender: str, inc: int, first: int, last: int) -> int:
        asked.append((sender, inc, first, last))
        return 5

    tale = Tale("ab").send("a", 1, 2, service="CAUSAL").deliver("ab", "a", 1, 2, digest=5)
    assert tale.check(contents=contents).violated == ()
    assert asked == [("a", 1, 1, 2)] * 2
    both_wrong = Tale("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1, digest=6)
    assert both_wrong.check(contents=contents).properties["integrity"].found == 2


@pytest.mark.parametrize("settled", [True, False])
def test_integrity_sees_a_sender_that_is_not_in_the_view(settled: bool) -> None:
    report = Tale("abc").deliver("a", "e", 1, service="CAUSAL").stop().check(settled)
    assert "integrity" in report.violated
    assert "a.1 delivered e.1#1, whose sender is not in v1" in str(report.violations[0])


def test_a_member_of_the_view_without_a_journal_may_have_sent_anything() -> None:
    tale = Tale("abc", boot="ab").deliver("a", "c", 1, service="CAUSAL")
    assert tale.check(settled=False).violated == ()
    tale = Tale("abc").deliver("a", "e", 1, service="CAUSAL", origin_vid="v0")
    assert "integrity" not in tale.check(settled=False).violated, "v0 may have had e in it"


def test_a_number_that_is_sent_twice_is_a_duplicate() -> None:
    tale = Tale("ab").send("a", 1, 2).send("a", 2, 3)
    assert "no-duplication" in tale.check(settled=False).violated


def test_an_overlap_with_an_earlier_delivery_is_a_duplicate_of_the_overlap_alone() -> None:
    tale = Tale("ab").send("a", 1, 5, service="CAUSAL").deliver("a", "a", 1, 5)
    tale.deliver("b", "a", 1, 3).deliver("b", "a", 3, 5)
    assert tale.check().violated == ("no-duplication",)


@pytest.mark.parametrize("op", [None, "CRASH"])
def test_what_lies_beyond_an_unclean_end_is_unverifiable(op: str | None) -> None:
    tale = Tale("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    if op is not None:
        tale.life("a", op)
    tale.deliver("b", "a", 2, service="CAUSAL", frame=2)
    report = tale.check(settled=False)
    assert report.violated == ()
    assert report.properties["integrity"].evaluated == 2


def test_a_hole_before_the_last_known_send_is_no_unclean_end() -> None:
    tale = Tale("ab").send("a", 2, service="CAUSAL").deliver("b", "a", 1, service="CAUSAL")
    assert "integrity" in tale.check(settled=False).violated


def test_a_basic_message_heard_twice_breaks_basic_too() -> None:
    tale = Tale("ab").send("a", 1, service="BASIC").deliver("ab", "a", 1).deliver("b", "a", 1)
    assert tale.check().violated == ("no-duplication", "basic")


# ---------------------------------------------------------------------------- causality


def relayed() -> Tale:
    """m1 goes to a and b, b tells c, c tells all: a must know m1 before it hears c."""
    tale = Tale("abc").send("a", 1, service="CAUSAL", to=["a", "b"]).deliver("b", "a", 1)
    tale.send("b", 1, service="CAUSAL", to=["b", "c"]).deliver("bc", "b", 1)
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
    tale = Tale("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.send("b", 1, service="BASIC").deliver("abc", "b", 1)
    assert tale.check(settled=False).violated == ()
    tale.send("b", 2, service="CAUSAL").deliver("abc", "b", 2)
    assert tale.check(settled=False).violated == ("reliable-causal",)


def test_a_gap_in_one_senders_messages_breaks_reliable_causal_only_if_it_was_addressed() -> None:
    def skipping(to: list[str]) -> Report:
        tale = Tale("ab").send("a", 1, service="CAUSAL", to=to).send("a", 2, service="CAUSAL")
        return tale.deliver("b", "a", 2).check(settled=False)

    assert skipping(["a"]).violated == ()
    assert skipping(["a", "b"]).violated == ("reliable-causal",)


# ---------------------------------------------------------------------------- order


def with_a_secret() -> Tale:
    """Position 1 belongs to a message that is not for c."""
    tale = Tale("abc").send("a", 1).send("a", 2, to=["a", "b"]).send("a", 3)
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "a", 2, pos=1).deliver("ab", "a", 3, pos=2)
    return tale


def test_a_hole_in_the_positions_is_legal_where_the_message_was_for_others() -> None:
    tale = with_a_secret().deliver("c", "a", 1, pos=0).deliver("c", "a", 3, pos=2)
    assert tale.check().violated == ()


def test_positions_must_count_what_was_for_others() -> None:
    tale = with_a_secret().deliver("c", "a", 1, pos=0).deliver("c", "a", 3, pos=1)
    assert tale.check().violated == ("running-prefix",)


def test_a_hole_is_a_skip_where_the_message_was_for_the_member() -> None:
    tale = Tale("abc").send("a", 1).send("b", 1).deliver("ab", "a", 1, pos=0)
    tale.deliver("abc", "b", 1, pos=1)
    report = tale.check(settled=False)
    assert report.violated == ("running-prefix",)
    assert "c.1 skipped a.1#1 at position 0" in report.violations[0].text


def test_a_shorter_sequence_is_a_prefix() -> None:
    tale = Tale("abc").send("a", 1).send("b", 1).deliver("abc", "a", 1, pos=0)
    assert tale.deliver("ab", "b", 1, pos=1).check(settled=False).violated == ()


def test_one_message_has_one_position_even_where_nothing_else_is_known() -> None:
    tale = Tale("ab").send("a", 1).deliver("a", "a", 1, pos=0).deliver("b", "a", 1, pos=4)
    assert tale.check().violated == ("running-prefix",)


def test_positions_grow_at_each_member() -> None:
    tale = Tale("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0).deliver("a", "b", 1, pos=1)
    tale.deliver("b", "b", 1, pos=1).deliver("b", "a", 1, pos=0)
    assert tale.check().violated == ("running-prefix",)


def test_an_ordered_message_has_a_position() -> None:
    assert Tale("a").send("a", 1).deliver("a", "a", 1).check().violated == ("running-prefix",)


def test_ranges_need_not_be_cut_at_the_same_places() -> None:
    tale = Tale("abc").send("a", 1, 4, frame=1).send("a", 5, 6, frame=1)
    tale.deliver("a", "a", 1, 6, pos=0, batch=0)
    tale.deliver("b", "a", 1, 2, pos=0, batch=0).deliver("b", "a", 3, 6, pos=2, batch=0)
    tale.deliver("c", "a", 1, 5, pos=0, batch=0).deliver("c", "a", 6, pos=5, batch=0)
    assert tale.check().violated == ()


@pytest.mark.parametrize("moving", [False, True])
def test_a_crashed_member_may_differ_only_if_a_change_decided_without_it(moving: bool) -> None:
    tale = Tale("abc").send("a", 1).send("b", 1)
    tale.deliver("c", "b", 1, pos=0).life("c", "CRASH")
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "b", 1, pos=1)
    if moving:
        tale.install("ab", "v2", "ab", 1, trans="ab")
    assert tale.check(settled=False).violated == (() if moving else ("running-prefix",))


def test_strong_total_order_is_counted_and_never_a_verdict() -> None:
    assert calm().check().statistics["strong-total-order"] == 0
    assert c_turns_the_order_round().check().statistics["strong-total-order"] == 2


def test_a_batch_is_in_the_order_of_senders() -> None:
    tale = Tale("ab").send("a", 1).send("b", 1)
    tale.deliver("ab", "b", 1, pos=0, batch=0).deliver("ab", "a", 1, pos=1, batch=0)
    assert tale.check().violated == ("toto-refinement",)


def test_a_batch_holds_nothing_that_follows_another_in_it() -> None:
    tale = Tale("ab").send("a", 1).deliver("ab", "a", 1, pos=0, batch=0).send("b", 1)
    assert tale.deliver("ab", "b", 1, pos=1, batch=0).check().violated == ("toto-refinement",)
    two_frames = Tale("a").send("a", 1).send("a", 2)
    two_frames.deliver("a", "a", 1, pos=0, batch=0).deliver("a", "a", 2, pos=1, batch=0)
    assert two_frames.check().violated == ("toto-refinement",)


def test_batches_do_not_go_back() -> None:
    tale = Tale("ab").send("a", 1).deliver("ab", "a", 1, pos=0, batch=1).send("b", 1)
    assert tale.deliver("ab", "b", 1, pos=1, batch=0).check().violated == ("toto-refinement",)


# ---------------------------------------------------------------------------- two views


def test_a_member_says_truly_which_view_it_came_from() -> None:
    tale = Tale("ab").install("ab", "v2", "ab", 1, trans="ab", prev_vid="v0")
    assert tale.check().violated == ("local-monotonicity",)


def test_members_that_parted_may_deliver_a_carried_message_in_two_views() -> None:
    tale = Tale("ab").send("a", 1, service="CAUSAL", phase=1)
    tale.install("a", "v2", "a", 1, trans="a").install("b", "v3", "b", 1, trans="b")
    tale.deliver("ab", "a", 1, phase=1)
    report = tale.check(settled=False)
    assert (report.violated, report.properties["same-view"].evaluated) == ((), 1)


def test_members_that_move_together_need_not_share_what_was_for_one_of_them() -> None:
    tale = Tale("ab").send("a", 1, to=["a"]).send("a", 2)
    tale.deliver("a", "a", 1, pos=0).deliver("ab", "a", 2, pos=1)
    report = tale.install("ab", "v2", "ab", 1, trans="ab").check()
    assert report.violated == ()
    assert report.properties["virtual-synchrony"].verdict == "holds"
    assert report.properties["weak-total-order"].verdict == "holds"


def test_a_marker_that_only_one_member_saw_is_a_difference() -> None:
    tale = Tale("ab").row("a", ev.TransMarker, vid="v1", at_pos=1)
    assert tale.install("ab", "v2", "ab", 1, trans="ab").check().violated == ("safe-marker",)


def test_of_a_journal_with_a_corrupt_stretch_nothing_is_asked_and_it_is_counted() -> None:
    tale = c_moves_on_without_a_message().row("c", ev.Corrupt, file="x", offset=0, length=9)
    report = tale.check()
    assert report.violated == ()
    assert report.statistics["torn-journals"] == 1


# ---------------------------------------------------------------------------- safe


def safely_delivered() -> tuple[Tale, int]:
    """a's safe message, for a and b, goes up at a; the simulator's time when it does."""
    tale = Tale("abc").send("a", 1, service="SAFE", to=["a", "b"]).deliver("a", "a", 1, pos=0)
    now = tale.rows[-1].sim_ns
    assert now is not None
    return tale, now


def test_safe_delivery_waits_until_the_whole_view_has_the_frame() -> None:
    tale, now = safely_delivered()
    had = {("b", "a", 1): now - 5, ("c", "a", 1): now}
    report = tale.check(settled=False, inserted=had)
    assert (report.violated, report.properties["safe-prefix"].evaluated) == ((), 2)
    late = tale.check(settled=False, inserted={**had, ("c", "a", 1): now + 1})
    assert late.violated == ("safe-prefix",)
    assert "c.1 had it only at" in late.violations[0].text
    never = tale.check(settled=False, inserted={("b", "a", 1): 0})
    assert "c.1 never had it (frame 1)" in never.violations[0].text


def test_a_receipt_of_stability_waits_for_the_whole_view_too() -> None:
    tale = Tale("ab").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.row("a", ev.Stable, sender="a", sender_inc=1, upto=1, vid="v1")
    assert tale.check(inserted={("b", "a", 1): 0}).violated == ()
    assert tale.check(inserted={}).violated == ("safe-prefix",)


def test_a_crash_excuses_from_a_safe_message_and_so_does_a_journal_that_just_ends() -> None:
    tale, _ = safely_delivered()
    assert tale.check(settled=False).properties["safe-prefix"].verdict == "unverifiable"
    assert "safe-prefix" in tale.check(settled=True).violated
    tale.life("b", "CRASH")
    assert "safe-prefix" not in tale.check(settled=True).violated


def test_after_the_marker_a_safe_message_promises_nothing() -> None:
    tale = Tale("ab").send("a", 1, service="SAFE")
    tale.deliver("a", "a", 1, pos=0, region="TRANSITIONAL")
    assert "safe-prefix" not in tale.check(inserted={}).violated


# ---------------------------------------------------------------------------- liveness


def test_nothing_is_owed_before_the_run_has_settled() -> None:
    tale = Tale("abc").send("a", 1, service="SAFE")
    assert tale.check(settled=False).violated == ()
    assert set(tale.check(settled=True).violated) == {
        "self-delivery",
        "safe-indication-liveness",
        *UNDELIVERED,
    }


def test_only_the_addressed_owe_a_delivery() -> None:
    tale = Tale("abc").send("a", 1, service="CAUSAL", to=["b"]).deliver("b", "a", 1)
    report = tale.check()
    assert report.violated == ()
    assert report.properties["multicast-liveness"].evaluated == 1
    assert report.properties["self-delivery"].evaluated == 0


def test_a_member_that_left_before_the_end_owes_nothing() -> None:
    tale = Tale("abc").life("c", "STOP").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    assert "multicast-liveness" not in tale.check().violated


def test_members_out_of_reach_owe_nothing_to_each_other() -> None:
    tale = Tale("ab").row("a", ev.Topology, component=["a"]).send("a", 1, service="CAUSAL")
    assert "multicast-liveness" not in tale.deliver("a", "a", 1).check().violated


# ---------------------------------------------------------------------------- random traces


@st.composite
def legal_tales(draw: st.DrawFn) -> Tale:
    """One global sequence; each member delivers a prefix of it, cut as it likes.

    A round is a set of concurrent frames, in the order of senders: a batch if ordered. Basic
    messages may go up at any time after their sending.
    """
    names = "abcd"[: draw(st.integers(1, 4))]
    tale = Tale(names)
    sequence: list[tuple[str, int, int, int | None, int | None]] = []
    basics: list[tuple[str, str, int, int]] = []
    numbers = dict.fromkeys(names, 0)
    cursors = dict.fromkeys(names, (0, 0))
    pos = 0

    def advance(node: str) -> bool:
        at, done = cursors[node]
        while at < len(sequence):
            sender, first, last, place, batch = sequence[at]
            to = tale.sent[sender, first].to
            if to is None or node in to:
                upto = draw(st.integers(first + done, last))
                given = {} if place is None else {"pos": place + done, "batch": batch}
                tale.deliver(node, sender, first + done, upto, **given)
                cursors[node] = (at + 1, 0) if upto == last else (at, upto + 1 - first)
                return True
            at, done = at + 1, 0
        cursors[node] = (at, 0)
        return False

    for turn in range(draw(st.integers(1, 5))):
        service = draw(st.sampled_from(["BASIC", "CAUSAL", "AGREED", "SAFE"]))
        for sender in sorted(draw(st.sets(st.sampled_from(names), min_size=1))):
            to = draw(st.none() | st.sets(st.sampled_from(names), min_size=1).map(sorted))
            first = numbers[sender] + 1
            cut = first + draw(st.integers(0, 3))
            last = cut + draw(st.integers(0, 2))
            numbers[sender] = last
            tale.send(sender, first, cut, service=service, to=to)
            if last > cut:  # the same frame, told in two rows
                tale.send(sender, cut + 1, last, service=service, to=to, frame=tale.frames[sender])
            if service == "BASIC":
                basics += [(n, sender, first, last) for n in to or names]
            elif service == "CAUSAL":
                sequence.append((sender, first, last, None, None))
            else:
                sequence.append((sender, first, last, pos, turn))
                pos += last - first + 1
        for node in draw(st.lists(st.sampled_from(names), max_size=8)):
            if draw(st.booleans()) and basics:
                tale.deliver(*basics.pop(draw(st.integers(0, len(basics) - 1))))
            else:
                advance(node)
    for node in names:
        while advance(node):
            pass
    for basic in basics:
        tale.deliver(*basic)
    tale.row(names, ev.Topology, component=list(names))
    return tale.stop()


def everywhere_at_once(tale: Tale) -> dict[tuple[str, str, int], int]:
    return {
        (holder, row.node, row.frame): row.sim_ns or 0
        for row in tale.rows
        if isinstance(row, ev.Send)
        for holder in tale.names
    }


def renumbered(rows: list[ev.Event]) -> list[ev.Event]:
    count: dict[str, int] = {}
    result: list[ev.Event] = []
    for row in rows:
        count[row.node] = count.get(row.node, 0) + 1
        result.append(msgspec.structs.replace(row, lseq=count[row.node]))
    return result


@settings(deadline=None)
@given(legal_tales())
def test_a_legal_trace_breaks_nothing(tale: Tale) -> None:
    report = tale.check(settled=True, inserted=everywhere_at_once(tale))
    assert report.violations == []
    assert report.properties["multicast-liveness"].verdict == "holds"
    assert report.statistics == {"strong-total-order": 0, "torn-journals": 0}


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_no_loss_of_evidence_makes_a_violation(tale: Tale, data: st.DataObject) -> None:
    """1. Journals that end anywhere. 2. Journals with holes anywhere."""
    inserted = everywhere_at_once(tale)
    ends = {n: data.draw(st.integers(0, len(tale.rows))) for n in tale.names}
    cut = [r for r in tale.rows if r.lseq <= ends[r.node]]
    assert check(cut, expect_liveness=False, inserted=inserted).violations == []
    lost = data.draw(st.sets(st.integers(0, len(tale.rows) - 1)))
    holed = [r for i, r in enumerate(tale.rows) if i not in lost]
    assert check(holed, expect_liveness=False, inserted=inserted).violations == []


@settings(deadline=None)
@given(legal_tales(), st.data())
def test_any_delivery_left_out_repeated_or_changed_is_caught(
    tale: Tale, data: st.DataObject
) -> None:
    at = data.draw(
        st.sampled_from([i for i, r in enumerate(tale.rows) if isinstance(r, ev.Deliver)])
    )
    row = tale.rows[at]
    assert isinstance(row, ev.Deliver)
    without = renumbered(tale.rows[:at] + tale.rows[at + 1 :])
    assert "multicast-liveness" in check(without, expect_liveness=True).violated
    twice = renumbered([*tale.rows[:at], row, *tale.rows[at:]])
    assert "no-duplication" in check(twice, expect_liveness=True).violated
    unsent = msgspec.structs.replace(row, first=row.first + 1000, last=row.last + 1000)
    changed = [*tale.rows[:at], unsent, *tale.rows[at + 1 :]]
    assert "integrity" in check(changed, expect_liveness=True).violated
    if row.pos is not None:
        moved_row = msgspec.structs.replace(row, pos=row.pos + 1)
        changed = [*tale.rows[:at], moved_row, *tale.rows[at + 1 :]]
        alone = sum(isinstance(r, ev.Deliver) and _overlap(r, row) for r in tale.rows) == 1
        assert alone or "running-prefix" in check(changed, expect_liveness=True).violated


def _overlap(a: ev.Deliver, b: ev.Deliver) -> bool:
    return a.sender == b.sender and a.first <= b.last and b.first <= a.last


def test_five_thousand_rows_take_well_under_a_second() -> None:
    tale = Tale("abcde")
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
