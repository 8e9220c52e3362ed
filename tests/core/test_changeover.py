"""What one view hands on to the next."""

from __future__ import annotations

import random
from itertools import permutations

from phalanx.core.changeover import Border, Carried, carried_from, in_order, readdress, settle_in
from phalanx.core.effects import Service
from phalanx.core.frames import Announce, Component, Frame, FrameKind, Run
from phalanx.core.ids import MemberId, View, ViewId, boot_view
from phalanx.core.membership.contexts import Reach

A, B, C, D = (MemberId(name) for name in "abcd")


def view(joins: int, removals: int = 0, members: tuple[MemberId, ...] = (A, B, C)) -> View:
    return View(ViewId(joins, removals, b"digest78"), members, b"context8")


def frame(sender: int = 0, number: int = 1, to: tuple[int, ...] | None = None) -> Frame:
    run = Run(Service.AGREED, number, 1, to, 0, (0,))
    return Frame(sender, number, FrameKind.DATA, 1, b"", b"", (), (), number, [run], None, b"",
                 0, True)  # fmt: skip


def item(
    sender: MemberId, number: int, joins: int = 1, removals: int = 0, reach: Reach | None = None
) -> Carried:
    """A phase-1 frame with a message; by default it follows its sender's frames only."""
    past = {**(reach or {}), sender: number}
    where = view(joins, removals).id
    return Carried(sender, number, where, past, (A, B, C), frame(number=number))


# ---------------------------------------------------------------------------- what is carried


def border(closing: Reach, origin: View | None = None) -> Border:
    """A view of a and b, epoch (2, 0), to which both came from (1, 0)."""
    where = origin or view(1)
    component = Component(where.id, where.members, where.context)
    return Border(view(2, 0, (A, B)), {A: component, B: component}, closing)


def test_a_frame_of_the_change_that_made_the_view_is_carried() -> None:
    assert border({A: 9}).carries(item(A, 5, joins=1)), "under what closed it"
    assert border({A: 9}).carries(item(A, 10, joins=1)), "and above"


def test_a_frame_from_a_view_before_the_origin_is_carried_only_if_nothing_closed_it() -> None:
    assert not border({A: 9}).carries(item(A, 5, joins=0)), "an earlier view delivered it"
    assert border({A: 9}).carries(item(A, 10, joins=0))


def test_a_frame_of_somebody_who_is_not_in_the_view_is_not_carried() -> None:
    assert not border({}).carries(item(C, 5, joins=1))


def test_a_frame_of_the_view_itself_or_of_a_later_one_is_not_carried_into_it() -> None:
    assert not border({}).carries(item(A, 5, joins=2))
    assert not border({}).carries(item(A, 5, joins=2, removals=1))


def test_epochs_of_removals_count_too() -> None:
    after = border({A: 9}, view(1, 2))
    assert after.carries(item(A, 5, joins=1, removals=2))
    assert not after.carries(item(A, 5, joins=1, removals=1))


# ---------------------------------------------------------------------------- in which order


def test_carried_frames_leave_by_sender_and_number_where_none_follows_another() -> None:
    items = [item(B, 3), item(A, 7), item(A, 6), item(C, 1)]
    places = [(i.sender, i.number) for i in in_order(items)]
    assert places == [(A, 6), (A, 7), (B, 3), (C, 1)]


def test_carried_frames_leave_after_what_they_follow() -> None:
    """a's frame follows b's, which follows c's."""
    items = [item(A, 7, reach={B: 3, C: 1}), item(B, 3, reach={C: 1}), item(C, 1)]
    places = [(i.sender, i.number) for i in in_order(items)]
    assert places == [(C, 1), (B, 3), (A, 7)]


def test_the_order_is_the_same_whatever_order_the_frames_came_in() -> None:
    items = [
        item(A, 1),
        item(A, 2, reach={C: 1}),
        item(B, 1, reach={A: 1}),
        item(C, 1),
        item(D, 1, reach={B: 1}),
    ]
    orders = {tuple((i.sender, i.number) for i in in_order(list(p))) for p in permutations(items)}
    assert len(orders) == 1


def test_random_frames_leave_in_an_order_that_respects_what_follows_what() -> None:
    rng = random.Random(2)
    members = [MemberId(f"m{k}") for k in range(5)]
    for _ in range(50):
        have: dict[MemberId, Reach] = {m: {} for m in members}
        items: list[Carried] = []
        for _ in range(25):
            member = rng.choice(members)
            for other in rng.sample(items, min(len(items), 2)):
                for m, number in other.reach.items():
                    have[member][m] = max(number, have[member].get(m, 0))
            number = have[member].get(member, 0) + 1
            have[member][member] = number
            items.append(item(member, number, reach=dict(have[member])))
        shuffled = rng.sample(items, len(items))
        seen: Reach = {}
        for one in in_order(shuffled):
            assert all(n <= seen.get(m, 0) or m == one.sender for m, n in one.reach.items()), (
                "something that it follows had not left"
            )
            assert one.number == seen.get(one.sender, 0) + 1
            seen[one.sender] = one.number


def test_vectors_that_go_round_in_a_circle_still_give_an_order() -> None:
    items = [item(A, 1, reach={B: 1}), item(B, 1, reach={A: 1})]
    assert [i.sender for i in in_order(items)] == [i.sender for i in in_order(items[::-1])]
    assert len(in_order(items)) == 2


# ---------------------------------------------------------------------------- in whose terms


def test_a_carried_frame_remembers_its_past_by_name() -> None:
    made = frame(1, 4)
    where = boot_view([A, C])
    part = Component(where.id, where.members, where.context)
    made.control = Announce((part,), b"context8", (9, 4), (0, 0))
    carried = carried_from(made, C, where.id)
    assert (carried.sender, carried.number, carried.view) == (C, 4, where.id)
    assert (carried.reach, carried.table) == ({A: 9, C: 4}, (A, C))


def test_a_carried_frame_gets_the_ranks_of_the_view_that_delivers_it() -> None:
    """It was sent by c to b and c, whose indices in the table {a, b, c} are 1 and 2."""
    made = frame(2, 4, to=(1, 2))
    where = Carried(C, 4, view(1).id, {A: 3, B: 8, C: 4}, (A, B, C), made)
    settled = settle_in(where, view(2, 0, (B, C, D)), {B: 0, C: 1, D: 2})
    assert (settled.sender, settled.vector) == (1, [8, 4, 0])
    assert (settled.runs[0].to, settled.runs[0].names) == ((0, 1), (B, C))


def test_receivers_that_are_gone_are_still_named() -> None:
    made = frame(to=(0, 2))
    readdress(made, (A, B, C), {B: 0, C: 1})
    assert (made.runs[0].to, made.runs[0].names) == ((1,), (A, C))


def test_receivers_are_readdressed_once() -> None:
    """A frame that is handed on twice was already in terms of names."""
    made = frame(to=(0, 2))
    readdress(made, (A, B, C), {A: 0, C: 1})
    readdress(made, (A, B, C), {A: 0, C: 1})
    assert made.runs[0].to == (0, 1)


def test_a_message_to_all_stays_one_to_all() -> None:
    made = frame(to=None)
    readdress(made, (A, B, C), {B: 0})
    assert made.runs[0].to is None


def test_an_index_outside_the_table_is_nobody() -> None:
    made = frame(to=(0, 7))
    readdress(made, (A, B), {A: 0, B: 1})
    assert (made.runs[0].to, made.runs[0].names) == ((0,), (A,))
