"""What both faces of a group share: everything but the waiting.

`open_member` checks the configuration, takes the name, opens the link and the journal, and gives
everything back if any of that fails: no member is ever half in a group. A `GroupBase` is what the
application holds; the asyncio and the blocking group add how one waits.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import msgspec

from phalanx.api.arguments import (
    checked_folder,
    checked_group,
    checked_journal_settings,
    checked_name,
)
from phalanx.config import Config, checked
from phalanx.core.effects import Service
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

Arm = Callable[[Callable[[], None]], None]
"""Has its argument called, from any thread, when something has happened."""
RENEWALS_MAX = 8
"""So often a member takes a later incarnation because its own was used before."""
IPV6_BYTES = 20
"""So much longer than that of IPv4 is a header of IPv6: the default must fit an Ethernet frame."""


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
    """A member that is ready to be driven, with an incarnation above `above`."""
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
        link = open_transport(config, group, FaultInjector())
        undo.callback(link.close)
        sized = _sized(config, link)
        diary = None
        if journal_folder is not None:
            diary = open_journal(journal_folder, group, identity.member, sized, keep)
            undo.callback(diary.close)
        node = MemberRunner(group, identity, sized, link, diary, secrets.randbits(62), receive)
        undo.pop_all()
        return node


class Opening:
    """Opens a member, and once more with a later incarnation when others say that an earlier
    process had the first one."""

    def __init__(self, open_above: Callable[[int], MemberRunner]) -> None:
        self._open_above = open_above
        self._used = 0
        self._left = RENEWALS_MAX

    def __call__(self) -> MemberRunner:
        return self._open_above(self._used)

    def is_due_again(self, node: MemberRunner) -> bool:
        """Whether the member has stopped because its incarnation was used before it claimed its
        name, and is to be opened again."""
        error = node.error
        if not isinstance(error, IncarnationUsed) or not self._left:
            return False
        self._used = max(self._used, error.incarnation)
        self._left -= 1
        log.warning("%s", error)
        return True


def _sized(config: Config, link: Transport) -> Config:
    """The settings as the network allows them (rule W-14)."""
    datagram = config.datagram_bytes_max
    if link.address.startswith("[") and datagram == Config().datagram_bytes_max:
        datagram -= IPV6_BYTES
    return msgspec.structs.replace(
        config,
        datagram_bytes_max=datagram,
        window_bytes_max=min(config.window_bytes_max, link.receive_bytes),
        window_bytes_min=min(config.window_bytes_min, link.receive_bytes),
    )


class ReceiptBase:
    """What both receipts share."""

    def __init__(self, ticket: PendingReceipt, node: MemberRunner, engine: EventLoop) -> None:
        self._ticket = ticket
        self._node = node
        self._engine = engine

    def _ask_for_delivery(self) -> None:
        """Have the engine watch a ticket that is stable, unless the member has ended: nobody looks
        at it then."""
        ticket, node = self._ticket, self._node
        self._engine.order(lambda now: node.report_delivery(now, ticket))
        node.fail_if_over(ticket)

    @property
    def numbers(self) -> tuple[int, int] | None:
        """First and last number of the messages among those of this member; None while they wait
        for the window."""
        ticket = self._ticket
        return (ticket.first, ticket.last) if ticket.first else None


class GroupBase:
    """A member of a group, as the application sees it."""

    def __init__(self, node: MemberRunner, engine: EventLoop) -> None:
        self._node = node
        self._engine = engine
        self._lock = threading.Lock()
        self._unread: list[Event] = []
        """Single events of a batch that was begun, the next one last."""
        self._pid = os.getpid()
        self._leaving = False
        """Leaving was asked for."""

    def __del__(self) -> None:
        """Dropped without `leave`: nobody can read its events or send any more, so it leaves in the
        background. Any thread may come here, at any point: nothing here waits or takes a lock. At
        the end of the process, `process.py` has left already; in the child of a fork the member is
        the parent's."""
        if getattr(self, "_leaving", True) or self._node.stopped or sys.is_finalizing():
            return
        if self._pid != os.getpid():
            return
        node = self._node
        try:
            text = f"group {node.group!r}: {node.me} was dropped without leave(); it leaves now"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        finally:
            self._engine.order(node.leave)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a group can be neither copied nor pickled: join again where you need it")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.me}, {len(self.view.members)} members>"

    @property
    def name(self) -> str:
        """The group's name."""
        return self._node.group

    @property
    def me(self) -> MemberId:
        """This member: its name and its incarnation."""
        return self._node.me

    @property
    def view(self) -> View:
        """The view that is installed now. Events that led to it may not have been read yet."""
        return self._node.view

    @property
    def config(self) -> Config:
        """The settings in force: the window follows the buffer that the system granted."""
        return self._node.config

    @property
    def address(self) -> str:
        """Where this member's packets come from, as host:port."""
        return self._node.link.address

    @property
    def refused(self) -> dict[str, int]:
        """Packets that were dropped as nonsense, by reason."""
        return dict(self._node.refused)

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that messages of this one wait for, if they may not be sent, and why: its
        application is behind with reading (`unread`), it has not acknowledged (`unacknowledged`),
        or it has not answered a view change (`unanswered`). A quarter of a second old at most."""
        return self._node.blocked_by

    @property
    def faults(self) -> FaultInjector:
        """Cut, lose or delay what comes from others, to try how the application bears it."""
        return self._node.link.faults

    # -------------------------------------------------------------- for the faces

    def _submit(
        self, bodies: Sequence[bytes], service: Service, to: Sequence[MemberId | str] | None
    ) -> PendingReceipt:
        """Arguments are checked. Names are looked up now: the view may have changed since."""
        receivers = None if to is None else self._members(to)
        return self._node.submit(bodies, service, receivers)

    def _members(self, to: Sequence[MemberId | str]) -> list[MemberId]:
        named = {member.name: member for member in self.view.members}
        out = []
        for member in to:
            found = named.get(member) if isinstance(member, str) else member
            if found is None:
                raise UnknownMember(str(member), tuple(map(str, self.view.members)))
            out.append(found)
        return list(dict.fromkeys(out))

    def _until(self, condition: Callable[[], bool]) -> Arm:
        """For a condition of the node: looked at by the engine after each step."""
        self._check_process()
        node = self._node

        def arm(call: Callable[[], None]) -> None:
            self._engine.order(lambda now: node.watch(condition, call))

        return arm

    def _unwatch(self, call: Callable[[], None]) -> None:
        """Take back what was armed with `_until`: nobody waits for it any more."""
        node = self._node
        self._engine.order(lambda now: node.unwatch(call))

    @contextmanager
    def _following(self) -> Iterator[ViewFeed]:
        """The view that is installed and those after it, for a caller that waits for one."""
        self._check_process()
        node, feed = self._node, ViewFeed()
        self._engine.order(lambda now: node.feeds.add(feed, node.view))
        try:
            yield feed
        finally:
            self._engine.order(lambda now: node.feeds.remove(feed))

    def _check_member(self) -> None:
        """Raises why this member is in no view any more."""
        node = self._node
        self._check_process()
        if node.stopped:
            raise node.error or MemberClosed(str(node.me))

    def _check_process(self) -> None:
        if self._node.forked:
            raise Forked(self._node.group)

    def _take(self) -> Batch | None:
        """What can be read at once; None if nothing can."""
        self._check_reader()
        with self._lock:
            if self._unread:
                rest, self._unread = self._unread[::-1], []
                return Batch([*rest])
            runs = self._node.buffer.take()
        return Batch(runs) if runs else None

    def _take_one(self) -> Event | None:
        self._check_reader()
        with self._lock:
            if not self._unread:
                runs = self._node.buffer.take()
                self._unread = list(Batch(runs))[::-1]
            return self._unread.pop() if self._unread else None

    def _check_reader(self) -> None:
        self._check_process()
        if not self._node.buffer.receive:
            raise NotReceiving(self._node.group)

    def _check_open(self) -> bool:
        """Whether more events may come; raises why not, if that was not asked for."""
        buffer = self._node.buffer
        if buffer.closed and buffer.error is not None:
            raise buffer.error
        return not buffer.closed

    def _begin_leaving(self) -> Arm:
        self._check_process()
        node = self._node
        self._leaving = True
        self._engine.order(node.leave)  # now: whether or not somebody waits for it
        return self._until(lambda: node.stopped)
