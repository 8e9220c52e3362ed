"""One member of one group in this process: the core with its transport, journal and readers.

The runner owns the parts and the order in which they run. The event loop's thread drives it; the
first section of the class is for other threads. Each step of the core returns effects, which are
carried out in order (`effect_handler.py`), written to the journal, and followed by a check of what
callers wait for.

    Submitter          messages from the application to the core (`submitter.py`)
    EffectHandler      packets, events and receipts (`effect_handler.py`)
    ConditionWatchers  callers that wait for a condition (`condition_watchers.py`)
    StatusSampler      periodic log lines and `blocked_by` (`status_sampler.py`)
    Departure          the deadlines of leaving (`departure.py`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from phalanx.config import Config
from phalanx.core import effects as fx
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Input, Service
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.blocked import Wait
from phalanx.core.member.member import Member
from phalanx.core.submission import check_submission
from phalanx.errors import (
    EngineFailed,
    EventsUnread,
    Forked,
    MemberClosed,
    PhalanxError,
    SubmissionError,
)
from phalanx.runtime import events
from phalanx.runtime.condition_watchers import ConditionWatchers
from phalanx.runtime.departure import Departure, error_of
from phalanx.runtime.effect_handler import EffectHandler
from phalanx.runtime.event_buffer import EventBuffer
from phalanx.runtime.event_log import EventLog, log
from phalanx.runtime.identity import Identity
from phalanx.runtime.journal_adapter import JournalAdapter
from phalanx.runtime.receipt_tracker import PendingReceipt, ReceiptTracker
from phalanx.runtime.settlement import Settlement
from phalanx.runtime.starvation_clock import machine_clock
from phalanx.runtime.status_sampler import StatusSampler
from phalanx.runtime.submitter import Submitter
from phalanx.runtime.view_feed import ViewFeeds
from phalanx.transport.base import PACKETS_MAX, Transport

RECEIVES_MAX = 4
"""Before a timer fires, packets that have arrived meanwhile are received, at most this often."""


class MemberRunner:
    def __init__(
        self,
        group: str,
        identity: Identity,
        config: Config,
        transport: Transport,
        journal: JournalAdapter | None,
        entropy: int,
        receive: bool = True,
    ) -> None:
        me = identity.member
        self.group = group
        self.me = me
        self.config = config
        self.transport = transport
        self.member = Member(me, boot_view([me]), group, config, entropy)
        self.buffer = EventBuffer(config, receive)
        self.stopped = False
        self.error: PhalanxError | None = None
        self.forked = False
        """This is the child of a fork; the member belongs to the parent."""
        self.wake: Callable[[], None] = lambda: None
        """Set by the event loop: makes its thread look at new submissions."""
        self.clock = machine_clock()
        """The core's clock. The event loop replaces it if `stretch_clock` is set."""
        self.watchers = ConditionWatchers()
        self._identity = identity
        self._journal = journal
        self._log = EventLog(group, me, config)
        self._receipts = ReceiptTracker()
        view = events.View(id=self.member.view.id, members=(me,))
        self._effects = EffectHandler(view, transport, self.buffer, self._receipts, self._log)
        self._submitter = Submitter(self.member, config, self._receipts)
        self._sampler = StatusSampler(self.member, transport, self._log)
        self._settlement = Settlement(config)
        self._departure = Departure(config.leave_ns)
        self._reader_lag = 0
        """The lag of the application's reader that the core was given last."""
        self._more_packets = False
        """The transport may hold more packets than the last call returned."""

    # -------------------------------------------------------------- from any thread

    @property
    def view(self) -> events.View:
        """The installed view. The application may not have read the event yet."""
        return self._effects.view

    @property
    def feeds(self) -> ViewFeeds:
        return self._effects.feeds

    @property
    def refused(self) -> dict[str, int]:
        """The number of packets dropped as invalid, by reason."""
        return self._effects.refused

    @property
    def blocked_by(self) -> dict[MemberId, Wait]:
        """The members that messages wait for, as of the last sample."""
        return self._sampler.blocked_by

    def submit(
        self, bodies: Sequence[bytes], service: Service, to: Sequence[MemberId] | None
    ) -> PendingReceipt:
        """Queue messages, plain bytes, without waiting. A SubmissionError refuses all of them. The
        receipt of no messages is complete at once."""
        if self.stopped or self._departure.begun:
            raise Forked(self.group) if self.forked else self._closing_error()
        view = self.view
        lengths = check_submission(bodies, to, view.members, self.config.message_bytes_max)
        if self._reader_lag == 2:
            raise EventsUnread(self.buffer.waiting_bytes, self.config.buffer_bytes_max)
        receivers = None if to is None else tuple(to)
        receipt = self._submitter.accept(bodies, sum(lengths), service, receivers, view)
        if bodies:
            self.wake()
            self._refuse_if_stopped()  # it may have stopped meanwhile: nobody reads the queue then
        return receipt

    def _refuse_if_stopped(self) -> None:
        if self.stopped:
            self._submitter.refuse_all(self._closing_error())

    @property
    def has_room(self) -> bool:
        """Whether a submission would not wait long; also true if it would be refused."""
        return self._submitter.has_room or self.stopped or self._reader_lag == 2

    @property
    def has_much_room(self) -> bool:
        """Whether callers that wait for room may continue."""
        return self._submitter.is_half_empty or self.stopped or self._reader_lag == 2

    @property
    def has_news(self) -> bool:
        """Whether messages wait that the core has room for, or the reader has caught up."""
        if self.stopped:
            return False
        if self._reader_lag and self.buffer.has_drained:
            return True
        return self._submitter.is_ready

    def is_named_or_stopped(self) -> bool:
        """Whether it is decided that the member may use its name."""
        return self.stopped or self.member.named

    def fail_if_stopped(self, receipt: PendingReceipt) -> None:
        """Fail a receipt if the member has stopped: it makes no more progress."""
        if self.stopped:
            receipt.fail(self._closing_error())

    def wait_for_disk(self, seconds: float) -> None:
        """After the end: wait until the journal is closed."""
        if self._journal is not None:
            self._journal.wait_closed(seconds)

    def _closing_error(self) -> PhalanxError:
        return self.error or MemberClosed(str(self.me))

    # -------------------------------------------------------------- the event loop's thread

    def start(self, now: int) -> None:
        with self._ending_on_bugs(now):
            if self._journal is not None:
                self._journal.start(now, self.member.links)
            self._settlement.started(self.clock.core(now))
            self._log.joins(self.transport.address)
            self._perform(now, self.member.start(self.clock.core(now)))

    def turn(self, now: int, ready: bool) -> bool:
        """Do all work that is due. `ready` says that packets wait at the transport. Returns whether
        there may be more work at once."""
        busy = False
        with self._ending_on_bugs(now):
            if ready:
                self.receive(now)
            self.push(now)
            self._continue_leaving(now)
            self._update_reader_lag(now)
            self.expire(ready)
            if self._sampler.is_due(now) and not self.stopped:
                waiting = self._submitter.waiting_bytes
                self._sampler.sample(now, waiting, self.buffer.dropped)
            self._record_channels(now)
            busy = self._more_packets
            self.watchers.check()
        return busy

    def _record_channels(self, now: int) -> None:
        """Write what happened to channels. Without a journal nobody asks for it."""
        events = self.transport.channel_events
        if events and not self.stopped:
            if self._journal is not None:
                self._journal.channels(now, events)
            events.clear()

    @contextmanager
    def _ending_on_bugs(self, now: int) -> Iterator[None]:
        """A bug of ours ends this group; the other groups of the process go on."""
        try:
            yield
        except Exception as error:
            log.exception("group %r: %s failed", self.group, self.me)
            self.end(now, EngineFailed(self.group, f"{type(error).__name__} ({error})"))

    @property
    def settled(self) -> bool:
        """Whether no view change is under way and discovery had its time (`settlement.py`)."""
        return self._settlement.reached(self.clock.core(time.monotonic_ns()), self.member)

    def receive(self, now: int) -> bool:
        """Give the core the packets that wait at the transport, in one step. Returns whether there
        were any."""
        if self.stopped:
            return False
        packets = self.transport.receive(now)
        self._more_packets = len(packets) >= PACKETS_MAX
        if packets:
            self.step(now, fx.Datagrams(packets))
        return bool(packets)

    def push(self, now: int) -> None:
        """Give the core as many waiting submissions as it has room for."""
        while self._submitter.is_ready and not self.stopped:
            result = self._submitter.submit_next(self.clock.core(now))
            if not isinstance(result, SubmissionError):
                self._perform(now, result)
            elif self._journal is not None:
                counts = self._submitter.counts(self.stopped)
                self._journal.queue(now, *counts, type(result).__name__)

    def report_delivery(self, now: int, receipt: PendingReceipt) -> None:
        """Follow a stable receipt until all members have delivered its messages."""
        with self._ending_on_bugs(now):
            for number in self._receipts.ask(receipt) if not self.stopped else ():
                self.step(now, fx.AwaitDelivery(number))
        self.fail_if_stopped(receipt)

    def deadline(self) -> int:
        if self.stopped:
            return NEVER
        due = min(self._core_deadline(), self._departure.deadline())
        transport_due = self.transport.deadline()
        return due if transport_due is None else min(due, transport_due)

    def _core_deadline(self) -> int:
        due = self.member.deadline()
        return NEVER if due is None else self.clock.real(due)

    def expire(self, ready: bool = True) -> None:
        """Fire the timers that are due. Packets that have arrived meanwhile are received first and
        may make a timer needless: on a busy machine the other members were late as well. They are
        received a limited number of times, as packets may keep coming."""
        for _ in range(RECEIVES_MAX if ready else 0):
            if self.deadline() > time.monotonic_ns() or not self.receive(time.monotonic_ns()):
                break
        now = time.monotonic_ns()
        if self.stopped or self.deadline() > now:
            return
        transport_due = self.transport.deadline()
        if transport_due is not None and transport_due <= now:
            packets = self.transport.expire(now)
            if packets:
                self.step(now, fx.Datagrams(packets))
        if self._core_deadline() <= now and not self.stopped:
            self.step(now, fx.DeadlinePassed())

    def step(self, now: int, given: Input) -> None:
        if not self.stopped:
            self._perform(now, self.member.step(self.clock.core(now), given))

    def _perform(self, now: int, effects: list[fx.Effect]) -> None:
        handler = self._effects
        view = handler.view
        put = handler.handle(now, effects)
        if handler.view is not view:
            self._settlement.changed(self.clock.core(now))
        if self._journal is not None:
            self._journal.record(now, effects)
        if handler.stop_reason:
            self.end(now, error_of(handler.stop_reason, self.me, self.group))
        if put:
            self.buffer.wake()
        if self._reader_lag or put:
            self._update_reader_lag(now)
        self.watchers.check()

    def _update_reader_lag(self, now: int) -> None:
        """Inform the core when the lag of the application's reader has changed."""
        if self.stopped:
            return
        lag = self.buffer.level(self.wake)
        if lag != self._reader_lag:
            self._reader_lag = lag
            self._log.reading(now, lag, self.buffer.waiting_bytes)
            self.step(now, fx.ReaderLag(lag))

    # -------------------------------------------------------------- the end

    def leave(self, now: int) -> None:
        """Accept no more messages, and leave when the core has those that were accepted."""
        if not self._departure.begun and not self.stopped:
            with self._ending_on_bugs(now):
                self._departure.begin(now)
                self._log.leaves(now)
                self.push(now)
                self._continue_leaving(now)

    def _continue_leaving(self, now: int) -> None:
        if self._departure.takes_request(now, self._submitter.is_empty):
            self.step(now, fx.LeaveRequest())
        if self._departure.is_overdue(now):
            self.end(now, None)

    def forget(self) -> None:
        """Release the descriptors in the child of a fork. The member belongs to the parent."""
        self.stopped = self.forked = True
        self._release()

    def abandon(self) -> None:
        """Release everything of a member that was opened and never started."""
        self.stopped = True
        self._release()
        if self._journal is not None:
            self._journal.close()

    def _release(self) -> None:
        self.transport.close()
        self._identity.close()

    def end(self, now: int, error: PhalanxError | None) -> None:
        """Stop this member: release everything and inform all that wait. Without an error the
        member has left on request."""
        if self.stopped:
            return
        self.stopped = True
        self.error = error
        self._sampler.stop()
        if error is None:
            self._log.left(now)
        else:
            self._log.stopped(error)
        self._receipts.close(self._closing_error())
        self._refuse_if_stopped()
        self._release()
        if self._journal is not None:
            reason = self._effects.stop_reason or ("failed" if error is not None else "left")
            self._journal.queue(now, *self._submitter.counts(self.stopped))
            self._journal.stop(now, reason, sound=error is None)
            self._journal.close_in_background()
        self.buffer.close(error)
        self.feeds.end()
        self.watchers.call_all()
