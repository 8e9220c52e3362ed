"""The causal order as vector times (S4 3.3: the DAG).

A frame carries the acknowledgements that changed since its sender's previous frame. Added
to that frame's vector they give its own, so frame f follows frame c of member q exactly
when `f.vector[q] >= c`: no graph is kept. A frame enters when all it follows is here, so
what has entered of each sender is a prefix, counted by `have`.

A frame is *stable* when every member has sent a frame that follows it: then nobody can ask
for it any more (S4 "Implementation Considerations"). `stable[q]` is the smallest entry for q
over the latest vectors; `_ties` counts who holds it there, so a column is scanned only when
its last laggard moves, which keeps the cost of a frame linear in the members.

A DAG belongs to one view. It begins at `base`: what lies below is everybody's past. Frames of
phase 1, and those carried into the view, enter *apart*: they count for what follows what, but
prove nothing stable.
"""

from __future__ import annotations

from phalanx.core.wire.frames import Frame


class Dag:
    """The frames of one view, as vectors (rule B-1)."""

    __slots__ = ("_aside", "_ties", "frames", "have", "latest", "n", "newly_stable", "stable")

    def __init__(self, n: int, base: list[int] | None = None) -> None:
        self.n = n
        self.have = [0] * n if base is None else base.copy()
        self.latest = [[0] * n for _ in range(n)]
        self.stable = [0] * n
        self.newly_stable: list[int] = []
        """Members of which more is stable; whoever forgets their frames clears it."""
        self.frames: list[dict[int, Frame]] = [{} for _ in range(n)]
        """Per sender, the frames that are here and not yet dropped, by number."""
        self._ties = [n] * n
        self._aside: dict[int, list[int]] = {}
        """Per sender of which frames were set aside, the vector of the last."""

    def ready(self, frame: Frame) -> bool:
        """All that the frame follows is here (rule B-2)."""
        have = self.have
        for member, number in zip(frame.ack_members, frame.ack_numbers):  # noqa: B905 (hot path)
            if number > have[member]:
                return False
        return frame.number == have[frame.sender] + 1

    def insert(self, frame: Frame) -> None:
        """Enter a ready frame."""
        sender, number = frame.sender, frame.number
        assert number == self.have[sender] + 1
        before = self.latest[sender]
        vector = before.copy()
        stable, ties = self.stable, self._ties
        vector[sender] = number
        self.latest[sender] = frame.vector = vector
        self.have[sender] = number
        self.frames[sender][number] = frame
        if before[sender] == stable[sender]:
            ties[sender] -= 1
            if not ties[sender]:
                self._rescan(sender)
        for member, acked in zip(frame.ack_members, frame.ack_numbers):  # noqa: B905 (hot path)
            last = before[member]
            if acked <= last:
                continue  # a peer's nonsense; an acknowledgement is never taken back
            vector[member] = acked
            if last == stable[member]:
                ties[member] -= 1
                if not ties[member]:
                    self._rescan(member)

    def insert_deferred(self, frame: Frame) -> None:
        """Enter a ready frame of which it is not known whether it counts."""
        sender, number = frame.sender, frame.number
        assert number == self.have[sender] + 1
        vector = self._aside.get(sender, self.latest[sender]).copy()
        vector[sender] = number
        for member, acked in zip(frame.ack_members, frame.ack_numbers, strict=True):
            vector[member] = max(vector[member], acked)
        self._aside[sender] = frame.vector = vector
        self.have[sender] = number
        self.frames[sender][number] = frame

    def count_deferred(self, frame: Frame) -> None:
        """A frame that was set aside counts after all."""
        before = self.latest[frame.sender]
        self.latest[frame.sender] = frame.vector
        for member, (new, old) in enumerate(zip(frame.vector, before, strict=True)):
            if new != old:
                self._rescan(member)

    def insert_without_vote(self, frame: Frame) -> None:
        """Enter a ready frame that carries its whole vector and is no member's last word
        (rule B-12)."""
        sender, number = frame.sender, frame.number
        assert number == self.have[sender] + 1
        vector = [0] * self.n
        for member, acked in zip(frame.ack_members, frame.ack_numbers, strict=True):
            vector[member] = acked
        vector[sender] = number
        frame.vector = vector
        self.have[sender] = number
        self.frames[sender][number] = frame

    @property
    def all_spoke(self) -> bool:
        """Every member has sent a frame in this view."""
        return all(vector[member] for member, vector in enumerate(self.latest))

    def _rescan(self, member: int) -> None:
        """What is stable of a member's frames, counted anew (rule B-12)."""
        column = [vector[member] for vector in self.latest]
        lowest = min(column)
        self.stable[member] = lowest
        self._ties[member] = column.count(lowest)
        self.newly_stable.append(member)

    def changed_since(self, member: int) -> tuple[list[int], list[int]]:
        """What `member` (this one) has not yet acknowledged: members and numbers (rule F-9)."""
        last = self.latest[member]
        members, numbers = [], []
        for other in range(self.n):
            number = self.have[other]
            if number != last[other] and other != member:
                members.append(other)
                numbers.append(number)
        return members, numbers
