"""A group for asyncio.

    async with phalanx.join("orders") as group:
        await group.send(b"hello", phalanx.AGREED)
        async for event in group:
            ...

The protocol runs in a thread of its own; the event loop only reads and sends. A loop that is
blocked for a while costs nothing but its own delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from phalanx.config import Config, lan
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId
from phalanx.engine.events import Batch, Event, View
from phalanx.engine.face import Arm, Face, Opening, Slip, fits, open_node
from phalanx.engine.node import Node
from phalanx.engine.process import PROCESS
from phalanx.engine.tickets import State
from phalanx.errors import TimedOut
from phalanx.journal.settings import JournalSettings

T = TypeVar("T")


class Receipt(Slip):
    """What became of messages that were sent. Waiting for it is never needed for delivery."""

    async def ordered(self) -> None:
        """Until the place of the messages can no longer change at this member. Raises what keeps
        them from getting there: the receivers are gone, or this member is."""
        await self._reach(State.ORDERED)

    async def stable(self) -> None:
        """Until every member of the view has the messages."""
        await self._reach(State.STABLE)

    async def _reach(self, state: State) -> None:
        ticket = self._ticket
        if ticket.state < state and ticket.error is None:
            await _wait(lambda call: ticket.when(state, call))
        if ticket.error is not None:
            raise ticket.error


class Group(Face):
    """A member of a group. Events come once, in order, to whoever iterates; two tasks that iterate
    share them."""

    async def send(
        self,
        body: bytes,
        service: Service = Service.AGREED,
        *,
        to: Sequence[MemberId | str] | None = None,
    ) -> Receipt:
        """Send a message to the whole view, or to the members `to` of it.

        Returns when the message is accepted; waits while the window is closed. A SubmissionError
        means that it was not and will not be sent. Once accepted it is delivered here and at every
        member that stays, in the order of its service, unless this process ends first.
        """
        return await self.send_many((body,), service, to=to)

    async def send_many(
        self,
        bodies: Sequence[bytes],
        service: Service = Service.AGREED,
        *,
        to: Sequence[MemberId | str] | None = None,
    ) -> Receipt:
        """Send messages one after the other, as `send` does; all are accepted or none."""
        node = self._node
        if not node.has_room:
            await _wait(self._until(lambda: node.has_much_room))
        return Receipt(self._submit(bodies, service, to))

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
            await self._something()

    async def batches(self) -> AsyncIterator[Batch]:
        """Everything that can be read at once, in batches: for throughput."""
        while True:
            batch = self._take()
            if batch is not None:
                yield batch
            elif not self._check_open():
                return
            else:
                await self._something()

    async def _something(self) -> None:
        buffer = self._node.buffer
        try:
            await _wait(buffer.when_put)
        except asyncio.CancelledError:
            buffer.forget()
            raise

    # -------------------------------------------------------------- membership

    async def wait_for(self, members: int | Sequence[str], timeout: float | None = None) -> View:
        """The first view with at least so many members, or with all that are named. Reads no
        events. TimedOut, with nothing undone, after `timeout` seconds."""
        node = self._node
        arm = self._until(lambda: node.stopped or fits(node.view, members))
        try:
            await asyncio.wait_for(_wait(arm), timeout)
        except TimeoutError:
            raise TimedOut(f"members = {members!r} in one view", timeout or 0.0) from None
        if node.stopped:
            self._check_open()
        return node.view

    async def leave(self) -> None:
        """Send what was accepted, say goodbye, and be gone. Safe to call twice. Even if the wait
        is cancelled the member leaves."""
        node = self._node
        arm = self._begin_leaving()
        await _wait(arm)
        await _in_thread(lambda: node.wait_for_disk(node.config.leave_ns / 1e9 + 5), _nothing)

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()


class Joining(Awaitable[Group]):
    """A group that is about to be joined: `await` it, or enter it with `async with`."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._group: Group | None = None

    def __await__(self) -> Generator[Any, None, Group]:
        return self._join().__await__()

    async def _join(self) -> Group:
        while True:
            node = await _in_thread(self._opening, Node.abandon)
            group = Group(node, PROCESS.run(node))
            try:
                await _wait(group._until(node.is_named_or_stopped))
            except asyncio.CancelledError:
                group._begin_leaving()
                raise
            if not self._opening.is_due_again(node):
                break
        if node.stopped:
            group._check_open()
        return group

    async def __aenter__(self) -> Group:
        self._group = await self._join()
        return self._group

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._group is not None
        await self._group.leave()


def join(
    group: str,
    *,
    name: str | None = None,
    config: Config | None = None,
    state: str | os.PathLike[str] | None = None,
    journal: str | os.PathLike[str] | None = None,
    journal_settings: JournalSettings | None = None,
) -> Joining:
    """Join a group: `group = await join("orders")`, or `async with join("orders") as group:`.

    The member starts alone and finds the others by itself. `name` tells it from them; by
    default it is made of the host's name and the process id. With a `state` directory the member
    is known to be the same one, in a new life, when it comes back under its name. With a
    `journal` directory it writes down what it sees, for `phalanx check` and the pipeline.
    A PhalanxError names the field and the remedy; then nothing was joined.
    """
    settings = lan() if config is None else config
    keep = journal_settings or JournalSettings()
    return Joining(
        Opening(lambda above: open_node(group, name, settings, state, journal, keep, above))
    )


# ---------------------------------------------------------------------------- waiting


async def _wait(arm: Arm) -> None:
    """Until the other thread calls."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def call() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there
            loop.call_soon_threadsafe(finish)

    arm(call)
    await done


def _nothing(result: object) -> None:
    pass


async def _in_thread(work: Callable[[], T], discard: Callable[[T], object]) -> T:
    """What may take a while, in a thread that is gone afterwards. A result that nobody waits for
    any more is discarded."""
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
        threading.Thread(target=run, args=(call,), name="phalanx-opening", daemon=True).start()

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
