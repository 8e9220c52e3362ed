"""Cases: literal effects, literal counts."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from phalanx.core import effects as fx
from phalanx.core.ids import MemberId, View, ViewId
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import ANOTHER, Fragment, Relay
from phalanx.sim.coverage import ScenarioCoverage
from phalanx.sim.scenario.model import MS, Network, Scenario

A, B = MemberId("a"), MemberId("b")
ONE, TWO = ViewId(0, 0, b"11111111"), ViewId(1, 0, b"22222222")
CTX = b"contexts"


class FakeSeat:
    """The parts of a SimProcess that the coverage reads."""

    def __init__(self, me: MemberId) -> None:
        self.me = me
        self.view = View(ONE, (A, B), CTX)
        self.frame_max = 100


def counted(*steps: Any, crashed: tuple[MemberId, ...] = ()) -> dict[str, int]:
    """Each step is an effect of a, or a pair of a member and its effect."""
    cases = ScenarioCoverage()
    for member in crashed:
        cases.crashed(member)
    for step in steps:
        me, effect = step if isinstance(step, tuple) else (A, step)
        cases.note(FakeSeat(me), [effect])  # type: ignore[arg-type]
    return cases.counts


def installed(cause: Literal["boot", "removal", "join"] = "removal", **more: Any) -> Any:
    previous = None if cause == "boot" else ONE
    return fx.ViewInstalled(View(TWO, (A, B), CTX), previous, (), cause, **more)


def stepped(action: fx.Action, stage: fx.Stage, *failed: MemberId) -> fx.ViewChangeStep:
    return fx.ViewChangeStep(CTX, stage, action, (), (), failed)


def test_first_proposals_of_two_members_that_differ_are_counted_once_for_a_view() -> None:
    mine, other = stepped("FA", "IDLE", B), fx.ViewChangeStep(b"another", "IDLE", "FA", (), (), ())
    assert counted(mine, (B, mine)) == {}
    assert counted(mine, mine, (B, other), (B, other)) == {"concurrent_first": 1}
    assert counted(mine, (B, other), (MemberId("c"), mine)) == {"concurrent_first": 1}


def test_requests_and_repeats_are_counted_when_a_view_ends() -> None:
    stats = fx.LinkStats(B, ONE, frames=9, upto=9, missed=2, asked=3, repeated=0)
    more = fx.LinkStats(A, ONE, frames=9, upto=9, missed=0, asked=0, repeated=5)
    assert counted(stats, (B, more)) == {"fetched": 3, "repeated": 5}


def test_packets_of_others_that_a_member_passes_on_are_counted() -> None:
    codec = PacketCodec("cluster", "group")
    table = b"8 bytes."
    own, relayed, first = (
        codec.encode_fragment(Fragment(b"piece", table, 1, via, 7, 0, 1, repeat))
        for via, repeat in ((1, 1), (2, 1), (2, 0))
    )
    foreign = codec.encode_fragment(Fragment(b"piece", table, 1, ANOTHER, 7, 0, 1, 1))
    control = codec.encode(Relay(B, A, A))
    cases = ScenarioCoverage()
    cases.transmitted([own, first, foreign, control])
    assert cases.counts == {}
    cases.transmitted([own, relayed, relayed])
    assert cases.counts == {"forwarded": 2}


def test_messages_that_are_sent_in_a_change_are_counted() -> None:
    late = fx.Sent(3, 5, 1, fx.Service.AGREED, None, TWO, 1)
    assert counted(sent(1, 2), late) == {"sent_in_change": 3}


def judged(state: fx.PeerState) -> fx.PeerSuspicion:
    return fx.PeerSuspicion(B, state, "OPERATIONAL", "SILENCE")


def late() -> fx.PeerSuspicion:
    return fx.PeerSuspicion(B, "FAULTY", "OPERATIONAL", "T_CHANGE")


def accepted(first: int, last: int, size: int = 1, to: Any = None) -> fx.Accepted:
    return fx.Accepted(first, last, fx.Service.AGREED, to, size)


def sent(first: int, last: int) -> fx.Sent:
    return fx.Sent(first, last, 1, fx.Service.AGREED, None, TWO, 0)


def delivered(first: int, last: int, **more: Any) -> fx.Deliver:
    facts: dict[str, Any] = {
        "sender": A,
        "first": first,
        "last": last,
        "service": fx.Service.SAFE,
        "to": None,
        "view": TWO,
        "origin": TWO,
        "phase": 0,
        "region": fx.Region.REGULAR,
        "pos": 0,
        "batch": 0,
        "frame": 1,
        "payload": b"",
        "offset": 0,
        "lengths": (),
    }
    return fx.Deliver(**(facts | more))


def merged(parts: int) -> tuple[fx.MergedComponent, ...]:
    return tuple(fx.MergedComponent(ViewId(0, i, b"33333333"), (A,), (), ()) for i in range(parts))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([installed("boot")], {"views_boot": 1}),
        ([installed("removal"), (B, installed("removal"))], {"views_removal": 2}),
        (
            [installed("join", joined=(B,), merged=merged(2)), (B, installed("join"))],
            {"views_join": 2, "joined_1": 1, "merges_2": 1},
        ),
        (
            [installed("join", joined=(B, MemberId("c", 2), A), merged=merged(4))],
            {"views_join": 1, "joined_3_or_more": 1, "merges_3_or_more": 1, "restarted_joined": 1},
        ),
        (
            [stepped("START", "COLLECT"), stepped("COMMIT", "COMMIT"), stepped("FORGET", "IDLE")],
            {"attempts": 1, "commits": 1, "forgotten": 1},
        ),
        ([stepped("FA", "IDLE", B)], {}),
        ([stepped("COMMIT", "COMMIT", B)], {"commits": 1, "fault_in_join": 1}),
        ([stepped("COMMIT", "COMMIT")], {"commits": 1}),
        ([stepped("LEAVE", "COLLECT")], {"leave_in_join": 1}),
        ([stepped("FOLLOW", "IDLE")], {"followed": 1}),
        ([judged("SUSPECTED"), judged("SEMI"), judged("FAULTY"), judged("OPERATIONAL")],
         {"suspected": 1, "suspected_alive": 1, "semi": 1, "faulty": 1, "faulty_alive": 1,
          "cleared": 1}),
        ([(B, fx.Stopped("left")), judged("SUSPECTED"), judged("FAULTY")],
         {"stopped_left": 1, "suspected": 1, "faulty": 1}),
        ([stepped("CLOSED", "COLLECT"), (B, fx.Stopped("left")), judged("FAULTY")],
         {"faulty": 1, "judged_in_join": 1, "stopped_left": 1, "proof_by_tag": 1}),
        ([stepped("COMMIT", "COMMIT"), stepped("CLOSED", "IDLE"), installed("join")],
         {"commits": 1, "views_join": 1}),
        ([late(), stepped("FA", "IDLE", B), late()],
         {"left_out_t_change": 2, "early_t_speak": 1, "early_t_change": 1}),
        ([(B, fx.Stopped("left")), late()], {"stopped_left": 1, "left_out_t_change": 1}),
        ([fx.Transitional(ONE, 3, (A,))], {"markers": 1}),
        ([fx.NotSent(3, 5, (B,))], {"not_sent": 3}),
        ([fx.Stopped("left"), (B, fx.Stopped("name-in-use"))],
         {"stopped_left": 1, "stopped_name_in_use": 1}),
        ([fx.WindowClosed(0, 0), installed()], {"views_removal": 1, "window_closed_across": 1}),
        ([fx.WindowClosed(0, 0), fx.WindowOpened(0, 0), installed()], {"views_removal": 1}),
        ([accepted(1, 4), installed(), accepted(5, 5), sent(2, 5)],
         {"views_removal": 1, "held": 3}),
    ],
)  # fmt: skip
def test_effects_are_counted_as_cases(steps: list[Any], expected: dict[str, int]) -> None:
    assert counted(*steps) == expected


def test_a_view_by_the_word_of_others_is_counted() -> None:
    larger = fx.ViewChangeStep(b"larger", "IDLE", "FA", (), (), ())
    smaller, closed = stepped("FA", "IDLE", B), stepped("CLOSED", "IDLE")
    assert counted(smaller, closed) == {}
    assert counted(smaller, larger, closed) == {"proof_by_tag": 1}


def test_a_view_that_is_left_in_the_step_that_installs_it_is_counted() -> None:
    cases = ScenarioCoverage()
    change = stepped("FA", "IDLE", B)
    cases.note(FakeSeat(A), [change])  # type: ignore[arg-type]
    cases.note(FakeSeat(A), [installed(), change])  # type: ignore[arg-type]
    cases.note(FakeSeat(A), [change])  # type: ignore[arg-type]
    assert cases.counts == {"views_removal": 1, "transit": 1}


def test_the_crash_of_the_member_that_proposed_first_is_counted_until_its_next_view() -> None:
    change = stepped("FA", "IDLE", B)
    for steps, crashed, expected in (
        ([change, (B, change)], A, {"initiator_crashed": 1}),
        ([change, (B, change)], B, {}),
        ([change, installed()], A, {"views_removal": 1}),
    ):
        cases = ScenarioCoverage()
        for step in steps:
            me, effect = step if isinstance(step, tuple) else (A, step)
            cases.note(FakeSeat(me), [effect])  # type: ignore[arg-type]
        assert cases.has_proposed(B) == ((B, change) in steps)
        cases.crashed(crashed)
        assert cases.counts == expected


def test_what_members_count_themselves_is_added_up() -> None:
    cases = ScenarioCoverage()
    cases.situations({"late_frames": 2})
    cases.situations({"late_frames": 1, "future_frames": 5})
    assert cases.counts == {"late_frames": 3, "future_frames": 5}


@pytest.mark.parametrize(
    ("before", "delivery", "expected"),
    [
        ([], delivered(1, 3), {}),
        ([], delivered(1, 3, origin=ONE), {"carried": 3}),
        (
            [],
            delivered(1, 3, region=fx.Region.TRANSITIONAL),
            {"transitional": 3, "transitional_safe": 3},
        ),
        ([accepted(1, 1, size=500)], delivered(1, 1), {"large_across": 1}),
        ([accepted(1, 1, size=500)], delivered(1, 1, view=ONE, origin=ONE), {}),
        ([accepted(1, 1, size=100)], delivered(1, 1), {}),
        ([accepted(1, 2, to=(A,))], delivered(1, 2, to=(A,)), {"subset_across": 2}),
        (
            [],
            delivered(1, 2, to=(A, MemberId("b", 2)), origin=ONE),
            {"carried": 2, "carried_subset_lost": 2},
        ),
        ([], delivered(1, 2, to=(A, MemberId("c")), origin=ONE), {"carried": 2}),
        ([], delivered(1, 2, to=(A, B), origin=ONE), {"carried": 2}),
    ],
)
def test_deliveries_are_counted_once_views_have_changed(
    before: list[Any], delivery: fx.Deliver, expected: dict[str, int]
) -> None:
    assert counted(*before, installed(), (B, delivery)) == {"views_removal": 1} | expected


def test_what_comes_from_the_crashed_is_counted() -> None:
    assert counted(delivered(1, 2), crashed=(A,)) == {"from_crashed": 2}
    assert counted(delivered(1, 2), crashed=(B,)) == {}


def test_views_of_nine_or_more_are_counted() -> None:
    nine = tuple(MemberId(f"m{i}") for i in range(9))
    views = [fx.ViewInstalled(View(TWO, m, CTX), None, (), "boot") for m in (nine, nine[1:])]
    assert counted(*views) == {"views_boot": 2, "large_group": 1}


@pytest.mark.parametrize(
    ("hello", "near"), [(11, False), (13, True), (25, True), (49, True), (51, False)]
)
def test_a_run_with_joins_and_hellos_near_the_delay_is_counted(hello: int, near: bool) -> None:
    network = Network(delay_ns=20 * MS, jitter_ns=5 * MS)
    scenario = Scenario(members=("a",), network=network, config={"hello_ns": hello * MS})
    cases = ScenarioCoverage()
    cases.ended(scenario, 0)
    assert cases.counts == {}
    cases.note(FakeSeat(A), [installed("join")])  # type: ignore[arg-type]
    cases.ended(scenario, 2)
    assert ("hello_near_delay" in cases.counts) == near
    assert cases.counts["one_way_flaps"] == 2


def test_a_process_is_compared_with_those_of_its_name_that_live() -> None:
    cases = ScenarioCoverage()
    cases.started(MemberId("a", 2), [])
    cases.started(MemberId("a", 3), [MemberId("a", 2)])
    assert cases.counts == {}
    cases.started(MemberId("a", 1), [MemberId("a", 2)])
    assert cases.counts == {"lower_namesake": 1}
    cases.started(MemberId("a", 4), [MemberId("a", 3), MemberId("a", 5)])
    assert cases.counts == {"lower_namesake": 2, "third_namesake": 1}


def test_who_is_told_to_leave_in_a_join_is_counted() -> None:
    cases = ScenarioCoverage()
    cases.note(FakeSeat(A), [stepped("START", "COLLECT")])  # type: ignore[arg-type]
    cases.leave_requested(B)
    assert "leave_in_join" not in cases.counts
    cases.leave_requested(A)
    assert cases.counts["leave_in_join"] == 1
