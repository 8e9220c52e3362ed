"""Receipts: what became of messages that the application sent.

A ticket stands for one submission. It is *accepted* when its messages have numbers, *ordered*
when their place can no longer change here, *stable* when it is known which members have them, and
*delivered*, where that is asked for, when it is known which members have delivered them. It fails
if it never gets so far: all receivers are gone, or this member is.

The messages were *meant* for the members of the view in which they were submitted, or for those of
them that were named. An `Outcome` says which of these members are known to have the messages, and
which are not: a view that ends before all have acknowledged leaves that open for those that do not
move on together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum

import msgspec

from phalanx.core.ids import MemberId, ViewId
from phalanx.errors import NotDelivered, NotEverywhere, PhalanxError


class State(IntEnum):
    WAITING = 0
    ACCEPTED = 1
    ORDERED = 2
    STABLE = 3
    DELIVERED = 4


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt reports of messages."""

    members: tuple[MemberId, ...]
    """The receivers that have the messages, or have delivered them. Without `to`, all members of
    the view are receivers, also those that joined between submission and sending."""
    view: ViewId
    """The view that the messages belong to; the last one, if there are several."""
    transitional: bool = False
    """The view ended before all of its members had acknowledged: `members` are those that moved on
    together."""
    missing: tuple[MemberId, ...] = ()
    """Members that the messages were meant for and of which this is not known. They may have them
    all the same."""


class ReceiptPart:
    """The messages of a ticket, up to a number, that belong to one view."""

    __slots__ = ("delivered", "members", "transitional", "upto", "view")

    def __init__(
        self, upto: int, view: ViewId, members: tuple[MemberId, ...], transitional: bool
    ) -> None:
        self.upto = upto
        self.view = view
        self.members = members
        self.transitional = transitional
        self.delivered: tuple[MemberId, ...] | None = None


class PendingReceipt:
    """One submission. Written by the engine's thread, read by any."""

    __slots__ = (
        "_calls",
        "count",
        "error",
        "first",
        "lost",
        "meant",
        "parts",
        "state",
        "to",
        "view",
    )

    def __init__(
        self,
        count: int,
        meant: tuple[MemberId, ...] = (),
        to: tuple[MemberId, ...] | None = None,
    ) -> None:
        self.count = count
        self.meant = meant
        self.to = to
        self.first = 0
        self.state = State.WAITING
        self.error: PhalanxError | None = None
        self.view: ViewId | None = None
        """Where it was ordered."""
        self.parts: list[ReceiptPart] = []
        self.lost: tuple[MemberId, ...] = ()
        """Receivers that are gone, as reported by NotSent."""
        self._calls: list[tuple[State, Callable[[], None]]] = []

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def complete(self, view: ViewId, members: tuple[MemberId, ...]) -> None:
        """There are no messages: all have them."""
        self.view = view
        part = ReceiptPart(0, view, members, False)
        part.delivered = members
        self.parts = [part]
        self.reach(State.DELIVERED)

    def outcome(self, state: State) -> Outcome:
        """What is known in this state."""
        assert state <= self.state
        if state is State.ORDERED:
            assert self.view is not None
            return Outcome(members=(), view=self.view)
        known = [
            set(part.members if state is State.STABLE else part.delivered or ())
            for part in self.parts
        ]
        have = set.intersection(*known) - set(self.lost)
        if self.to is not None:
            have &= set(self.to)
        ended = any(part.transitional for part in self.parts)
        return Outcome(
            members=tuple(sorted(have)),
            view=self.parts[-1].view,
            transitional=ended,
            missing=tuple(member for member in self.meant if member not in have),
        )

    def checked(self, state: State, allow_missing: bool) -> Outcome:
        """The outcome; NotEverywhere if members are missing and may not be."""
        if self.error is not None and self.state < state:
            raise self.error
        outcome = self.outcome(state)
        if outcome.missing and not allow_missing and state is not State.ORDERED:
            raise NotEverywhere(self.first, self.last, outcome)
        return outcome

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


class ReceiptTracker:
    """All that are under way, oldest first. Belongs to the engine's thread."""

    def __init__(self) -> None:
        self._unordered: deque[PendingReceipt] = deque()
        self._unstable: deque[PendingReceipt] = deque()
        self._asked: dict[PendingReceipt, None] = {}
        """Stable ones of which it is asked when they are delivered."""

    def accepted(self, ticket: PendingReceipt, first: int) -> None:
        ticket.first = first
        self._unordered.append(ticket)
        self._unstable.append(ticket)
        ticket.reach(State.ACCEPTED)

    def ordered(self, upto: int, view: ViewId) -> None:
        while self._unordered and self._unordered[0].last <= upto:
            ticket = self._unordered.popleft()
            ticket.view = view
            ticket.reach(State.ORDERED)

    def stable(
        self, upto: int, view: ViewId, members: tuple[MemberId, ...], transitional: bool
    ) -> None:
        """These members have all messages up to this number that no receipt spoke of before."""
        waiting = self._unstable
        while waiting and waiting[0].first <= upto:
            ticket = waiting[0]
            ticket.parts.append(ReceiptPart(min(upto, ticket.last), view, members, transitional))
            if ticket.last > upto:
                break
            waiting.popleft()
            ticket.reach(State.STABLE)

    def ask(self, ticket: PendingReceipt) -> list[int]:
        """A stable ticket is to be watched until it is delivered: the messages to ask the core
        about, one for each view."""
        if ticket.state is not State.STABLE or ticket in self._asked:
            return []
        self._asked[ticket] = None
        return [part.upto for part in ticket.parts]

    def delivered(self, upto: int, view: ViewId, members: tuple[MemberId, ...]) -> None:
        """These members have delivered the messages of the view up to this number. If there are
        none, nothing is known of messages up to there."""
        for ticket in list(self._asked):
            for part in ticket.parts:
                if part.upto <= upto and part.delivered is None:
                    if part.view == view or not members:
                        part.delivered = members
            if all(part.delivered is not None for part in ticket.parts):
                del self._asked[ticket]
                ticket.reach(State.DELIVERED)

    def not_sent(self, first: int, last: int, members: tuple[MemberId, ...], rest: int) -> None:
        """These receivers are gone, and so many are left."""
        for ticket in (*self._unstable, *self._asked):
            if ticket.first <= last and first <= ticket.last:
                ticket.lost = tuple(sorted({*ticket.lost, *members}))
                if not rest:
                    ticket.fail(NotDelivered(first, last, members))

    def close(self, error: PhalanxError) -> None:
        for ticket in (*self._unstable, *self._asked):
            ticket.fail(error)
        self._unordered.clear()
        self._unstable.clear()
        self._asked.clear()
