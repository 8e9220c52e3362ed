"""Receipts: what became of messages that the application sent.

A ticket stands for one submission. It is *accepted* when its messages have numbers, *ordered*
when their place can no longer change here, *stable* when every member of the view has them. It
fails if it never gets so far: the receivers are gone, or this member is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from phalanx.errors import PhalanxError


class State(IntEnum):
    WAITING = 0
    ACCEPTED = 1
    ORDERED = 2
    STABLE = 3


class Ticket:
    """One submission. Written by the engine's thread, read by any."""

    __slots__ = ("_calls", "count", "error", "first", "state")

    def __init__(self, count: int) -> None:
        self.count = count
        self.first = 0
        self.state = State.WAITING
        self.error: PhalanxError | None = None
        self._calls: list[tuple[State, Callable[[], None]]] = []

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def when(self, state: State, call: Callable[[], None]) -> None:
        """Call once, from any thread, when the ticket has come that far or has failed."""
        self._calls.append((state, call))
        if self.state >= state or self.error is not None:  # it may have come while we looked
            self._fire()

    def reach(self, state: State) -> None:
        self.state = state
        if self._calls:
            self._fire()

    def fail(self, error: PhalanxError) -> None:
        if self.error is None:
            self.error = error
            self._fire()

    def _fire(self) -> None:
        # Two threads may be here at once: each call is taken out by one of them only.
        for item in list(self._calls):
            if self.error is not None or item[0] <= self.state:
                try:
                    self._calls.remove(item)
                except ValueError:
                    continue
                item[1]()


class Tickets:
    """All that are under way, oldest first. Belongs to the engine's thread."""

    def __init__(self) -> None:
        self._unordered: deque[Ticket] = deque()
        self._unstable: deque[Ticket] = deque()

    def accepted(self, ticket: Ticket, first: int) -> None:
        ticket.first = first
        self._unordered.append(ticket)
        self._unstable.append(ticket)
        ticket.reach(State.ACCEPTED)

    def ordered(self, upto: int) -> None:
        while self._unordered and self._unordered[0].last <= upto:
            self._unordered.popleft().reach(State.ORDERED)

    def stable(self, upto: int) -> None:
        while self._unstable and self._unstable[0].last <= upto:
            self._unstable.popleft().reach(State.STABLE)

    def not_sent(self, first: int, last: int, error: PhalanxError) -> None:
        for ticket in self._unstable:
            if ticket.first <= last and first <= ticket.last:
                ticket.fail(error)

    def close(self, error: PhalanxError) -> None:
        for ticket in self._unstable:
            ticket.fail(error)
        self._unordered.clear()
        self._unstable.clear()
