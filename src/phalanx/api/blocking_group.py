"""A group for programs without an event loop: the names of the asyncio group, and plain calls.

    with phalanx.blocking.join("orders") as group:
        group.send(b"hello", phalanx.AGREED)
        for event in group:
            ...

All calls may come from any thread. Calls that wait for others take a `timeout` in seconds; joining
and leaving end by themselves within a second or two.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType

from phalanx.api.arguments import (
    Body,
    Receivers,
    checked_bodies,
    checked_receivers,
    checked_service,
    checked_timeout,
)
from phalanx.api.base import GroupBase, MemberOpener, ReceiptBase, Subscribe, open_member
from phalanx.api.view_condition import Named, ViewCondition, Wanted
from phalanx.config import Config, lan
from phalanx.core.effects import Service
from phalanx.errors import TimedOut
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.events import Batch, Event, View
from phalanx.runtime.lifecycle import PROCESS
from phalanx.runtime.receipt_tracker import Outcome, State


class Receipt(ReceiptBase):
    """What became of messages that were sent. Waiting for it is never needed for delivery.

    Each call returns an `Outcome`: which of the members that the messages were meant for have them,
    and in which view. Those are the members of the view at the time of `send`, or those named by
    `to`. docs/receipts.md states what each call promises in every situation.
    """

    def ordered(self, timeout: float | None = None) -> Outcome:
        """Until the place of the messages can no longer change at this member. Raises NotDelivered
        if all their receivers are gone, and MemberClosed or why this member has ended."""
        return self._reach(State.ORDERED, True, timeout)

    def stable(self, timeout: float | None = None, *, allow_missing: bool = False) -> Outcome:
        """Until it is known which members have the messages. Raises NotEverywhere, which names
        them, if members that the messages were meant for may not: they failed, left or were cut off
        before they acknowledged. With `allow_missing` stability among those that stay is enough,
        and the outcome names the others."""
        return self._reach(State.STABLE, allow_missing, timeout)

    def delivered(self, timeout: float | None = None, *, allow_missing: bool = False) -> Outcome:
        """Until it is known which members have delivered the messages to their applications. Raises
        and returns as `stable` does. In an idle group this takes two keep-alives longer."""
        if not self._pending.error:
            self._reach(State.STABLE, True, timeout)
            self._ask_for_delivery()
        return self._reach(State.DELIVERED, allow_missing, timeout)

    def _reach(self, state: State, allow_missing: bool, timeout: float | None) -> Outcome:
        pending = self._pending
        if pending.state < state and pending.error is None:
            _wait(lambda call: pending.when(state, call), f"{state.name.lower()}", timeout)
        return pending.checked(state, allow_missing)


class Group(GroupBase):
    """A member of a group. Events come once, in order, to whoever iterates; two threads that
    iterate share them."""

    def send(
        self,
        body: Body,
        service: Service | str = Service.AGREED,
        *,
        to: Receivers | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send a message to the whole view, or to the members `to` of it: a name, a MemberId, or
        an iterable of them. `service` may be the name of one, as "safe".

        Returns when the message is accepted; waits while the window is closed. A SubmissionError
        or TimedOut means that it was not and will not be sent. Once accepted it is delivered
        here and at every member that stays, in the order of its service, unless this process
        ends first.
        """
        return self.send_many((body,), service, to=to, timeout=timeout)

    def send_many(
        self,
        bodies: Iterable[Body],
        service: Service | str = Service.AGREED,
        *,
        to: Receivers | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send messages one after the other, as `send` does; all are accepted or none. The receipt
        of no messages is complete at once. What was given may be changed afterwards."""
        checked, kind = checked_bodies(bodies), checked_service(service)
        receivers = checked_receivers(to)
        limit = checked_timeout(timeout)
        runner = self._runner
        if not runner.has_room:
            subscribe = self._until(lambda: runner.has_much_room)
            _wait(subscribe, "room to send", limit, self._unwatch)
        return Receipt(self._submit(checked, kind, receivers), runner, self._loop)

    # -------------------------------------------------------------- events

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.receive()
        if event is None:
            raise StopIteration
        return event

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next event; None when the member has left and all is read. TimedOut if none comes
        in time."""
        timeout = checked_timeout(timeout)
        while True:
            event = self._take_one()
            if event is not None or not self._check_open():
                return event
            self._something(timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Everything that can be read at once, in batches: for throughput."""
        timeout = checked_timeout(timeout)
        while True:
            batch = self._take()
            if batch is not None:
                yield batch
            elif not self._check_open():
                return
            else:
                self._something(timeout)

    def _something(self, timeout: float | None) -> None:
        buffer = self._runner.buffer
        _wait(buffer.when_put, "an event", timeout, buffer.forget)

    # -------------------------------------------------------------- membership

    def wait_for(
        self,
        members: Wanted | None = None,
        timeout: float | None = None,
        *,
        majority_of: int | Named | None = None,
        gone: Named | None = None,
    ) -> View:
        """Wait until a view fits, and return the first that does: the present one, or a later one.

        `members` is a number (at least so many), a name or names (all of these are in the view; a
        MemberId means that incarnation), or a function of the view that returns whether it fits.
        `majority_of=5` wants more than half of five members, `majority_of=names` more than half of
        those; `gone` names members of which none is in the view, whether they have left or were
        never there. Several together must all hold. Reads no events.

        TimedOut after `timeout` seconds: nothing is undone. MemberClosed, or the error that ended
        the membership, if this member has left or leaves meanwhile. An exception of the function
        reaches the caller. ConfigurationError for values that no view could fit.
        """
        condition = ViewCondition(members, majority_of, gone)
        return self._first_view(condition, Limit(checked_timeout(timeout)))

    def settled(self, timeout: float | None = None) -> View:
        """Wait until the membership has settled, and return its view.

        A member starts alone and finds the others by itself, so right after `join` its view holds
        nobody else, and messages go to nobody else. The membership has settled when no view change
        is under way and four times `hello_ns` have passed since this member began to look for
        others and since the last view change: one second with the settings of `lan()`. That is time
        enough to find every group that can be heard, also if three packets in a row are lost; it is
        no promise that nobody comes later. To wait for members that you know, use `wait_for`.

        TimedOut after `timeout` seconds: nothing is undone. MemberClosed, or the error that ended
        the membership, if this member has left or leaves meanwhile.
        """
        limit = Limit(checked_timeout(timeout))
        self._check_member()
        runner = self._runner
        subscribe = self._until(lambda: runner.stopped or runner.settled)
        limit.wait("a settled membership", subscribe, self._unwatch)
        self._check_member()
        return runner.view

    def _first_view(self, condition: ViewCondition, limit: Limit) -> View:
        self._check_member()
        seen = self.view
        if condition.fits(seen):
            return seen
        with self._following() as feed:
            while True:
                view = feed.take()
                if view is None:
                    if feed.ended:
                        self._check_member()
                    limit.wait(condition.text, feed.when_put)
                elif view is not seen and condition.fits(view):
                    return view

    def leave(self) -> None:
        """Send what was accepted, say goodbye, and be gone. Safe to call twice."""
        runner = self._runner
        _wait(self._begin_leaving(), "leaving", None)
        runner.wait_for_disk(runner.config.leave_ns / 1e9 + 5)

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


def join(
    group: str,
    *,
    name: str | None = None,
    config: Config | None = None,
    state: str | os.PathLike[str] | None = None,
    journal: str | os.PathLike[str] | None = None,
    journal_settings: JournalSettings | None = None,
    receive: bool = True,
    members: Wanted | None = None,
    timeout: float | None = None,
) -> Group:
    """Join a group, and leave it with `leave()` or at the end of a `with` block.

    The member starts alone and finds the others by itself. `name` tells it from them; by
    default it is made of the host's name and the process id. With a `state` directory the member
    is known to be the same one, in a new life, when it comes back under its name. With a
    `journal` directory it writes down what it sees, for `phalanx check` and the pipeline. With
    `receive=False` it only sends: no events are kept for it, so it never holds up the group by not
    reading them; `view`, `wait_for` and receipts work, and iterating raises NotReceiving.

    With `members` it returns only when a view fits, as `wait_for(members)` does: a number, a name,
    names, or a function of the view. `timeout` limits the whole call, in seconds; after TimedOut or
    another error the member has left again. Without `members` the first view holds this member
    alone: see `wait_for` and `settled`.

    A PhalanxError names the field and the remedy; then nothing was joined.
    """
    settings = lan() if config is None else config
    condition = None if members is None else ViewCondition(members)
    limit = Limit(checked_timeout(timeout))
    opener = MemberOpener(
        partial(open_member, group, name, settings, state, journal, journal_settings, receive)
    )
    while True:
        runner = opener()
        joined = Group(runner, PROCESS.run(runner))
        with _leaving_on_error(joined):
            limit.wait("joining", joined._until(runner.is_named_or_stopped))
        if not opener.must_reopen(runner):
            break
    if runner.stopped:
        joined._check_open()
    if condition is not None:
        with _leaving_on_error(joined):
            joined._first_view(condition, limit)
    return joined


@contextmanager
def _leaving_on_error(group: Group) -> Iterator[None]:
    """A join that fails leaves; one that is interrupted does not wait for that."""
    try:
        yield
    except Exception:
        group.leave()
        raise
    except BaseException:
        group._begin_leaving()
        raise


def _wait(
    subscribe: Subscribe, what: str, timeout: float | None, unsubscribe: Subscribe | None = None
) -> None:
    """Wait until the event loop's thread calls back. After a time-out the subscription ends."""
    Limit(checked_timeout(timeout)).wait(what, subscribe, unsubscribe)


class Limit:
    """A time limit for several waits in a row; TimedOut when it is over."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def wait(self, what: str, subscribe: Subscribe, unsubscribe: Subscribe | None = None) -> None:
        done = threading.Event()
        subscribe(done.set)
        left = None if self._end is None else max(0.0, self._end - time.monotonic())
        came = False
        try:
            came = done.wait(left)
        finally:
            if not came and unsubscribe is not None:
                unsubscribe(done.set)
        if not came:
            raise TimedOut(what, self._seconds or 0.0)
