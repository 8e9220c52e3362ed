"""Views that have been left or merged."""

from __future__ import annotations

from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId
from phalanx.core.membership.past import BELIEVED_NS, COLOURED_MAX, PAST_MAX, Past

A, B = MemberId("a"), MemberId("b")


def view(joins: int, removals: int = 0) -> ViewId:
    return ViewId(joins, removals, b"digest78")


def past() -> Past:
    return Past(View(view(0), (A,), b"context8"))


def test_the_view_and_the_context_that_a_member_boots_in_are_past() -> None:
    made = past()
    assert made.has_view(view(0))
    assert made.has_context(b"context8")
    assert not made.has_view(view(1))
    assert not made.has_context(b"context9")


def test_views_of_changes_below_an_installed_join_are_past() -> None:
    made = past()
    made.coloured(B, 7, view(3))
    made.coloured(B, 9, view(4))
    made.joined({B: 8})
    assert made.has_view(view(3))
    assert not made.has_view(view(4)), "its frame is above what closed the join"


def test_a_change_above_one_join_is_past_when_the_next_one_covers_it() -> None:
    made = past()
    made.coloured(B, 9, view(4))
    made.joined({B: 8})
    made.joined({B: 9})
    assert made.has_view(view(4))


def test_the_newest_view_of_a_member_is_by_epoch_and_never_goes_back() -> None:
    made = past()
    assert made.newest(0, B) < (0, 0)
    made.heard(0, B, view(2, 1))
    made.heard(0, B, view(2, 0))
    made.heard(0, A, view(1))
    assert (made.newest(0, B), made.newest(0, A)) == ((2, 1), (1, 0))
    assert made.newest(BELIEVED_NS, B) == (2, 1)
    assert made.newest(BELIEVED_NS + 1, B) < (0, 0), "long ago"


def test_the_newest_views_and_contexts_are_remembered_and_no_more() -> None:
    made = past()
    for k in range(2 * PAST_MAX):
        made.add_view(view(k + 1))
        made.add_context(k.to_bytes(8, "big"))
    assert (len(made._views), len(made._contexts)) == (PAST_MAX, PAST_MAX)
    assert made.has_view(view(2 * PAST_MAX))
    assert made.has_view(view(PAST_MAX + 1))
    assert not made.has_view(view(PAST_MAX))


def test_strangers_cannot_fill_the_memory_of_who_was_heard_from_where() -> None:
    made = past()
    for k in range(20 * MEMBERS_MAX):
        made.heard(0, MemberId(f"x{k}"), view(1))
    assert len(made._newest) <= 4 * MEMBERS_MAX


def test_frames_of_changes_that_never_end_are_not_remembered_for_ever() -> None:
    made = past()
    for k in range(COLOURED_MAX + 100):
        made.coloured(B, k + 1, view(1))
    assert len(made._coloured) == COLOURED_MAX
