"""Views that a member has been in, or has merged with."""

from __future__ import annotations

from phalanx.core.ids import ViewId
from phalanx.core.membership.view_history import VIEWS_MAX, ViewHistory


def view(joins: int, removals: int = 0, digest: bytes = b"digest78") -> ViewId:
    return ViewId(joins, removals, digest)


def test_the_view_that_a_member_boots_in_is_in_its_history() -> None:
    made = ViewHistory(view(0))
    assert view(0) in made
    assert view(1) not in made


def test_views_are_in_the_history_once_they_are_added() -> None:
    made = ViewHistory(view(0))
    made.add((view(1), view(1, 1)))
    assert [one in made for one in (view(0), view(1), view(1, 1))] == [True] * 3


def test_views_of_one_epoch_with_different_digests_are_different_views() -> None:
    made = ViewHistory(view(1))
    assert view(1, digest=b"another!") not in made


def test_the_newest_views_are_remembered_and_no_more() -> None:
    made = ViewHistory(view(0))
    for k in range(2 * VIEWS_MAX):
        made.add([view(k + 1)])
    remembered = [k for k in range(2 * VIEWS_MAX + 1) if view(k) in made]
    assert remembered == list(range(VIEWS_MAX + 1, 2 * VIEWS_MAX + 1))
