"""Numbers, ids and names that servers take over leave room for what servers make of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.call_problem import call_problem
from phalanx.service.entries import ENTRIES_MAX
from phalanx.service.group_messages import ChooseHome, GroupCall
from phalanx.service.group_views import created
from phalanx.service.interface_polls import CHOICES_AT_ONCE, InterfacePolls
from phalanx.service.set_names import name_wanted, names_united
from phalanx.service.set_state import founded
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import NUMBER_MAX, TEXT_LENGTH_MAX, HomeOf, SetState, number_of

ME = MemberId("a")
TREE = SetTree({"lan": ConfiguredSet("lan", 1, ("a",))}, {"h": "a"})


def state() -> SetState:
    return founded("lan", [ME], None)


@pytest.mark.parametrize("number", ["9" * 25, str(NUMBER_MAX + 1), "1" + "0" * 18])
def test_the_number_of_a_member_that_no_record_can_hold_is_refused(number: str) -> None:
    assert number_of(f"h/{number}") == 0
    call = GroupCall("client-1/1", "join", "h", "orders", f"h/{number}")
    assert call_problem(call, TREE).startswith("bad-argument(member")


def test_ids_leave_room_for_what_servers_append() -> None:
    call = GroupCall("client-1/1", "create", "h", "orders", scope="lan", new_uid="u" * 256)
    assert call_problem(call, TREE).startswith("too-large(id")
    assert call_problem(replace(call, new_uid="u" * 200), TREE) == ""


def test_homes_are_entered_a_few_at_a_time() -> None:
    polls = InterfacePolls(ME)
    for number in range(1100):
        polls.chosen(0, ChooseHome("lan", f"h{number:04}", 1))
    homes = polls.entries(0, state())
    assert len(homes) == CHOICES_AT_ONCE < ENTRIES_MAX
    known = replace(state(), homes={home.interface: HomeOf(ME, home.seq) for home in homes})
    assert {h.interface for h in polls.entries(0, known)}.isdisjoint(known.homes)


def test_the_number_of_a_choice_leaves_room_for_later_ones() -> None:
    polls = InterfacePolls(ME)
    polls.chosen(0, ChooseHome("lan", "h", NUMBER_MAX))
    assert polls.entries(0, state()) == []


def test_second_names_are_names() -> None:
    group = replace(created("u" * 250, "n" * 128, "lan", b"0"))
    entry = name_wanted({"n" * 128: "another"}, group)
    assert entry is not None
    assert len(entry.name) <= TEXT_LENGTH_MAX
    united = names_united({"n" * 128: "a" * 250}, {"n" * 128: "b" * 250})
    assert sorted(united.values()) == ["a" * 250, "b" * 250]
    assert max(map(len, united)) <= TEXT_LENGTH_MAX
