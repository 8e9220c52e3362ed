"""Receipts."""

from __future__ import annotations

import pytest

from phalanx.core.ids import MemberId, ViewId
from phalanx.errors import MemberClosed, NotDelivered, NotEverywhere
from phalanx.runtime.receipt_tracker import Outcome, PendingReceipt, ReceiptTracker, State

ADA, BEA, CYD = map(MemberId, ("ada", "bea", "cyd"))
ONE, TWO = ViewId(1, 0, bytes(8)), ViewId(1, 1, bytes(8))
ALL = (ADA, BEA, CYD)


def test_a_ticket_is_ordered_when_its_last_message_is() -> None:
    tickets, one, two = ReceiptTracker(), PendingReceipt(3), PendingReceipt(1)
    tickets.accepted(one, 1)
    tickets.accepted(two, 4)
    tickets.ordered(2, ONE)
    assert (one.state, two.state) == (State.ACCEPTED, State.ACCEPTED)
    tickets.ordered(3, ONE)
    assert (one.state, two.state) == (State.ORDERED, State.ACCEPTED)
    tickets.stable(4, ONE, ALL, False)
    assert (one.state, two.state) == (State.STABLE, State.STABLE)


def test_whoever_waits_is_called_once_and_not_too_early() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1)
    told: list[str] = []
    ticket.when(State.ORDERED, lambda: told.append("ordered"))
    ticket.when(State.STABLE, lambda: told.append("stable"))
    tickets.accepted(ticket, 1)
    assert told == []
    tickets.ordered(1, ONE)
    assert told == ["ordered"]
    tickets.stable(1, ONE, ALL, False)
    assert told == ["ordered", "stable"]
    ticket.when(State.ORDERED, lambda: told.append("late"))
    assert told == ["ordered", "stable", "late"]


def test_a_ticket_whose_receivers_are_gone_fails() -> None:
    tickets, one, two = ReceiptTracker(), PendingReceipt(2), PendingReceipt(1)
    tickets.accepted(one, 1)
    tickets.accepted(two, 3)
    told: list[int] = []
    one.when(State.STABLE, lambda: told.append(1))
    tickets.not_sent(2, 2, (BEA,), 0)
    assert told == [1]
    assert isinstance(one.error, NotDelivered)
    assert two.error is None


def test_all_that_is_under_way_fails_at_the_end() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1)
    tickets.accepted(ticket, 1)
    tickets.close(MemberClosed("ada.1"))
    assert isinstance(ticket.error, MemberClosed)


# ---------------------------------------------------------------------------- outcomes


def test_an_outcome_names_the_members_that_have_the_messages() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(2, ALL)
    tickets.accepted(ticket, 1)
    tickets.stable(2, ONE, ALL, False)
    assert ticket.checked(State.STABLE, False) == Outcome(members=ALL, view=ONE)


def test_members_that_did_not_move_on_are_missing() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1, ALL)
    tickets.accepted(ticket, 1)
    tickets.stable(1, ONE, (ADA, BEA), True)
    with pytest.raises(NotEverywhere) as raised:
        ticket.checked(State.STABLE, False)
    assert raised.value.missing == (CYD,)
    told = Outcome(members=(ADA, BEA), view=ONE, transitional=True, missing=(CYD,))
    assert raised.value.outcome == ticket.checked(State.STABLE, True) == told


def test_of_messages_in_two_views_only_members_that_have_both_parts_count() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(4, ALL)
    tickets.accepted(ticket, 1)
    tickets.stable(2, ONE, (ADA, BEA), True)
    assert ticket.state is State.ACCEPTED
    tickets.stable(4, TWO, (ADA, CYD), False)
    outcome = ticket.outcome(State.STABLE)
    assert (outcome.members, outcome.missing, outcome.view) == ((ADA,), (BEA, CYD), TWO)


def test_receivers_count_and_others_do_not() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1, (BEA,), (BEA,))
    tickets.accepted(ticket, 1)
    tickets.stable(1, ONE, ALL, False)
    assert ticket.checked(State.STABLE, False) == Outcome(members=(BEA,), view=ONE)


def test_a_receiver_that_is_gone_is_missing_whoever_has_the_message() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1, (BEA, CYD), (BEA, CYD))
    tickets.accepted(ticket, 1)
    tickets.not_sent(1, 1, (CYD,), 1)
    tickets.stable(1, ONE, ALL, False)
    assert ticket.error is None
    assert ticket.outcome(State.STABLE).missing == (CYD,)


def test_delivery_is_asked_for_once_and_for_each_view() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(4, ALL)
    tickets.accepted(ticket, 1)
    assert tickets.ask(ticket) == []  # it is not stable yet
    tickets.stable(2, ONE, (ADA, BEA), True)
    tickets.stable(4, TWO, (ADA, BEA), False)
    assert tickets.ask(ticket) == [2, 4]
    assert tickets.ask(ticket) == []
    states = []
    for upto, view in ((2, ONE), (9, TWO)):
        tickets.delivered(upto, view, (ADA, BEA))
        states.append(ticket.state)
    assert states == [State.STABLE, State.DELIVERED]
    assert ticket.outcome(State.DELIVERED).missing == (CYD,)


def test_nobody_is_known_to_have_delivered_what_is_forgotten() -> None:
    tickets, ticket = ReceiptTracker(), PendingReceipt(1, ALL)
    tickets.accepted(ticket, 1)
    tickets.stable(1, ONE, ALL, False)
    tickets.ask(ticket)
    tickets.delivered(5, TWO, ())
    assert ticket.outcome(State.DELIVERED).missing == ALL
