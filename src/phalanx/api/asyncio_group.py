"""A group for asyncio.

    async with phalanx.join("orders") as group:
        await group.send(b"hello", phalanx.AGREED)
        async for event in group:
            ...

The protocol runs in a thread of its own; the asyncio loop only reads and sends. A loop that is
blocked for a while delays its own reads and sends, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

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
from phalanx.errors import AlreadyJoined, TimedOut
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.events import Batch, Event, View
from phalanx.runtime.lifecycle import PROCESS
from phalanx.runtime.member_runner import MemberRunner
from phalanx.runtime.receipt_tracker import Outcome, State

T = TypeVar("T")


class Receipt(ReceiptBase):
    """The progress of messages that were sent. Delivery does not depend on waiting for it.

    Each call returns an `Outcome`: which of the intended members have the messages, and in which
    view. The intended members are those of the view at the time of `send`, or those named by `to`.
    docs/receipts.md states what each call promises in every situation.
    """

    async def ordered(self) -> Outcome:
        """Wait until the position of the messages can no longer change at this member. Raises
        NotDelivered if all their receivers have left the view, and MemberClosed or the error that
        ended the membership."""
        return await self._reach(State.ORDERED, True)

    async def stable(self, *, allow_missing: bool = False) -> Outcome:
        """Wait until it is known which members have the messages. Raises NotEverywhere, which names
        the members, if intended members may not have them: they failed, left or were cut off before
        they acknowledged. With `allow_missing` stability among the remaining members is enough, and
        the outcome names the others."""
        return await self._reach(State.STABLE, allow_missing)

    async def delivered(self, *, allow_missing: bool = False) -> Outcome:
        """Wait until it is known which members have delivered the messages to their applications.
        Raises and returns as `stable` does. In an idle group this takes two keep-alives longer."""
        if not self._pending.error:
            await self._reach(State.STABLE, True)
            self._ask_for_delivery()
        return await self._reach(State.DELIVERED, allow_missing)

    async def _reach(self, state: State, allow_missing: bool) -> Outcome:
        pending = self._pending
        if pending.state < state and pending.error is None:
            await _wait(lambda call: pending.when(state, call))
        return pending.checked(state, allow_missing)


class Group(GroupBase):
    """A member of a group. Each event is delivered once, in order, to the task that iterates; two
    tasks that iterate share the events."""

    async def send(
        self,
        body: Body,
        service: Service | str = Service.AGREED,
        *,
        to: Receivers | None = None,
    ) -> Receipt:
        """Send a message to the whole view, or to the members `to` of it: a name, a MemberId, or
        an iterable of them. `service` may be given by name, as "safe".

        Returns when the message is accepted; waits while the queue is full. A SubmissionError
        means that it was not and will not be sent. Once accepted it is delivered here and at every
        member that stays, in the order of its service, unless this process ends first.
        """
        return await self.send_many((body,), service, to=to)

    async def send_many(
        self,
        bodies: Iterable[Body],
        service: Service | str = Service.AGREED,
        *,
        to: Receivers | None = None,
    ) -> Receipt:
        """Send messages in order, as `send` does; all are accepted or none. The receipt of no
        messages is complete at once. The caller may change the arguments afterwards."""
        checked, kind = checked_bodies(bodies), checked_service(service)
        receivers = checked_receivers(to)
        runner = self._runner
        if not runner.has_room:
            await _wait(self._until(lambda: runner.has_much_room), self._unwatch)
        return Receipt(self._submit(checked, kind, receivers), runner, self._loop)

    # -------------------------------------------------------------- events

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = self._take_one()
            if event is not None:
                return event
            if not self._check_open():
                raise StopAsyncIteration
            await self._wait_for_event()

    async def batches(self) -> AsyncIterator[Batch]:
        """Events in batches, each with all events that can be read at once: for throughput."""
        while True:
            batch = self._take()
            if batch is not None:
                yield batch
            elif not self._check_open():
                return
            else:
                await self._wait_for_event()

    async def _wait_for_event(self) -> None:
        buffer = self._runner.buffer
        await _wait(buffer.when_put, buffer.forget)

    # -------------------------------------------------------------- membership

    async def wait_for(
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
        return await self._first_view(condition, Deadline(checked_timeout(timeout)))

    async def settled(self, timeout: float | None = None) -> View:
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
        await limit.wait("a settled membership", subscribe, self._unwatch)
        self._check_member()
        return runner.view

    async def set_role(self, operations: Iterable[str], timeout: float | None = None) -> View:
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
        await limit.wait("the new role", self._begin_role(operations), self._unwatch)
        self._check_member()
        return self._runner.view

    async def _first_view(self, condition: ViewCondition, limit: Deadline) -> View:
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
                    await limit.wait(condition.text, feed.when_put)
                elif view is not seen and condition.fits(view):
                    return view

    async def leave(self) -> None:
        """Send the accepted messages, leave the group, and wait until that is done. Safe to call
        twice. The member leaves even if the wait is cancelled."""
        runner = self._runner
        subscribe = self._begin_leaving()
        await _wait(subscribe)
        await _in_thread(lambda: runner.wait_for_disk(runner.config.leave_ns / 1e9 + 5), _nothing)

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()


class PendingJoin(Coroutine[Any, Any, Group]):
    """A join that has not begun: `await` it, enter it with `async with`, or give it to
    `asyncio.create_task`, `gather`, `wait_for` or `run`, as any coroutine. Once."""

    def __init__(
        self,
        group: str,
        opener: MemberOpener,
        condition: ViewCondition | None,
        timeout: float | None,
    ) -> None:
        self._begun = False
        self._name = group
        self._opener = opener
        self._condition = condition
        self._timeout = timeout
        self._driven: Coroutine[Any, Any, Group] | None = None
        """The coroutine that a task drives with `send`."""
        self._group: Group | None = None

    def __repr__(self) -> str:
        return f"<PendingJoin {self._name!r}>"

    def _begin(self) -> Coroutine[Any, Any, Group]:
        if self._begun:
            raise AlreadyJoined(self._name)
        self._begun = True
        return self._join()

    def __await__(self) -> Generator[Any, None, Group]:
        return self._begin().__await__()

    def send(self, value: Any) -> Any:
        if self._driven is None:
            self._driven = self._begin()
        return self._driven.send(value)

    def throw(self, *error: Any) -> Any:
        if self._driven is None:
            self._driven = self._begin()
        return self._driven.throw(*error)

    def close(self) -> None:
        self._begun = True
        if self._driven is not None:
            self._driven.close()

    def __del__(self) -> None:
        if not getattr(self, "_begun", True) and not sys.is_finalizing():
            text = f"join({self._name!r}) was never awaited: nothing was joined"
            warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)

    async def _join(self) -> Group:
        limit = Deadline(self._timeout)
        group = await self._named(limit)
        if self._condition is not None:
            async with _leaving_on_error(group):
                await group._first_view(self._condition, limit)
        return group

    async def _named(self, limit: Deadline) -> Group:
        """The group, once this member has its name."""
        while True:
            runner = await _in_thread(self._opener, MemberRunner.abandon)
            group = Group(runner, PROCESS.run(runner))
            async with _leaving_on_error(group):
                await limit.wait("joining", group._until(runner.is_named_or_stopped))
            if not self._opener.must_reopen(runner):
                break
        if runner.stopped:
            group._check_open()
        return group

    async def __aenter__(self) -> Group:
        self._group = await self._begin()
        return self._group

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._group is not None
        await self._group.leave()


@contextlib.asynccontextmanager
async def _leaving_on_error(group: Group) -> AsyncIterator[None]:
    """Leave if the join fails; if it is cancelled, without waiting for that."""
    try:
        yield
    except asyncio.CancelledError:
        group._begin_leaving()
        raise
    except BaseException:
        await group.leave()
        raise


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
) -> PendingJoin:
    """Join a group: `group = await join("orders")`, or `async with join("orders") as group:`.

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
    opener = MemberOpener(
        partial(open_member, group, name, settings, state, journal, journal_settings, receive)
    )
    return PendingJoin(group, opener, condition, checked_timeout(timeout))


# ---------------------------------------------------------------------------- waiting


class Deadline:
    """A time limit for several waits in a row. Raises TimedOut when it is over."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else asyncio.get_running_loop().time() + seconds

    async def wait(
        self, what: str, subscribe: Subscribe, unsubscribe: Subscribe | None = None
    ) -> None:
        try:
            async with asyncio.timeout_at(self._end):
                await _wait(subscribe, unsubscribe)
        except TimeoutError:
            raise TimedOut(what, self._seconds or 0.0) from None


async def _wait(subscribe: Subscribe, unsubscribe: Subscribe | None = None) -> None:
    """Wait until the other thread calls back. A cancelled wait ends the subscription."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def call() -> None:
        with contextlib.suppress(RuntimeError):  # the asyncio loop is closed: nobody waits
            loop.call_soon_threadsafe(finish)

    subscribe(call)
    try:
        await done
    except asyncio.CancelledError:
        if unsubscribe is not None:
            unsubscribe(call)
        raise


def _nothing(result: object) -> None:
    pass


async def _in_thread(work: Callable[[], T], discard: Callable[[T], object]) -> T:
    """Run blocking work in a thread of its own. If the wait is cancelled, the result is given to
    `discard`."""
    results: list[T] = []
    errors: list[BaseException] = []
    lock = threading.Lock()
    wanted = True

    def run(call: Callable[[], None]) -> None:
        try:
            result = work()
        except BaseException as error:
            errors.append(error)
        else:
            with lock:
                results.append(result)
                late = not wanted
            if late:
                discard(result)
        call()

    def start(call: Callable[[], None]) -> None:
        threading.Thread(target=run, args=(call,), name="phalanx-open", daemon=True).start()

    try:
        await _wait(start)
    except asyncio.CancelledError:
        with lock:
            wanted = False
            done = list(results)
        for result in done:
            discard(result)
        raise
    if errors:
        raise errors[0]
    return results[0]
