"""How far each component of a merged view had delivered."""

from __future__ import annotations

from phalanx.core.effects import Range, Side
from phalanx.core.frames import Component, Delivered, Join
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, boot_view
from phalanx.core.membership.contexts import join_view
from phalanx.core.membership.views import Change
from phalanx.core.merging import Progress, merged_from

A, B, C, D = (MemberId(name) for name in "abcd")


def part(view: View) -> Component:
    return Component(view.id, view.members, view.context)


LEFT, RIGHT = part(boot_view([A, B])), part(boot_view([C, D]))


def told(**upto: int) -> Join:
    members = tuple(MemberId(name) for name in sorted(upto))
    return Join((), Delivered(members, tuple(upto[m.name] for m in members)))


def change(joins: dict[MemberId, Join], *components: Component) -> Change:
    components = components or (LEFT, RIGHT)
    members = frozenset(m for c in components for m in c.members)
    origins = {m: c for c in components for m in c.members}
    view = join_view(components, b"context8", members)
    return Change(boot_view([A, B]), view, "join", {}, origins, components, joins, 0, frozenset())


# ---------------------------------------------------------------------------- what was delivered


def test_each_component_is_told_with_the_best_that_its_members_said() -> None:
    joins = {A: told(a=5, b=1), B: told(a=4, b=0), C: told(c=2), D: told(d=9)}
    assert merged_from(change(joins)) == (
        Side(LEFT.view, (A, B), ((A, 5), (B, 1)), ()),
        Side(RIGHT.view, (C, D), ((C, 2), (D, 9)), ()),
    )


def test_what_one_component_delivered_beyond_the_others_it_alone_delivered() -> None:
    joins = {A: told(a=7, c=2), B: told(a=7, c=2), C: told(a=4, c=3), D: told(a=4, c=3)}
    left, right = merged_from(change(joins))
    assert left.alone == (Range(A, 5, 7),)
    assert right.alone == (Range(C, 3, 3),)


def test_components_that_delivered_as_far_were_not_alone() -> None:
    joins = {A: told(a=7), B: told(a=7), C: told(a=7), D: told(a=7)}
    assert [m.alone for m in merged_from(change(joins))] == [(), ()]


def test_of_a_sender_that_nobody_else_knew_nothing_is_said_to_be_alone() -> None:
    joins = {A: told(a=7), B: told(), C: told(), D: told()}
    assert [m.alone for m in merged_from(change(joins))] == [(), ()]


def test_alone_is_what_is_beyond_the_best_of_all_the_others() -> None:
    third = part(boot_view([MemberId("e")]))
    joins = {A: told(a=9), C: told(a=4), MemberId("e"): told(a=6)}
    left, *others = merged_from(change(joins, LEFT, RIGHT, third))
    assert left.alone == (Range(A, 7, 9),)
    assert [m.alone for m in others] == [(), ()]


def test_what_a_member_says_counts_for_the_component_that_it_came_from() -> None:
    """b stands in both, and came from the newer one."""
    newer = Component(join_view((LEFT,), b"context8", frozenset({B, C})).id, (B, C), b"context8")
    made = change({A: told(a=3), B: told(b=8)}, LEFT, newer)
    made.origins[B] = newer
    old, new = merged_from(made)
    assert old.delivered == ((A, 3),)
    assert new.delivered == ((B, 8),)


def test_a_member_that_proposed_nothing_says_nothing() -> None:
    assert merged_from(change({}))[0] == Side(LEFT.view, (A, B), (), ())


def test_more_names_than_numbers_are_no_harm() -> None:
    joins = {A: Join((), Delivered((A, B), (3,)))}
    assert merged_from(change(joins))[0].delivered == ((A, 3),)


# ---------------------------------------------------------------------------- progress


def test_progress_is_what_was_delivered_in_any_view() -> None:
    progress = Progress()
    progress.add([A, B], {A: 3, B: 1})
    progress.add([A], {A: 5})
    assert progress.told([A, C], {C: 2, A: 6}) == Delivered((A, B, C), (6, 1, 2))
    assert progress.told([A, B], {}) == Delivered((A, B), (5, 1))


def test_progress_tells_of_those_it_was_with_and_never_heard() -> None:
    """Else nobody could tell a member that missed everything from one that was never there."""
    progress = Progress()
    progress.add([A, B, C], {A: 3})
    assert progress.told([A, B], {}) == Delivered((A, C), (3, 0))
    progress.add([A, B], {C: 0})
    assert progress.told([A], {}) == Delivered((A, B, C), (3, 0, 0))


def test_progress_is_told_of_at_most_as_many_senders_as_a_view_has_members() -> None:
    progress = Progress()
    for k in range(3 * MEMBERS_MAX):
        progress.add([], {MemberId(f"m{k:05}"): k})
    told_of = progress.told([A], {A: 1})
    assert len(told_of.members) == len(told_of.numbers) == MEMBERS_MAX
    assert len(progress._upto) == MEMBERS_MAX


def test_progress_forgets_first_who_was_silent_for_longest() -> None:
    progress = Progress()
    progress.add([], {A: 1})
    progress.add([], {B: 1})
    progress.add([], {A: 2})
    for k in range(MEMBERS_MAX - 1):
        progress.add([], {MemberId(f"m{k:05}"): 1})
    assert A in progress.told([], {}).members
    assert B not in progress.told([], {}).members
