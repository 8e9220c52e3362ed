"""The queue between the application's threads and the protocol.

Any thread puts submissions in; the engine's thread takes them out as fast as the core has room.
Each message that was accepted is given to the core or refused with an error at its ticket, and
counted either way: the journal shows that none is lost in between (`accepted-is-sent`).
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
    ticket: PendingReceipt

    def present(
        self, members: tuple[MemberId, ...]
    ) -> tuple[tuple[MemberId, ...] | None, tuple[MemberId, ...]]:
        """The receivers that are among these members, and those that have left since the
        submission was accepted: the messages go to the others."""
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
        """So many wait."""
        return self._put_bytes - self._taken_bytes

    def put(self, submission: Submission) -> None:
        with self._lock:
            self.waiting.append(submission)
            self._put_bytes += submission.size
            self._accepted += submission.ticket.count

    def take(self, bytes_max: int) -> list[Submission]:
        """The submission in front, and those of its kind that follow, up to so many bytes: a step
        of the core costs more than a message."""
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
        """So many messages were given to the core."""
        self._submitted += count

    def refuse(self, taken: Sequence[Submission], error: PhalanxError) -> None:
        """The core did not take these."""
        with self._lock:
            self._refused += sum(submission.ticket.count for submission in taken)
        for submission in taken:
            submission.ticket.fail(error)

    def refuse_all(self, error: PhalanxError) -> None:
        """The member has ended."""
        with self._lock:
            refused = [*self.waiting]
            self.waiting.clear()
        self.refuse(refused, error)

    def counts(self, over: bool) -> tuple[int, int, int]:
        """Messages accepted, given to the core, and refused after they were accepted. Once the
        member has stopped, those that still arrive are refused too."""
        with self._lock:
            late = sum(some.ticket.count for some in self.waiting) if over else 0
            return self._accepted, self._submitted, self._refused + late
