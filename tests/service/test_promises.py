"""What a member promises when it answers a change of its set (`phalanx.service.promises`)."""

from __future__ import annotations

from phalanx.core.ids import MemberId
from phalanx.service.entries import ChangeId, SetChange
from phalanx.service.messages import Commit, Initiate
from phalanx.service.promises import AckedChange, Promises
from phalanx.service.set_state import founded, vid_after

A, B, C, D = (MemberId(name) for name in "abcd")
VIEW = (A, B, C)
BASE = founded("s", VIEW, None).vid
OTHER = founded("s", (D,), None).vid
LOW, HIGH = SetChange(ChangeId(A, 1), 5), SetChange(ChangeId(B, 1), 2)


def initiate(change: SetChange, other: bool = False) -> Initiate:
    return Initiate("s", BASE, change, other=OTHER if other else None)


def commit(*bases: bytes) -> Commit:
    vids = (BASE, OTHER)[: 1 + len(bases)]
    return Commit("s", vids, LOW.id, (), VIEW, vid_after(vids, LOW.id, (), VIEW))


def test_a_change_that_goes_first_is_acknowledged_and_the_promise_stays() -> None:
    low = Promises().acknowledged(AckedChange(LOW, A), (D,))
    assert low.may_acknowledge(initiate(HIGH), B, C, VIEW, ())
    high = low.acknowledged(AckedChange(HIGH, B), (A, D))
    assert high.apart == (A, D)
    assert not high.may_acknowledge(initiate(LOW), A, C, VIEW, ())


def test_a_coordinator_that_is_left_out_binds_nobody() -> None:
    high = Promises().acknowledged(AckedChange(HIGH, B), ())
    assert high.may_acknowledge(initiate(LOW), A, C, VIEW, isolated=(B,))


def test_a_union_is_neither_acknowledged_nor_taken_after_another_change() -> None:
    fresh = Promises()
    assert fresh.may_acknowledge(initiate(LOW, other=True), A, C, VIEW, ())
    union = fresh.acknowledged(AckedChange(LOW, A, OTHER), ())
    assert union.take(commit(b"other"))
    assert not union.may_acknowledge(initiate(HIGH), B, C, VIEW, ())
    given_up = union.expecting(None).acknowledged(AckedChange(HIGH, B), ())
    assert not given_up.take(commit(b"other"))
    assert given_up.take(commit())
    assert not given_up.may_acknowledge(initiate(LOW, other=True), A, C, VIEW, (B,))


def test_every_round_has_a_number_of_its_own_and_a_new_state_frees() -> None:
    once = Promises().begun(AckedChange(LOW, A), ())
    twice = once.begun(AckedChange(LOW, A), (C,))
    assert (once.round, twice.round, twice.apart) == (1, 2, (C,))
    assert twice.on_next_state() == Promises(round=2)


def test_who_is_left_out_by_the_change_that_is_waited_for_needs_no_removal() -> None:
    waits = Promises().acknowledged(AckedChange(LOW, A), (C,))
    assert waits.leave_out((C,))
    assert not waits.leave_out((C, B))
    assert not waits.leave_out((A, C))
    assert not waits.expecting(None).leave_out((C,))
