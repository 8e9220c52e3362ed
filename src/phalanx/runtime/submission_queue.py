"""The queue of submissions between the application's threads and the core.

Any thread puts submissions in; the event loop's thread takes them out as fast as the core has room.
Each accepted message is either given to the core or refused with an error on its receipt, and the
queue counts both: the journal shows that none is lost in between (`accepted-is-sent`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from phalanx.core.effects import Service
from phalanx.core.ids import MemberId
from phalanx.errors import PhalanxError
from phalanx.runtime.receipt_tracker import PendingReceipt


class Submission(NamedTuple):
    bodies: Sequence[bytes]
    size: int
    service: Service
    to: tuple[MemberId, ...] | None
    receipt: PendingReceipt

    def split_receivers(
        self, members: tuple[MemberId, ...]
    ) -> tuple[tuple[MemberId, ...] | None, tuple[MemberId, ...]]:
        """The receivers that are among these members, and the receivers that have left since the
        submission was accepted. The messages go to the former."""
        to = self.to
        if to is None or all(member in members for member in to):
            return to, ()
        lost = tuple(sorted({member for member in to if member not in members}))
        return tuple(member for member in to if member in members), lost


class SubmissionQueue:
    def __init__(self) -> None:
        self.waiting: deque[Submission] = deque()
        self._lock = threading.Lock()
        self._put_bytes = 0
        self._taken_bytes = 0
        self._accepted = 0
        self._submitted = 0
        self._refused = 0

    def __bool__(self) -> bool:
        return bool(self.waiting)

    @property
    def bytes(self) -> int:
        """The number of bytes that wait."""
        return self._put_bytes - self._taken_bytes

    def put(self, submission: Submission) -> None:
        with self._lock:
            self.waiting.append(submission)
            self._put_bytes += submission.size
            self._accepted += submission.receipt.count

    def take(self, bytes_max: int) -> list[Submission]:
        """The first submission and those after it with the same service and receivers, up to this
        size: a step of the core costs more than a message."""
        waiting = self.waiting
        taken = [waiting.popleft()]
        first = taken[0]
        size = first.size
        while waiting and size < bytes_max:
            following = waiting[0]
            if following.service is not first.service or following.to != first.to:
                break
            size += following.size
            taken.append(waiting.popleft())
        self._taken_bytes += size
        return taken

    def submitted(self, count: int) -> None:
        """Count messages that were given to the core."""
        self._submitted += count

    def refuse(self, taken: Sequence[Submission], error: PhalanxError) -> None:
        """Fail the receipts of submissions that the core did not take."""
        with self._lock:
            self._refused += sum(submission.receipt.count for submission in taken)
        for submission in taken:
            submission.receipt.fail(error)

    def refuse_all(self, error: PhalanxError) -> None:
        """Fail the receipts of all waiting submissions: the member has stopped."""
        with self._lock:
            refused = [*self.waiting]
            self.waiting.clear()
        self.refuse(refused, error)

    def counts(self, stopped: bool) -> tuple[int, int, int]:
        """Messages accepted, given to the core, and refused after they were accepted. Once the
        member has stopped, submissions that still arrive count as refused too."""
        with self._lock:
            late = sum(some.receipt.count for some in self.waiting) if stopped else 0
            return self._accepted, self._submitted, self._refused + late
