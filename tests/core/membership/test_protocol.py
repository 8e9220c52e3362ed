"""The membership protocol, one input at a time: literal inputs, literal instructions.

All tests look through the eyes of a, which boots in a view of a, b, c and d unless a test says
otherwise. x and y are in views of their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import get_args

import pytest
from tests.core.forged_packets import made_up

from phalanx.config import lan
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Action
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, boot_view
from phalanx.core.membership import instructions as steps
from phalanx.core.membership.answer_timeout import CALM_CHANGES, STRAIN_MAX
from phalanx.core.membership.instructions import (
    AllSpoke,
    AnnounceView,
    Attempted,
    BroadcastAttempt,
    Entered,
    Expired,
    Fetch,
    Heard,
    Input,
    InstallView,
    Instruction,
    IssueProposal,
    LeaveRequested,
    Met,
    ReportStep,
    ReportSuspicion,
    Resumed,
    RoleSet,
    SendLeave,
    Suspected,
)
from phalanx.core.membership.proposals import (
    Entry,
    Proposal,
    component_of,
    epoch,
    proposal_of,
    read_proposal,
)
from phalanx.core.membership.protocol import (
    JOINED_MAX,
    SPEAK_FACTOR,
    MembershipProtocol,
)
from phalanx.core.membership.stages import TABLE, ProtocolStage
from phalanx.core.membership.statements import Issue, Statement
from phalanx.core.wire.frames import Component, DeliveredVector

A, B, C, D, X, Y = (MemberId(name) for name in "abcdxy")
VIEW = boot_view([A, B, C, D])
HOME = component_of(VIEW)
AT_X, AT_Y = component_of(boot_view([X])), component_of(boot_view([Y]))
XY = made_up([X, Y])
COLLECT_NS, CHANGE_NS = lan().collect_ns, lan().change_ns


def without(
    *members: MemberId, base: Component = HOME, joined: Sequence[Component] = ()
) -> Proposal:
    """The base, with these components and without these of its members."""
    return proposal_of([base, *joined], [(member, base.view) for member in members])


STAYS, NO_D, NO_CD, NO_BCD = without(), without(D), without(C, D), without(B, C, D)
WITH_X = without(joined=[AT_X])


def protocol(view: View = VIEW, *issued: Proposal) -> MembershipProtocol:
    """a, in a view; it has issued these proposals, as its frames 1, 2 and so on."""
    made = MembershipProtocol(A, view, lan())
    for number, proposal in enumerate(issued, 1):
        draft = made._draft()
        draft.unite(proposal.components, proposal.left_out)
        assert made._weigh(0, draft)[-1] == IssueProposal(proposal)
        assert made.step(0, Entered(issue(A, number, proposal, component_of(view)))) == []
    return made


def issue(
    member: MemberId,
    number: int,
    proposal: Proposal,
    where: Component = HOME,
    start: int = 0,
    **closings: int,
) -> Statement:
    """The frame with which a member issues a proposal."""
    known = {MemberId(name): closing for name, closing in closings.items()}
    return Statement(member, number, where, proposal, number, start, DeliveredVector(), known)


def repeat(
    member: MemberId, number: int, proposal: Proposal, where: Component = HOME, **closings: int
) -> Statement:
    """A later frame: the proposal was issued with frame 1."""
    known = {MemberId(name): closing for name, closing in closings.items()}
    return Statement(member, number, where, proposal, 1, 0, None, known)


def speaks(member: MemberId, number: int, where: Component, **openings: int) -> Statement:
    """A frame of phase 0."""
    known = {MemberId(name): opening for name, opening in openings.items()}
    return Statement(member, number, where, openings=known)


def stepped(
    action: Action, proposal: Proposal, before: Sequence[MemberId] = (), after: str = ""
) -> ReportStep:
    return ReportStep(action, proposal, tuple(before), tuple(MemberId(name) for name in after))


def installed(instructions: list[Instruction]) -> Proposal | None:
    last = instructions[-1] if instructions else None
    return last.proposal if isinstance(last, InstallView) else None


def issued(instructions: list[Instruction]) -> Proposal | None:
    last = instructions[-1] if instructions else None
    return last.proposal if isinstance(last, IssueProposal) else None


# ---------------------------------------------------------------------------- R1: issue


def test_a_suspicion_is_issued_as_a_proposal_without_the_member() -> None:
    made = protocol()
    assert made.step(0, Suspected((D,), "SILENCE")) == [
        ReportSuspicion(D, "SILENCE"),
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]
    assert (made.stage, made.phase, made.current) == ("PROPOSED", 1, NO_D)


def test_a_suspicion_that_was_reported_already_is_not_reported_again() -> None:
    assert protocol().step(0, Suspected((D,))) == [
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]


def test_each_proposal_contains_the_one_before() -> None:
    made = protocol(VIEW, NO_D)
    assert made.step(0, Suspected((C,))) == [
        stepped("FA", NO_CD, [D], "cd"),
        IssueProposal(NO_CD),
    ]
    assert made.issued == [NO_D, NO_CD]


@pytest.mark.parametrize("members", [(), (A,), (X,), (D,)], ids=["nobody", "me", "x", "left out"])
def test_a_suspicion_of_no_other_entry_changes_nothing(members: tuple[MemberId, ...]) -> None:
    assert protocol(VIEW, NO_D).step(0, Suspected(members, "SILENCE")) == []


def test_a_proposal_that_does_not_contain_the_one_before_is_never_issued() -> None:
    made = protocol(VIEW, NO_D)
    with pytest.raises(AssertionError, match="only grow"):
        made._issue(0, without(C), made._draft())


def test_a_proposal_without_the_member_itself_is_never_issued() -> None:
    made = protocol()
    with pytest.raises(AssertionError, match="counts itself"):
        made._issue(0, without(A), made._draft())


# ---------------------------------------------------------------------------- R2: direct


def test_a_proposal_is_installed_when_every_entry_has_issued_it() -> None:
    made = protocol(VIEW, NO_D)
    assert made.step(0, Entered(issue(B, 5, NO_D, start=4))) == []
    assert made.step(0, Entered(issue(C, 7, NO_D))) == [
        stepped("CLOSED", NO_D),
        InstallView(
            VIEW,
            NO_D,
            {
                A: Issue(1, 0, DeliveredVector()),
                B: Issue(5, 4, DeliveredVector()),
                C: Issue(7, 0, DeliveredVector()),
            },
        ),
    ]
    assert (made.view, made.stage, made.phase, made.issued) == (NO_D.view, "STEADY", 0, [])
    assert made.current == proposal_of([component_of(NO_D.view)])


def test_a_member_that_is_left_alone_installs_on_its_own_word() -> None:
    made = MembershipProtocol(A, VIEW, lan())
    assert issued(made.step(0, Suspected((B, C, D)))) == NO_BCD
    assert installed(made.step(0, Entered(issue(A, 1, NO_BCD)))) == NO_BCD


def test_the_issue_of_a_mate_counts_only_when_it_has_entered_with_its_past() -> None:
    made = protocol(VIEW, NO_CD)
    assert made.step(0, Heard(issue(B, 5, NO_CD), False)) == []
    assert installed(made.step(0, Entered(issue(B, 5, NO_CD)))) == NO_CD


def test_the_issue_of_a_member_of_another_view_counts_when_it_is_heard() -> None:
    both = proposal_of([component_of(boot_view([A])), AT_X])
    made = protocol(boot_view([A]), both)
    told = made.step(0, Heard(issue(X, 5, both, AT_X), False))
    assert installed(told) == both
    assert isinstance(told[-1], InstallView)
    assert (told[-1].together, told[-1].cause) == ((A,), "join")


def test_a_frame_that_repeats_a_proposal_does_not_issue_it() -> None:
    made = protocol(VIEW, NO_CD)
    assert made.step(0, Entered(repeat(B, 6, NO_CD))) == []


def test_an_issue_from_another_view_than_the_entrys_does_not_count() -> None:
    here = component_of(boot_view([A]))
    both = proposal_of([here, AT_X])
    made = protocol(boot_view([A]), both)
    assert installed(made.step(0, Heard(issue(X, 5, both, made_up([X])), False))) is None


def test_an_older_proposal_is_not_installed_directly() -> None:
    """a, b and c have all issued it, but a has left c out since."""
    made = protocol(VIEW, NO_D, NO_CD)
    assert made.step(0, Entered(issue(B, 5, NO_D))) == []
    assert made.step(0, Entered(issue(C, 5, NO_D))) == []


# ---------------------------------------------------------------------------- R3: by tag


LATER = component_of(NO_D.view)


def behind() -> MembershipProtocol:
    """b and c have issued NO_D, which a has issued and then left."""
    made = protocol(VIEW, NO_D, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_D)))
    made.step(0, Entered(issue(C, 5, NO_D)))
    return made


def test_an_older_proposal_is_installed_if_a_member_that_counts_speaks_from_its_view() -> None:
    made = behind()
    assert installed(made.step(0, Heard(speaks(B, 6, LATER), False))) == NO_D
    assert made.view == NO_D.view


def test_an_older_proposal_is_not_installed_on_the_word_of_a_member_that_is_left_out() -> None:
    made = behind()
    assert made.step(0, Heard(speaks(C, 6, LATER), True)) == []


def test_an_older_proposal_waits_for_the_frames_that_issued_it() -> None:
    made = protocol(VIEW, NO_D, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_D)))
    asked = made.step(0, Heard(speaks(B, 6, LATER, a=1, b=5, c=7), False))
    assert asked == [Fetch(((C, HOME.view, 7),))]
    assert made.current == NO_CD, "b is not left out meanwhile"
    assert installed(made.step(0, Entered(issue(C, 7, NO_D)))) == NO_D


def test_a_witness_that_is_left_out_meanwhile_is_none() -> None:
    made = protocol(VIEW, NO_D, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_D)))
    made.step(0, Heard(speaks(B, 6, LATER), False))
    assert issued(made.step(0, Suspected((B,)))) == NO_BCD
    assert made.step(0, Entered(issue(C, 7, NO_D))) == []


def test_a_witness_must_count_with_the_entry_that_it_had_then() -> None:
    """x was proposed as a member of its first view, and counts now as one of its second."""
    made = protocol(VIEW, WITH_X)
    for member in (B, C, D):
        made.step(0, Entered(issue(member, 5, WITH_X)))
    followed = issued(made.step(0, Heard(speaks(X, 9, XY), True)))
    assert followed is not None
    assert followed.entries[X] == XY.view
    made.step(0, Entered(issue(A, 2, followed)))
    made.step(0, Heard(issue(X, 3, WITH_X, AT_X), False))
    assert made.step(0, Heard(speaks(X, 4, component_of(WITH_X.view)), False)) == []


def test_a_late_frame_from_the_view_is_a_witness_too() -> None:
    """R3 wins over the rule that frames from an older view are only stored."""
    made = behind()
    made.step(0, Heard(repeat(B, 9, NO_D), False))
    assert installed(made.step(0, Heard(speaks(B, 6, LATER), False))) == NO_D


# ---------------------------------------------------------------------------- R4: moved


ELSEWHERE = made_up([D, X])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_mate_that_speaks_from_another_view_is_left_out(fresh: bool) -> None:
    """It cannot be followed: the base lists it."""
    assert protocol().step(0, Heard(speaks(D, 9, ELSEWHERE), fresh)) == [
        ReportSuspicion(D, "MOVED"),
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]


def test_a_hello_from_another_view_moves_a_mate_too() -> None:
    """It does not list the members of the view."""
    said = Statement(D, 9, Component(ELSEWHERE.view, ()))
    assert issued(protocol().step(0, Heard(said, False))) == NO_D


def test_a_member_that_moved_is_followed_on_fresh_contact_in_the_same_issue() -> None:
    made = protocol(VIEW, WITH_X)
    followed = proposal_of([HOME, AT_X, XY], [(X, AT_X.view)])
    assert made.step(0, Heard(speaks(X, 9, XY), True)) == [
        stepped("FOLLOW", followed),
        IssueProposal(followed),
    ]


def test_a_member_that_moved_is_not_followed_on_what_was_stored_earlier() -> None:
    made = protocol(VIEW)
    made.step(0, Heard(speaks(X, 9, XY), False))
    made.step(0, Attempted(X, AT_X))
    assert issued(made.step(lan().collect_ns, Expired())) is None


@pytest.mark.parametrize(
    "where",
    [made_up([A, X]), made_up([B, X]), Component(XY.view, ())],
    ids=["lists me", "lists a mate", "does not say who is there"],
)
def test_a_member_that_moved_is_not_followed_to_a_view_that_cannot_be_taken(
    where: Component,
) -> None:
    made = protocol(VIEW, WITH_X)
    assert issued(made.step(0, Heard(speaks(X, 9, where), True))) == proposal_of(
        [HOME, AT_X], [(X, AT_X.view)]
    )


def at_epoch(joins: int) -> View:
    made = made_up([A, B], joins=joins)
    return View(made.view, made.members, made.context)


@pytest.mark.parametrize(("joins", "moved"), [(2, False), (3, True), (4, True)])
def test_a_view_of_an_equal_epoch_is_a_move_and_one_of_an_older_epoch_is_not(
    joins: int, moved: bool
) -> None:
    made = protocol(at_epoch(3))
    told = made.step(0, Heard(speaks(B, 9, made_up([B, X], joins=joins)), False))
    assert (issued(told) is not None) == moved


def test_a_member_that_speaks_from_a_proposed_view_has_not_moved() -> None:
    made = protocol(VIEW, NO_D)
    assert made.step(0, Heard(speaks(B, 9, LATER), False)) == []


# ---------------------------------------------------------------------------- R5: hear


def test_the_proposal_of_a_mate_is_united_with_ones_own() -> None:
    made = protocol(VIEW, NO_D)
    union = without(C, D, joined=[AT_X])
    assert made.step(0, Heard(issue(B, 5, without(C, joined=[AT_X])), False)) == [
        ReportSuspicion(C, "TOLD"),
        stepped("COMMIT", union, [D], "cd"),
        IssueProposal(union),
    ]


def test_a_proposal_that_ones_own_contains_adds_nothing() -> None:
    assert protocol(VIEW, NO_CD).step(0, Heard(issue(B, 5, NO_D), False)) == []


def test_a_mate_whose_proposal_leaves_this_member_out_is_left_out() -> None:
    assert protocol().step(0, Heard(issue(D, 5, without(A, B)), False)) == [
        ReportSuspicion(D, "MOVED"),
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]


def test_a_proposal_of_a_member_that_is_left_out_does_not_count() -> None:
    assert protocol(VIEW, NO_D).step(0, Heard(issue(D, 5, without(C)), False)) == []


def test_a_proposal_of_the_base_is_answered_even_if_nothing_changes() -> None:
    """b would wait for a's answer until a time-out."""
    for given in (Heard(issue(B, 5, STAYS), False), Entered(issue(B, 5, STAYS))):
        assert protocol().step(0, given) == [stepped("FA", STAYS), IssueProposal(STAYS)]


def test_a_proposal_of_components_that_have_been_is_answered_without_them() -> None:
    made = protocol(VIEW, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_CD)))
    here = component_of(NO_CD.view)
    said = issue(B, 6, proposal_of([here, HOME], [(A, HOME.view), (B, HOME.view)]), here)
    answer = proposal_of([here, HOME], [(m, HOME.view) for m in HOME.members])
    assert issued(made.step(0, Heard(said, False))) == answer


WANTS_ME = issue(X, 5, WITH_X, AT_X)


def test_a_stranger_that_proposes_to_unite_is_answered_on_fresh_contact() -> None:
    assert protocol().step(0, Heard(WANTS_ME, True)) == [
        stepped("COMMIT", WITH_X),
        IssueProposal(WITH_X),
    ]


@pytest.mark.parametrize(
    ("said", "fresh"),
    [
        (WANTS_ME, False),
        (issue(X, 5, proposal_of([AT_X, AT_Y]), AT_X), True),
        (issue(X, 5, without(A, joined=[AT_X]), AT_X), True),
        (speaks(X, 5, AT_X), True),
    ],
    ids=[
        "not fresh",
        "does not know me",
        "leaves me out",
        "proposes nothing",
    ],
)
def test_other_proposals_of_strangers_do_not_count(said: Statement, fresh: bool) -> None:
    made = protocol()
    assert made.step(0, Heard(said, fresh)) == []
    assert made.phase == 0


def waits_in_vain() -> Sequence[Statement]:
    """x counts a from a view that a is not in: in a proposal, or because a has not spoken there."""
    return (
        issue(X, 5, proposal_of([AT_X, made_up([A, Y])]), AT_X),
        speaks(X, 5, made_up([A, X])),
    )


def test_a_stranger_that_waits_for_this_member_elsewhere_hears_once_where_it_is() -> None:
    for said in waits_in_vain():
        made = protocol()
        assert made.step(0, Heard(said, False)) == [AnnounceView()]
        assert made.step(0, Heard(said, False)) == []
        assert made.phase == 0


@pytest.mark.parametrize(("later_ns", "answer"), [(0, [AnnounceView()]), (CHANGE_NS + 1, [])])
def test_a_stranger_that_waits_since_before_the_install_hears_where_this_member_is(
    later_ns: int, answer: list[Instruction]
) -> None:
    """x counts a from the view that a then leaves, alone. After its answer time x waits no more."""
    made = protocol()
    waits = issue(X, 5, proposal_of([AT_X, HOME]), AT_X)
    assert made.step(0, Heard(waits, False)) == []
    made.step(later_ns, Suspected((B, C, D)))
    assert installed(made.step(later_ns, Entered(issue(A, 1, NO_BCD)))) == NO_BCD
    assert made.step(later_ns, Resumed()) == answer


def test_while_frames_are_announced_nobody_needs_to_hear_more() -> None:
    for said in waits_in_vain():
        fresh, proposed = protocol(), protocol(VIEW, NO_D)
        fresh.watch(0)
        for made in (fresh, proposed):
            assert made.step(0, Heard(said, False)) == []


def test_a_hello_tells_that_a_foreign_entry_has_moved() -> None:
    moved = Statement(X, 7, Component(XY.view, ()))
    made = protocol(VIEW, WITH_X)
    out = without(joined=[AT_X])
    out = proposal_of(out.components.values(), [(X, AT_X.view)])
    assert issued(made.step(0, Heard(moved, False))) == out


def test_a_hello_from_the_view_of_an_entry_says_nothing_new() -> None:
    """It has a higher number than the frame that proposed something, and must not hide it."""
    made = protocol()
    more = issue(X, 5, without(D, joined=[AT_X]), AT_X)
    made.step(0, Heard(more, False))
    assert made.step(0, Heard(Statement(X, 7, Component(AT_X.view, ())), False)) == []
    draft = made._draft()
    draft.take(speaks(X, 5, AT_X))
    assert issued(made._weigh(0, draft)) == without(D, joined=[AT_X])


def test_a_proposal_heard_before_its_sender_became_an_entry_is_looked_at_again() -> None:
    made = protocol()
    more = proposal_of([HOME, AT_X, AT_Y])
    assert made.step(0, Heard(issue(X, 5, more, AT_X), False)) == []
    made.step(0, Attempted(X, AT_X))
    assert issued(made.step(COLLECT_NS, Expired())) == more


def test_a_member_does_not_hear_itself() -> None:
    assert protocol().step(0, Heard(issue(A, 5, NO_D), True)) == []


# ---------------------------------------------------------------------------- J: join


START = [stepped("START", STAYS), BroadcastAttempt()]


def test_a_member_that_meets_a_stranger_makes_itself_known_and_collects() -> None:
    made = protocol()
    assert made.step(7, Met(X, AT_X.view)) == START
    assert (made.stage, made.phase, made.deadline()) == ("COLLECTING", 0, 7 + COLLECT_NS)
    assert made.joining == "COLLECT"


def test_an_attempt_of_a_stranger_starts_a_collection_with_its_component() -> None:
    made = protocol()
    assert made.step(0, Attempted(X, AT_X)) == START
    assert made.collected == {AT_X.view: AT_X}


def test_an_attempt_of_a_mate_starts_a_collection_in_silence() -> None:
    made = protocol()
    assert made.step(0, Attempted(B, HOME)) == START[:1]
    assert made.stage == "COLLECTING"


@pytest.mark.parametrize(
    "given",
    [Met(B, AT_X.view), Met(X, HOME.view), Attempted(B, XY), Attempted(X, HOME)],
    ids=["a mate is met", "my view is met", "a mate from elsewhere", "my view attempts"],
)
def test_no_collection_starts_without_a_stranger(given: Input) -> None:
    made = protocol()
    assert made.step(0, given) == []
    assert made.stage == "STEADY"


def test_a_view_that_the_member_has_been_in_is_not_met_again() -> None:
    made = protocol(VIEW, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_CD)))
    assert made.step(0, Met(D, HOME.view)) == []
    assert made.step(0, Attempted(D, HOME)) == []
    assert made.stage == "STEADY"


def test_a_view_that_was_live_in_one_of_the_members_views_is_not_merged_again() -> None:
    """a merged with x, then x was left out; frames from before the merge come late."""
    here = component_of(boot_view([A]))
    both = proposal_of([here, AT_X])
    made = protocol(boot_view([A]), both)
    assert installed(made.step(0, Heard(issue(X, 5, both, AT_X), False))) == both
    joined = component_of(both.view)
    alone = without(X, base=joined)
    assert issued(made.step(0, Suspected((X,)))) == alone
    assert installed(made.step(0, Entered(issue(A, 2, alone, joined)))) == alone
    assert made.step(0, Met(X, AT_X.view)) == []
    assert made.step(0, Met(X, joined.view)) == []
    assert made.step(0, Attempted(X, AT_X)) == []
    last = proposal_of([component_of(alone.view), AT_X])
    assert made.step(0, Heard(issue(X, 9, last, AT_X), True)) == []


def test_components_that_attempt_in_time_are_proposed_together() -> None:
    made = protocol()
    made.step(0, Attempted(X, AT_X))
    assert made.step(1, Attempted(Y, AT_Y)) == []
    assert made.step(COLLECT_NS - 1, Expired()) == []
    both = proposal_of([HOME, AT_X, AT_Y])
    assert made.step(COLLECT_NS, Expired()) == [stepped("COMMIT", both), IssueProposal(both)]
    assert (made.collected, made.joining) == ({}, "COMMIT")


def test_a_collection_of_nothing_is_forgotten() -> None:
    made = protocol()
    made.step(0, Met(X, AT_X.view))
    assert made.step(COLLECT_NS, Expired()) == [stepped("FORGET", STAYS)]
    assert (made.stage, made.phase, made.deadline()) == ("STEADY", 0, NEVER)


@pytest.mark.parametrize(
    "component",
    [HOME, made_up([A, Y]), made_up([B, Y]), made_up([X]), made_up([Y], joins=1 << 30)],
    ids=["my view", "lists me", "lists a mate", "without its sender", "far ahead"],
)
def test_components_that_cannot_be_merged_are_not_collected(component: Component) -> None:
    made = protocol()
    made.step(0, Met(X, AT_X.view))
    assert made.step(0, Attempted(Y, component)) == []
    assert made.collected == {}


def test_a_bounded_number_of_components_is_collected() -> None:
    made = protocol()
    made.step(0, Met(X, AT_X.view))
    strangers = [made_up([MemberId(f"s{k:04}")]) for k in range(JOINED_MAX - 2)]
    made.collected = {component.view: component for component in strangers}
    made.step(0, Attempted(X, AT_X))
    made.step(0, Attempted(Y, AT_Y))
    assert len(made.collected) + 1 == JOINED_MAX, "with the base"
    assert AT_Y.view not in made.collected


def test_a_component_that_makes_the_view_too_large_is_not_collected() -> None:
    made = protocol()
    made.step(0, Met(X, AT_X.view))
    crowd = [MemberId(f"s{k:04}") for k in range(MEMBERS_MAX - 3)]
    made.step(0, Attempted(crowd[0], made_up(crowd)))
    assert made.collected == {}
    made.step(0, Attempted(crowd[0], made_up(crowd[:-1])))
    assert len(made.collected) == 1


def test_a_suspicion_ends_the_collection_and_takes_it_along() -> None:
    made = protocol()
    made.step(0, Attempted(X, AT_X))
    assert issued(made.step(1, Suspected((D,)))) == without(D, joined=[AT_X])
    assert made.collected == {}


# ---------------------------------------------------------------------------- T: time-outs


def test_members_that_do_not_issue_in_time_are_left_out() -> None:
    made = protocol(VIEW, NO_D)
    made.step(0, Entered(issue(B, 5, NO_D)))
    assert made.deadline() == CHANGE_NS
    assert made.step(CHANGE_NS - 1, Expired()) == []
    assert made.step(CHANGE_NS, Expired()) == [
        ReportSuspicion(C, "T_CHANGE"),
        stepped("FA", NO_CD, [D], "cd"),
        IssueProposal(NO_CD),
    ]


def test_a_member_that_has_issued_the_proposal_gets_as_much_time_again_once() -> None:
    """Its frame is on its way: what it follows is being fetched."""
    made = protocol(VIEW, NO_CD)
    made.step(0, Heard(issue(B, 5, NO_CD), False))
    assert made.step(CHANGE_NS, Expired()) == []
    assert made.deadline() == 2 * CHANGE_NS
    assert issued(made.step(2 * CHANGE_NS, Expired())) == NO_BCD


def test_a_member_that_has_installed_an_older_proposal_gets_more_time() -> None:
    made = protocol(VIEW, NO_D, NO_CD)
    made.step(0, Heard(speaks(B, 6, LATER), False))
    assert made.step(CHANGE_NS, Expired()) == []
    assert issued(made.step(2 * CHANGE_NS, Expired())) == NO_BCD


def test_a_member_that_is_excused_stays_if_others_are_late() -> None:
    made = protocol(VIEW, NO_D)
    made.step(0, Heard(issue(B, 5, NO_D), False))
    assert issued(made.step(CHANGE_NS, Expired())) == NO_CD


def test_the_time_to_answer_doubles_after_each_miss_up_to_a_limit() -> None:
    names = [MemberId(f"m{k}") for k in range(6)]
    made = protocol(boot_view([A, *names]))
    made.step(0, Suspected((names[0],)))
    now, waits = 0, []
    for member in names[1:]:
        waits.append(made.deadline() - now)
        now = made.deadline()
        for other in made.current.entries:
            if other != member:
                said = Statement(other, now, made.base, made.current, now, now, DeliveredVector())
                made.step(now, Entered(said))
        made.step(now, Expired())
    assert waits == [CHANGE_NS << k for k in (0, 1, 2, STRAIN_MAX, STRAIN_MAX)]


def test_a_calm_time_makes_the_time_to_answer_short_again() -> None:
    made = protocol(VIEW, NO_D)
    made.step(CHANGE_NS, Expired())
    assert made.deadline() == CHANGE_NS + 2 * CHANGE_NS
    calm = CHANGE_NS + CALM_CHANGES * CHANGE_NS + 1
    assert made._time.answer_ns(calm - 1) == 2 * CHANGE_NS
    assert made._time.answer_ns(calm) == CHANGE_NS


def test_members_that_do_not_speak_in_a_view_in_time_are_left_out() -> None:
    made = protocol()
    made.watch(0)
    due = SPEAK_FACTOR * CHANGE_NS
    assert made.deadline() == due
    assert made.step(due - 1, Expired((D,))) == []
    assert made.step(due, Expired((D,))) == [
        ReportSuspicion(D, "T_CHANGE"),
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]


def test_no_more_waiting_once_all_have_spoken() -> None:
    made = protocol()
    made.watch(0)
    assert made.step(1, AllSpoke()) == []
    assert made.deadline() == NEVER


def test_members_have_to_speak_in_a_new_view_while_components_are_collected() -> None:
    made = protocol()
    made.watch(0)
    late = SPEAK_FACTOR * CHANGE_NS - 1
    made.step(late, Attempted(X, AT_X))
    assert made.deadline() == late + 1
    assert issued(made.step(late + 1, Expired((D,)))) == without(D, joined=[AT_X])


# ---------------------------------------------------------------------------- LEAVE


def test_a_member_that_shall_leave_sends_its_last_frame() -> None:
    made = protocol()
    assert made.step(0, LeaveRequested()) == [stepped("LEAVE", STAYS), SendLeave()]
    assert (made.stage, made.phase, made.deadline()) == ("LEAVING", 1, NEVER)
    assert made.leaving
    assert not made.has_left


def test_a_member_has_left_when_all_others_have_left_it_out_or_are_in_a_view_without_it() -> None:
    made = protocol(VIEW, NO_D)
    made.step(0, LeaveRequested())
    assert made.step(0, Entered(issue(B, 5, without(A, D)))) == []
    assert not made.has_left
    made.step(0, Heard(speaks(C, 6, made_up([B, C])), False))
    assert made.has_left, "d does not count"


def test_members_that_still_count_the_leaver_or_do_not_tell_say_no_goodbye() -> None:
    made = protocol(boot_view([A, B]))
    made.step(0, LeaveRequested())
    made.step(0, Heard(speaks(B, 5, component_of(boot_view([A, B]))), False))
    made.step(0, Heard(Statement(B, 6, Component(XY.view, ())), False))
    assert not made.has_left


def test_a_leaver_does_not_wait_for_members_that_leave_too() -> None:
    made = protocol(VIEW, NO_D)
    made.step(0, LeaveRequested())
    made.step(0, Entered(Statement(B, 5, HOME, leaves=True)))
    assert not made.has_left, "c stays"
    made.step(0, Entered(issue(C, 5, without(A, B, D))))
    assert made.has_left


def test_a_leaver_waits_until_the_last_frame_of_another_has_entered() -> None:
    """Heard alone, frames that the other sent before may be missing here."""
    made = protocol(boot_view([A, B]))
    pair = component_of(boot_view([A, B]))
    made.step(0, LeaveRequested())
    made.step(0, Heard(Statement(B, 5, pair, leaves=True), False))
    assert not made.has_left
    made.step(0, Entered(Statement(B, 5, pair, leaves=True)))
    assert made.has_left


def test_a_leaver_does_not_wait_for_a_member_that_leaves_from_a_later_view() -> None:
    made = protocol(boot_view([A, B]))
    made.step(0, LeaveRequested())
    made.step(0, Heard(Statement(B, 9, made_up([A, B]), leaves=True), False))
    assert made.has_left


def test_a_member_that_is_alone_leaves_at_once() -> None:
    made = protocol(boot_view([A]))
    assert not made.has_left
    made.step(0, LeaveRequested())
    assert made.has_left


def test_a_mate_that_leaves_is_left_out_without_suspicion() -> None:
    assert protocol().step(0, Entered(Statement(D, 5, HOME, leaves=True))) == [
        stepped("FA", NO_D, (), "d"),
        IssueProposal(NO_D),
    ]


def test_the_last_frame_of_a_mate_must_enter_before_it_is_left_out() -> None:
    assert protocol().step(0, Heard(Statement(D, 5, HOME, leaves=True), False)) == []


def test_a_member_of_another_view_that_leaves_is_left_out_at_once() -> None:
    made = protocol(VIEW, WITH_X)
    told = made.step(0, Heard(Statement(X, 6, AT_X, leaves=True), False))
    assert issued(told) == proposal_of([HOME, AT_X], [(X, AT_X.view)])


# ---------------------------------------------------------------------------- Resumed


def test_own_suspicions_are_issued_anew_in_the_next_view() -> None:
    """a suspects c, but follows b to the view with c."""
    made = protocol(VIEW, NO_D)
    made.step(0, Suspected((C,), "SILENCE"))
    made.step(0, Entered(issue(B, 5, NO_D)))
    made.step(0, Entered(issue(C, 5, NO_D)))
    assert installed(made.step(0, Heard(speaks(B, 6, LATER), False))) == NO_D
    again = without(C, base=LATER)
    assert made.step(0, Resumed()) == [stepped("FA", again, (), "c"), IssueProposal(again)]


def test_time_outs_and_what_others_said_are_not_issued_anew() -> None:
    made = protocol(VIEW, NO_D)
    made.step(0, Heard(repeat(B, 5, NO_D), False))
    assert issued(made.step(CHANGE_NS, Expired())) == NO_CD
    made.step(CHANGE_NS, Entered(issue(B, 4, NO_D)))
    made.step(CHANGE_NS, Entered(issue(C, 5, NO_D)))
    assert installed(made.step(CHANGE_NS, Heard(speaks(B, 6, LATER), False))) == NO_D
    assert made.step(CHANGE_NS, Resumed()) == []


def test_what_was_heard_from_the_view_before_it_was_installed_is_answered_then() -> None:
    """Its frame counts for R2 only when it enters."""
    made = behind()
    next_one = without(C, base=LATER)
    assert installed(made.step(0, Heard(issue(B, 6, next_one, LATER), False))) == NO_D
    assert issued(made.step(0, Resumed())) == next_one
    assert made.step(0, Entered(issue(A, 3, next_one, LATER))) == []
    assert installed(made.step(0, Entered(issue(B, 6, next_one, LATER)))) == next_one


def test_nothing_is_issued_in_the_next_view_without_a_reason() -> None:
    made = protocol(VIEW, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_CD)))
    assert made.step(0, Resumed()) == []
    assert made.deadline() == SPEAK_FACTOR * CHANGE_NS


# ---------------------------------------------------------------------------- fetching


def test_the_frame_with_which_a_stranger_issued_a_proposal_is_fetched() -> None:
    made = protocol(VIEW, WITH_X)
    assert made.step(0, Heard(repeat(X, 5, WITH_X, AT_X), False)) == [Fetch(((X, AT_X.view, 1),))]
    made.step(0, Heard(issue(X, 1, WITH_X, AT_X), False))
    assert made.step(0, Heard(repeat(X, 6, WITH_X, AT_X), False)) == []


def test_the_closings_that_an_entry_knows_of_the_current_proposal_are_fetched() -> None:
    both = proposal_of([HOME, AT_X, AT_Y])
    made = protocol(VIEW, both)
    said = issue(X, 5, both, AT_X, b=3, c=0, x=5, y=8)
    assert made.step(0, Heard(said, False)) == [Fetch(((B, HOME.view, 3), (Y, AT_Y.view, 8)))]


def test_a_witness_that_has_proposed_again_still_tells_what_issued_its_view() -> None:
    made = protocol(VIEW, NO_D, NO_CD)
    made.step(0, Entered(issue(B, 5, NO_D)))
    said = Statement(
        B, 7, LATER, without(C, base=LATER), 7, 7, DeliveredVector(), {B: 7}, {A: 1, B: 5, C: 9}
    )
    assert made.step(0, Heard(said, False)) == [Fetch(((C, HOME.view, 9),))]


def test_the_issue_of_a_proposal_that_does_not_count_this_member_is_not_fetched() -> None:
    said = repeat(X, 5, proposal_of([AT_X, AT_Y]), AT_X)
    assert protocol().step(0, Heard(said, False)) == []


# ---------------------------------------------------------------------------- what can be asked


def test_the_closings_are_the_frames_that_issued_the_current_proposal_as_far_as_they_are_here() -> (
    None
):
    made = protocol(VIEW, NO_D)
    made.step(0, Entered(issue(C, 7, NO_D)))
    assert made.closings() == (1, 0, 7)


def test_a_member_counts_the_entries_of_its_base_and_knows_all_that_are_listed() -> None:
    made = protocol(VIEW, without(D, joined=[AT_X]))
    assert [made.counts(m) for m in (A, B, D, X)] == [True, True, False, False]
    assert [made.knows(m) for m in (A, B, D, X, Y)] == [True, True, True, True, False]


# ---------------------------------------------------------------------------- the table


INPUTS: dict[type[Input], Input] = {
    Suspected: Suspected((D,), "SILENCE"),
    Heard: Heard(speaks(B, 5, HOME), False),
    Entered: Entered(issue(B, 5, NO_D)),
    Met: Met(X, AT_X.view),
    Attempted: Attempted(X, AT_X),
    Expired: Expired(),
    AllSpoke: AllSpoke(),
    Resumed: Resumed(),
    RoleSet: RoleSet(("read",)),
    LeaveRequested: LeaveRequested(),
}
ENTRANCES: dict[ProtocolStage, Input | None] = {
    "STEADY": None,
    "COLLECTING": Met(X, AT_X.view),
    "PROPOSED": Suspected((C,)),
    "LEAVING": LeaveRequested(),
}


@pytest.mark.parametrize("kind", get_args(steps.Input), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("stage", get_args(ProtocolStage))
def test_every_stage_takes_every_input(stage: ProtocolStage, kind: type[Input]) -> None:
    made, entrance = protocol(), ENTRANCES[stage]
    if entrance is not None:
        made.step(0, entrance)
    assert made.stage == stage
    handler = TABLE[stage][kind]
    told = made.step(0, INPUTS[kind])
    assert all(isinstance(one, get_args(Instruction)) for one in told)
    assert handler is not None or (told, made.stage) == ([], stage)


def test_the_table_has_no_other_stages_and_inputs() -> None:
    assert set(TABLE) == set(get_args(ProtocolStage))
    assert all(set(row) == set(get_args(steps.Input)) == set(INPUTS) for row in TABLE.values())


def test_what_is_issued_can_be_read_whatever_it_is_united_with() -> None:
    """Rule N leaves out more than the union does; that must fit too."""
    made = protocol()
    near = made_up([MemberId(f"n{k:03}") for k in range(100)])
    gone = [made_up([MemberId(f"{part}-{k:04}") for k in range(1000)]) for part in range(3)]
    far = made_up([MemberId(f"f{k:04}") for k in range(900)], joins=1 << 30)
    out = [(member, part.view) for part in gone for member in part.members]
    for parts in ([HOME, near, *gone, far], [HOME, near, *gone, far, AT_X]):
        theirs = proposal_of(parts, out)
        for told in made.step(0, Heard(issue(near.members[0], 1, theirs, near), True)):
            if isinstance(told, IssueProposal):
                assert read_proposal(told.proposal.encoded) == told.proposal
                assert len(told.proposal.left_out) == len(out) + len(far.members)
                made.step(0, Entered(issue(A, 1, told.proposal)))
    assert made.issued


def test_a_proposal_too_large_to_be_read_is_not_united_with() -> None:
    made = protocol()
    near = made_up([X])
    gone = [made_up([MemberId(f"{part}-{k:04}") for k in range(1024)]) for part in range(4)]
    out = [(member, part.view) for part in gone for member in part.members]
    theirs = proposal_of([HOME, near, *gone], out)
    assert made.step(0, Heard(issue(X, 1, theirs, near), True)) == []


def test_a_member_whose_name_a_later_process_has_is_reported_as_replaced() -> None:
    made = protocol()
    later = component_of(boot_view([MemberId("b", 2)]))
    theirs = proposal_of([HOME, later], [(B, HOME.view)])
    told = made.step(0, Heard(issue(MemberId("b", 2), 1, proposal_of([HOME, later]), later), True))
    assert told[0] == ReportSuspicion(B, "REPLACED")
    assert made.current == theirs


def random_input(rng: random.Random, made: MembershipProtocol, views: list[Component]) -> Input:
    member = rng.choice([B, C, D, X, Y])
    listing = [c for c in views if member in c.members]
    where = rng.choice(listing)
    components = {made.base.view: made.base, where.view: where}
    components |= {c.view: c for c in rng.sample(views, rng.randrange(3))}
    entries: list[Entry] = [(m, c.view) for c in components.values() for m in c.members]
    seen: set[MemberId] = {member}
    out = []
    for entry in entries:
        if entry != (member, where.view) and (entry[0] in seen or rng.randrange(6) == 0):
            out.append(entry)
        else:
            seen.add(entry[0])
    proposal = rng.choice([made.current, Proposal(components, frozenset(out))])
    number = rng.randrange(1, 60)
    said = rng.choice([issue(member, number, proposal, where), speaks(member, number, where)])
    kinds: list[Input] = [
        Suspected((member,), rng.choice([None, "SILENCE"])),
        Heard(said, bool(rng.randrange(2))),
        Heard(said, bool(rng.randrange(2))),
        Entered(said) if said.view == made.base.view else Expired(),
        Met(member, where.view),
        Attempted(member, where),
        Expired((member,) if rng.randrange(4) == 0 else ()),
    ]
    return rng.choice(kinds)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_the_rules_for_issues_and_installs_hold(seed: int) -> None:
    """1. the last instruction alone may issue or install; 2. what is issued grows, in normal form
    that counts a; 3. what is installed was issued here, and by all its entries; 4. epochs grow, so
    that no view is installed twice."""
    rng = random.Random(seed)
    made = MembershipProtocol(A, VIEW, lan())
    views = [HOME, AT_X, AT_Y, XY, made_up([B, X], 2), made_up([C, D, Y], 2)]
    been, now, number = [VIEW.id], 0, 0
    for _ in range(150):
        now += rng.choice([0, 0, CHANGE_NS // 3, CHANGE_NS])
        given: Input | None = random_input(rng, made, views)
        while given is not None:
            before, base = list(made.issued), made.base
            told = made.step(now, given)
            given = None
            assert not any(isinstance(one, IssueProposal | InstallView) for one in told[:-1])
            match told[-1] if told else None:
                case IssueProposal(proposal):
                    assert all(old <= proposal and old != proposal for old in before)
                    assert proposal.entries[A] == base.view
                    number += 1
                    given = Entered(issue(A, number, proposal, base))
                case InstallView(_, proposal, issues):
                    assert proposal in before
                    assert set(issues) == set(proposal.entries)
                    assert epoch(proposal.view.id) > epoch(been[-1])
                    been.append(proposal.view.id)
                    views.append(component_of(proposal.view))
                    given = Resumed()
