"""Submissions from the application to the core, and their receipts.

`accept` runs in the application's thread: it puts a checked submission into the queue.
`submit_next` runs in the event loop's thread: it gives the core as many waiting messages as fit
into one step, and numbers their receipts from the core's answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.config import Config
from phalanx.core import effects as fx
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId
from phalanx.core.member.member import Member
from phalanx.errors import PhalanxError, SubmissionError
from phalanx.runtime.events import View
from phalanx.runtime.receipt_tracker import PendingReceipt, ReceiptTracker
from phalanx.runtime.submission_queue import Submission, SubmissionQueue


class Submitter:
    def __init__(self, member: Member, config: Config, receipts: ReceiptTracker) -> None:
        self._member = member
        self._config = config
        self._receipts = receipts
        self._queue = SubmissionQueue()

    # -------------------------------------------------------------- from any thread

    def accept(
        self,
        bodies: Sequence[bytes],
        size: int,
        service: Service,
        to: tuple[MemberId, ...] | None,
        view: View,
    ) -> PendingReceipt:
        """Queue messages of `size` bytes in all. The receipt of no messages is complete at once."""
        receipt = PendingReceipt(len(bodies), view.members if to is None else to, to)
        if bodies:
            self._queue.put(Submission(bodies, size, service, to, receipt))
        else:
            receipt.complete(view.id, view.members)
        return receipt

    def refuse_all(self, error: PhalanxError) -> None:
        """Fail the receipts of all submissions that wait: the member has stopped."""
        self._queue.refuse_all(error)

    @property
    def has_room(self) -> bool:
        """Whether a new submission would not wait long."""
        return self._queue.bytes < self._config.outbox_bytes_max

    @property
    def is_half_empty(self) -> bool:
        """Whether callers that wait for room may continue: all together, not one by one."""
        return 2 * self._queue.bytes <= self._config.outbox_bytes_max

    @property
    def is_empty(self) -> bool:
        return not self._queue

    @property
    def is_ready(self) -> bool:
        """Whether messages wait that the core has room for."""
        return bool(self._queue) and self._member.room > 0

    # -------------------------------------------------------------- the event loop's thread

    def submit_next(self, now: int) -> list[fx.Effect] | SubmissionError:
        """Give the core the next messages, at the core's time `now`. Returns its effects, or the
        error with which it refused them; their receipts fail with it."""
        taken = self._queue.take(self._config.frame_bytes_max)
        first = taken[0]
        if len(taken) == 1:
            bodies = first.bodies
        else:
            bodies = [body for submission in taken for body in submission.bodies]
        to, lost = first.split_receivers(self._member.view.members)
        try:
            effects = self._member.step(now, fx.Submit(bodies, first.service, to, lost))
        except SubmissionError as error:
            self._queue.refuse(taken, error)
            return error
        self._queue.submitted(len(bodies))
        for effect in effects:
            if type(effect) is fx.Accepted:
                number = effect.first
                for submission in taken:
                    self._receipts.accepted(submission.receipt, number)
                    number += submission.receipt.count
                break
        return effects

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait here and in the core's outbox."""
        return self._queue.bytes + self._config.outbox_bytes_max - self._member.room

    def counts(self, stopped: bool) -> tuple[int, int, int]:
        """See `SubmissionQueue.counts`."""
        return self._queue.counts(stopped)
