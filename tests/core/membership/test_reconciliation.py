"""How far each component of a merged view had delivered."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.effects import MergedComponent, MessageRange
from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId, boot_view
from phalanx.core.membership.instructions import InstallView
from phalanx.core.membership.proposals import Entry, component_of, proposal_of
from phalanx.core.membership.reconciliation import DeliveryProgress, merge_report
from phalanx.core.membership.statements import Issue
from phalanx.core.wire.frames import Component, DeliveredVector

A, B, C, D, E = (MemberId(name) for name in "abcde")
LEFT, RIGHT = component_of(boot_view([A, B])), component_of(boot_view([C, D]))


def told(**upto: int) -> DeliveredVector:
    members = tuple(MemberId(name) for name in sorted(upto))
    return DeliveredVector(members, tuple(upto[m.name] for m in members))


def sides(
    said: dict[MemberId, DeliveredVector],
    components: Sequence[Component] = (LEFT, RIGHT),
    left_out: Sequence[Entry] = (),
) -> dict[ViewId, MergedComponent]:
    """What a join of these tells, by component; members that are not named say nothing."""
    proposal = proposal_of(components, left_out)
    issues = {m: Issue(1, 1, said.get(m, DeliveredVector())) for m in proposal.entries}
    return {
        side.view: side for side in merge_report(InstallView(boot_view([A, B]), proposal, issues))
    }


# ---------------------------------------------------------------------------- what was delivered


def test_each_component_is_told_with_the_best_that_its_members_said() -> None:
    said = {A: told(a=5, b=1), B: told(a=4, b=0), C: told(c=2), D: told(d=9)}
    assert sides(said) == {
        LEFT.view: MergedComponent(LEFT.view, (A, B), ((A, 5), (B, 1)), ()),
        RIGHT.view: MergedComponent(RIGHT.view, (C, D), ((C, 2), (D, 9)), ()),
    }


def test_what_one_component_delivered_beyond_the_others_it_alone_delivered() -> None:
    said = {A: told(a=7, c=2), B: told(a=7, c=2), C: told(a=4, c=3), D: told(a=4, c=3)}
    made = sides(said)
    assert made[LEFT.view].alone == (MessageRange(A, 5, 7),)
    assert made[RIGHT.view].alone == (MessageRange(C, 3, 3),)


def test_components_that_delivered_as_far_were_not_alone() -> None:
    made = sides({A: told(a=7), B: told(a=7), C: told(a=7), D: told(a=7)})
    assert [side.alone for side in made.values()] == [(), ()]


def test_of_a_sender_that_nobody_else_knew_nothing_is_said_to_be_alone() -> None:
    made = sides({A: told(a=7)})
    assert [side.alone for side in made.values()] == [(), ()]


def test_alone_is_what_is_beyond_the_best_of_all_the_others() -> None:
    third = component_of(boot_view([E]))
    made = sides({A: told(a=9), C: told(a=4), E: told(a=6)}, (LEFT, RIGHT, third))
    assert made[LEFT.view].alone == (MessageRange(A, 7, 9),)
    assert [made[c.view].alone for c in (RIGHT, third)] == [(), ()]


def test_what_a_member_says_counts_for_the_component_that_it_came_from() -> None:
    """b is listed in both, and came from the newer one."""
    newer = component_of(proposal_of([LEFT, RIGHT], [(A, LEFT.view), (D, RIGHT.view)]).view)
    made = sides({A: told(a=3), B: told(b=8)}, (LEFT, newer), [(B, LEFT.view)])
    assert made[LEFT.view].delivered == ((A, 3),)
    assert made[newer.view].delivered == ((B, 8),)


def test_a_component_of_which_no_entry_is_left_is_not_told_of() -> None:
    """What is left is one component: the view did not merge anything."""
    out = [(C, RIGHT.view), (D, RIGHT.view)]
    assert sides({A: told(a=3)}, left_out=out) == {}


def test_a_removal_has_merged_nothing() -> None:
    assert sides({A: told(a=3)}, (LEFT,), [(B, LEFT.view)]) == {}


def told_from(sender: MemberId, first: int, last: int, beyond: int = 0) -> DeliveredVector:
    return DeliveredVector((sender,), (last,), (first,), (beyond,))


def test_a_component_is_alone_only_with_what_it_delivered_since_it_met_the_sender() -> None:
    """c and d met e when it had sent four messages."""
    made = sides({C: told_from(E, 5, 7), D: told_from(E, 5, 6), A: told(e=0)})
    assert made[RIGHT.view].delivered == ((E, 7),)
    assert made[RIGHT.view].alone == (MessageRange(E, 5, 7),)


def test_nobody_is_alone_with_what_another_component_knows_of() -> None:
    """a was with e when messages up to 6 had been sent, or was told of them by a merge."""
    made = sides({C: told_from(E, 5, 8), A: told_from(E, 7, 0, beyond=6)})
    assert made[LEFT.view].delivered == ((E, 0),)
    assert made[RIGHT.view].alone == (MessageRange(E, 7, 8),)


def test_members_that_met_a_sender_at_different_times_have_two_ranges() -> None:
    made = sides({C: told_from(E, 1, 3), D: told_from(E, 6, 8), A: told(e=0)})
    assert made[RIGHT.view].alone == (MessageRange(E, 1, 3), MessageRange(E, 6, 8))
    joined = sides({C: told_from(E, 1, 5), D: told_from(E, 6, 8), A: told(e=0)})
    assert joined[RIGHT.view].alone == (MessageRange(E, 1, 8),)


def test_a_member_of_a_component_is_known_to_it_without_a_word() -> None:
    """b, which stayed in the view of both, says nothing of a: it has delivered nothing of it."""
    newer = component_of(proposal_of([LEFT], [(B, LEFT.view)]).view)
    made = sides({A: told(a=2)}, (LEFT, newer), [(A, LEFT.view)])
    assert made[newer.view].alone == (MessageRange(A, 1, 2),)


# ---------------------------------------------------------------------------- progress


def test_progress_is_what_was_delivered_in_any_view() -> None:
    progress = DeliveryProgress()
    progress.close([A, B], {A: 3, B: 1})
    progress.close([A], {A: 5})
    said = progress.report([A, C], {C: 2, A: 6}, {C: 2, A: 6})
    assert said == DeliveredVector((A, B, C), (6, 1, 2))
    assert progress.report([A, B], {}, {}) == DeliveredVector((A, B), (5, 1))


def test_messages_for_others_are_known_and_not_delivered() -> None:
    progress = DeliveryProgress()
    progress.close([A, B], {A: 3})
    assert progress.report([A, B], {A: 3}, {A: 7}) == DeliveredVector((A,), (3,), (), (4,))


def test_progress_tells_of_those_it_was_with_and_never_heard() -> None:
    """Else nobody could tell a member that missed everything from one that was never there."""
    progress = DeliveryProgress()
    progress.close([A, B, C], {A: 3})
    assert progress.report([A, B], {}, {}) == DeliveredVector((A, C), (3, 0))


def test_a_member_that_is_met_begins_after_what_it_had_sent() -> None:
    progress = DeliveryProgress()
    progress.close([A, B], {A: 9, B: 4})
    proposal = proposal_of((LEFT, RIGHT))
    said = {A: told(a=9, b=4), B: told(a=9, b=4), C: told(c=3, d=2), D: told(b=6, c=3, d=2)}
    issues = {m: Issue(1, 1, said[m]) for m in proposal.entries}
    progress.merged(InstallView(boot_view([A, B]), proposal, issues))
    found = progress.report([A, B, C, D], {}, {})
    assert found == DeliveredVector((A, B, C, D), (9, 4, 0, 0), (1, 1, 4, 3), (0, 2, 3, 2))


def test_a_removal_changes_no_progress() -> None:
    progress = DeliveryProgress()
    progress.close([A, B], {A: 9})
    proposal = proposal_of((LEFT,), [(B, LEFT.view)])
    progress.merged(InstallView(boot_view([A, B]), proposal, {A: Issue(1, 1, told(a=12))}))
    assert progress.report([A], {}, {}) == DeliveredVector((A, B), (9, 0))


def test_progress_is_told_of_at_most_as_many_senders_as_a_view_has_members() -> None:
    progress = DeliveryProgress()
    for k in range(3 * MEMBERS_MAX):
        progress.close([(member := MemberId(f"m{k:05}"))], {member: k})
    told_of = progress.report([A], {A: 1}, {A: 1})
    assert len(told_of.members) == len(told_of.numbers) == MEMBERS_MAX
    assert len(progress._reached) == MEMBERS_MAX


def test_progress_forgets_first_who_was_silent_for_longest() -> None:
    progress = DeliveryProgress()
    progress.close([A], {A: 1})
    progress.close([B], {B: 1})
    progress.close([A], {A: 2})
    for k in range(MEMBERS_MAX - 1):
        progress.close([MemberId(f"m{k:05}")], {})
    assert A in progress.report([], {}, {}).members
    assert B not in progress.report([], {}, {}).members


def test_members_of_the_view_are_remembered_before_all_others() -> None:
    """A view of as many members as there can be loses half of them and meets as many others."""
    old = tuple(MemberId(f"m{k:05}") for k in range(MEMBERS_MAX))
    new = tuple(MemberId(f"n{k:05}") for k in range(MEMBERS_MAX // 2))
    left, right = component_of(boot_view(old)), component_of(boot_view(new))
    proposal = proposal_of((left, right), [(m, left.view) for m in old[MEMBERS_MAX // 2 :]])
    progress = DeliveryProgress()
    progress.close(old, dict.fromkeys(old, 100))
    issues = {m: Issue(1, 1, DeliveredVector()) for m in proposal.entries}
    progress.merged(InstallView(boot_view(old), proposal, issues))
    said = progress.report(proposal.view.members, {}, {})
    numbers = dict(zip(said.members, said.numbers, strict=True))
    assert all(numbers.get(member) == 100 for member in old[: MEMBERS_MAX // 2])
    assert len(said.members) <= MEMBERS_MAX
