"""Components, contexts and views as values."""

from __future__ import annotations

from phalanx.core.frames import Component, Context
from phalanx.core.ids import MemberId, View, ViewId, boot_view
from phalanx.core.membership.contexts import (
    context_digest,
    covers,
    extend,
    join_view,
    members_of,
    names_twice,
    normal,
    origin,
    removal_view,
    united,
)

A, B, C, D = (MemberId(name) for name in "abcd")


def component(epoch: tuple[int, int], *members: MemberId, digest: bytes = b"digest78") -> Component:
    return Component(ViewId(*epoch, digest), members)


OLD = component((0, 0), A, B, C)
PAIR = component((0, 1), A, B)
LONE = component((1, 0), C, D)


# ---------------------------------------------------------------------------- where a member is


def test_the_origin_of_a_member_is_the_newest_component_that_has_it() -> None:
    assert origin((OLD, PAIR, LONE), A) == PAIR
    assert origin((LONE, PAIR, OLD), A) == PAIR, "in whatever order they are named"
    assert origin((OLD, PAIR, LONE), C) == LONE


def test_who_is_in_no_component_has_no_origin() -> None:
    assert origin((OLD, PAIR), D) is None


def test_of_two_components_with_one_epoch_all_members_choose_the_same_origin() -> None:
    one, two = component((1, 0), A, digest=b"1" * 8), component((1, 0), A, B, digest=b"2" * 8)
    assert origin((one, two), A) == origin((two, one), A) == two


def test_a_component_that_is_nobodys_origin_is_dropped() -> None:
    assert normal((OLD, PAIR, LONE)) == (PAIR, LONE)


def test_a_component_that_is_the_origin_of_one_member_is_kept() -> None:
    assert normal((OLD, PAIR)) == (OLD, PAIR), "c has not moved"


def test_normal_components_are_in_order_and_each_stands_once() -> None:
    assert normal((LONE, PAIR, LONE, PAIR)) == (PAIR, LONE)


def test_the_members_of_all_components_are_united() -> None:
    assert united((PAIR, LONE)) == {A, B, C, D}


# ---------------------------------------------------------------------------- contexts


def test_the_members_of_a_join_are_those_of_its_components_without_the_ones_left_out() -> None:
    assert members_of(Context(components=(PAIR, LONE), failed_before=(D,))) == {A, B, C}
    assert members_of(Context(boot=(A, B))) == {A, B}


def test_the_digest_of_a_boot_context_is_the_one_that_its_view_names() -> None:
    assert context_digest(Context(boot=(A, B))) == boot_view([B, A]).context


def test_contexts_that_differ_in_a_component_or_in_who_is_left_out_have_other_digests() -> None:
    contexts = [
        Context(boot=(A, B)),
        Context(boot=(A, C)),
        Context(components=(PAIR,)),
        Context(components=(PAIR, LONE)),
        Context(components=(PAIR, LONE), failed_before=(D,)),
        Context(components=(PAIR, LONE), failed_before=(C,)),
        Context(components=(PAIR, LONE), failed_before=(C, D)),
    ]
    assert len({context_digest(context) for context in contexts}) == len(contexts)


# ---------------------------------------------------------------------------- views


def test_a_removal_raises_the_second_part_of_the_epoch_and_keeps_the_context() -> None:
    before = View(ViewId(3, 1, b"digest78"), (A, B, C), b"context8")
    after = removal_view(before, b"context8", frozenset({C, A}))
    assert (after.id.joins, after.id.removals) == (3, 2)
    assert (after.members, after.context) == ((A, C), b"context8")


def test_a_join_has_an_epoch_above_all_its_components() -> None:
    view = join_view((PAIR, LONE), b"context8", frozenset({A, B, C, D}))
    assert (view.id.joins, view.id.removals) == (2, 0)
    assert view.members == (A, B, C, D)


def test_views_of_one_context_with_other_members_have_other_names() -> None:
    all_, fewer = (join_view((PAIR, LONE), b"context8", frozenset(m)) for m in ((A, B, C), (A, B)))
    assert all_.id.digest != fewer.id.digest


def test_views_of_the_same_members_in_other_contexts_have_other_names() -> None:
    one, two = (join_view((PAIR, LONE), c, frozenset({A, B})) for c in (b"context8", b"context9"))
    assert one.id != two.id


def test_two_incarnations_of_one_name_are_noticed_unless_one_is_left_out() -> None:
    again = MemberId("a", 2)
    both = (PAIR, component((0, 0), again, C))
    assert names_twice(both, frozenset())
    assert not names_twice(both, frozenset({A}))
    assert not names_twice(both, frozenset({again}))
    assert not names_twice((OLD, PAIR), frozenset()), "one member in two components is one member"


# ---------------------------------------------------------------------------- pasts


def test_two_pasts_unite_to_the_greater_of_both() -> None:
    reach = {A: 3, B: 1}
    extend(reach, {B: 2, C: 4, A: 1})
    assert reach == {A: 3, B: 2, C: 4}


def test_a_past_covers_what_it_counts_and_of_a_stranger_nothing() -> None:
    assert covers({A: 3}, A, 3)
    assert not covers({A: 3}, A, 4)
    assert not covers({A: 3}, B, 1)
