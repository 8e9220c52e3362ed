"""Directives of an owner: each view once, unless it is not acknowledged (rule G4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from phalanx.core.ids import MemberId
from phalanx.service.directive_sender import DirectiveSender
from phalanx.service.grace_timers import GraceTimers
from phalanx.service.group_messages import VIEWS_AT_ONCE, Directive, Served, Tell
from phalanx.service.group_moves import admitted
from phalanx.service.group_views import created
from phalanx.service.membership_book import MembershipBook
from phalanx.service.served_table import ServedTable
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_facts import SetFacts
from phalanx.service.set_speaker import SetSpeaker
from phalanx.service.set_state import founded
from phalanx.service.set_tree import ConfiguredSet, SetTree
from phalanx.service.values import GroupRecord, HomeOf, ServiceGroup, SetState

ME = MemberId("a")
TREE = SetTree({"lan": ConfiguredSet("lan", 1, ("a",))}, {"h": "a", "i": "a"})
TIMES = ServiceTimes()


@dataclass
class Owner:
    """The speaker of one set, with one group and one interface of it."""

    state: SetState = field(
        default_factory=lambda: replace(
            founded("lan", [ME], None), homes={"h": HomeOf(ME, 0), "i": HomeOf(ME, 0)}
        )
    )
    own: ServiceGroup = field(default_factory=lambda: created("u", "orders", "lan", b"0"))
    book: MembershipBook = field(default_factory=lambda: MembershipBook("h", (), ()))
    now: int = 1_000_000_000

    def __post_init__(self) -> None:
        self.speaker = SetSpeaker(ME, "lan", TREE, TIMES)
        self.table = ServedTable(TIMES)
        self.sender = DirectiveSender()
        self.table.begin(self.now, self.state.lineage)
        self.book.open("h/1", "u", "client/1")

    def join(self, member: str) -> None:
        self.own = admitted(self.own, member, b"%d" % len(self.own.history))

    def look(self) -> list[Directive]:
        """What is sent to h/1."""
        served = (self.book.served(1), Served("i", last_number=0))
        self.table.take(ME, Tell("lan", self.state.lineage, self.table.asked, served=served))
        state = replace(self.state, groups={"u": GroupRecord(own=self.own)})
        facts = SetFacts(
            self.now,
            ME,
            TREE,
            TIMES,
            state,
            state,
            None,
            self.table,
            GraceTimers(TIMES.grace_ns),
            ("lan",),
            frozenset(),
            {},
        )
        sent = self.sender.look(facts, self.speaker.step(state))
        return [directive for directive in sent if directive.interface == "h"]


def test_views_that_come_fast_go_in_one_directive_after_the_answer() -> None:
    owner = Owner()
    owner.join("h/1")
    (first,) = owner.look()
    assert (first.previous, first.view, first.more) == (None, owner.own.view, ())
    for number in (1, 2, 3):
        owner.join(f"i/{number}")
        assert owner.look() == []  # the first one is under way
    owner.book.take(first)
    (second,) = owner.look()
    assert first.view is not None
    assert second.view is not None
    assert second.previous == first.view.vid
    assert [view.vid.number for view in (second.view, *second.more)] == [3, 4, 5]
    assert second.group is not None
    assert second.group.view == owner.own.view
    _, notices = owner.book.take(second)
    assert [n.view.vid.number for n in notices if n.view is not None] == [3, 4, 5]
    assert owner.look() == []


def test_a_directive_that_is_not_acknowledged_is_sent_again() -> None:
    owner = Owner()
    owner.join("h/1")
    sent = owner.look()
    owner.now += TIMES.call_retry_ns - 1
    assert owner.look() == []
    owner.now += 1
    assert owner.look() == sent


def test_a_member_that_its_interface_has_not_named_yet_gets_its_first_view() -> None:
    owner = Owner()
    owner.join("h/1")
    owner.join("h/2")  # `look` answers for the interface as it was before
    sent = owner.look()
    assert sorted(member for directive in sent for member in directive.members) == ["h/1", "h/2"]


def test_a_member_far_behind_gets_a_bounded_number_of_views_at_once() -> None:
    owner = Owner()
    owner.join("h/1")
    for number in range(1, 41):
        owner.join(f"i/{number}")
    sizes = []
    while sent := owner.look():
        (directive,) = sent
        sizes.append(1 + len(directive.more))
        owner.book.take(directive)
    assert sizes == [VIEWS_AT_ONCE + 1, VIEWS_AT_ONCE + 1, 7]
    assert owner.book.members["h/1"].view == owner.own.view
