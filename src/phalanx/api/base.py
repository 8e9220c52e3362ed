"""The common base of the asyncio and the blocking API: everything except waiting.

`open_member` checks the configuration, takes the name, and opens the transport and the journal. If
one of these fails it releases the others, so that no member is partly in a group. `GroupBase` is
the group that the application holds; the asyncio and the blocking group add the ways to wait.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import msgspec

from phalanx.api.arguments import (
    checked_folder,
    checked_group,
    checked_journal_settings,
    checked_name,
    checked_operations,
)
from phalanx.config import Config, checked
from phalanx.core.effects import Service, SetRole
from phalanx.core.ids import MemberId
from phalanx.core.member.blocked import Wait
from phalanx.errors import (
    ConfigurationError,
    Forked,
    IncarnationUsed,
    MemberClosed,
    NotReceiving,
    UnknownMember,
)
from phalanx.journal.settings import JournalSettings
from phalanx.runtime.event_loop import EventLoop
from phalanx.runtime.events import Batch, Event, View
from phalanx.runtime.identity import identify
from phalanx.runtime.journal_adapter import open_journal
from phalanx.runtime.member_runner import MemberRunner
from phalanx.runtime.receipt_tracker import PendingReceipt
from phalanx.runtime.view_feed import ViewFeed
from phalanx.transport.base import Transport
from phalanx.transport.fault_injection import FaultInjector
from phalanx.transport.open_transport import open_transport

log = logging.getLogger("phalanx")

Subscribe = Callable[[Callable[[], None]], None]
"""Registers a function that is called, from any thread, when the awaited event has happened."""
RENEWALS_MAX = 8
"""How often a member takes a later incarnation because an earlier process had the one it took."""
IPV6_BYTES = 20
"""The difference between the headers of IPv6 and IPv4: the default must fit an Ethernet frame."""


def open_member(
    group: str,
    name: str | None,
    config: Config,
    state: str | os.PathLike[str] | None,
    journal: str | os.PathLike[str] | None,
    settings: JournalSettings | None,
    receive: bool,
    above: int = 0,
) -> MemberRunner:
    """A member that the event loop can drive, with an incarnation above `above`."""
    group, name = checked_group(group), checked_name(name)
    state_folder, journal_folder = (
        checked_folder("state", state),
        checked_folder("journal", journal),
    )
    keep = checked_journal_settings(settings)
    if not isinstance(config, Config):
        raise ConfigurationError("config", config, "make one with phalanx.lan(...)")
    checked(config)
    if not isinstance(receive, bool):
        raise ConfigurationError("receive", receive, "must be True or False")
    with ExitStack() as undo:
        where = None if state_folder is None else str(state_folder)
        identity = identify(config.cluster, group, name, where, above)
        undo.callback(identity.close)
        transport = open_transport(config, group, FaultInjector(), identity.member)
        undo.callback(transport.close)
        sized = _sized(config, transport)
        adapter = None
        if journal_folder is not None:
            adapter = open_journal(journal_folder, group, identity.member, sized, keep)
            undo.callback(adapter.close)
        entropy = secrets.randbits(62)
        runner = MemberRunner(group, identity, sized, transport, adapter, entropy, receive)
        undo.pop_all()
        return runner


class MemberOpener:
    """Opens a member, and opens it again with a later incarnation when other members report that an
    earlier process had the first one. `open_above` opens one with an incarnation above its
    argument."""

    def __init__(self, open_above: Callable[[int], MemberRunner]) -> None:
        self._open_above = open_above
        self._used = 0
        self._left = RENEWALS_MAX

    def __call__(self) -> MemberRunner:
        return self._open_above(self._used)

    def must_reopen(self, runner: MemberRunner) -> bool:
        """Whether the member has stopped because its incarnation had been used before, and is to be
        opened again."""
        error = runner.error
        if not isinstance(error, IncarnationUsed) or not self._left:
            return False
        self._used = max(self._used, error.incarnation)
        self._left -= 1
        log.warning("%s", error)
        return True


def _sized(config: Config, transport: Transport) -> Config:
    """The settings, limited to what the network and the system allow (rule W-14)."""
    datagram = config.datagram_bytes_max
    if transport.address.startswith("[") and datagram == Config().datagram_bytes_max:
        datagram -= IPV6_BYTES
    return msgspec.structs.replace(
        config,
        datagram_bytes_max=datagram,
        window_bytes_max=min(config.window_bytes_max, transport.receive_bytes),
        window_bytes_min=min(config.window_bytes_min, transport.receive_bytes),
    )


class ReceiptBase:
    """The common base of both receipts."""

    def __init__(self, pending: PendingReceipt, runner: MemberRunner, loop: EventLoop) -> None:
        self._pending = pending
        self._runner = runner
        self._loop = loop

    def _ask_for_delivery(self) -> None:
        """Have the event loop follow a stable receipt until its messages are delivered. If the
        member has stopped, the receipt fails."""
        pending, runner = self._pending, self._runner
        self._loop.call_soon(lambda now: runner.report_delivery(now, pending))
        runner.fail_if_stopped(pending)

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The numbers of the first and last message among those of this member; None while they
        wait in the queue."""
        pending = self._pending
        return (pending.first, pending.last) if pending.first else None


class GroupBase:
    """A member of a group, as the application uses it."""

    def __init__(self, runner: MemberRunner, loop: EventLoop) -> None:
        self._runner = runner
        self._loop = loop
        self._lock = threading.Lock()
        self._unread: list[Event] = []
        """The rest of a batch that is being read event by event, the next one last."""
        self._pid = os.getpid()
        self._leaving = False
        """The application has asked to leave."""

    def __del__(self) -> None:
        """Leave in the background if the application dropped the group without `leave`: nobody can
        read its events or send any more. Any thread may run this at any point, so it neither waits
        nor takes a lock. At the exit of the process `lifecycle.py` has left already; in the child
        of a fork the member belongs to the parent."""
        if getattr(self, "_leaving", True) or self._runner.stopped or sys.is_finalizing():
            return
        if self._pid != os.getpid():
            return
        runner = self._runner
        try:
            text = f"group {runner.group!r}: {runner.me} was dropped without leave(); it leaves now"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        finally:
            self._loop.call_soon(runner.leave)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a group can be neither copied nor pickled: join again where you need it")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.me}, {len(self.view.members)} members>"

    @property
    def name(self) -> str:
        """The group's name."""
        return self._runner.group

    @property
    def me(self) -> MemberId:
        """This member: its name and its incarnation."""
        return self._runner.me

    @property
    def view(self) -> View:
        """The view that is installed now. Events that led to it may not have been read yet."""
        return self._runner.view

    @property
    def complete(self) -> bool:
        """Whether all members of the view are known to have installed it: no view change is under
        way here, and every member has sent a frame in the view. It may have changed by the time the
        caller looks; other members may not know it yet."""
        return not self._runner.stopped and self._runner.member.complete

    @property
    def config(self) -> Config:
        """The settings in force. The window is limited by the receive buffer that the system
        granted."""
        return self._runner.config

    @property
    def address(self) -> str:
        """Where this member's packets come from, as host:port."""
        return self._runner.transport.address

    @property
    def refused(self) -> dict[str, int]:
        """The number of packets dropped as invalid, by reason."""
        return dict(self._runner.refused)

    @property
    def network_counts(self) -> dict[str, int]:
        """What the transport counted: packets that were not sent or received, by reason; with a
        mesh also channels that opened and broke, and peers that were refused (docs/network.md)."""
        return dict(self._runner.transport.counts)

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that keep this one from sending, and why: the member's application reads too
        slowly (`unread`), the member has not acknowledged (`unacknowledged`), or it has not
        answered a view change (`unanswered`). Empty while messages are sent. At most a quarter of a
        second old."""
        return self._runner.blocked_by

    @property
    def faults(self) -> FaultInjector:
        """Drops or delays packets from other members, to test the application under faults."""
        return self._runner.transport.faults

    @property
    def clock_stretch(self) -> float:
        """How many times longer than configured this member's time-outs are now: 1.0, or up to 16.0
        on an overloaded machine if `stretch_clock` is set."""
        return self._runner.clock.factor

    # -------------------------------------------------------------- for the subclasses

    def _submit(
        self, bodies: Sequence[bytes], service: Service, to: Sequence[MemberId | str] | None
    ) -> PendingReceipt:
        """Queue messages whose arguments are checked. Names are looked up in the present view."""
        receivers = None if to is None else self._members(to)
        return self._runner.submit(bodies, service, receivers)

    def _members(self, to: Sequence[MemberId | str]) -> list[MemberId]:
        named = {member.name: member for member in self.view.members}
        out = []
        for member in to:
            found = named.get(member) if isinstance(member, str) else member
            if found is None:
                raise UnknownMember(str(member), tuple(map(str, self.view.members)))
            out.append(found)
        return list(dict.fromkeys(out))

    def _until(self, condition: Callable[[], bool]) -> Subscribe:
        """Subscribes to a condition of the runner, which the event loop checks after each step."""
        self._check_process()
        watchers = self._runner.watchers

        def subscribe(call: Callable[[], None]) -> None:
            self._loop.call_soon(lambda now: watchers.add(condition, call))

        return subscribe

    def _unwatch(self, call: Callable[[], None]) -> None:
        """Cancel a subscription of `_until`: the caller no longer waits."""
        watchers = self._runner.watchers
        self._loop.call_soon(lambda now: watchers.remove(call))

    @contextmanager
    def _following(self) -> Iterator[ViewFeed]:
        """The installed view and the later ones, for a caller that waits for one of them."""
        self._check_process()
        runner, feed = self._runner, ViewFeed()
        self._loop.call_soon(lambda now: runner.feeds.add(feed, runner.view))
        try:
            yield feed
        finally:
            self._loop.call_soon(lambda now: runner.feeds.remove(feed))

    def _check_member(self) -> None:
        """Raise the reason if this member has stopped."""
        runner = self._runner
        self._check_process()
        if runner.stopped:
            raise runner.error or MemberClosed(str(runner.me))

    def _check_process(self) -> None:
        if self._runner.forked:
            raise Forked(self._runner.group)

    def _take(self) -> Batch | None:
        """The events that can be read now; None if there are none."""
        self._check_reader()
        with self._lock:
            if self._unread:
                rest, self._unread = self._unread[::-1], []
                return Batch([*rest])
            runs = self._runner.buffer.take()
        return Batch(runs) if runs else None

    def _take_one(self) -> Event | None:
        self._check_reader()
        with self._lock:
            if not self._unread:
                runs = self._runner.buffer.take()
                self._unread = list(Batch(runs))[::-1]
            return self._unread.pop() if self._unread else None

    def _check_reader(self) -> None:
        self._check_process()
        if not self._runner.buffer.receive:
            raise NotReceiving(self._runner.group)

    def _check_open(self) -> bool:
        """Whether more events may come. Raises the error that ended the membership, if any."""
        buffer = self._runner.buffer
        if buffer.closed and buffer.error is not None:
            raise buffer.error
        return not buffer.closed

    def _begin_role(self, operations: Iterable[str]) -> Subscribe:
        """Set the role of this member; subscribes to the view that has it."""
        wanted = SetRole(checked_operations(operations))
        self._check_member()
        runner = self._runner
        self._loop.call_soon(lambda now: runner.step(now, wanted))
        return self._until(lambda: runner.stopped or runner.member.role_is_set)

    def _begin_leaving(self) -> Subscribe:
        self._check_process()
        runner = self._runner
        self._leaving = True
        self._loop.call_soon(runner.leave)  # at once, whether or not the caller waits
        return self._until(lambda: runner.stopped)
