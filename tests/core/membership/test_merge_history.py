"""Components that a member has merged with."""

from __future__ import annotations

from tests.core.forged_packets import made_up

from phalanx.core.ids import MemberId
from phalanx.core.membership.merge_history import MEMBERS_MET_MAX, MergeHistory

A, B, C = (MemberId(name) for name in "abc")
HOME, HERE = made_up([A]).view, made_up([A], joins=9).view


def test_a_component_is_past_once_a_member_of_it_has_come_from_it() -> None:
    made, component = MergeHistory(HOME), made_up([A, B], joins=3)
    assert not made.is_past(component)
    made.add({A: component.view}, HERE)
    assert made.is_past(component)
    assert made.has_passed(A, component.view)
    assert not made.has_passed(B, component.view)


def test_older_components_of_a_member_are_past_and_newer_ones_are_not() -> None:
    made = MergeHistory(HOME)
    made.add({A: made_up([A], joins=3).view}, HERE)
    assert made.is_past(made_up([A, C], joins=2, removals=9))
    assert not made.is_past(made_up([A, C], joins=3, removals=1))
    assert not made.is_past(made_up([C], joins=0))


def test_a_join_of_many_forgets_none_of_its_components() -> None:
    made = MergeHistory(HOME)
    crowd = [made_up([MemberId(f"m{k}")]) for k in range(1_000)]
    made.add({component.members[0]: component.view for component in crowd}, HERE)
    assert all(map(made.is_past, crowd))


def test_the_members_met_last_are_remembered_and_no_more() -> None:
    made, view = MergeHistory(HOME), made_up([A]).view
    made.add({A: view}, HERE)
    made.add({MemberId(f"m{k}"): view for k in range(MEMBERS_MET_MAX - 1)}, HERE)
    assert made.has_passed(A, view)
    made.add({B: view}, HERE)
    assert not made.has_passed(A, view)


def test_a_member_has_been_in_the_views_that_it_installed() -> None:
    made = MergeHistory(HOME)
    made.add({A: HOME}, HERE)
    assert made.has_been_in(HOME)
    assert made.has_been_in(HERE)
    assert not made.has_been_in(made_up([B]).view)
