"""One live process for each name."""

from __future__ import annotations

import pytest

from phalanx.config import lan
from phalanx.core.deadline import NEVER
from phalanx.core.ids import MemberId
from phalanx.core.membership.name_claim import NameClaim
from phalanx.core.prng import Prng
from phalanx.core.wire.packets import IncarnationReused, NameClaimed, NameHeld

CLAIM_NS, ANSWER_NS = lan().claim_ns, lan().change_ns
OLD, YOUNG = MemberId("ann", 1), MemberId("ann", 2)
BOB = MemberId("bob")


def claimant(me: MemberId = OLD, entropy: int = 1, needed: bool = True) -> NameClaim:
    made = NameClaim(me, lan(), Prng(entropy), needed)
    made.start(0)
    return made


def holder(me: MemberId = OLD) -> NameClaim:
    return claimant(me, needed=False)


def claim_of(made: NameClaim) -> NameClaimed:
    claim = made.expire(made.deadline())
    assert claim is not None
    return claim


# ---------------------------------------------------------------------------- claiming


def test_a_name_is_claimed_three_times_and_is_then_its_own() -> None:
    made = claimant()
    claims = []
    while made.pending:
        now = made.deadline()
        claims.append((now, made.expire(now)))
    assert [now for now, _ in claims] == [0, CLAIM_NS, 2 * CLAIM_NS, 3 * CLAIM_NS]
    first = claims[0][1]
    assert first is not None
    assert first.member == OLD
    assert [claim for _, claim in claims] == [first, first, first, None]
    assert made.deadline() == NEVER


def test_who_boots_in_a_view_of_several_claims_nothing() -> None:
    made = holder()
    assert not made.pending
    assert made.deadline() == NEVER


def test_a_live_holder_answers_and_the_claimant_gives_up() -> None:
    newcomer, here = claimant(YOUNG), holder(OLD)
    answer = here.answer(claim_of(newcomer))
    assert answer is not None
    assert answer.member == OLD
    assert newcomer.loses(0, answer)


def test_a_claim_of_another_name_is_not_answered() -> None:
    assert holder(BOB).answer(claim_of(claimant())) is None
    assert not claimant(BOB).loses(0, NameHeld(OLD, 1))


def test_ones_own_claim_that_comes_back_is_not_answered() -> None:
    made = claimant()
    assert made.answer(claim_of(made)) is None


def test_an_answer_to_somebody_elses_claim_is_not_for_us() -> None:
    newcomer, other, here = claimant(YOUNG), claimant(YOUNG, entropy=9), holder(OLD)
    answer = here.answer(claim_of(other))
    assert answer is not None
    assert not newcomer.loses(0, answer)


def test_an_answer_that_comes_when_the_name_is_ones_own_is_too_late() -> None:
    made, here = claimant(YOUNG), holder(OLD)
    answer = here.answer(claim_of(made))
    assert answer is not None
    while made.pending:
        made.expire(made.deadline())
    assert not made.loses(0, answer)


# ---------------------------------------------------------------------------- two at once


@pytest.mark.parametrize("second", [OLD, YOUNG], ids=["one incarnation", "two incarnations"])
@pytest.mark.parametrize("entropy", range(2, 12))
def test_of_two_that_claim_at_once_exactly_one_stays(second: MemberId, entropy: int) -> None:
    one, two = claimant(OLD, entropy=1), claimant(second, entropy=entropy)
    to_two, to_one = one.answer(claim_of(two)), two.answer(claim_of(one))
    loses = [
        to_one is not None and one.loses(0, to_one),
        to_two is not None and two.loses(0, to_two),
    ]
    assert sorted(loses) == [False, True]


def test_of_two_that_claim_at_once_the_lower_incarnation_stays() -> None:
    one, two = claimant(OLD), claimant(YOUNG, entropy=2)
    assert two.answer(claim_of(one)) is None
    answer = one.answer(claim_of(two))
    assert answer is not None
    assert two.loses(0, answer)


# ---------------------------------------------------------------------------- met at a merge


def test_the_younger_of_two_holders_that_meet_asks_and_leaves() -> None:
    old, awaiting_first_frames = holder(OLD), holder(YOUNG)
    told = old.met(YOUNG, alone=True)
    assert told is not None
    assert not awaiting_first_frames.loses(0, told)
    claim = awaiting_first_frames.doubts(0, told)
    assert claim is not None
    assert awaiting_first_frames.doubts(0, told) is None, "once is enough for a while"
    answer = old.answer(claim)
    assert answer is not None
    assert awaiting_first_frames.loses(0, answer)
    assert awaiting_first_frames.loses(ANSWER_NS - 1, answer)
    assert not awaiting_first_frames.loses(ANSWER_NS, answer), "that was long ago"
    assert not old.loses(0, answer)
    assert old.doubts(0, told) is None, "that is itself"


def test_the_younger_of_two_holders_that_are_alone_tells_the_older_nothing() -> None:
    assert holder(YOUNG).met(OLD, alone=True) is None


def test_a_holder_in_a_group_tells_an_older_process_which_asks_and_stops() -> None:
    old, awaiting_first_frames = holder(OLD), holder(YOUNG)
    told = awaiting_first_frames.met(OLD, alone=False)
    assert told is not None
    claim = old.doubts(0, told)
    assert claim is not None
    answer = awaiting_first_frames.answer(claim)
    assert answer is not None
    assert old.loses(0, answer)


def test_nobody_is_met_under_another_name_or_as_oneself() -> None:
    for alone in (True, False):
        assert holder(OLD).met(MemberId("bob", 9), alone) is None
        assert holder(OLD).met(OLD, alone) is None


def test_a_holder_does_not_stop_for_an_answer_that_it_did_not_ask_for() -> None:
    assert not holder(OLD).loses(0, NameHeld(YOUNG, 0))
    assert not holder(OLD).loses(0, NameHeld(OLD, 0)), "nor for its own"
    assert not holder(YOUNG).loses(0, NameHeld(OLD, 12345)), (
        "nor for an answer to no claim of its own"
    )


# ---------------------------------------------------------------------------- incarnations


def test_a_claimant_is_told_that_its_incarnation_was_used_by_an_answer_to_its_claim() -> None:
    made = claimant(OLD)
    claim = claim_of(made)
    assert made.repeats(0, IncarnationReused(OLD, claim.nonce))
    assert not made.repeats(0, IncarnationReused(OLD, claim.nonce + 1)), "to another claim"
    assert not made.repeats(0, IncarnationReused(OLD, 0)), "unasked"
    assert not made.repeats(0, IncarnationReused(YOUNG, claim.nonce)), "of another incarnation"
    assert made.doubts_incarnation(0, IncarnationReused(OLD, 0)) is None, "it asks already"


def test_a_holder_that_is_told_unasked_asks_once_before_it_believes_it() -> None:
    made = holder(OLD)
    claim = made.doubts_incarnation(0, IncarnationReused(OLD, 0))
    assert claim is not None
    assert claim.member == OLD
    assert made.doubts_incarnation(0, IncarnationReused(OLD, 0)) is None, (
        "once is enough for a while"
    )
    answer = IncarnationReused(OLD, claim.nonce)
    assert made.repeats(ANSWER_NS - 1, answer)
    assert not made.repeats(ANSWER_NS, answer), "that was long ago"
    assert holder(OLD).doubts_incarnation(0, IncarnationReused(YOUNG, 0)) is None
