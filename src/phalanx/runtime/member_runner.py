"""One member of one group in this process: its core, its link, its journal, its readers.

The engine's thread owns all of it; what other threads may call is said there. Effects are
performed in the order in which the core gives them: packets leave, events go to the buffer,
receipts are handed out, and the journal gets the rows of the step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from phalanx.config import Config
from phalanx.core import effects as fx
from phalanx.core.effects import Input, Service
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.blocked import Wait
from phalanx.core.member.member import Member
from phalanx.errors import (
    EngineFailed,
    EventsUnread,
    Forked,
    IncarnationUsed,
    MemberClosed,
    MessageTooLarge,
    NameInUse,
    NoReceiver,
    PhalanxError,
    SubmissionError,
    UnknownMember,
)
from phalanx.runtime import events
from phalanx.runtime.event_buffer import EventBuffer
from phalanx.runtime.event_log import WATCH_NS, EventLog, differing, log
from phalanx.runtime.identity import Identity
from phalanx.runtime.journal_adapter import JournalAdapter
from phalanx.runtime.receipt_tracker import PendingReceipt, ReceiptTracker
from phalanx.runtime.settlement import Settlement
from phalanx.runtime.starvation_clock import steady
from phalanx.runtime.submission_queue import Submission, SubmissionQueue
from phalanx.runtime.view_feed import ViewFeeds
from phalanx.transport.base import PACKETS_MAX, Transport

NEVER = 1 << 62
LEAVES = 3
"""Leaving takes at most so many `leave_ns`: to hand over, to send, and to serve the others. The
core bounds the last two, but its clock may be slow."""
DRAINS_MAX = 4
"""A timer waits for packets that are already here, so many times."""


class MemberRunner:
    def __init__(
        self,
        group: str,
        identity: Identity,
        config: Config,
        link: Transport,
        diary: JournalAdapter | None,
        entropy: int,
        receive: bool = True,
    ) -> None:
        me = identity.member
        self.group = group
        self.me = me
        self.config = config
        self.link = link
        self.member = Member(me, boot_view([me]), group, config, entropy)
        self.buffer = EventBuffer(config, receive)
        self.view = events.View(id=self.member.view.id, members=(me,))
        """The view that is installed; the events that lead to it may not have been read yet."""
        self.feeds = ViewFeeds()
        self._settlement = Settlement(config)
        self.refused: dict[str, int] = {}
        """Packets that were dropped as nonsense, by reason."""
        self.blocked_by: dict[MemberId, Wait] = {}
        """The members that messages wait for, as it was WATCH_NS ago at most."""
        self.stopped = False
        self.error: PhalanxError | None = None
        self.wake: Callable[[], None] = lambda: None
        """Set by the engine: makes its thread look at what was submitted."""
        self.pace = steady()
        """Set by the engine: the time of the core."""
        self._identity = identity
        self._diary = diary
        self._log = EventLog(group, me)
        self._watch_at = 0
        self._tickets = ReceiptTracker()
        self._queue = SubmissionQueue()
        self._level = 0
        self._watches: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._more = False
        """The link may hold more packets than the last look took."""
        self._closing = False
        self._go_at = NEVER
        """When to leave at the latest, once that was asked for and until it is done."""
        self._gone_by = NEVER
        self._reason = ""
        """Why the core has stopped, once it has."""
        self._closer: threading.Thread | None = None
        self.forked = False
        """This is the child of a fork, and the member is its parent's."""

    # -------------------------------------------------------------- from any thread

    def submit(
        self, bodies: Sequence[bytes], service: Service, to: Sequence[MemberId] | None
    ) -> PendingReceipt:
        """Queue messages, plain bytes. A SubmissionError refuses them whole; there is no waiting
        here. Of no messages all that could become of them has."""
        if self.stopped or self._closing:
            raise Forked(self.group) if self.forked else self.error or MemberClosed(str(self.me))
        lengths = list(map(len, bodies))
        longest = max(lengths, default=0)
        if longest > self.config.message_bytes_max:
            raise MessageTooLarge(longest, self.config.message_bytes_max)
        receivers = None if to is None else self._receivers(to)
        if self._level == 2:
            raise EventsUnread(self.buffer.waiting_bytes, self.config.buffer_bytes_max)
        meant = self.view.members if receivers is None else receivers
        ticket = PendingReceipt(len(bodies), meant, receivers)
        if not bodies:
            ticket.complete(self.view.id, self.view.members)
            return ticket
        self._queue.put(Submission(bodies, sum(lengths), service, receivers, ticket))
        self.wake()
        self._refuse_if_over()  # it may have ended in between: nobody looks at the queue then
        return ticket

    def _receivers(self, to: Sequence[MemberId]) -> tuple[MemberId, ...]:
        if not to:
            raise NoReceiver
        members = self.view.members
        for member in to:
            if member not in members:
                raise UnknownMember(str(member), tuple(map(str, members)))
        return tuple(to)

    @property
    def has_room(self) -> bool:
        """A submission would not have to wait long; also when it would be refused."""
        return self._queue.bytes < self.config.outbox_bytes_max or self.stopped or self._level == 2

    @property
    def has_much_room(self) -> bool:
        """Those that waited for room may go on: not one by one."""
        return (
            2 * self._queue.bytes <= self.config.outbox_bytes_max
            or self.stopped
            or self._level == 2
        )

    @property
    def has_news(self) -> bool:
        """Something was submitted that the core could take, or the reader has caught up."""
        if self.stopped:
            return False
        if self._level and self.buffer.has_drained:
            return True
        return bool(self._queue) and self.member.room > 0

    def is_named_or_stopped(self) -> bool:
        """Whether it is known if the member may use its name."""
        return self.stopped or self.member.named

    def wait_for_disk(self, seconds: float) -> None:
        """After the end: until the journal is closed."""
        if self._closer is not None:
            self._closer.join(seconds)

    # -------------------------------------------------------------- the engine's thread

    def start(self, now: int) -> None:
        with self._ending_on_bugs(now):
            if self._diary is not None:
                self._diary.start(now, self.member.links)
            self._settlement.started(self.pace.core(now))
            self._log.joins(self.link.address)
            self._perform(now, self.member.start(self.pace.core(now)))

    def turn(self, now: int, ready: bool) -> bool:
        """Do everything there is to do; whether there may be more at once. `ready` if packets
        wait at the link."""
        busy = False
        with self._ending_on_bugs(now):
            if ready:
                self.receive(now)
            if self._queue:
                self.push(now)
            self._go(now)
            self.look(now)
            self.expire(ready)
            if now >= self._watch_at:
                self._watch(now)
            busy = self._more
            self.look_around()
        return busy

    def _watch(self, now: int) -> None:
        """Log what no effect reports."""
        self._watch_at = now + WATCH_NS
        member = self.member
        self.blocked_by = {} if self.stopped else member.blocked_by
        waiting = self._queue.bytes + self.config.outbox_bytes_max
        self._log.sending(now, member.following, waiting - member.room, self.blocked_by)
        self._log.counted(now, self.link.address, self.link.counts, self.buffer.dropped)

    @contextmanager
    def _ending_on_bugs(self, now: int) -> Iterator[None]:
        """A bug of ours ends this group; the others of the process go on."""
        try:
            yield
        except Exception as error:
            log.exception("group %r: %s failed", self.group, self.me)
            self.end(now, EngineFailed(self.group, f"{type(error).__name__} ({error})"))

    def watch(self, until: Callable[[], bool], call: Callable[[], None]) -> None:
        """Call once when the condition holds; it is looked at after each step."""
        if until():
            call()
        else:
            self._watches.append((until, call))

    def unwatch(self, call: Callable[[], None]) -> None:
        """The caller no longer waits."""
        self._watches = [watch for watch in self._watches if watch[1] != call]

    @property
    def settled(self) -> bool:
        """No view change is under way and discovery had its time (`settlement.py`)."""
        return self._settlement.reached(self.pace.core(time.monotonic_ns()), self.member)

    def receive(self, now: int) -> bool:
        """Packets may wait at the link: take them all in one step. Whether there were any."""
        if self.stopped:
            return False
        packets = self.link.receive(now)
        self._more = len(packets) >= PACKETS_MAX
        if packets:
            self.step(now, fx.Datagrams(packets))
        return bool(packets)

    def push(self, now: int) -> None:
        """Give the core what was submitted, as much as it takes."""
        while self._queue and self.member.room > 0 and not self.stopped:
            self._submit(now, self._queue.take(self.config.frame_bytes_max))

    def _submit(self, now: int, taken: list[Submission]) -> None:
        first = taken[0]
        if len(taken) == 1:
            bodies = first.bodies
        else:
            bodies = [body for submission in taken for body in submission.bodies]
        to, lost = first.present(self.member.view.members)
        try:
            effects = self.member.step(
                self.pace.core(now), fx.Submit(bodies, first.service, to, lost)
            )
        except SubmissionError as error:
            self._queue.refuse(taken, error)
            if self._diary is not None:
                self._diary.queue(now, *self._queue.counts(self.stopped), type(error).__name__)
            return
        self._queue.submitted(len(bodies))
        for effect in effects:
            if type(effect) is fx.Accepted:
                number = effect.first
                for submission in taken:
                    self._tickets.accepted(submission.ticket, number)
                    number += submission.ticket.count
                break
        self._perform(now, effects)

    def report_delivery(self, now: int, ticket: PendingReceipt) -> None:
        """Watch a ticket that is stable until all members have delivered its messages."""
        with self._ending_on_bugs(now):
            for number in self._tickets.ask(ticket) if not self.stopped else ():
                self.step(now, fx.AwaitDelivery(number))
        self.fail_if_over(ticket)

    def fail_if_over(self, ticket: PendingReceipt) -> None:
        """Nothing more becomes known of a ticket once the member has ended."""
        if self.stopped:
            ticket.fail(self.error or MemberClosed(str(self.me)))

    def deadline(self) -> int:
        if self.stopped:
            return NEVER
        link = self.link.deadline()
        due = min(self._core_deadline(), self._go_at, self._gone_by)
        return due if link is None or link > due else link

    def _core_deadline(self) -> int:
        due = self.member.deadline()
        return NEVER if due is None else self.pace.real(due)

    def expire(self, ready: bool = True) -> None:
        """Fire the timers that are due. Packets that came meanwhile may make them needless: on a
        busy machine those of the others, who were due as well. But packets may never end."""
        for _ in range(DRAINS_MAX if ready else 0):
            if self.deadline() > time.monotonic_ns() or not self.receive(time.monotonic_ns()):
                break
        now = time.monotonic_ns()
        if self.stopped or self.deadline() > now:
            return
        link = self.link.deadline()
        if link is not None and link <= now:
            packets = self.link.expire(now)
            if packets:
                self.step(now, fx.Datagrams(packets))
        if self._core_deadline() <= now and not self.stopped:
            self.step(now, fx.DeadlinePassed())

    def leave(self, now: int) -> None:
        """Take no more messages, and go when the core has those that were accepted."""
        if not self._closing and not self.stopped:
            with self._ending_on_bugs(now):
                self._closing = True
                self._go_at = now + self.config.leave_ns
                self._gone_by = now + LEAVES * self.config.leave_ns
                self._log.leaves(now)
                self.push(now)
                self._go(now)

    def _go(self, now: int) -> None:
        if self._go_at != NEVER and (not self._queue or now >= self._go_at):
            self._go_at = NEVER
            self.step(now, fx.LeaveRequest())
        if now >= self._gone_by:
            self._gone(now, "left")

    def step(self, now: int, given: Input) -> None:
        if not self.stopped:
            self._perform(now, self.member.step(self.pace.core(now), given))

    # -------------------------------------------------------------- effects

    def _perform(self, now: int, effects: list[fx.Effect]) -> None:
        buffer = self.buffer
        told = False
        for effect in effects:
            kind = type(effect)
            if kind is fx.Transmit:
                self.link.send(now, effect.packets)  # type: ignore[union-attr]
            elif kind is fx.Deliver:
                buffer.put(events.Messages(effect), len(effect.payload))  # type: ignore[arg-type, union-attr]
                told = True
            elif kind is fx.Ordered:
                self._tickets.ordered(effect.upto, effect.view)  # type: ignore[union-attr, arg-type]
            elif kind is fx.Stable:
                self._stable(effect)  # type: ignore[arg-type]
            elif kind is not fx.Accepted and kind is not fx.Sent:
                self._log.effect(now, effect)
                told = self._perform_seldom(effect) or told
        if self._diary is not None:
            self._diary.record(now, effects)
        if self._reason:
            self._gone(now, self._reason)
        if told:
            buffer.wake()
        if self._level or told:
            self.look(now)
        if self._watches:
            self.look_around()

    def _stable(self, effect: fx.Stable) -> None:
        ended = effect.members is not None
        members = self.view.members if effect.members is None else effect.members
        self._tickets.stable(effect.upto, effect.view, members, ended)

    def _perform_seldom(self, effect: fx.Effect) -> bool:
        """What does not come with every message; whether the application is told."""
        match effect:
            case fx.ViewInstalled():
                self.view = events.view_of(effect)
                self.feeds.put(self.view)
                self._settlement.changed(self.pace.core(time.monotonic_ns()))
                self.buffer.put(self.view, 64 * len(self.view.members))
            case fx.Transitional():
                marker = events.Transitional(view=effect.view, members=effect.members)
                self.buffer.put(marker, 64 * len(effect.members))
            case fx.NotSent(first, last, members, rest, sent):
                self._tickets.not_sent(first, last, members, rest)
                self.buffer.put(events.NotSent(first, last, members, rest, sent), 0)
            case fx.AllDelivered(upto, view, members):
                here = self.view.members if members is None else members
                self._tickets.delivered(upto, view, here)
                return False
            case fx.Refused(reason, count):
                self.refused[reason] = self.refused.get(reason, 0) + count
                return False
            case fx.SettingsDiffer(peer, theirs):
                log.warning(*differing(self.group, self.me, self.config, peer, theirs))
                return False
            case fx.Stopped(reason):
                self._reason = reason
                return False
            case _:
                return False
        return True

    def look(self, now: int) -> None:
        """How far is the reader behind? The group is told when that changes."""
        if self.stopped:
            return
        level = self.buffer.level(self.wake)
        if level != self._level:
            self._level = level
            self._log.reading(now, level, self.buffer.waiting_bytes)
            self.step(now, fx.ReaderLag(level))

    def look_around(self) -> None:
        """Tell those whose condition holds by now."""
        if not self._watches:
            return
        ready = [watch for watch in self._watches if watch[0]()]
        if ready:
            self._watches = [watch for watch in self._watches if watch not in ready]
            for _, call in ready:
                call()

    # -------------------------------------------------------------- the end

    def forget(self) -> None:
        """In the child of a fork: the member is the parent's, and only descriptors are shared."""
        self.stopped = self.forked = True
        self.link.close()
        self._identity.close()

    def abandon(self) -> None:
        """It was opened and never started: give everything back."""
        self.stopped = True
        self.link.close()
        self._identity.close()
        if self._diary is not None:
            self._diary.close()

    def _gone(self, now: int, reason: str) -> None:
        if reason == "name-in-use":
            self.end(now, NameInUse(self.me.name, self.group, "on the network"))
        elif reason == "incarnation-used":
            self.end(now, IncarnationUsed(self.me.name, self.group, self.me.incarnation))
        else:
            self.end(now, None)

    def _refuse_if_over(self) -> None:
        if self.stopped:
            self._queue.refuse_all(self.error or MemberClosed(str(self.me)))

    def end(self, now: int, error: PhalanxError | None) -> None:
        """This member is no more: give everything back, tell everybody who waits."""
        if self.stopped:
            return
        self.stopped = True
        self.error = error
        self.blocked_by = {}
        if error is None:
            self._log.left(now)
        else:
            self._log.stopped(error)
        self._tickets.close(error or MemberClosed(str(self.me)))
        self._refuse_if_over()
        self.link.close()
        self._identity.close()
        if self._diary is not None:
            reason = self._reason or ("failed" if error is not None else "left")
            self._diary.queue(now, *self._queue.counts(self.stopped))
            self._diary.stop(now, reason, sound=error is None)
            # A slow disk must not hold up the other groups of this process.
            self._closer = threading.Thread(
                target=self._diary.close, name="phalanx-closing", daemon=True
            )
            self._closer.start()
        self.buffer.close(error)
        self.feeds.end()
        for _, call in self._watches:
            call()
        self._watches = []
