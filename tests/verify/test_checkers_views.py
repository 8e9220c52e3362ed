"""The finer points of what the checkers ask of views: where messages belong, who moves along,
where the marker stands, what is safe, and how changes end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.verify.trace_builder import TraceBuilder, incarnations, names

from phalanx.journal import schema as ev
from phalanx.verify.checkers import Mode

# ---------------------------------------------------------------------------- installs


@pytest.mark.parametrize("says", ["v0", None])
def test_a_member_says_truly_which_view_it_came_from(says: str | None) -> None:
    tale = TraceBuilder("ab").install("ab", "v2", "ab", 1, previous=says)
    assert tale.check().violated == ("local-monotonicity",)


def test_a_first_view_comes_from_nowhere() -> None:
    tale = TraceBuilder("ab", boot="a").install("b", "v1", "ab", previous="v0")
    assert tale.check().violated == ("local-monotonicity",)


def test_one_view_has_one_cause_and_one_set_of_components() -> None:
    tale = TraceBuilder("ab", boot="").install("a", "va", "a").install("b", "vb", "b")
    tale.install("a", "v1", "ab", joins=1, components=["va", "vb"])
    tale.install("b", "v1", "ab", joins=1, components=["vb"])
    assert tale.check().violated == ("vid-sanity",)


def _roles(members: str, *serials: int, operations: str = "read") -> dict[str, Any]:
    """The columns of a view with roles."""
    return {
        "role_members": names(members),
        "role_incarnations": incarnations(members),
        "role_serials": list(serials),
        "role_operations": [operations for _ in members],
    }


def test_one_view_has_one_set_of_roles() -> None:
    """V11: members that install one view have the same roles in it."""

    def set_roles(**of_b: Any) -> TraceBuilder:
        tale = TraceBuilder("ab").install("a", "v2", "ab", 1, **_roles("a", 1), transitional="ab")
        return tale.install("b", "v2", "ab", 1, **of_b, transitional="ab")

    assert set_roles(**_roles("a", 1)).check().violated == ()
    assert set_roles().check().violated == ("vid-sanity",)
    assert set_roles(**_roles("a", 2)).check().violated == ("vid-sanity",)
    assert set_roles(**_roles("a", 1, operations="write")).check().violated == ("vid-sanity",)
    assert set_roles(**_roles("ab", 1, 1)).check().violated == ("vid-sanity",)


def test_roles_of_members_that_move_together_never_go_back() -> None:
    def moved(**second: Any) -> TraceBuilder:
        tale = TraceBuilder("ab").install("ab", "v2", "ab", 1, **_roles("ab", 1, 5))
        return tale.install("ab", "v3", "ab", 2, **second)

    assert moved(**_roles("ab", 1, 6)).check().violated == ()
    report = moved(**_roles("ab", 1, 4)).check()
    assert report.violated == ("local-monotonicity",)
    assert "with b.1, whose role went back from number 5 to 4" in report.violations[0].text
    assert moved(**_roles("b", 5)).check().violated == ("local-monotonicity",)


def test_a_member_that_comes_from_elsewhere_brings_the_role_that_it_has_there() -> None:
    tale = TraceBuilder("ab").install("a", "v2", "ab", 1, **_roles("b", 2))
    tale.install("b", "w1", "b", 1)
    tale.install("a", "v3", "ab", joins=1, components=["v2", "w1"], transitional="a")
    tale.install("b", "v3", "ab", joins=1, components=["v2", "w1"], transitional="b")
    assert "local-monotonicity" not in tale.check(settled=False).violated


def test_two_components_that_join_each_other_join_in_one_view() -> None:
    """Neither has the other's predecessor, so plain mutual agreement would not see it."""

    def joining(vid_of_b: str, components: list[str]) -> TraceBuilder:
        tale = TraceBuilder("ab", boot="").install("a", "va", "a").install("b", "vb", "b")
        tale.install("a", "v1", "ab", joins=1, components=["va", "vb"])
        return tale.install("b", vid_of_b, "ab", joins=1, components=components)

    assert joining("v1", ["va", "vb"]).check().violated == ()
    report = joining("v2", ["va", "vb"]).check()
    assert report.violated == ("mutual-agreement",)
    assert "joining va and vb, a.1 installed v1 and b.1 v2" in report.violations[0].text
    assert joining("v2", ["vb", "vx"]).check().violated == (), "b joined another"


def test_a_transitional_set_names_only_members_of_both_views() -> None:
    tale = TraceBuilder("abc").install("ab", "v2", "ab", 1, transitional="abc")
    report = tale.check()
    assert report.violated == ("transitional-set",)
    assert "c.1 not at all, but c.1 is in a.1's transitional set" in report.violations[0].text


def test_who_comes_from_elsewhere_is_counted_and_not_held_against_anyone() -> None:
    tale = TraceBuilder("ab").install("b", "v2", "b", 1)
    for letter in "ab":
        tale.install(letter, "v3", "ab", joins=1, components=["v1", "v2"])
    report = tale.check(settled=False)
    assert report.violated == ()
    assert report.statistics["successors-apart"] == 1


def test_the_next_life_of_a_name_is_another_member() -> None:
    tale = TraceBuilder("ab").life("a", "CRASH").install("A", "vA", "A").install("b", "v2", "b", 1)
    tale.install("A", "v3", "Ab", joins=1, components=["v2", "vA"], transitional="A")
    tale.install("b", "v3", "Ab", joins=1, components=["v2", "vA"], transitional="b")
    assert tale.topology("Ab").stop().check().violated == ()
    wrong = TraceBuilder("ab").life("a", "CRASH").install("A", "v2", "ab", 1, transitional="")
    assert "self-inclusion" in wrong.check(settled=False).violated


def test_the_marker_belongs_to_the_view_the_member_is_in() -> None:
    tale = TraceBuilder("a").row("a", ev.Transitional, view="v0", pos=0)
    assert tale.check().violated == ("initial-view",)


# ---------------------------------------------------------------------------- where messages go up


@pytest.mark.parametrize(("mode", "judged"), [("hold", 2), ("flow", 0), (None, 0)])
def test_only_hold_promises_delivery_in_the_sending_view(mode: Mode | None, judged: int) -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1).install("ab", "v2", "ab", 1)
    report = tale.deliver("ab", "a", 1).check(mode=mode)
    assert report.properties["sending-view"].evaluated == judged
    assert report.violated == (("sending-view",) if judged else ())
    assert report.statistics["other-view-deliveries"] == 2


def test_a_message_sent_before_any_change_goes_up_in_its_view_or_nowhere() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", to="b").install("ab", "v2", "ab", 1)
    report = tale.deliver("b", "a", 1).check(mode="flow")
    assert report.violated == ("same-view",)
    assert "in v2, it was sent in v1 before any change" in report.violations[0].text


def parted() -> TraceBuilder:
    """a's message of the change goes up at a in v2, and at b in a view that a never had."""
    tale = TraceBuilder("ab").send("a", 1, service="CAUSAL", phase=1)
    tale.install("a", "v2", "a", 1).install("b", "v3", "ab", 1)
    return tale.deliver("ab", "a", 1)


def test_members_that_parted_may_deliver_a_carried_message_in_two_views() -> None:
    report = parted().check(settled=False, mode="flow")
    assert (report.violated, report.properties["same-view"].evaluated) == ((), 1)
    strict = parted().check(settled=False, mode="hold")
    assert strict.violated == ("sending-view", "same-view")


def test_members_that_move_together_need_not_share_what_was_for_one_of_them() -> None:
    tale = TraceBuilder("ab").send("a", 1, to="a").send("a", 2)
    tale.deliver("a", "a", 1, pos=0).deliver("ab", "a", 2, pos=1)
    report = tale.install("ab", "v2", "ab", 1).check()
    assert report.violated == ()
    assert report.properties["virtual-synchrony"].verdict == "holds"
    assert report.properties["weak-total-order"].verdict == "holds"


def test_members_that_move_together_may_cut_ranges_otherwise() -> None:
    tale = TraceBuilder("ab").send("a", 1, 4, service="CAUSAL").deliver("a", "a", 1, 4)
    tale.deliver("b", "a", 1, 3)
    gap = tale.install("ab", "v2", "ab", 1).check(settled=False)
    assert gap.violated == ("virtual-synchrony",)
    assert "a.1 delivered a.1#4 in v1 before v2, b.1 did not" in gap.violations[0].text
    tale = TraceBuilder("ab").send("a", 1, 4, service="CAUSAL").deliver("a", "a", 1, 4)
    tale.deliver("b", "a", 1, 3).deliver("b", "a", 4)
    assert tale.install("ab", "v2", "ab", 1).check().violated == ()


def test_members_that_part_may_have_delivered_and_ordered_otherwise() -> None:
    tale = TraceBuilder("ab").send("a", 1).send("b", 1)
    tale.deliver("a", "a", 1, pos=0, batch=0).deliver("a", "b", 1, pos=1, batch=1)
    tale.deliver("b", "b", 1, pos=0, batch=0)
    report = tale.install("a", "v2", "a", 1).install("b", "v3", "b", 1).check()
    assert report.violated == ()


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("how", ["CRASH", "LEAVE"])
def test_who_is_gone_may_differ_only_if_a_change_decided_without_it(moving: bool, how: str) -> None:
    tale = TraceBuilder("abc").send("a", 1).send("b", 1).deliver("c", "b", 1, pos=0)
    if how == "CRASH":
        tale.life("c", "CRASH")
    else:
        tale.change("c", "LEAVE")
    tale.deliver("ab", "a", 1, pos=0).deliver("ab", "b", 1, pos=1)
    if moving:
        tale.install("ab", "v2", "ab", 1)
    assert tale.check(settled=False).violated == (() if moving else ("running-prefix",))


# ---------------------------------------------------------------------------- gaps


def test_what_was_delivered_in_another_component_is_no_gap() -> None:
    """b's answer follows a's message, which only their component saw."""
    tale = TraceBuilder("abc").install("ab", "v2", "ab", 1).install("c", "v3", "c", 1)
    tale.send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    for letters in ("ab", "c"):
        tale.install(letters, "v4", "abc", joins=1, components=["v2", "v3"])
    tale.send("b", 1, service="CAUSAL").deliver("abc", "b", 1)
    report = tale.check()
    assert report.violated == ()
    assert report.properties["reliable-causal"].evaluated == 3


def carried_and_answered(tale: TraceBuilder) -> TraceBuilder:
    """a's message of the change goes up at b in the next view, b answers, c hears the answer."""
    tale.send("a", 1, service="CAUSAL", phase=1, to="bc").install(
        "bc", "v2", "abc", 1, transitional="abc"
    )
    return tale.deliver("b", "a", 1).send("b", 1, service="CAUSAL", to="c").deliver("c", "b", 1)


def test_a_carried_message_that_is_missing_in_its_home_is_a_gap() -> None:
    tale = carried_and_answered(TraceBuilder("abc"))
    tale.install("a", "v2", "abc", 1, transitional="abc")
    assert tale.check(settled=False).violated == ("reliable-causal",)


def test_where_the_home_cannot_be_known_anybodys_delivery_tells_it() -> None:
    tale = carried_and_answered(TraceBuilder("abc")).life("a", "CRASH")
    assert tale.check(settled=False).violated == ("reliable-causal",)
    alone = TraceBuilder("abc").send("a", 1, service="CAUSAL", phase=1, to="c").life("a", "CRASH")
    alone.send("a", 2, service="CAUSAL", phase=1, to="c").install("bc", "v2", "abc", 1)
    assert alone.deliver("c", "a", 2).check(settled=False).violated == ()


# ---------------------------------------------------------------------------- the marker


def test_a_marker_that_only_one_member_saw_is_a_difference() -> None:
    tale = TraceBuilder("ab").marker("a", 1, along="ab")
    assert tale.install("ab", "v2", "ab", 1).check().violated == ("safe-marker",)


def test_what_comes_after_the_marker_and_only_that_is_transitional() -> None:
    early = (
        TraceBuilder("a").send("a", 1, service="CAUSAL").deliver("a", "a", 1, region="TRANSITIONAL")
    )
    assert early.check().violated == ("safe-marker",)
    late = TraceBuilder("a").send("a", 1, service="CAUSAL").marker("a", 0).deliver("a", "a", 1)
    assert late.check().violated == ("safe-marker",)
    fresh = (
        TraceBuilder("a").marker("a", 0).install("a", "v2", "a", 1).send("a", 1, service="CAUSAL")
    )
    assert fresh.deliver("a", "a", 1).check().violated == ()


@pytest.mark.parametrize(("along", "legal"), [("ab", True), ("abc", False), ("a", False)])
def test_the_marker_names_those_that_move_on_together(along: str, legal: bool) -> None:
    tale = TraceBuilder("abc").marker("ab", 0, along).install("ab", "v2", "ab", 1)
    report = tale.check()
    assert report.violated == (() if legal else ("safe-marker",))
    if not legal:
        text = "the marker of v1 at a.1 names others than those that move on with it to v2"
        assert text in report.violations[0].text


def test_a_marker_of_a_view_that_nobody_is_known_to_have_left_names_anybody() -> None:
    assert TraceBuilder("abc").marker("ab", 0, "ac").check(settled=False).violated == ()


def test_a_marker_of_an_older_journal_names_nobody() -> None:
    tale = TraceBuilder("abc")
    for letter in "ab":
        tale.row(letter, ev.Transitional, view="v1", pos=0)
    assert tale.install("ab", "v2", "ab", 1).check().violated == ()


@pytest.mark.parametrize(("pos", "legal"), [(0, False), (1, True), (2, False)])
def test_the_marker_stands_where_it_says(pos: int, legal: bool) -> None:
    tale = TraceBuilder("a").send("a", 1).send("a", 2, service="SAFE").deliver("a", "a", 1, pos=0)
    tale.marker("a", pos).deliver("a", "a", 2, pos=1, region="TRANSITIONAL")
    report = tale.install("a", "v2", "a", 1).check(settled=False)
    assert report.violated == (() if legal else ("safe-marker",))


# ---------------------------------------------------------------------------- safe


def safely_delivered() -> TraceBuilder:
    """a's safe message, for a and b, goes up at a."""
    return TraceBuilder("abc").send("a", 1, service="SAFE", to="ab").deliver("a", "a", 1, pos=0)


B_HAS, C_HAS = ("b", 1, "a", 1, 1), ("c", 1, "a", 1, 1)


def test_safe_delivery_waits_until_the_whole_view_has_the_frame() -> None:
    tale = safely_delivered()
    had = {B_HAS: tale.now - 5, C_HAS: tale.now}
    report = tale.check(settled=False, inserted=had)
    assert (report.violated, report.properties["safe-prefix"].evaluated) == ((), 2)
    late = tale.check(settled=False, inserted={**had, C_HAS: tale.now + 1})
    assert late.violated == ("safe-prefix",)
    assert "c.1 had it only at" in late.violations[0].text
    never = tale.check(settled=False, inserted={B_HAS: 0})
    assert "c.1 never had it (frame 1)" in never.violations[0].text


def test_what_an_earlier_life_had_does_not_count() -> None:
    tale = TraceBuilder("aB").send("a", 1, service="SAFE").deliver("aB", "a", 1, pos=0)
    assert tale.check(inserted={("b", 2, "a", 1, 1): 0}).violated == ()
    assert tale.check(inserted={("b", 1, "a", 1, 1): 0}).violated == ("safe-prefix",)


def test_the_earliest_of_those_who_deliver_is_asked() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="SAFE").deliver("b", "a", 1, pos=0)
    had = {B_HAS: tale.now - 1}
    assert tale.deliver("a", "a", 1, pos=0).check(inserted=had).violated == ()
    assert tale.check(inserted={B_HAS: tale.now}).violated == ("safe-prefix",)


def test_a_crash_excuses_from_a_safe_message_and_so_does_a_journal_that_just_ends() -> None:
    tale = safely_delivered()
    assert tale.check(settled=False).properties["safe-prefix"].verdict == "unverifiable"
    assert "safe-prefix" in tale.check(settled=True).violated
    tale.life("b", "CRASH")
    assert "safe-prefix" not in tale.check(settled=True).violated


def test_a_safe_message_goes_up_in_the_same_view_at_those_who_move_on() -> None:
    tale = (
        TraceBuilder("ab")
        .send("a", 1, service="SAFE", phase=1, view="v1")
        .deliver("a", "a", 1, pos=0)
    )
    tale.install("ab", "v2", "ab", 1).deliver("b", "a", 1, pos=0)
    report = tale.check(settled=False)
    assert "safe-prefix" in report.violated
    assert "b.1 did not deliver it there" in report.properties["safe-prefix"].violations[0].text


def test_after_the_marker_a_safe_message_promises_nothing() -> None:
    tale = TraceBuilder("ab").send("a", 1, service="SAFE").marker("a", 0)
    tale.deliver("a", "a", 1, pos=0, region="TRANSITIONAL")
    assert "safe-prefix" not in tale.check(inserted={}).violated


@pytest.mark.parametrize(
    ("end", "known", "wrong"),
    [("CRASH", True, True), ("CRASH", False, False), ("STOP", False, True), (None, True, False)],
)
def test_nothing_is_safe_in_a_view_that_a_member_never_installed(
    end: str | None, known: bool, wrong: bool
) -> None:
    """Unless its journal may have lost the install: a crash may cost it, but no simulation."""
    tale = TraceBuilder("abc", boot="").install("abc", "v0", "abc").install("ab", "v1", "abc", 1)
    tale.send("a", 1, service="SAFE", to="a").deliver("a", "a", 1, pos=0)
    if end is not None:
        tale.life("c", end)
    had = {B_HAS: 0, C_HAS: 0} if known else None
    report = tale.check(settled=False, inserted=had)
    assert report.violated == (("safe-prefix",) if wrong else ())
    if wrong:
        assert "in v1, which c.1 never installed" in report.violations[0].text


# ---------------------------------------------------------------------------- how changes end


def test_those_within_reach_end_in_one_view_not_only_in_equal_ones() -> None:
    tale = TraceBuilder("ab").install("a", "v2", "ab", 1).install("b", "v3", "ab", 1).topology("ab")
    report = tale.check()
    assert "membership-precision" in report.violated
    text = report.properties["membership-precision"].violations[0].text
    assert text == "a.1 ended in v2, b.1 within reach in v3"


def test_of_a_component_those_count_that_live() -> None:
    tale = TraceBuilder("abc").topology("abc").life("c", "CRASH").install("ab", "v2", "ab", 1)
    assert tale.stop().check().violated == ()


def test_an_old_life_in_the_last_view_is_not_precise() -> None:
    tale = TraceBuilder("ab").life("b", "CRASH").install("B", "vB", "B").topology("aB").stop()
    report = tale.check()
    assert report.violated == ("membership-precision",)
    assert "a.1 ended in v1 of a.1, b.1, but could reach a.1, b.2" in report.violations[0].text


def test_two_that_reach_each_other_do_not_live_under_one_name() -> None:
    tale = TraceBuilder("a").install("A", "vA", "A").topology("aA").stop()
    report = tale.check()
    assert report.violated == ("membership-precision",)
    assert "a.1 and a.2 live under one name, within reach" in str(report.violations[0])


def test_two_that_are_apart_may_live_under_one_name() -> None:
    tale = TraceBuilder("b").install("a", "va", "a").install("A", "vA", "A").topology("a", "A", "b")
    report = tale.stop().check()
    assert report.violated == ()
    assert report.properties["membership-precision"].evaluated == 1, "b is alone, and only b"


def test_a_change_ends_with_a_view_or_is_forgotten() -> None:
    tale = TraceBuilder("a").change("a", "START", "COLLECT").change("a", "FORGET")
    tale.change("a", "FA").change("a", "CLOSED").install("a", "v2", "a", 1)
    report = tale.check()
    assert (report.violated, report.properties["protocol-termination"].evaluated) == ((), 2)


def test_a_join_goes_on_through_a_removal() -> None:
    tale = TraceBuilder("ab").change("a", "COMMIT", "COMMIT").change("a", "CLOSED", "COMMIT")
    tale.install("a", "v2", "a", 1)
    assert tale.check().violated == ("protocol-termination",)
    tale.change("a", "CLOSED").install("a", "v3", "a", joins=1, components=["v2"])
    assert tale.check().violated == ()


def test_who_is_gone_or_has_not_settled_need_not_end_its_change() -> None:
    tale = TraceBuilder("ab").change("a", "START", "COLLECT")
    assert tale.check(settled=False).violated == ()
    assert tale.life("a", "CRASH").check().violated == ()


def test_views_without_a_cause_are_too_many() -> None:
    tale = TraceBuilder("ab").install("ab", "v2", "ab", 1)
    assert tale.check().violated == ()
    assert tale.check(changes_max=1).violated == ()
    report = tale.check(settled=False, changes_max=0)
    assert report.violated == ("bounded-views",)
    assert "a.1 installed 2 views, although nothing gave cause for more than 1" in str(
        report.violations[0]
    )


def test_views_count_from_the_last_disturbance() -> None:
    tale = TraceBuilder("ab").topology("ab")
    for removals in range(1, 6):
        tale.install("ab", f"v{removals + 1}", "ab", removals)
    pause_ns = tale.now
    for removals in range(6, 11):
        tale.install("ab", f"v{removals + 1}", "ab", removals)
    assert tale.check().violated == ("bounded-views",)
    assert tale.check(undisturbed_ns=pause_ns).violated == ()
    assert tale.topology("ab").check().violated == ()


# ---------------------------------------------------------------------------- statistics


def test_of_removals_those_of_the_living_and_near_are_counted_as_false() -> None:
    tale = TraceBuilder("abc").topology("abc").install("ab", "v2", "ab", 1)
    assert tale.check(settled=False).statistics["false-removals"] == 1
    crashed = TraceBuilder("abc").topology("abc").life("c", "CRASH").install("ab", "v2", "ab", 1)
    assert crashed.check(settled=False).statistics["false-removals"] == 0
    far = TraceBuilder("abc").topology("abc").topology("ab", "c").install("ab", "v2", "ab", 1)
    assert far.check(settled=False).statistics["false-removals"] == 0


def test_the_hold_gap_is_the_time_of_a_change_that_a_message_waits() -> None:
    tale = TraceBuilder("a").submit("a", 1).change("a", "FA").submit("a", 2)
    began = tale.rows[-2].t_ns
    tale.install("a", "v2", "a", 1)
    ended = tale.rows[-1].t_ns
    tale.send("a", 1).send("a", 2).deliver("a", "a", 1, pos=0).deliver("a", "a", 2, pos=1)
    assert tale.check().statistics["hold-gap-ns"] == ended - began


def test_the_hold_gap_leaves_out_the_time_the_window_was_closed() -> None:
    tale = TraceBuilder("a").submit("a", 1).change("a", "FA")
    tale.row("a", ev.Window, op="CLOSED", bytes=1, frames=1)
    tale.row("a", ev.Window, op="OPENED", bytes=1, frames=1).install("a", "v2", "a", 1)
    tale.send("a", 1).deliver("a", "a", 1, pos=0)
    assert tale.check().statistics["hold-gap-ns"] == 20


def test_proposals_are_counted_up_to_the_view_they_led_to() -> None:
    tale = TraceBuilder("a").change("a", "START", "COLLECT").change("a", "COMMIT", "COMMIT")
    tale.change("a", "FOLLOW", "COMMIT").change("a", "CLOSED").install("a", "v2", "a", 1)
    tale.change("a", "COMMIT", "COMMIT").install("a", "v3", "a", 2)
    assert tale.check().statistics["commits-max"] == 2


def test_of_a_journal_with_a_corrupt_stretch_nothing_is_asked_and_it_is_counted() -> None:
    tale = TraceBuilder("abc").send("a", 1, service="CAUSAL").deliver("ab", "a", 1)
    tale.install("abc", "v2", "abc", 1)
    assert tale.check().violated == ("virtual-synchrony",)
    report = tale.row("c", ev.Corrupt, file="x", offset=0, length=9).check()
    assert report.violated == ()
    assert report.statistics["torn-journals"] == 1
