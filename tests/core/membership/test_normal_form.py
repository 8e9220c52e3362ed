"""Rule N: which entries a member leaves out of what it issues."""

from __future__ import annotations

import random

from tests.core.forged_packets import made_up

from phalanx.core.ids import MemberId, ViewId, boot_view
from phalanx.core.membership.normal_form import JOINS_AHEAD_MAX, normal_form
from phalanx.core.membership.proposals import (
    EPOCH_MAX,
    Entry,
    Proposal,
    component_of,
    proposal_of,
    read_proposal,
)
from phalanx.core.wire.frames import Component

A, B, C, D, E = (MemberId(name) for name in "abcde")
BASE = component_of(boot_view([A, B]))
LONE = component_of(boot_view([C]))


def normal(
    *components: Component,
    left_out: tuple[Entry, ...] = (),
    past: tuple[ViewId, ...] = (),
    base: Component = BASE,
) -> Proposal:
    """The normal form of a, whose view is the base."""
    return normal_form(
        A, base.view, [base, *components], left_out, lambda component: component.view in past
    )


def all_of(component: Component) -> set[Entry]:
    return {(member, component.view) for member in component.members}


def test_components_of_strangers_are_taken_as_they_are() -> None:
    assert normal(LONE, left_out=((B, BASE.view),)) == proposal_of([BASE, LONE], [(B, BASE.view)])


def test_a_component_that_lists_the_member_itself_is_left_out() -> None:
    other = made_up([A, C])
    assert normal(other) == proposal_of([BASE, other], all_of(other))


def test_a_component_that_is_in_the_history_is_left_out() -> None:
    assert normal(LONE, past=(LONE.view,)) == proposal_of([BASE, LONE], all_of(LONE))


def test_the_base_itself_is_not_past() -> None:
    assert normal(past=(BASE.view,)) == proposal_of([BASE])


def test_of_two_components_that_list_one_member_the_older_goes_as_a_whole() -> None:
    old, new = made_up([C, D], joins=1), made_up([D, E], joins=2)
    assert normal(old, new) == proposal_of([BASE, old, new], all_of(old))


def test_of_two_components_of_one_epoch_the_one_with_the_lesser_id_goes() -> None:
    one, two = sorted((made_up([C, D]), made_up([D, E])), key=lambda c: c.view)
    assert normal(one, two) == normal(two, one) == proposal_of([BASE, one, two], all_of(one))


def test_removals_make_a_component_newer_too() -> None:
    old, new = made_up([C, D], joins=1, removals=1), made_up([D, E], joins=1, removals=2)
    assert normal(old, new).live == proposal_of([BASE, new]).live


def test_the_base_is_never_the_older_one() -> None:
    """b has moved to a newer view, and is heard of from there."""
    newer = made_up([B, C], joins=5)
    assert normal(newer) == proposal_of([BASE, newer], all_of(newer))


def test_members_that_are_left_out_count_as_listed() -> None:
    """They moved from one component to the other."""
    old, new = made_up([C, D], joins=1), made_up([D, E], joins=2)
    assert normal(old, new, left_out=((D, old.view),)) == proposal_of([BASE, old, new], all_of(old))


def test_a_component_of_which_nobody_is_left_does_not_oust_an_older_one() -> None:
    old, new = made_up([C, D], joins=1), made_up([D, E], joins=2)
    out = all_of(new)
    assert normal(old, new, left_out=tuple(out)) == proposal_of([BASE, old, new], out)


def test_of_a_chain_of_components_the_newest_of_each_pair_stays() -> None:
    """d joins first and second, e joins second and third: the first two go."""
    first, second = made_up([C, D], joins=1), made_up([D, E], joins=2)
    third = made_up([E, MemberId("f")], joins=3)
    made = normal(third, first, second)
    assert made.left_out == all_of(first) | all_of(second)


def test_of_two_incarnations_of_one_name_the_later_stays() -> None:
    later = made_up([MemberId("b", 2)])
    assert normal(later) == proposal_of([BASE, later], [(B, BASE.view)])
    one, two = made_up([MemberId("c", 1)]), made_up([MemberId("c", 2)])
    assert normal(one, two).left_out == all_of(one)


def test_a_member_does_not_yield_to_a_later_incarnation_of_its_own_name() -> None:
    later = made_up([MemberId("a", 2), C])
    made = normal(later)
    assert made.left_out == {(MemberId("a", 2), later.view)}


def test_a_component_whose_epoch_is_out_of_sight_is_left_out() -> None:
    near, far = made_up([C], joins=JOINS_AHEAD_MAX), made_up([D], joins=JOINS_AHEAD_MAX + 1)
    assert normal(near, far).left_out == all_of(far)


def test_an_epoch_that_leaves_no_room_for_another_join_is_out_of_sight() -> None:
    here = made_up([A], joins=EPOCH_MAX - 2)
    near, last = made_up([C], joins=EPOCH_MAX - 1), made_up([D], joins=EPOCH_MAX)
    assert normal(near, last, base=here).left_out == all_of(last)


def test_the_normal_form_of_anything_grows_only_counts_the_member_and_each_name_once() -> None:
    """1. nothing that was left out comes back; 2. a is an entry from its base; 3. no name has two
    entries; 4. no two live components list one member; 5. the form is its own normal form."""
    rng = random.Random(1)
    names = [MemberId(name, k) for name in "abcdef" for k in (1, 2)]
    for _ in range(300):
        base = made_up([A, *rng.sample(names[2:], 2)], joins=rng.randrange(1, 4))
        others = [
            made_up(rng.sample(names, rng.randrange(1, 4)), joins=rng.randrange(1, 5))
            for _ in range(rng.randrange(5))
        ]
        entries = [(m, c.view) for c in (base, *others) for m in c.members]
        out = tuple(e for e in entries if e[0] != A and rng.randrange(4) == 0)
        past = tuple(c.view for c in others if rng.randrange(4) == 0)
        made = normal(*others, left_out=out, past=past, base=base)
        assert set(out) <= made.left_out
        assert made.entries[A] == base.view
        assert len({m.name for m in made.entries}) == len(made.entries)
        live = [made.components[view] for view in made.live]
        listed = [m for c in live for m in c.members]
        assert len(set(listed)) == len(listed)
        again = normal(*others, left_out=tuple(made.left_out), past=past, base=base)
        assert again == made
        assert read_proposal(made.encoded) == made
