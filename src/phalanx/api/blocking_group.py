"""A group for programs without asyncio: the same names as the asyncio group, as plain calls.

    with phalanx.blocking.join("orders") as group:
        group.send(b"hello", phalanx.AGREED)
        for event in group:
            ...

All calls may come from any thread. Calls that wait for other members take a `timeout` in seconds;
joining and leaving take at most a second or two.
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
    """The progress of messages that were sent. Delivery does not depend on waiting for it.

    Each call returns an `Outcome`: which of the intended members have the messages, and in which
    view. The intended members are those of the view at the time of `send`, or those named by `to`.
    docs/receipts.md states what each call promises in every situation.
    """

    def ordered(self, timeout: float | None = None) -> Outcome:
        """Wait until the position of the messages can no longer change at this member. Raises
        NotDelivered if all their receivers have left the view, and MemberClosed or the error that
        ended the membership."""
        return self._reach(State.ORDERED, True, Deadline(checked_timeout(timeout)))

    def stable(self, timeout: float | None = None, *, allow_missing: bool = False) -> Outcome:
        """Wait until it is known which members have the messages. Raises NotEverywhere, which names
        the members, if intended members may not have them: they failed, left or were cut off before
        they acknowledged. With `allow_missing` stability among the remaining members is enough, and
        the outcome names the others."""
        return self._reach(State.STABLE, allow_missing, Deadline(checked_timeout(timeout)))

    def delivered(self, timeout: float | None = None, *, allow_missing: bool = False) -> Outcome:
        """Wait until it is known which members have delivered the messages to their applications.
        Raises and returns as `stable` does. In an idle group this takes two keep-alives longer."""
        limit = Deadline(checked_timeout(timeout))
        if not self._pending.error:
            self._reach(State.STABLE, True, limit)
            self._ask_for_delivery()
        return self._reach(State.DELIVERED, allow_missing, limit)

    def _reach(self, state: State, allow_missing: bool, limit: Deadline) -> Outcome:
        pending = self._pending
        if pending.state < state and pending.error is None:
            limit.wait(state.name.lower(), lambda call: pending.when(state, call))
        return pending.checked(state, allow_missing)


class Group(GroupBase):
    """A member of a group. Each event is delivered once, in order, to the thread that iterates; two
    threads that iterate share the events."""

    def send(
        self,
        body: Body,
        service: Service | str = Service.AGREED,
        *,
        to: Receivers | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send a message to the whole view, or to the members `to` of it: a name, a MemberId, or
        an iterable of them. `service` may be given by name, as "safe".

        Returns when the message is accepted; waits while the queue is full. A SubmissionError
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
        """Send messages in order, as `send` does; all are accepted or none. The receipt of no
        messages is complete at once. The caller may change the arguments afterwards."""
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
        """The next event; None when the member has left and all events are read. Raises TimedOut
        if none comes in time."""
        limit = Deadline(checked_timeout(timeout))
        while True:
            event = self._take_one()
            if event is not None or not self._check_open():
                return event
            self._wait_for_event(limit)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Events in batches, each with all events that can be read at once: for throughput."""
        seconds = checked_timeout(timeout)
        limit = Deadline(seconds)
        while True:
            batch = self._take()
            if batch is not None:
                yield batch
                limit = Deadline(seconds)
            elif not self._check_open():
                return
            else:
                self._wait_for_event(limit)

    def _wait_for_event(self, limit: Deadline) -> None:
        buffer = self._runner.buffer
        limit.wait("an event", buffer.when_put, buffer.forget)

    # -------------------------------------------------------------- membership

    def wait_for(
        self,
        members: Wanted | None = None,
        timeout: float | None = None,
        *,
        majority_of: int | Named | None = None,
        gone: Named | None = None,
    ) -> View:
        """Wait for a view that meets the conditions, and return the first: the present one or a
        later one.

        `members` is a number (at least this many), a name or names (all of them are in the view; a
        MemberId means that incarnation), or a function that is given the view and returns a bool.
        `majority_of=5` means more than half of five members, `majority_of=names` more than half of
        those; `gone` names members that must not be in the view, whether they have left or never
        joined. All given conditions must hold. Reads no events.

        Raises TimedOut after `timeout` seconds, which undoes nothing; MemberClosed, or the error
        that ended the membership, if this member has left or leaves meanwhile; exceptions of the
        function; ConfigurationError for conditions that no view can meet.
        """
        condition = ViewCondition(members, majority_of, gone, self.me)
        return self._first_view(condition, Deadline(checked_timeout(timeout)))

    def settled(self, timeout: float | None = None) -> View:
        """Wait until the membership has settled, and return its view.

        A member starts alone and discovers the others, so right after `join` its view holds only
        itself, and messages go to nobody else. The membership has settled when no view change is
        under way and four times `hello_ns` have passed since discovery began and since the last
        view change: one second with the settings of `lan()`. That is enough to find every group
        that can be heard, even if three packets in a row are lost; it does not promise that nobody
        joins later. To wait for members that you know, use `wait_for`.

        Raises TimedOut after `timeout` seconds, which undoes nothing; MemberClosed, or the error
        that ended the membership, if this member has left or leaves meanwhile.
        """
        limit = Deadline(checked_timeout(timeout))
        self._check_member()
        runner = self._runner
        subscribe = self._until(lambda: runner.stopped or runner.settled)
        limit.wait("a settled membership", subscribe, self._unwatch)
        self._check_member()
        return runner.view

    def set_role(self, operations: Iterable[str], timeout: float | None = None) -> View:
        """Set the role of this member: the names of the operations that it offers to the group,
        in place of those before. All members of a view have the same roles in it (`View.roles`), so
        a change is a view change: a new view with the same members, whose cause is `role`.
        Changes by several members at once come into one view.

        Returns the view in which the role is in force: the present one if it has these operations
        already. If the role is set again meanwhile, that is the view that has the later one.
        At most 16 names of up to 32 bytes, without blanks; none is a role too.

        Raises TimedOut after `timeout` seconds, which undoes nothing; MemberClosed, or the error
        that ended the membership, if this member has left or leaves meanwhile; ConfigurationError
        for names that cannot be operations.
        """
        limit = Deadline(checked_timeout(timeout))
        limit.wait("the new role", self._begin_role(operations), self._unwatch)
        self._check_member()
        return self._runner.view

    def _first_view(self, condition: ViewCondition, limit: Deadline) -> View:
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
        """Send the accepted messages, leave the group, and wait until that is done. Safe to call
        twice."""
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

    The member starts alone and discovers the others. `name` identifies it among them; the default
    is made of host name and process id. With a `state` directory its incarnation numbers never
    repeat, even if the clock is set back. With a `journal` directory it records what it does, for
    `phalanx check` and the pipeline. With `receive=False` it only sends: no events are kept for it,
    so it never slows the group down by not reading them; `view`, `wait_for` and receipts work, and
    iterating raises NotReceiving.

    With `members` it returns when a view meets the condition, as `wait_for(members)` does: a
    number, a name, names, or a function of the view. `timeout` limits the whole call, in seconds;
    after TimedOut or another error the member has left again. Without `members` the first view
    holds this member alone: see `wait_for` and `settled`.

    A PhalanxError names the field and the remedy; then nothing was joined.
    """
    settings = lan() if config is None else config
    condition = None if members is None else ViewCondition(members)
    limit = Deadline(checked_timeout(timeout))
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
    """Leave if the join fails; if it is interrupted, without waiting for that."""
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
    Deadline(checked_timeout(timeout)).wait(what, subscribe, unsubscribe)


class Deadline:
    """A time limit for several waits in a row. Raises TimedOut when it is over."""

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
