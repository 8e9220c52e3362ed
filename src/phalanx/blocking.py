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
from collections.abc import Iterator, Sequence
from types import TracebackType

from phalanx.config import Config, lan
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId
from phalanx.engine.events import Batch, Event, View
from phalanx.engine.face import Arm, Face, Opening, Slip, fits, open_node
from phalanx.engine.process import PROCESS
from phalanx.engine.tickets import State
from phalanx.errors import TimedOut
from phalanx.journal.settings import JournalSettings


class Receipt(Slip):
    """What became of messages that were sent. Waiting for it is never needed for delivery."""

    def ordered(self, timeout: float | None = None) -> None:
        """Until the place of the messages can no longer change at this member. Raises what keeps
        them from getting there: the receivers are gone, or this member is."""
        self._reach(State.ORDERED, timeout)

    def stable(self, timeout: float | None = None) -> None:
        """Until every member of the view has the messages."""
        self._reach(State.STABLE, timeout)

    def _reach(self, state: State, timeout: float | None) -> None:
        ticket = self._ticket
        if ticket.state < state and ticket.error is None:
            _wait(lambda call: ticket.when(state, call), f"{state.name.lower()}", timeout)
        if ticket.error is not None:
            raise ticket.error


class Group(Face):
    """A member of a group. Events come once, in order, to whoever iterates; two threads that
    iterate share them."""

    def send(
        self,
        body: bytes,
        service: Service = Service.AGREED,
        *,
        to: Sequence[MemberId | str] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send a message to the whole view, or to the members `to` of it.

        Returns when the message is accepted; waits while the window is closed. A SubmissionError
        or TimedOut means that it was not and will not be sent. Once accepted it is delivered
        here and at every member that stays, in the order of its service, unless this process
        ends first.
        """
        return self.send_many((body,), service, to=to, timeout=timeout)

    def send_many(
        self,
        bodies: Sequence[bytes],
        service: Service = Service.AGREED,
        *,
        to: Sequence[MemberId | str] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send messages one after the other, as `send` does; all are accepted or none."""
        node = self._node
        if not node.has_room:
            _wait(self._until(lambda: node.has_much_room), "room to send", timeout)
        return Receipt(self._submit(bodies, service, to))

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
        while True:
            event = self._take_one()
            if event is not None or not self._check_open():
                return event
            self._something(timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Everything that can be read at once, in batches: for throughput."""
        while True:
            batch = self._take()
            if batch is not None:
                yield batch
            elif not self._check_open():
                return
            else:
                self._something(timeout)

    def _something(self, timeout: float | None) -> None:
        _wait(self._node.buffer.when_put, "an event", timeout)

    # -------------------------------------------------------------- membership

    def wait_for(self, members: int | Sequence[str], timeout: float | None = None) -> View:
        """The first view with at least so many members, or with all that are named. Reads no
        events. TimedOut, with nothing undone, after `timeout` seconds."""
        node = self._node
        arm = self._until(lambda: node.stopped or fits(node.view, members))
        _wait(arm, f"members = {members!r} in one view", timeout)
        if node.stopped:
            self._check_open()
        return node.view

    def leave(self) -> None:
        """Send what was accepted, say goodbye, and be gone. Safe to call twice."""
        node = self._node
        _wait(self._begin_leaving(), "leaving", None)
        node.wait_for_disk(node.config.leave_ns / 1e9 + 5)

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
) -> Group:
    """Join a group, and leave it with `leave()` or at the end of a `with` block.

    The member starts alone and finds the others by itself. `name` tells it from them; by
    default it is made of the host's name and the process id. With a `state` directory the member
    is known to be the same one, in a new life, when it comes back under its name. With a
    `journal` directory it writes down what it sees, for `phalanx check` and the pipeline.
    A PhalanxError names the field and the remedy; then nothing was joined.
    """
    settings = lan() if config is None else config
    keep = journal_settings or JournalSettings()
    opening = Opening(lambda above: open_node(group, name, settings, state, journal, keep, above))
    while True:
        node = opening()
        joined = Group(node, PROCESS.run(node))
        try:
            _wait(joined._until(node.is_named_or_stopped), "joining", None)
        except BaseException:
            joined._begin_leaving()
            raise
        if not opening.is_due_again(node):
            break
    if node.stopped:
        joined._check_open()
    return joined


def _wait(arm: Arm, what: str, timeout: float | None) -> None:
    """Until the engine's thread calls."""
    done = threading.Event()
    arm(done.set)
    if not done.wait(timeout):
        raise TimedOut(what, timeout or 0.0)
