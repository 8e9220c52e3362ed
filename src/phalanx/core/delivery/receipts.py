"""Receipts: what became of this member's own messages.

A message is *ordered* when its place in the delivery order can no longer change here, and *stable*
when every member of its view has it. Both are reported up to a message number. When a view ends,
the messages that belong to it (sent in it in phase 0, or carried into it) are delivered by all
members that move to the next view together, and by nobody else for certain: their receipt names
those members. Messages of phase 1 belong to the next view and wait for it.

What only some of the addressed members can get is reported as NotSent, with those that are gone.
"""

from __future__ import annotations

from collections import deque

from phalanx.core.effects import Effect, NotSent, Ordered, Stable
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.wire.frames import Frame


class ReceiptLedger:
    __slots__ = ("_ordered_upto", "_stable_upto", "_unordered", "_unstable")

    def __init__(self) -> None:
        self._unordered: deque[Frame] = deque()
        self._unstable: deque[Frame] = deque()
        self._ordered_upto = 0
        self._stable_upto = 0

    def sent(self, frame: Frame) -> None:
        """A frame of this member with messages has left."""
        self._unordered.append(frame)
        self._unstable.append(frame)

    def advance(self, view: ViewId, tag: bytes, stable: int, out: list[Effect]) -> None:
        """Own frames up to `stable` are at every member of the view, and some have got a place
        (rules D-12 and D-13)."""
        waiting, upto = self._unordered, self._ordered_upto
        while waiting and self._has_place(waiting[0], tag):
            upto = waiting.popleft().last
        if upto > self._ordered_upto:
            self._ordered_upto = upto
            out.append(Ordered(upto, view))
        waiting, upto = self._unstable, self._stable_upto
        while waiting and waiting[0].number <= stable and self._belongs(waiting[0], tag):
            upto = waiting.popleft().last
        if upto > self._stable_upto:
            self._stable_upto = upto
            out.append(Stable(upto, view))

    def close(
        self,
        view: ViewId,
        tag: bytes,
        stable: int,
        together: tuple[MemberId, ...],
        out: list[Effect],
    ) -> None:
        """The view has ended, and these members move on together (rule D-14)."""
        self.advance(view, tag, stable, out)
        last = 0
        for waiting in (self._unordered, self._unstable):
            while waiting and self._belongs(waiting[0], tag):
                last = max(last, waiting.popleft().last)
        if last > self._ordered_upto:
            self._ordered_upto = last
            out.append(Ordered(last, view))
        if last > self._stable_upto:
            self._stable_upto = last
            out.append(Stable(last, view, together))

    @property
    def stable_upto(self) -> int:
        """Own messages up to this number have got their last receipt."""
        return self._stable_upto

    @property
    def settled_upto(self) -> int:
        """Own messages up to this number are ordered and stable."""
        return min(self._ordered_upto, self._stable_upto)

    def _has_place(self, frame: Frame, tag: bytes) -> bool:
        """Whether the order of the view has put the frame in its place. Frames without agreed and
        safe messages need none."""
        return self._belongs(frame, tag) and (not frame.ordered or frame.batch >= 0)

    def _belongs(self, frame: Frame, tag: bytes) -> bool:
        """Whether the view with this tag delivers the frame; otherwise the next one does."""
        return frame.phase == 0 or frame.tag != tag


def lost_receivers(frame: Frame, ranked: dict[MemberId, int], out: list[Effect]) -> None:
    """An own frame is carried into a view of these members: report the receivers that are not in
    it (rule D-16)."""
    for run in frame.runs:
        if run.names is not None:
            gone = tuple(member for member in run.names if member not in ranked)
            if gone:
                last = run.first + run.count - 1
                out.append(NotSent(run.first, last, gone, len(run.names) - len(gone), sent=True))
