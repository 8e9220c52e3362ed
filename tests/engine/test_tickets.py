"""Receipts."""

from __future__ import annotations

from phalanx.engine.tickets import State, Ticket, Tickets
from phalanx.errors import MemberClosed, NotDelivered


def test_a_ticket_is_ordered_when_its_last_message_is() -> None:
    tickets, one, two = Tickets(), Ticket(3), Ticket(1)
    tickets.accepted(one, 1)
    tickets.accepted(two, 4)
    tickets.ordered(2)
    assert (one.state, two.state) == (State.ACCEPTED, State.ACCEPTED)
    tickets.ordered(3)
    assert (one.state, two.state) == (State.ORDERED, State.ACCEPTED)
    tickets.stable(4)
    assert (one.state, two.state) == (State.STABLE, State.STABLE)


def test_whoever_waits_is_called_once_and_not_too_early() -> None:
    tickets, ticket = Tickets(), Ticket(1)
    told: list[str] = []
    ticket.when(State.ORDERED, lambda: told.append("ordered"))
    ticket.when(State.STABLE, lambda: told.append("stable"))
    tickets.accepted(ticket, 1)
    assert told == []
    tickets.ordered(1)
    assert told == ["ordered"]
    tickets.stable(1)
    assert told == ["ordered", "stable"]
    ticket.when(State.ORDERED, lambda: told.append("late"))
    assert told == ["ordered", "stable", "late"]


def test_a_ticket_whose_receivers_are_gone_fails() -> None:
    tickets, one, two = Tickets(), Ticket(2), Ticket(1)
    tickets.accepted(one, 1)
    tickets.accepted(two, 3)
    told: list[int] = []
    one.when(State.STABLE, lambda: told.append(1))
    tickets.not_sent(2, 2, NotDelivered(2, 2))
    assert told == [1]
    assert isinstance(one.error, NotDelivered)
    assert two.error is None


def test_all_that_is_under_way_fails_at_the_end() -> None:
    tickets, ticket = Tickets(), Ticket(1)
    tickets.accepted(ticket, 1)
    tickets.close(MemberClosed("ada.1"))
    assert isinstance(ticket.error, MemberClosed)
