"""Frames that a member keeps: those of its view until they are stable, and those of past views.

Every frame that entered is kept until all members have it, so that any member can repeat it. A
frame that has arrived but follows frames that have not waits here too. Frames of views that have
ended are kept until every member of the present view has spoken in it: nobody can miss them after
that (rule B-14).

    received -> waiting -> in the DAG (counted, without a vote, or deferred) -> stable -> dropped
"""

from __future__ import annotations

from phalanx.core.broadcast.dag import Dag
from phalanx.core.ids import MemberId
from phalanx.core.wire.frames import Frame, Place

GENERATIONS_MAX = 8
"""Frames of so many past views are kept at most."""


class PastFrames:
    """Frames of views that have ended, and of other views, by name of their sender."""

    __slots__ = ("_generations", "foreign")

    def __init__(self) -> None:
        self._generations: list[dict[MemberId, dict[int, Frame]]] = []
        self.foreign: dict[MemberId, dict[int, Frame]] = {}
        """Kept by `ForeignFrames`."""

    def add(self, frames: dict[MemberId, dict[int, Frame]]) -> None:
        """A view has ended."""
        self._generations.append(frames)
        del self._generations[:-GENERATIONS_MAX]

    def get(self, member: MemberId, number: int) -> Frame | None:
        for frames in reversed(self._generations):
            frame = frames.get(member, {}).get(number)
            if frame is not None:
                return frame
        return self.foreign.get(member, {}).get(number)

    def clear(self) -> None:
        self._generations.clear()


class FrameStore:
    """The frames of one view, by rank of their sender: in the DAG, or waiting to enter it."""

    __slots__ = ("_me", "bytes", "dag", "dropped", "own_bytes", "waiting", "waiting_bytes")

    def __init__(self, me: int, n: int, base: list[int] | None) -> None:
        self._me = me
        self.dag = Dag(n, base)
        self.dropped = self.dag.have.copy()
        """Per sender, the last frame that was stable and dropped."""
        self.bytes = 0
        """Size of all frames with messages that are here and not stable: the sliding window."""
        self.own_bytes = 0
        self.waiting: list[dict[int, Frame]] = [{} for _ in range(n)]
        """Per sender, frames that have arrived and cannot enter yet, by number."""
        self.waiting_bytes = 0

    def get(self, place: Place) -> Frame | None:
        """The frame, if this member can repeat it: in the DAG and not stable, or waiting."""
        sender, number = place
        return self.dag.frames[sender].get(number) or self.waiting[sender].get(number)

    # -------------------------------------------------------------- entering

    def insert(self, frame: Frame) -> None:
        """A ready frame enters the DAG and counts. (Hot path, see bench/instructions.py: the bytes
        are counted here and not by a call.)"""
        self.dag.insert(frame)
        if frame.runs:
            size = len(frame.payload)
            self.bytes += size
            if frame.sender == self._me:
                self.own_bytes += size

    def insert_without_vote(self, frame: Frame) -> None:
        """A frame of phase 1, or one that is carried into the view, enters the DAG."""
        self.dag.insert_without_vote(frame)
        if frame.runs:
            self._add_bytes(frame)

    def insert_deferred(self, frame: Frame) -> None:
        """A frame enters that may lie beyond what closes the view: it counts later, or never."""
        self.dag.insert_deferred(frame)
        if frame.runs:
            self._add_bytes(frame)

    def _add_bytes(self, frame: Frame) -> None:
        size = len(frame.payload)
        self.bytes += size
        if frame.sender == self._me:
            self.own_bytes += size

    def drop_stable(self) -> None:
        """Drop the frames that every member has. Call it after delivery: what is stable can be
        delivered, and delivery must not find its frames gone (rule B-13)."""
        dag = self.dag
        for sender in dag.newly_stable:
            frames, upto = dag.frames[sender], dag.stable[sender]
            size = 0
            for number in range(self.dropped[sender] + 1, upto + 1):
                frame = frames.pop(number)
                if frame.runs:
                    size += len(frame.payload)
            if upto > self.dropped[sender]:
                self.dropped[sender] = upto
            self.bytes -= size
            if sender == self._me:
                self.own_bytes -= size
        dag.newly_stable.clear()

    # -------------------------------------------------------------- waiting

    def add_waiting(self, frame: Frame) -> None:
        self.waiting[frame.sender][frame.number] = frame
        self.waiting_bytes += len(frame.payload)

    def remove_waiting(self, frame: Frame) -> None:
        del self.waiting[frame.sender][frame.number]
        self.waiting_bytes -= len(frame.payload)

    def all_waiting(self) -> list[Frame]:
        """All frames that wait, by sender and number."""
        return [frames[number] for frames in self.waiting for number in sorted(frames)]
