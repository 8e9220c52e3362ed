"""What one view hands on to the next."""

from __future__ import annotations

import pytest
from tests.core.forged_packets import made_up

from phalanx.core.effects import Service
from phalanx.core.ids import MemberId, View, boot_view
from phalanx.core.membership.carryover import ViewOrigin, adopt, origin_of
from phalanx.core.membership.instructions import InstallView
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.membership.statements import Issue
from phalanx.core.wire.frame_codec import encode_tag
from phalanx.core.wire.frames import Component, DeliveredVector, Frame, FrameKind, MessageRun

A, B, C, D = (MemberId(name) for name in "abcd")
HOME, AWAY = boot_view([A, B]), boot_view([C])
OTHER = made_up([A, B])
JOINED = proposal_of([component_of(HOME), component_of(AWAY)])
ISSUES = {
    A: Issue(9, 7, DeliveredVector()),
    B: Issue(5, 5, DeliveredVector()),
    C: Issue(2, 0, DeliveredVector()),
}
ORIGIN = origin_of(InstallView(HOME, JOINED, ISSUES))


def frame(
    number: int,
    where: View | Component = HOME,
    phase: int = 1,
    wire: int = 0,
    to: tuple[int, ...] | None = None,
) -> Frame:
    run = MessageRun(Service.AGREED, number, 1, to, 0, (0,))
    view = where.id if isinstance(where, View) else where.view
    return Frame(
        wire, number, FrameKind.DATA, phase, b"", encode_tag(view), (), (), number, [run], None,
        b"", 0, True, wire=wire,
    )  # fmt: skip


# ---------------------------------------------------------------------------- what is carried


def test_the_origin_of_a_view_says_where_each_member_came_from_and_what_closed_it() -> None:
    assert ORIGIN.view == JOINED.view
    assert ORIGIN.entries == {A: HOME.id, B: HOME.id, C: AWAY.id}
    assert ORIGIN.starts == {A: 7, B: 5, C: 0}
    assert ORIGIN.closings == {A: 9, B: 5, C: 2}


def test_frames_of_phase_1_after_the_start_are_carried() -> None:
    assert [n for n in range(6, 12) if ORIGIN.carries(frame(n), A)] == [8, 9, 10, 11]
    assert ORIGIN.carries(frame(1, AWAY), C)


def test_a_frame_of_phase_0_is_not_carried() -> None:
    assert not ORIGIN.carries(frame(8, phase=0), A)


@pytest.mark.parametrize("where", [OTHER, AWAY, JOINED.view], ids=["another", "c's", "the next"])
def test_a_frame_from_a_view_that_its_sender_did_not_come_from_is_not_carried(
    where: View | Component,
) -> None:
    assert not ORIGIN.carries(frame(8, where), A)


def test_a_frame_of_somebody_who_is_not_in_the_view_is_not_carried() -> None:
    assert not ORIGIN.carries(frame(8), D)


def test_nothing_is_carried_into_a_boot_view() -> None:
    assert not ViewOrigin(HOME).carries(frame(8), A)


# ---------------------------------------------------------------------------- in whose terms


RANKS = {A: 0, B: 1, C: 2}


def test_a_carried_frame_follows_frames_of_those_that_came_the_same_way() -> None:
    """It was sent in a view of a, b, c and d; d is gone, and c comes from elsewhere."""
    made = frame(9, wire=1)
    adopt(made, (A, B, C, D), {A: 8, B: 9, C: 4, D: 6}, ORIGIN, RANKS)
    assert (made.sender, made.ack_members, made.ack_numbers) == (1, (0,), (8,))


def test_a_carried_frame_does_not_follow_members_that_it_never_heard() -> None:
    made = frame(9, wire=1)
    adopt(made, (A, B), {A: 0, B: 9}, ORIGIN, RANKS)
    assert (made.ack_members, made.ack_numbers) == ((), ())


def test_a_carried_frame_gets_the_ranks_of_the_view_that_it_is_carried_into() -> None:
    origin = ViewOrigin(JOINED.view, {B: HOME.id, C: HOME.id}, {B: 0, C: 0}, {})
    made = frame(4, wire=2, to=(1, 2))
    adopt(made, (A, B, C), {A: 3, B: 8, C: 4}, origin, {B: 0, C: 1, D: 2})
    assert (made.sender, made.ack_members, made.ack_numbers) == (1, (0,), (8,))
    assert (made.runs[0].to, made.runs[0].names) == ((0, 1), (B, C))


def test_receivers_that_are_gone_are_still_named() -> None:
    made = frame(8, wire=0, to=(0, 2))
    adopt(made, (A, B, D), {A: 8}, ORIGIN, RANKS)
    assert (made.runs[0].to, made.runs[0].names) == ((0,), (A, D))


def test_receivers_are_readdressed_once() -> None:
    """A frame that is adopted twice is already in terms of names."""
    made = frame(8, wire=0, to=(1,))
    for _ in range(2):
        adopt(made, (A, B), {A: 8}, ORIGIN, {A: 0, D: 1, B: 2})
    assert (made.runs[0].to, made.runs[0].names) == ((2,), (B,))


def test_a_message_to_all_stays_one_to_all() -> None:
    made = frame(8, wire=0, to=None)
    adopt(made, (A, B), {A: 8}, ORIGIN, RANKS)
    assert (made.runs[0].to, made.runs[0].names) == (None, None)
