"""The parts of an interface: its memberships (rules G4, I3) and its choice of a home (I1, I2)."""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.effects import HeldHistory, HeldMembership, InterfaceRecord, Notify
from phalanx.service.entries import SetHome
from phalanx.service.group_messages import Directive, PathStep, Query
from phalanx.service.home_choice import RETURN_POLLS, HomeChoice
from phalanx.service.interface_polls import InterfacePolls
from phalanx.service.membership_book import MembershipBook
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import GroupView, ServiceGroup, SetState, Vid

TREE = SetTree(
    {
        "top": ConfiguredSet("top", 2, ("t",)),
        "lan": ConfiguredSet("lan", 1, ("t", "a", "b"), "top", "t"),
    },
    {"h": "a"},
)
TIMES = ServiceTimes()
OWNER = PathStep("lan", b"lineage1", MemberId("t"), 10)


def view(number: int, *members: str, after: int | None = None) -> GroupView:
    vid = Vid(number, bytes([number]) * 8)
    previous = Vid(after, bytes([after]) * 8) if after is not None else None
    preds = (previous,) if previous is not None else ()
    return GroupView(vid, preds, members, dict.fromkeys(members, previous), "join")


def directive(to: str, given: GroupView | None, previous: Vid | None) -> Directive:
    group = ServiceGroup("u", "orders", "top", given) if given is not None else None
    return Directive("lan", "h", "u", (to,), given, previous, OWNER, group)


def a_book() -> MembershipBook:
    book = MembershipBook("h", (), ())
    book.open("h/1", "u", "client/1")
    return book


def test_a_view_is_taken_only_after_the_one_that_it_names() -> None:
    book = a_book()
    first, second = view(1, "h/1"), view(2, "h/1", after=1)
    assert book.take(directive("h/1", second, first.vid)) == ([], [])  # too early
    records, notices = book.take(directive("h/1", first, None))
    assert [type(r) for r in records] == [HeldMembership, HeldHistory]
    assert notices == [Notify("h/1", "u", first, None, call="client/1")]
    assert book.take(directive("h/1", first, None)) == ([], [])  # a repetition
    _, notices = book.take(directive("h/1", second, first.vid))
    assert [n.view for n in notices] == [second]
    assert book.served(1).positions == {"h/1": second.vid}


def test_nothing_follows_the_end_of_a_membership() -> None:
    book = a_book()
    first = view(1, "h/1")
    book.take(directive("h/1", first, None))
    _, notices = book.take(directive("h/1", None, None))
    assert [n.view for n in notices] == [None]
    assert book.take(directive("h/1", view(2, "h/1", after=1), first.vid)) == ([], [])
    assert book.served(1).positions == {}


def test_a_split_names_a_member_that_the_interface_takes_over() -> None:
    book = a_book()
    born = view(2, "h/1~abc")
    _, notices = book.take(directive("h/1~abc", born, None))
    assert [(n.member, n.call) for n in notices] == [("h/1~abc", "client/1")]
    unknown = view(2, "h/7~abc")
    assert book.take(directive("h/7~abc", unknown, None))[1] == []
    assert book.served(1).declined == ("h/7~abc",)


def a_choice(home: str = "a", seq: int = 0) -> HomeChoice:
    return HomeChoice(TREE, InterfaceRecord("h", seq, home), TIMES, 0)


def path(asked: int, lineage: bytes = b"lineage1", speaker: str = "t") -> tuple[PathStep, ...]:
    return (PathStep("lan", lineage, MemberId(speaker), asked),)


def test_an_interface_asks_its_servers_in_turn_when_its_home_is_silent() -> None:
    choice = a_choice()
    assert choice.questions(TIMES.rehome_ns - 1) == []
    asked = [choice.questions(TIMES.rehome_ns + at)[0] for at in range(4)]
    assert [to for to, _ in asked] == ["a", "t", "b", "a"]
    assert {message.seq for _, message in asked} == {1}


def test_an_interface_follows_the_poll_with_the_highest_sequence_number() -> None:
    choice = a_choice()
    assert choice.polled(1, "a", Query("h", 0, path(5)))
    assert not choice.polled(2, "b", Query("h", 0, path(6)))
    assert choice.polled(3, "b", Query("h", 1, path(6)))


def test_a_directive_is_taken_only_from_an_owner_that_has_been_on_the_path_since() -> None:
    choice = a_choice()
    choice.polled(1, "a", Query("h", 0, path(5)))
    assert choice.is_on_path(path(5)[0])
    assert choice.is_on_path(path(9)[0])
    assert not choice.is_on_path(path(4)[0])  # sent before this interface came
    assert not choice.is_on_path(path(9, b"lineage2")[0])
    assert not choice.is_on_path(path(9, speaker="b")[0])
    choice.polled(2, "a", Query("h", 0, path(20, speaker="b")))
    choice.polled(3, "a", Query("h", 0, path(30)))
    assert not choice.is_on_path(path(9)[0])  # the path was another one meanwhile


def test_a_server_alone_does_not_take_an_interface_from_a_home_that_lives() -> None:
    """A LAN server that was restarted forks from its old state before its set takes it in."""
    choice = a_choice(home="t", seq=4)
    asked = [message for _ in range(RETURN_POLLS) for _, message in choice.returns()]
    assert [(message.seq, message.home) for message in asked] == [(5, "t")]
    own = InterfacePolls(MemberId("a"))
    alone = SetState("lan", (MemberId("a"),), Vid(7, b"alone"), b"lineage2")
    own.chosen(0, asked[0])
    assert own.entries(1, alone) == []
    whole = replace(alone, view=(MemberId("t"), MemberId("a")))
    assert own.entries(1, whole) == [SetHome("h", MemberId("a"), 5)]
    [(_, silent)] = choice.questions(TIMES.rehome_ns)
    own.chosen(0, silent)
    assert own.entries(1, alone) == [SetHome("h", MemberId("a"), 5)]
