"""The agreed order: ToTo (Dolev, Kramer, Malki 1993; rules O-1 to O-14) and all-ack.

At most one candidate per sender: its first pending ordered frame, `head[s]`, if that follows
no other pending frame. `first[q][s]` is q's first frame that follows head[s]; it only grows
as heads advance. A member's one vote is the set of candidates in the past of its first frame
that follows any candidate, hence {s : first[q][s] == min(first[q])}. Votes never change, and
a new candidate can only come from a member that has not voted (rule O-3), so a round keeps bit
masks of voters and is evaluated only when a new vote or follower could decide it.

Batches leave in order of rank, which is the lexicographic order of member ids.

Under flood every member votes for its own frame alone; then `_most` stays at 1, nothing is
evaluated until all have voted, and all candidates leave together: the cost of a frame is a
few passes over the members.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from operator import le

from phalanx.core.broadcast.ack_scheduler import Awaited
from phalanx.core.broadcast.dag import Dag
from phalanx.core.wire.frames import Frame

NONE = 1 << 62


_NOBODY, _CHOSEN, _EVERYBODY = Awaited  # hot path


class TotalOrder(ABC):
    """What ToTo and all-ack share: heads, candidates, votes (rule O-1)."""

    __slots__ = (
        "_batches",
        "_cands",
        "_closing",
        "_dag",
        "_first",
        "_head",
        "_is_cand",
        "_known",
        "_most",
        "_n",
        "_pending",
        "_seen",
        "_voters",
    )

    def __init__(self, dag: Dag) -> None:
        n = dag.n
        self._n = n
        self._dag = dag
        self._batches = 0
        self._closing = False
        self._pending: list[deque[Frame]] = [deque() for _ in range(n)]
        self._head = [NONE] * n
        self._first = [[NONE] * n for _ in range(n)]
        self._seen = [0] * n
        self._cands: list[int] = []
        self._is_cand = [False] * n
        self._voters = [0] * n
        """Per candidate, the bit mask of the members that vote for it."""
        self._known = 0
        """Bit mask of the members that have voted."""
        self._most = 0
        """The most votes that any candidate has."""

    def insert(self, frame: Frame) -> list[Frame]:
        """A frame entered the DAG. The frames whose place is now known, in order (rule O-3)."""
        q, number = frame.sender, frame.number
        self._seen[q] = number
        first, head, is_cand = self._first[q], self._head, self._is_cand
        hits = []
        vector = frame.vector
        for s in frame.ack_members:
            if first[s] == NONE and vector[s] >= head[s]:
                first[s] = number
                if is_cand[s]:
                    hits.append(s)
        if frame.ordered:
            self._pending[q].append(frame)
            if head[q] == NONE:
                head[q] = number
                if min(first) == NONE:  # it follows no pending frame
                    assert not self._known >> q & 1, "a new candidate of a member that has voted"
                    is_cand[q] = True
                    insort(self._cands, q)
                    hits.append(q)
                first[q] = number
        if not hits:
            return []
        bit = 1 << q
        if not self._known & bit:
            self._known |= bit
            for s in hits:
                self._voters[s] |= bit
                votes = self._voters[s].bit_count()
                if votes > self._most:
                    self._most = votes
        return self._leave()

    @property
    def awaited(self) -> Awaited:
        """Whose votes could let a candidate leave (rule O-14)."""
        if not self._cands:
            return _NOBODY
        return _EVERYBODY if 2 * self._known.bit_count() > self._n else _CHOSEN

    def place(self, frames: list[Frame]) -> None:
        """These ordered frames come first, one after the other, before anything else is known:
        what a view takes over from those before it is the same at all who install it."""
        assert not self._batches, "taken over before anything else"
        for frame in frames:
            self._batches += 1
            frame.batch = self._batches

    def close(self) -> list[Frame]:
        """The view has ended: all members count as having voted, and what is pending leaves, in
        the order that all who end it with these frames find (rule O-12)."""
        self._closing = True
        self._known = (1 << self._n) - 1
        return self._leave()

    def _leave(self) -> list[Frame]:
        """Let batches leave while there are any (rule O-9)."""
        out: list[Frame] = []
        while self._cands and (batch := self._batch()):
            self._batches += 1
            for s in batch:
                frame = self._pending[s].popleft()
                frame.batch = self._batches
                out.append(frame)
                self._advance(s)
            self._next_round()
        return out

    @abstractmethod
    def _batch(self) -> list[int]:
        """The candidates that leave now, by rank; empty if it is too early to say."""

    def _advance(self, s: int) -> None:
        """The head of s has left: its next ordered frame is the head, and pointers move on
        (rule O-10)."""
        pending = self._pending[s]
        if not pending:
            self._head[s] = NONE
            for row in self._first:
                row[s] = NONE
            return
        head = self._head[s] = pending[0].number
        seen, stored = self._seen, self._dag.frames
        for q, row in enumerate(self._first):
            number = row[s]
            if number == NONE:
                continue
            frames, end = stored[q], seen[q]
            while number <= end:
                # A frame that is stable and gone while the order points at it: only a peer whose
                # vectors are not transitive can bring that about.
                frame = frames.get(number)
                if frame is not None and frame.vector[s] >= head:
                    break
                number += 1
            row[s] = number if number <= end else NONE

    def _next_round(self) -> None:
        """Candidates and votes anew, from the pointers."""
        head, is_cand, voters, n = self._head, self._is_cand, self._voters, self._n
        cands = []
        for s, pending in enumerate(self._pending):
            voters[s] = 0
            # The head follows itself; a candidate follows no other pending head.
            is_cand[s] = bool(pending) and sum(map(le, head, pending[0].vector)) == 1
            if is_cand[s]:
                cands.append(s)
        self._cands = cands
        known = 0
        if cands:
            for q in range(n):
                row = self._first[q]
                # A frame that follows any pending head follows a candidate.
                earliest = min(row)
                if earliest != NONE:
                    bit = 1 << q
                    known |= bit
                    for s in cands:
                        if row[s] == earliest:
                            voters[s] |= bit
        self._known = (1 << n) - 1 if self._closing else known
        self._most = max((voters[s].bit_count() for s in cands), default=0)


class AllAck(TotalOrder):
    """Deliver when everybody has sent a frame that follows some candidate (rule O-11; S4 3.3)."""

    __slots__ = ()

    def _batch(self) -> list[int]:
        return self._cands if self._known.bit_count() == self._n else []


class ToTo(TotalOrder):
    """Deliver as soon as no future vote can change the batch (rules O-5 to O-9, phi = n/2)."""

    __slots__ = ("_early",)

    def __init__(self, dag: Dag, early: bool = False) -> None:
        super().__init__(dag)
        self._early = early

    def _batch(self) -> list[int]:
        n, known = self._n, self._known.bit_count()
        if known < n and 2 * self._most <= n:
            return []  # external stability cannot hold
        if known == n and 2 * self._most <= n:
            return self._cands  # nobody can beat anybody
        sources = self._sources(n - known)
        if not sources or not self._internal(sources):
            return []
        return sources if self._external(sources, known) else []

    def _sources(self, room: int) -> list[int]:
        """Candidates that no other can still beat; `room` members have not voted (rule O-5)."""
        n, voters, cands = self._n, self._voters, self._cands
        out = []
        for c in cands:
            against = ~voters[c]
            for o in cands:
                if o != c and 2 * (room + (voters[o] & against).bit_count()) > n:
                    break
            else:
                out.append(c)
        return out

    def _internal(self, sources: list[int]) -> bool:
        """Every other candidate has been beaten for good (rules O-4 and O-6)."""
        n, voters, cands = self._n, self._voters, self._cands
        for c in cands:
            if c not in sources:
                against = ~voters[c]
                if not any(2 * (voters[o] & against).bit_count() > n for o in cands):
                    return False
        return True

    def _external(self, sources: list[int], known: int) -> bool:
        """No candidate that is still unknown here can matter (rules O-7 and O-8)."""
        n = self._n
        if known == n:
            return True
        if not any(2 * self._voters[s].bit_count() > n for s in sources):
            return False
        if self._early:
            return True
        return all(2 * sum(row[s] != NONE for row in self._first) >= n for s in sources)
