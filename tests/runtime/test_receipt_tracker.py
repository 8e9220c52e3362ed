"""Receipts."""

from __future__ import annotations

import pytest

from phalanx.core.ids import MemberId, ViewId
from phalanx.errors import MemberClosed, NotDelivered, NotEverywhere
from phalanx.runtime.receipt_tracker import Outcome, PendingReceipt, ReceiptTracker, State

ADA, BEA, CYD = map(MemberId, ("ada", "bea", "cyd"))
ONE, TWO = ViewId(1, 0, bytes(8)), ViewId(1, 1, bytes(8))
ALL = (ADA, BEA, CYD)


def test_a_receipt_is_ordered_when_its_last_message_is() -> None:
    receipts, one, two = ReceiptTracker(), PendingReceipt(3), PendingReceipt(1)
    receipts.accepted(one, 1)
    receipts.accepted(two, 4)
    receipts.ordered(2, ONE)
    assert (one.state, two.state) == (State.ACCEPTED, State.ACCEPTED)
    receipts.ordered(3, ONE)
    assert (one.state, two.state) == (State.ORDERED, State.ACCEPTED)
    receipts.stable(4, ONE, ALL, False)
    assert (one.state, two.state) == (State.STABLE, State.STABLE)


def test_whoever_waits_is_called_once_and_not_too_early() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1)
    told: list[str] = []
    receipt.when(State.ORDERED, lambda: told.append("ordered"))
    receipt.when(State.STABLE, lambda: told.append("stable"))
    receipts.accepted(receipt, 1)
    assert told == []
    receipts.ordered(1, ONE)
    assert told == ["ordered"]
    receipts.stable(1, ONE, ALL, False)
    assert told == ["ordered", "stable"]
    receipt.when(State.ORDERED, lambda: told.append("late"))
    assert told == ["ordered", "stable", "late"]


def test_a_receipt_whose_receivers_are_gone_fails() -> None:
    receipts, one, two = ReceiptTracker(), PendingReceipt(2), PendingReceipt(1)
    receipts.accepted(one, 1)
    receipts.accepted(two, 3)
    told: list[int] = []
    one.when(State.STABLE, lambda: told.append(1))
    receipts.not_sent(2, 2, (BEA,), 0)
    assert told == [1]
    assert isinstance(one.error, NotDelivered)
    assert two.error is None


def test_a_receipt_whose_receivers_are_gone_stays_failed() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1, (BEA,), (BEA,))
    receipts.accepted(receipt, 1)
    receipts.not_sent(1, 1, (BEA,), 0)
    receipts.ordered(1, ONE)
    receipts.stable(1, ONE, (ADA, CYD), False)
    for state in (State.ORDERED, State.STABLE):
        with pytest.raises(NotDelivered):
            receipt.checked(state, True)


def test_all_that_is_under_way_fails_at_the_end() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1)
    receipts.accepted(receipt, 1)
    receipts.close(MemberClosed("ada.1"))
    assert isinstance(receipt.error, MemberClosed)


# ---------------------------------------------------------------------------- outcomes


def test_an_outcome_names_the_members_that_have_the_messages() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(2, ALL)
    receipts.accepted(receipt, 1)
    receipts.stable(2, ONE, ALL, False)
    assert receipt.checked(State.STABLE, False) == Outcome(members=ALL, view=ONE)


def test_members_that_did_not_move_on_are_missing() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1, ALL)
    receipts.accepted(receipt, 1)
    receipts.stable(1, ONE, (ADA, BEA), True)
    with pytest.raises(NotEverywhere) as raised:
        receipt.checked(State.STABLE, False)
    assert raised.value.missing == (CYD,)
    told = Outcome(members=(ADA, BEA), view=ONE, transitional=True, missing=(CYD,))
    assert raised.value.outcome == receipt.checked(State.STABLE, True) == told


def test_of_messages_in_two_views_only_members_that_have_both_parts_count() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(4, ALL)
    receipts.accepted(receipt, 1)
    receipts.stable(2, ONE, (ADA, BEA), True)
    assert receipt.state is State.ACCEPTED
    receipts.stable(4, TWO, (ADA, CYD), False)
    outcome = receipt.outcome(State.STABLE)
    assert (outcome.members, outcome.missing, outcome.view) == ((ADA,), (BEA, CYD), TWO)


def test_receivers_count_and_others_do_not() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1, (BEA,), (BEA,))
    receipts.accepted(receipt, 1)
    receipts.stable(1, ONE, ALL, False)
    assert receipt.checked(State.STABLE, False) == Outcome(members=(BEA,), view=ONE)


def test_a_receiver_that_is_gone_is_missing_whoever_has_the_message() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1, (BEA, CYD), (BEA, CYD))
    receipts.accepted(receipt, 1)
    receipts.not_sent(1, 1, (CYD,), 1)
    receipts.stable(1, ONE, ALL, False)
    assert receipt.error is None
    assert receipt.outcome(State.STABLE).missing == (CYD,)


def test_delivery_is_asked_for_once_and_for_each_view() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(4, ALL)
    receipts.accepted(receipt, 1)
    assert receipts.ask(receipt) == []  # it is not stable yet
    receipts.stable(2, ONE, (ADA, BEA), True)
    receipts.stable(4, TWO, (ADA, BEA), False)
    assert receipts.ask(receipt) == [2, 4]
    assert receipts.ask(receipt) == []
    states = []
    for upto, view in ((2, ONE), (9, TWO)):
        receipts.delivered(upto, view, (ADA, BEA))
        states.append(receipt.state)
    assert states == [State.STABLE, State.DELIVERED]
    assert receipt.outcome(State.DELIVERED).missing == (CYD,)


def test_nobody_is_known_to_have_delivered_what_is_forgotten() -> None:
    receipts, receipt = ReceiptTracker(), PendingReceipt(1, ALL)
    receipts.accepted(receipt, 1)
    receipts.stable(1, ONE, ALL, False)
    receipts.ask(receipt)
    receipts.delivered(5, TWO, ())
    assert receipt.outcome(State.DELIVERED).missing == ALL
