"""Receipts: the progress of messages that the application sent.

A receipt stands for one submission. It is *accepted* when its messages have numbers, *ordered* when
their position can no longer change at this member, *stable* when it is known which members have
them, and *delivered*, if the application asks for that, when it is known which members have
delivered them. It fails if all receivers have left the view or this member has stopped.

The messages are *meant* for the members of the view in which they were submitted, or for those of
them that the application named. An `Outcome` lists which of these members are known to have the
messages and which are not: if a view ends before all members have acknowledged, that stays unknown
for the members that do not install the next view together with this one.
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
    """The result of a receipt."""

    members: tuple[MemberId, ...]
    """The receivers that have the messages, or have delivered them. Without `to`, all members of
    the view are receivers, including those that joined between submission and sending."""
    view: ViewId
    """The view that the messages belong to; the last one, if there are several."""
    transitional: bool = False
    """The view ended before all of its members had acknowledged: `members` are those that installed
    the next view together."""
    missing: tuple[MemberId, ...] = ()
    """Members that the messages were meant for and that are not known to have them. They may have
    them nevertheless."""


class ReceiptPart:
    """The messages of a receipt, up to a number, that belong to one view."""

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
    """The receipt of one submission. The event loop's thread writes it, any thread reads it."""

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
        """The view in which the messages were ordered."""
        self.parts: list[ReceiptPart] = []
        self.lost: tuple[MemberId, ...] = ()
        """Receivers that have left the view, as reported by NotSent."""
        self._calls: list[tuple[State, Callable[[], None]]] = []

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def complete(self, view: ViewId, members: tuple[MemberId, ...]) -> None:
        """Complete the receipt of no messages: all members have them."""
        self.view = view
        part = ReceiptPart(0, view, members, False)
        part.delivered = members
        self.parts = [part]
        self.reach(State.DELIVERED)

    def outcome(self, state: State) -> Outcome:
        """The outcome for a state that the receipt has reached."""
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
        """The outcome. Raises NotEverywhere for missing members unless `allow_missing` is set."""
        error = self.error
        # Messages that go to nobody get their place and count as stable all the same.
        if error is not None and (self.state < state or isinstance(error, NotDelivered)):
            raise error
        outcome = self.outcome(state)
        if outcome.missing and not allow_missing and state is not State.ORDERED:
            raise NotEverywhere(self.first, self.last, outcome)
        return outcome

    def when(self, state: State, call: Callable[[], None]) -> None:
        """Call once, from any thread, when the receipt has reached the state or has failed."""
        self._calls.append((state, call))
        if self.state >= state or self.error is not None:  # it may have changed since the append
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
        # Two threads may be here at once: only the one that removes a call makes it.
        for item in list(self._calls):
            if self.error is not None or item[0] <= self.state:
                try:
                    self._calls.remove(item)
                except ValueError:
                    continue
                item[1]()


class ReceiptTracker:
    """All receipts under way, oldest first. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._unordered: deque[PendingReceipt] = deque()
        self._unstable: deque[PendingReceipt] = deque()
        self._asked: dict[PendingReceipt, None] = {}
        """Stable receipts whose delivery the application asked for."""

    def accepted(self, receipt: PendingReceipt, first: int) -> None:
        receipt.first = first
        self._unordered.append(receipt)
        self._unstable.append(receipt)
        receipt.reach(State.ACCEPTED)

    def ordered(self, upto: int, view: ViewId) -> None:
        while self._unordered and self._unordered[0].last <= upto:
            receipt = self._unordered.popleft()
            receipt.view = view
            receipt.reach(State.ORDERED)

    def stable(
        self, upto: int, view: ViewId, members: tuple[MemberId, ...], transitional: bool
    ) -> None:
        """These members have all messages up to this number that were not stable before."""
        waiting = self._unstable
        while waiting and waiting[0].first <= upto:
            receipt = waiting[0]
            receipt.parts.append(ReceiptPart(min(upto, receipt.last), view, members, transitional))
            if receipt.last > upto:
                break
            waiting.popleft()
            receipt.reach(State.STABLE)

    def ask(self, receipt: PendingReceipt) -> list[int]:
        """Follow a stable receipt until it is delivered. Returns the messages to ask the core
        about, one for each view."""
        if receipt.state is not State.STABLE or receipt in self._asked:
            return []
        self._asked[receipt] = None
        return [part.upto for part in receipt.parts]

    def delivered(self, upto: int, view: ViewId, members: tuple[MemberId, ...]) -> None:
        """These members have delivered the messages of the view up to this number. If there are
        none, it will never be known who has delivered them."""
        for receipt in list(self._asked):
            for part in receipt.parts:
                if part.upto <= upto and part.delivered is None:
                    if part.view == view or not members:
                        part.delivered = members
            if all(part.delivered is not None for part in receipt.parts):
                del self._asked[receipt]
                receipt.reach(State.DELIVERED)

    def not_sent(self, first: int, last: int, members: tuple[MemberId, ...], rest: int) -> None:
        """These receivers have left the view, and `rest` receivers remain."""
        for receipt in (*self._unstable, *self._asked):
            if receipt.first <= last and first <= receipt.last:
                receipt.lost = tuple(sorted({*receipt.lost, *members}))
                if not rest:
                    receipt.fail(NotDelivered(first, last, members))

    def close(self, error: PhalanxError) -> None:
        for receipt in (*self._unstable, *self._asked):
            receipt.fail(error)
        self._unordered.clear()
        self._unstable.clear()
        self._asked.clear()
