"""Each check on histories: one that passes, one that fails for this reason alone."""

from __future__ import annotations

import pytest

from phalanx.core.ids import ViewId
from phalanx.explore.member_history import (
    Addressed,
    Broke,
    DeliveredEvent,
    Event,
    Installed,
    Marked,
    MemberHistories,
    Said,
)


def view_id(epoch: int, name: str = "v", removals: int = 0) -> ViewId:
    return ViewId(epoch, removals, name.encode().ljust(8))


def boot(*members: int) -> Installed:
    name = "b" + "".join(map(str, members))
    return Installed(view_id(0, name), members, None, "boot", (), ())


def join(
    previous: Installed,
    *members: int,
    name: str = "v",
    epoch: int = 1,
    parts: tuple[Installed, ...] = (),
    together: tuple[int, ...] | None = None,
) -> Installed:
    with_me = previous.members if together is None else together
    components = tuple(part.view for part in parts)
    return Installed(view_id(epoch, name), members, previous.view, "join", components, with_me)


def delivered(
    where: Installed, sender: int, number: int, sent: Installed | None = None, **more: bool
) -> DeliveredEvent:
    return DeliveredEvent((sender, number), where.view, (sent or where).view, **more)


def check_of(*seen: list[Event], hold: bool = False) -> str:
    """Which check fails for these histories; an empty string if none does."""
    histories = MemberHistories(hold)
    numbers = tuple(histories.begin(p, tuple(events)) for p, events in enumerate(seen))
    found = histories.verdict(numbers)
    return "" if found is None else found.check


BOTH = boot(0, 1)
NEXT = join(BOTH, 0, 1, together=(0, 1))
ALONE = (boot(0), boot(1))


def test_two_that_move_together_are_fine() -> None:
    said: list[Event] = [Said(1, BOTH.view), delivered(BOTH, 0, 1)]
    assert check_of([BOTH, *said, NEXT], [BOTH, delivered(BOTH, 0, 1), NEXT]) == ""


def test_a_view_without_oneself_is_found() -> None:
    assert check_of([boot(1)], [boot(1)]) == "J0"


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_does_not_grow_is_found(epoch: int) -> None:
    later = Installed(view_id(epoch, "w"), (0, 1), NEXT.view, "join", (), (0, 1))
    assert check_of([BOTH, NEXT, later], [BOTH, NEXT]) == "JE"


def test_two_views_after_one_are_found_only_if_both_hold_both() -> None:
    other = join(BOTH, 0, 1, name="w", together=(0, 1))
    apart = join(BOTH, 1, name="w", together=(1,))
    assert check_of([BOTH, NEXT], [BOTH, other]) == "J1"
    assert check_of([BOTH, NEXT], [BOTH, apart]) == ""


def test_two_that_join_each_other_into_different_views_are_found() -> None:
    one = join(ALONE[0], 0, 1, name="w", parts=ALONE)
    two = join(ALONE[1], 0, 1, name="x", parts=ALONE)
    assert check_of([ALONE[0], one], [ALONE[1], two]) == "J1x"
    assert check_of([ALONE[0], one], [ALONE[1], join(ALONE[1], 0, 1, name="w", parts=ALONE)]) == ""


def test_a_view_with_two_causes_is_found() -> None:
    removal = Installed(NEXT.view, NEXT.members, BOTH.view, "removal", (), (0, 1))
    assert check_of([BOTH, NEXT], [BOTH, removal]) == "J1k"


def test_a_transitional_set_that_one_of_two_denies_is_found() -> None:
    denied = join(BOTH, 0, 1, together=(1,))
    assert check_of([BOTH, NEXT], [BOTH, denied]) == "JT"
    came = join(ALONE[1], 0, 1, together=(0, 1))
    assert check_of([ALONE[0], join(ALONE[0], 0, 1)], [ALONE[1], came]) == "JT"


def test_a_message_that_only_one_delivers_is_found_if_they_move_together() -> None:
    one: list[Event] = [BOTH, delivered(BOTH, 1, 1), NEXT]
    assert check_of(one, [BOTH, NEXT]) == "J2"
    assert check_of(one, [BOTH]) == ""


def test_another_order_is_found_for_ordered_services_only() -> None:
    for ordered in (True, False):
        a, b = (delivered(BOTH, sender, 1, ordered=ordered) for sender in (0, 1))
        told: tuple[list[Event], list[Event]] = ([BOTH, a, b, NEXT], [BOTH, b, a, NEXT])
        assert check_of(*told) == ("JO" if ordered else "")


def test_a_safe_message_that_a_member_leaves_the_view_without_is_found() -> None:
    alone = join(BOTH, 1, together=(1,))
    safe, unsure = (delivered(BOTH, 0, 1, ordered=True, safe=safe) for safe in (True, False))
    assert check_of([BOTH, safe], [BOTH, alone]) == "JS"
    assert check_of([BOTH, unsure], [BOTH, alone]) == ""
    assert check_of([BOTH, safe], [BOTH, unsure, alone]) == ""


def test_markers_at_different_places_are_found() -> None:
    here, there = Marked(BOTH.view, 0), Marked(BOTH.view, 1)
    assert check_of([BOTH, here, NEXT], [BOTH, here, NEXT]) == ""
    assert check_of([BOTH, here, NEXT], [BOTH, there, NEXT]) == "JM"
    assert check_of([BOTH, here, NEXT], [BOTH, NEXT]) == "JM"


def test_basic_messages_cause_nothing() -> None:
    later = Said(2, BOTH.view)
    first = [delivered(BOTH, 0, n, basic=basic) for n, basic in ((2, False), (1, True))]
    assert check_of([BOTH, Said(1, BOTH.view, basic=True), later], [BOTH, *first]) == ""
    first = [delivered(BOTH, 0, n) for n in (2, 1)]
    assert check_of([BOTH, Said(1, BOTH.view), later], [BOTH, *first]) == "J5"


def test_a_message_in_two_views_is_found_if_both_were_in_both() -> None:
    aside = join(BOTH, 0, together=(0,))
    meeting = {"name": "w", "epoch": 2}
    one = join(aside, 0, 1, together=(0,), **meeting)  # type: ignore[arg-type]
    two = join(BOTH, 0, 1, together=(1,), **meeting)  # type: ignore[arg-type]
    early: list[Event] = [BOTH, delivered(BOTH, 0, 1), aside]
    late: list[Event] = [BOTH, two, delivered(two, 0, 1)]
    assert check_of([*early, one], late) == "J3"
    assert check_of(early, late) == ""
    assert check_of(early, late, hold=True) == "J3"


def test_with_hold_a_message_is_delivered_where_it_was_sent() -> None:
    told: list[Event] = [BOTH, NEXT, delivered(NEXT, 0, 1, sent=BOTH)]
    assert check_of(told, [BOTH, NEXT], hold=True) == "J3s"
    assert check_of(told, [BOTH, NEXT]) == ""


def test_an_effect_before_its_cause_is_found_over_any_chain() -> None:
    three = boot(0, 1, 2)
    zero: list[Event] = [three, Said(1, three.view)]
    one: list[Event] = [three, delivered(three, 0, 1), Said(1, three.view)]
    two: list[Event] = [three, delivered(three, 1, 1), Said(1, three.view)]
    late: list[Event] = [three, delivered(three, 2, 1), delivered(three, 0, 1)]
    good: list[Event] = [three, delivered(three, 0, 1), delivered(three, 2, 1)]
    assert check_of([*zero, *late[1:]], one, two) == "J5"
    assert check_of([*zero, *good[1:]], one, two) == ""


def test_a_message_delivered_twice_is_found_in_any_view() -> None:
    again: list[Event] = [BOTH, delivered(BOTH, 0, 1), NEXT, delivered(NEXT, 0, 1)]
    assert check_of(again, [BOTH]) == "J7"


def test_a_message_for_others_is_found_where_it_is_delivered() -> None:
    said: list[Event] = [BOTH, Addressed(1, (0,)), Said(1, BOTH.view), delivered(BOTH, 0, 1), NEXT]
    assert check_of(said, [BOTH, NEXT]) == ""
    assert check_of(said, [BOTH, delivered(BOTH, 0, 1), NEXT]) == "JA"


def test_an_exception_is_found() -> None:
    assert check_of([BOTH, Broke("AssertionError: x")], [BOTH]) == "JX"


def test_histories_are_numbered_by_what_was_seen() -> None:
    histories = MemberHistories(hold=False)
    first = histories.begin(0, (BOTH,))
    assert histories.extend(0, first, ()) == first
    more = histories.extend(0, first, (NEXT,))
    assert more != first
    assert histories.begin(0, (BOTH, NEXT)) == more
