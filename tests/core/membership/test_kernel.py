"""The membership protocol by itself: each rule of PROTOCOLS B.7, with a fake owner.

a, b and c are in one view, and the kernel is a's. x and y are elsewhere. `hears` feeds a frame of
another member, in the order in which they would enter.
"""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.config import lan
from phalanx.core.effects import Action
from phalanx.core.frames import (
    Announce,
    Attempt,
    Component,
    Context,
    Delivered,
    Fault,
    Join,
    Leave,
    Said,
)
from phalanx.core.ids import MEMBERS_MAX, MemberId, View, ViewId, boot_view
from phalanx.core.membership.contexts import (
    Reach,
    context_digest,
    join_view,
    removal_view,
)
from phalanx.core.membership.doubts import JOINS_AHEAD_MAX
from phalanx.core.membership.kernel import STASH_MAX, Kernel
from phalanx.core.membership.ledger import Entry
from phalanx.core.membership.views import NEVER, Change

A, B, C, X, Y = (MemberId(name) for name in "abcxy")


def part(view: View) -> Component:
    return Component(view.id, view.members, view.context)


HOME = boot_view([A, B, C])
HERE = part(HOME)
AWAY = boot_view([X])
THERE = part(AWAY)
DELIVERED = Delivered((B,), (7,))
NOBODY: frozenset[MemberId] = frozenset()


def only(*members: MemberId) -> frozenset[MemberId]:
    return frozenset(members)


COLLECT_NS, CHANGE_NS = lan().collect_ns, lan().change_ns


class Owner:
    """Notes what the kernel asks for."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.attempts = 0
        self.changes: list[Change] = []
        self.actions: list[Action] = []
        self.silent: list[MemberId] = []

    def say(self, said: Said) -> tuple[int, Reach]:
        self.said.append(said)
        return len(self.said), {A: len(self.said)}

    def attempt(self) -> None:
        self.attempts += 1

    def install(self, change: Change) -> None:
        self.changes.append(change)

    def unspoken(self) -> list[MemberId]:
        return self.silent

    def delivered(self) -> Join:
        return Join((), DELIVERED)

    def stepped(self, action: Action) -> None:
        self.actions.append(action)


class Bench:
    def __init__(self, view: View = HOME) -> None:
        self.owner = Owner()
        self.kernel = Kernel(A, view, lan(), self.owner)
        self.numbers: dict[MemberId, int] = {}

    def hears(
        self,
        sender: MemberId,
        said: Said | None,
        components: tuple[Component, ...] = (HERE,),
        view: View = HOME,
        process: bool = True,
        **more: Any,
    ) -> None:
        """A frame of a change enters; it follows its sender's earlier ones, and `reach`."""
        number = self.numbers[sender] = self.numbers.get(sender, 0) + 1
        announce = Announce(components, view.context, (), (), said)
        reach = {**more.get("reach", {}), sender: number}
        self.kernel.entered(Entry(sender, number, view.id, 1, announce, reach), process)

    def passes(self, ns: int) -> list[MemberId]:
        self.kernel.now += ns
        return self.kernel.expire()

    def collects(self) -> Bench:
        """x is heard, and has made its component known."""
        self.kernel.foreign(X, AWAY.id)
        self.kernel.attempted(attempt(X, THERE))
        return self

    def commits(self) -> Bench:
        """A joint view with x is proposed."""
        self.collects().passes(COLLECT_NS)
        return self

    def joins(self) -> Bench:
        """The joint view with x is installed."""
        self.commits()
        for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
            self.hears(member, Join(()), BOTH, view)
        return self


def attempt(sender: MemberId, component: Component) -> Attempt:
    return Attempt(sender, 1, component, (A,))


def digest(*components: Component, without: tuple[MemberId, ...] = ()) -> bytes:
    return context_digest(Context(components=components, failed_before=without))


def at_home(*faulty: MemberId, new: tuple[MemberId, ...] | None = None) -> Fault:
    """FA in the context of the view."""
    return Fault(HOME.context, faulty, faulty if new is None else new, False)


BOTH = tuple(sorted((HERE, THERE), key=lambda c: c.view))
JOINT = digest(*BOTH)


def joint(*faulty: MemberId, context: bytes = JOINT) -> Fault:
    """FA in the context of the join under way."""
    return Fault(context, faulty, faulty, True)


# ---------------------------------------------------------------------------- start and alpha


def test_a_foreigner_starts_an_attempt_to_join() -> None:
    bench = Bench()
    bench.kernel.foreign(X, AWAY.id)
    assert bench.kernel.stage == "COLLECT"
    assert bench.kernel.components == (HERE,)
    assert (bench.owner.attempts, bench.owner.actions) == (1, ["START"])
    assert bench.kernel.deadline() == COLLECT_NS
    assert bench.kernel.phase == 0, "nothing was said in it yet"


@pytest.mark.parametrize(
    ("member", "view"),
    [(B, AWAY.id), (X, HOME.id)],
    ids=["a member of the view", "a view that was left or merged"],
)
def test_who_is_no_foreigner_starts_nothing(member: MemberId, view: ViewId) -> None:
    bench = Bench()
    bench.kernel.foreign(member, view)
    assert bench.kernel.stage == "IDLE"
    assert bench.owner.attempts == 0


def test_a_foreigner_starts_nothing_while_a_fault_is_not_closed() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.kernel.foreign(X, AWAY.id)
    assert bench.kernel.stage == "IDLE"


def test_the_attempt_of_a_member_that_is_held_for_failed_starts_nothing() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.kernel.attempted(attempt(C, HERE))
    assert bench.kernel.stage == "IDLE"


def test_an_attempt_that_nobody_answers_is_forgotten() -> None:
    bench = Bench()
    bench.kernel.foreign(X, AWAY.id)
    bench.passes(COLLECT_NS - 1)
    assert bench.owner.actions == ["START"]
    bench.passes(1)
    assert bench.kernel.stage == "IDLE"
    assert bench.owner.said == []
    assert bench.owner.actions == ["START", "FORGET"]
    assert not bench.kernel.changing
    assert bench.kernel.deadline() == NEVER


def test_an_attempt_that_found_a_component_becomes_a_proposal() -> None:
    bench = Bench().commits()
    assert bench.kernel.stage == "COMMIT"
    assert bench.owner.said == [Join((), DELIVERED)]
    assert bench.kernel.announced() == BOTH
    assert (bench.kernel.proposal_id, bench.kernel.phase) == (JOINT, 1)


def test_an_attempt_during_which_a_member_broke_becomes_a_proposal_without_it() -> None:
    bench = Bench()
    bench.kernel.foreign(X, AWAY.id)
    bench.kernel.break_with((C,))
    assert bench.kernel.stage == "COMMIT"
    assert bench.owner.said == [Join((C,), DELIVERED)]


def test_an_attempt_during_which_a_frame_of_a_change_came_becomes_a_proposal() -> None:
    bench = Bench()
    bench.kernel.foreign(X, AWAY.id)
    bench.hears(B, None)
    bench.passes(COLLECT_NS)
    assert bench.kernel.stage == "COMMIT"
    assert bench.owner.said == [Join((), DELIVERED)]


def test_a_start_takes_faults_along_that_are_not_closed() -> None:
    """PROTOCOLS B.2 item 8: only one's own start needs them closed, a member's attempt does not."""
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.kernel.attempted(attempt(B, HERE))
    assert bench.kernel.stage == "COLLECT"
    assert bench.kernel.before == {C}


# ---------------------------------------------------------------------------- attempts


def test_the_attempt_of_a_member_of_the_view_starts_here_too_and_is_not_answered() -> None:
    bench = Bench()
    bench.kernel.attempted(attempt(B, HERE))
    assert bench.kernel.stage == "COLLECT"
    assert bench.owner.attempts == 0


def test_a_members_attempt_from_another_view_than_mine_starts_nothing() -> None:
    bench = Bench()
    bench.kernel.attempted(attempt(B, Component(ViewId(0, 1, b"another!"), (A, B))))
    assert bench.kernel.stage == "IDLE"


def test_the_attempt_of_a_foreigner_starts_here_and_is_taken_in_at_once() -> None:
    bench = Bench()
    bench.kernel.attempted(attempt(X, THERE))
    assert bench.owner.attempts == 1
    assert bench.kernel.components == BOTH


def test_an_attempt_from_a_view_that_was_merged_is_of_no_use() -> None:
    bench = Bench().joins()
    bench.kernel.attempted(attempt(Y, THERE))
    assert bench.kernel.stage == "IDLE"


def test_a_view_of_which_a_change_lies_under_a_join_is_merged_with_it() -> None:
    elsewhere = boot_view([X, Y])
    bench = Bench().commits()
    bench.hears(Y, None, (), elsewhere, process=False)
    for member, view in ((B, HOME), (C, HOME)):
        bench.hears(member, Join(()), BOTH, view)
    bench.hears(X, Join(()), BOTH, AWAY, reach={Y: 1})
    assert len(bench.owner.changes) == 1
    bench.kernel.foreign(Y, elsewhere.id)
    assert bench.kernel.stage == "IDLE"


def test_who_comes_from_a_view_that_was_installed_here_is_no_foreigner() -> None:
    bench = Bench().joins()
    before = bench.kernel.view
    bench.kernel.break_with((X,))
    for member in (B, C):
        bench.hears(member, Fault(JOINT, (X,), (X,), False), view=before)
    assert bench.kernel.view.members == (A, B, C)
    bench.kernel.foreign(X, before.id)
    assert bench.kernel.stage == "IDLE"


def test_an_attempt_is_of_no_use_if_its_sender_has_spoken_from_a_newer_view_since() -> None:
    bench = Bench()
    bench.kernel.foreign(Y, boot_view([Y]).id)
    bench.kernel.heard(X, ViewId(4, 0, b"newer678"))
    bench.kernel.attempted(attempt(X, THERE))
    assert bench.kernel.components == (HERE,)


def test_an_attempt_that_comes_after_the_proposal_waits_for_the_next_view() -> None:
    bench = Bench().commits()
    joined = join_view(BOTH, JOINT, frozenset({A, B, C, X}))
    bench.kernel.attempted(attempt(B, part(joined)))
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
    assert bench.kernel.view == joined
    assert bench.kernel.stage == "COLLECT", "the member of the new view wants to go on"
    assert bench.owner.actions == ["START", "COMMIT", "CLOSED", "START"]


def test_an_attempt_from_another_view_that_waited_starts_nothing() -> None:
    bench = Bench().commits()
    bench.kernel.attempted(attempt(Y, part(boot_view([Y]))))
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
    assert bench.kernel.stage == "IDLE"


def test_an_attempt_from_the_view_before_that_waited_starts_nothing() -> None:
    bench = Bench().commits()
    bench.kernel.attempted(attempt(B, HERE))
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
    assert bench.kernel.stage == "IDLE"


def test_attempts_that_wait_are_few() -> None:
    bench = Bench().commits()
    for k in range(10 * STASH_MAX):
        stranger = MemberId(f"s{k}")
        bench.kernel.attempted(attempt(stranger, part(boot_view([stranger]))))
    assert len(bench.kernel._stash) == STASH_MAX


# ---------------------------------------------------------------------------- what to believe


def test_a_component_with_a_second_holder_of_a_name_is_not_taken_in() -> None:
    bench = Bench()
    bench.kernel.foreign(X, AWAY.id)
    again = MemberId("b", 2)
    bench.kernel.attempted(attempt(again, part(boot_view([again]))))
    assert bench.kernel.components == (HERE,)


def test_a_component_that_would_make_the_view_too_large_is_not_taken_in() -> None:
    bench = Bench()
    crowd = tuple(sorted(MemberId(f"s{k}") for k in range(MEMBERS_MAX - 2)))
    bench.kernel.attempted(attempt(crowd[0], part(boot_view(crowd))))
    assert bench.kernel.components == (HERE,)
    fits = crowd[1:]
    bench.kernel.attempted(attempt(fits[0], part(boot_view(fits))))
    assert len(bench.kernel.joining) == MEMBERS_MAX


@pytest.mark.parametrize(("ahead", "believed"), [(0, True), (1, False)])
def test_a_component_from_too_far_in_the_future_is_not_taken_in(ahead: int, believed: bool) -> None:
    bench = Bench()
    future = Component(ViewId(JOINS_AHEAD_MAX + ahead, 0, b"future78"), (X,))
    bench.kernel.attempted(attempt(X, future))
    assert (future in bench.kernel.components) == believed


def test_a_component_that_has_me_where_i_am_not_is_not_taken_in() -> None:
    bench = Bench()
    elsewhere = Component(ViewId(3, 0, b"elsewher"), (A, X))
    bench.kernel.attempted(attempt(X, elsewhere))
    assert bench.kernel.components == (HERE,)


# ---------------------------------------------------------------------------- proposals


def test_all_proposals_make_the_joint_view() -> None:
    bench = Bench().commits()
    bench.hears(B, Join((), Delivered((B,), (9,))), BOTH, reach={C: 40})
    bench.hears(C, Join(()), BOTH)
    assert bench.owner.changes == []
    bench.hears(X, Join(()), BOTH, AWAY)
    (change,) = bench.owner.changes
    view = join_view(BOTH, JOINT, frozenset({A, B, C, X}))
    assert change == Change(
        before=HOME,
        view=view,
        cause="join",
        closing={A: 1, B: 1, C: 40, X: 1},
        origins={A: HERE, B: HERE, C: HERE, X: THERE},
        components=BOTH,
        joins={
            A: Join((), DELIVERED),
            B: Join((), Delivered((B,), (9,))),
            C: Join(()),
            X: Join(()),
        },
        phase=0,
        keeps=NOBODY,
    )
    assert (bench.kernel.stage, bench.kernel.phase) == ("IDLE", 0)
    assert bench.kernel.context_id == JOINT
    assert not bench.kernel.changing


def test_the_proposal_of_a_member_of_the_view_is_an_attempt_and_a_proposal() -> None:
    """PROTOCOLS B.2 item 16."""
    bench = Bench()
    bench.hears(B, Join((C,)), BOTH)
    assert bench.kernel.stage == "COLLECT"
    assert bench.kernel.components == BOTH
    assert (bench.kernel.before, bench.kernel.phase) == (only(C), 1)
    bench.passes(COLLECT_NS)
    assert bench.owner.said == [Join((C,), DELIVERED)]


@pytest.mark.parametrize(
    ("sender", "components"),
    [(B, (THERE,)), (X, BOTH)],
    ids=["without my view", "of a foreigner"],
)
def test_other_proposals_are_nothing_to_an_idle_member(
    sender: MemberId, components: tuple[Component, ...]
) -> None:
    bench = Bench()
    bench.hears(sender, Join(()), components, HOME if sender == B else AWAY)
    assert bench.kernel.stage == "IDLE"


def test_the_proposal_that_made_the_view_is_no_news_in_it() -> None:
    bench = Bench().joins()
    bench.hears(B, Join(()), BOTH)
    assert bench.kernel.stage == "IDLE"


def test_a_proposal_with_a_further_component_is_united_and_proposed_anew() -> None:
    bench = Bench().commits()
    third = boot_view([Y])
    three = tuple(sorted((*BOTH, part(third)), key=lambda c: c.view))
    bench.hears(X, Join(()), three, AWAY)
    assert bench.kernel.components == three
    assert bench.owner.said == [Join((), DELIVERED)] * 2
    assert bench.kernel.proposal_id == digest(*three)


def test_a_proposal_from_a_view_that_its_sender_has_left_since_is_not_united() -> None:
    bench = Bench().commits()
    bench.kernel.heard(X, ViewId(5, 0, b"newer678"))
    third = boot_view([Y])
    bench.hears(X, Join(()), (*BOTH, part(third)), AWAY)
    assert bench.kernel.components == BOTH


def test_a_proposal_with_a_further_failure_is_united_and_proposed_anew() -> None:
    bench = Bench().commits()
    bench.hears(B, Join((C,)), BOTH)
    assert bench.owner.said == [Join((), DELIVERED), Join((C,), DELIVERED)]
    assert bench.kernel.proposal_id == digest(*BOTH, without=(C,))


def test_a_proposal_that_is_no_news_is_not_answered() -> None:
    bench = Bench().commits()
    bench.hears(B, Join(()), BOTH)
    bench.hears(B, Join(()), (HERE,))
    assert len(bench.owner.said) == 1


def test_faults_found_in_a_join_go_into_the_next_proposal() -> None:
    bench = Bench().commits()
    bench.kernel.break_with((C,))
    bench.hears(B, Join((X,)), BOTH)
    assert bench.owner.said[-1] == Join((C, X), DELIVERED)
    assert bench.kernel.after == NOBODY


def test_the_proposal_of_somebody_left_out_is_not_united() -> None:
    bench = Bench().commits()
    bench.kernel.break_with((B,))
    bench.hears(B, Join((C,)), BOTH, process=True)
    assert bench.kernel.before == NOBODY
    assert bench.kernel.after == {B}


def test_whom_foreigners_leave_out_of_their_own_change_is_no_failure_here() -> None:
    bench = Bench().collects()
    bench.hears(X, Join((B,)), (THERE,), AWAY)
    assert bench.kernel.before == NOBODY
    bench.hears(X, Join((B,)), BOTH, AWAY)
    assert bench.kernel.before == {B}, "with my view among the components it is"


def test_a_proposal_that_leaves_me_out_is_a_break_with_its_sender() -> None:
    """PROTOCOLS B.2 item 4: else I would exclude myself."""
    bench = Bench().commits()
    bench.hears(B, Join((A,)), BOTH)
    assert bench.kernel.after == {B}
    assert bench.owner.said[-1] == joint(B)


def test_a_proposal_that_leaves_me_out_without_my_view_is_nothing() -> None:
    bench = Bench().commits()
    bench.hears(X, Join((A,)), (THERE,), AWAY)
    bench.hears(B, Join((A,)), (THERE,))
    assert bench.kernel.after == NOBODY
    assert len(bench.owner.said) == 1


def test_a_proposal_with_a_component_that_was_merged_before_is_refused() -> None:
    bench = Bench().joins()
    now_here = part(bench.kernel.view)
    stale = Component(AWAY.id, (X, Y))  # y never left the view that x came from
    bench.hears(B, Join(()), (now_here, stale), bench.kernel.view)
    assert stale not in bench.kernel.components


# ---------------------------------------------------------------------------- strays, followers


def moved_on(*members: MemberId, joins: int = 3) -> tuple[Component, bytes]:
    """A newer view of these, and its context."""
    return Component(ViewId(joins, 0, b"newer678"), members), b"context9"


def test_members_of_my_view_that_stand_in_a_newer_one_without_me_are_left_out() -> None:
    newer, _ = moved_on(B, X)
    bench = Bench()
    bench.kernel.attempted(attempt(X, newer))
    assert bench.kernel.before == {B}
    bench.passes(COLLECT_NS)
    assert bench.owner.said == [Join((B,), DELIVERED)]


def test_who_stood_in_an_older_view_is_not_left_out() -> None:
    bench = Bench(View(ViewId(2, 0, b"home5678"), (A, B, C), b"context2"))
    older = Component(ViewId(1, 0, b"older678"), (B, X))
    bench.kernel.attempted(attempt(X, older))
    assert older in bench.kernel.components
    assert bench.kernel.before == NOBODY, "b is here now"


def test_a_member_of_my_view_that_went_on_without_me_has_moved() -> None:
    bench = Bench()
    after = removal_view(HOME, HOME.context, frozenset({B, C}))
    assert bench.kernel.has_moved(B, after.id, frozenset(after.members), HOME.context)


def test_a_member_of_my_view_that_speaks_from_a_context_i_never_shared_has_moved() -> None:
    newer, context = moved_on(B, X)
    bench = Bench()
    assert bench.kernel.has_moved(B, newer.view, frozenset(newer.members), context)
    assert bench.kernel.has_moved(B, newer.view, frozenset({A, B, X}), context), "even with me"
    bench.kernel.moved(B, newer)
    assert bench.owner.said == [at_home(B)]


def test_a_member_that_speaks_from_my_view_or_an_older_one_has_not_moved() -> None:
    bench = Bench()
    everybody = frozenset(HOME.members)
    assert not bench.kernel.has_moved(B, HOME.id, everybody, HOME.context)
    assert not bench.kernel.has_moved(A, ViewId(9, 0, b"whatever"), frozenset({A}), b"context9")


def test_a_member_that_speaks_from_the_next_view_of_my_context_has_not_moved() -> None:
    bench = Bench().joins()
    after = removal_view(bench.kernel.view, JOINT, frozenset({A, B, X}))
    assert not bench.kernel.has_moved(B, after.id, frozenset(after.members), JOINT)


def test_in_a_join_a_member_that_speaks_from_a_newer_view_without_me_has_moved() -> None:
    newer, context = moved_on(B, X)
    bench = Bench().commits()
    assert bench.kernel.has_moved(X, newer.view, frozenset(newer.members), context)
    assert bench.kernel.has_moved(B, newer.view, frozenset(newer.members), context)
    assert not bench.kernel.has_moved(X, newer.view, frozenset({A, X}), context), "with me"
    assert not bench.kernel.has_moved(X, AWAY.id, frozenset({X}), AWAY.context), "where it was"


def test_while_components_are_collected_a_foreigner_may_go_where_it_likes() -> None:
    newer, context = moved_on(X, Y)
    bench = Bench().collects()
    assert not bench.kernel.has_moved(X, newer.view, frozenset(newer.members), context)


def test_a_foreigner_that_moved_is_followed_with_a_new_proposal() -> None:
    newer, _ = moved_on(X, Y)
    bench = Bench().commits()
    bench.kernel.moved(X, newer)
    assert bench.kernel.components == (HERE, newer)
    assert bench.owner.said == [Join((), DELIVERED)] * 2
    assert bench.owner.actions[-1] == "FOLLOW"


def test_a_foreigner_that_moved_beyond_belief_is_given_up() -> None:
    newer, _ = moved_on(X, Y, joins=JOINS_AHEAD_MAX + 1)
    bench = Bench().commits()
    bench.kernel.moved(X, newer)
    assert bench.kernel.after == {X}


def test_a_member_of_my_view_that_moved_is_given_up_in_a_join_too() -> None:
    newer, _ = moved_on(B, Y)
    bench = Bench().commits()
    bench.kernel.moved(B, newer)
    assert bench.kernel.after == {B}
    assert bench.owner.said[-1] == joint(B)


# ---------------------------------------------------------------------------- faults


def test_a_break_with_a_member_is_said_in_the_context_of_the_view() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    assert bench.owner.said == [at_home(C)]
    assert (bench.kernel.faulty, bench.kernel.phase) == (only(C), 1)
    assert bench.kernel.changing


def test_a_break_with_oneself_or_a_stranger_or_twice_is_nothing() -> None:
    bench = Bench()
    bench.kernel.break_with((A, X))
    assert bench.owner.said == []
    bench.kernel.break_with((C,))
    bench.kernel.break_with((C,))
    assert len(bench.owner.said) == 1


def test_faults_named_by_another_are_united_and_said_once() -> None:
    bench = Bench()
    bench.hears(B, at_home(C))
    bench.hears(B, at_home(C))
    assert bench.owner.said == [at_home(C)]


def test_when_all_the_others_have_named_it_the_view_goes_on_without() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    assert bench.owner.changes == []
    bench.hears(B, at_home(C), reach={C: 12})
    (change,) = bench.owner.changes
    assert change == Change(
        before=HOME,
        view=removal_view(HOME, HOME.context, frozenset({A, B})),
        cause="removal",
        closing={A: 1, B: 1, C: 12},
        origins={A: HERE, B: HERE},
        components=(),
        joins={},
        phase=0,
        keeps=NOBODY,
    )
    assert (bench.kernel.out, bench.kernel.faulty) == (only(C), only(C))
    assert not bench.kernel.changing


def test_members_that_name_more_and_more_agree_on_the_largest_set() -> None:
    bench = Bench(boot_view([A, B, C, X]))
    context = bench.kernel.context_id
    home = bench.kernel.view
    bench.kernel.break_with((C,))
    bench.hears(B, Fault(context, (X,), (X,), False), view=home)
    assert bench.owner.said[-1] == Fault(context, (C, X), (C, X), False)
    assert bench.owner.changes == [], "nobody but this member has named {c, x}"
    bench.hears(B, Fault(context, (C, X), (C, X), False), view=home)
    (change,) = bench.owner.changes
    assert change.view.members == (A, B)


def test_closed_sets_are_installed_one_after_the_other() -> None:
    """{c} and {c, x} close with one frame: two views, as at a member that heard them apart."""
    bench = Bench(boot_view([A, B, C, X]))
    context, home = bench.kernel.context_id, bench.kernel.view
    bench.kernel.break_with((C,))
    bench.kernel.break_with((X,))
    bench.hears(B, Fault(context, (C,), (C,), False), view=home, process=False)
    bench.hears(X, Fault(context, (C,), (C,), False), view=home, process=False)
    assert bench.owner.changes == []
    reach = {B: 1, X: 1}
    bench.hears(B, Fault(context, (C, X), (C, X), False), view=home, reach=reach)
    assert [c.view.members for c in bench.owner.changes] == [(A, B, X), (A, B)]
    assert [c.phase for c in bench.owner.changes] == [1, 0], "the first is in transit"
    assert [(c.view.id.joins, c.view.id.removals) for c in bench.owner.changes] == [(0, 1), (0, 2)]


def test_what_came_only_as_the_past_of_others_closes_nothing_by_itself() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.hears(B, at_home(C), process=False)
    assert bench.owner.changes == []


def test_faults_that_name_me_are_a_break_with_whoever_says_so() -> None:
    bench = Bench()
    bench.hears(B, at_home(A))
    assert bench.owner.said == [at_home(B)]
    assert bench.kernel.faulty == {B}


def test_a_set_with_me_in_it_is_never_installed_here() -> None:
    bench = Bench()
    bench.hears(B, at_home(A))
    bench.hears(C, at_home(A))
    assert [change.view.members for change in bench.owner.changes] == [(A,)]


def test_faults_that_name_me_in_another_context_are_nothing() -> None:
    bench = Bench()
    bench.hears(B, Fault(b"whatever", (A,), (A,), False))
    assert bench.owner.said == []


def test_faults_that_foreigners_name_in_their_own_change_are_nothing() -> None:
    bench = Bench().commits()
    bench.hears(X, Fault(AWAY.context, (B,), (B,), False), (THERE,), AWAY)
    assert bench.kernel.after | bench.kernel.before == NOBODY


def test_a_fault_of_the_view_found_while_collecting_is_left_out_of_the_proposal() -> None:
    bench = Bench().collects()
    bench.hears(B, at_home(C))
    assert bench.kernel.stage == "COLLECT"
    assert bench.kernel.before == {C}
    bench.passes(COLLECT_NS)
    assert bench.owner.said == [Join((C,), DELIVERED)]


def test_a_fault_of_the_view_found_after_the_proposal_makes_another() -> None:
    bench = Bench().commits()
    bench.hears(B, at_home(C))
    assert bench.owner.said == [Join((), DELIVERED), Join((C,), DELIVERED)]
    bench.hears(B, at_home(C))
    assert len(bench.owner.said) == 2


def test_of_old_faults_only_what_is_new_counts_in_a_join() -> None:
    bench = Bench().commits()
    bench.hears(B, at_home(C, X, new=(C,)))
    assert bench.kernel.before == {C}


# ---------------------------------------------------------------------------- faults in a join


def test_a_break_while_collecting_leaves_the_member_out_and_proposes_at_once() -> None:
    bench = Bench().collects()
    bench.kernel.break_with((B,))
    assert bench.kernel.stage == "COMMIT"
    assert bench.owner.said == [Join((B,), DELIVERED)]


def test_a_break_after_the_proposal_is_said_in_its_context() -> None:
    bench = Bench().commits()
    bench.kernel.break_with((X,))
    assert bench.owner.said[-1] == joint(X)
    assert bench.kernel.after == {X}


def test_faults_in_the_join_are_united_and_said_only_if_they_are_news() -> None:
    bench = Bench().commits()
    bench.hears(X, joint(C), BOTH, AWAY)
    bench.hears(B, joint(C), BOTH)
    assert bench.owner.said == [Join((), DELIVERED), joint(C)]


def test_faults_in_the_join_that_name_me_are_a_break_with_whoever_says_so() -> None:
    bench = Bench().commits()
    bench.hears(X, joint(A), BOTH, AWAY)
    assert bench.owner.said[-1] == joint(X)


def test_the_joint_view_goes_on_without_whoever_all_the_others_named() -> None:
    bench = Bench().commits()
    for member, view in ((B, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
        bench.hears(member, joint(C), BOTH, view)
    (change,) = bench.owner.changes
    assert (change.view.members, change.cause) == ((A, B, X), "join")
    assert (bench.kernel.out, bench.kernel.faulty) == (only(C), only(C))
    assert bench.kernel.phase == 0


def test_a_join_whose_members_had_all_proposed_is_installed_though_one_is_faulty_by_then() -> None:
    bench = Bench().commits()
    bench.hears(X, Join(()), BOTH, AWAY)
    bench.kernel.break_with((X,))
    bench.hears(B, Join(()), BOTH)
    bench.hears(C, Join(()), BOTH)
    (change,) = bench.owner.changes
    assert change.view.members == (A, B, C, X)
    assert change.phase == 1, "x is on its way out"
    assert (bench.kernel.faulty, bench.kernel.out) == (only(X), NOBODY)
    assert bench.kernel.barred(X)


def test_a_join_that_closes_with_all_and_with_fewer_is_installed_with_all_first() -> None:
    bench = Bench().commits()
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view, process=False)
    bench.hears(X, joint(C), BOTH, AWAY, process=False)
    bench.kernel.break_with((C,))
    bench.hears(B, joint(C), BOTH, reach={C: 1, X: 2})
    assert [(c.cause, c.view.members) for c in bench.owner.changes] == [
        ("join", (A, B, C, X)),
        ("removal", (A, B, X)),
    ]


# ---------------------------------------------------------------------------- transit


def test_a_removal_in_the_middle_of_a_join_leaves_the_join_under_way() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.kernel.attempted(attempt(B, HERE))
    bench.kernel.attempted(attempt(X, THERE))
    bench.hears(B, at_home(C))
    (change,) = bench.owner.changes
    assert (change.cause, change.view.members) == ("removal", (A, B))
    assert (change.phase, change.keeps) == (1, only(C, X))
    assert bench.kernel.stage == "COLLECT"
    assert bench.kernel.components == BOTH, "the components are still the ones it began with"
    assert bench.kernel.before == {C}
    assert bench.kernel.phase == 1


# ---------------------------------------------------------------------------- proof by tag


def test_a_member_that_speaks_from_the_next_view_proves_it_closed() -> None:
    """b's word came as the past of another, so it does not count by itself (B.2 item 12)."""
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.hears(B, at_home(C), process=False)
    announce = Announce((), HOME.context, (), ())
    assert bench.kernel.proves(announce, frozenset({A, B}))
    assert bench.kernel.view.members == (A, B)


def test_who_speaks_from_the_view_that_i_propose_proves_it_closed() -> None:
    bench = Bench().commits()
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view, process=False)
    assert bench.owner.changes == []
    assert bench.kernel.proves(Announce(BOTH, JOINT, (), ()), frozenset({A, B, C, X}))
    assert bench.kernel.view.members == (A, B, C, X)


def test_a_claim_to_speak_from_the_next_view_proves_nothing_without_what_closed_it() -> None:
    bench = Bench().commits()
    assert not bench.kernel.proves(Announce(BOTH, JOINT, (), ()), frozenset({A, B, C, X}))
    assert not bench.kernel.proves(Announce((), HOME.context, (), ()), frozenset({A, B}))
    assert not bench.kernel.proves(Announce((), b"whatever", (), ()), frozenset({A, B}))
    assert bench.owner.changes == []


# ---------------------------------------------------------------------------- time-outs


def test_who_has_not_proposed_in_time_is_late() -> None:
    bench = Bench().commits()
    bench.hears(B, Join(()), BOTH)
    assert bench.passes(CHANGE_NS - 1) == []
    assert bench.passes(1) == [C, X]


def test_who_has_not_named_what_was_found_faulty_in_the_join_is_late() -> None:
    bench = Bench().commits()
    for member, view in ((B, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
    bench.kernel.break_with((C,))
    bench.hears(B, joint(C), BOTH)
    assert bench.passes(CHANGE_NS) == [X]


def test_who_has_not_named_the_faults_of_the_view_in_time_is_late() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    assert bench.kernel.deadline() == CHANGE_NS
    assert bench.passes(CHANGE_NS) == [B]


def test_each_word_of_ones_own_gives_the_others_time_anew() -> None:
    bench = Bench(boot_view([A, B, C, X]))
    bench.kernel.break_with((C,))
    bench.kernel.now = CHANGE_NS - 1
    bench.kernel.break_with((X,))
    assert bench.kernel.deadline() == 2 * CHANGE_NS - 1


def test_who_is_late_again_and_again_gets_more_and_more_time() -> None:
    """On a network slower than the settings say, changes would else break each other off."""
    bench = Bench()
    bench.kernel.break_with((C,))
    spans = []
    for _ in range(7):
        spans.append((bench.kernel.deadline() - bench.kernel.now) // CHANGE_NS)
        assert bench.passes(bench.kernel.deadline() - bench.kernel.now) == [B]
    assert spans == [1, 1, 2, 4, 8, 8, 8]


def test_patience_wears_off_when_nobody_was_late_for_long() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.passes(CHANGE_NS)
    bench.passes(CHANGE_NS)
    spans = []
    for calm in (0, 200, 100):
        bench.kernel.now += calm * CHANGE_NS
        bench.kernel.watch()
        spans.append((bench.kernel._speak_until - bench.kernel.now) // CHANGE_NS)
        bench.kernel.spoken()
    assert spans == [4, 4, 1]


def test_who_has_not_spoken_in_a_new_view_in_time_is_late() -> None:
    bench = Bench()
    bench.owner.silent = [C]
    bench.kernel.watch()
    assert bench.passes(CHANGE_NS - 1) == []
    assert bench.passes(1) == [C]


def test_nobody_owes_an_answer_to_a_proposal_that_was_installed() -> None:
    bench = Bench().commits()
    bench.hears(B, Join(()), BOTH)
    bench.hears(C, Join(()), BOTH)
    bench.kernel.now += 1_000
    bench.hears(X, Join(()), BOTH, AWAY)
    assert bench.kernel.deadline() == COLLECT_NS + 1_000 + CHANGE_NS, "the first word in it is owed"


def test_nobody_is_late_once_all_have_spoken() -> None:
    bench = Bench()
    bench.kernel.watch()
    bench.kernel.spoken()
    assert bench.kernel.deadline() == NEVER


# ---------------------------------------------------------------------------- who may enter


def test_whose_frames_may_enter_for_their_own_sake() -> None:
    """Per stage: a member, a member that is faulty, a member of the join, a stranger."""

    def table(kernel: Kernel, control: bool) -> list[bool]:
        return [kernel.admissible(member, control) for member in (B, C, X, Y)]

    idle = Bench()
    idle.kernel.break_with((C,))
    assert table(idle.kernel, control=True) == [True, False, False, False]

    collecting = Bench().collects()
    collecting.kernel.before |= {C}
    assert table(collecting.kernel, control=True) == [True, False, True, True]
    assert table(collecting.kernel, control=False) == [True, False, True, False]

    committed = Bench().commits()
    committed.kernel.break_with((C,))
    assert table(committed.kernel, control=True) == [True, False, True, False]
    assert all(k.admissible(A, False) for k in (idle.kernel, collecting.kernel, committed.kernel))


def test_a_member_that_was_removed_and_is_back_elsewhere_may_join() -> None:
    """Barred are the faulty of the view, not those that left it long ago."""
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.hears(B, at_home(C))
    again = Component(ViewId(0, 1, b"c alone!"), (C,))
    bench.kernel.attempted(attempt(C, again))
    assert bench.kernel.components == tuple(
        sorted((bench.kernel.component, again), key=lambda c: c.view)
    )
    assert bench.kernel.admissible(C, True)


def test_frames_of_a_change_make_what_follows_them_part_of_it() -> None:
    bench = Bench()
    bench.hears(B, None)
    assert (bench.kernel.phase, bench.kernel.changing) == (1, True)


# ---------------------------------------------------------------------------- leaving


def test_leave_is_the_last_word() -> None:
    bench = Bench()
    bench.kernel.leave()
    bench.kernel.break_with((B,))
    bench.kernel.foreign(X, AWAY.id)
    bench.kernel.attempted(attempt(X, THERE))
    bench.hears(B, at_home(A))
    bench.hears(C, at_home(A))
    assert bench.owner.said == [Leave()]
    assert bench.owner.changes == []
    assert bench.kernel.stage == "IDLE"


def test_a_member_has_left_when_all_the_others_have_named_it() -> None:
    bench = Bench()
    bench.kernel.leave()
    bench.hears(B, at_home(A))
    assert not bench.kernel.has_left
    bench.hears(C, Join((A,)), BOTH)
    assert bench.kernel.has_left


def test_who_is_faulty_need_not_name_the_leaver() -> None:
    bench = Bench()
    bench.kernel.break_with((C,))
    bench.kernel.leave()
    bench.hears(B, at_home(A))
    assert bench.kernel.has_left


def test_a_word_about_somebody_else_does_not_let_the_leaver_go() -> None:
    bench = Bench(boot_view([A, B]))
    bench.kernel.leave()
    bench.hears(B, at_home(C), view=bench.kernel.view)
    assert not bench.kernel.has_left


def test_the_leave_of_another_is_a_break_with_it() -> None:
    bench = Bench()
    bench.hears(C, Leave())
    assert bench.owner.said == [at_home(C)]
    bench.hears(B, at_home(C))
    assert bench.kernel.view.members == (A, B)


# ---------------------------------------------------------------------------- memory


def test_what_was_said_in_contexts_that_are_over_is_forgotten() -> None:
    bench = Bench().commits()
    bench.hears(B, Fault(b"whatever", (Y,), (), False))
    for member, view in ((B, HOME), (C, HOME), (X, AWAY)):
        bench.hears(member, Join(()), BOTH, view)
    ledger = bench.kernel._ledger
    assert set(ledger._joins) | set(ledger._faults) | set(ledger._evidence) == {JOINT}
