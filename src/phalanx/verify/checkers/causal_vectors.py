"""Causal past of each message as a vector, computed from deliveries.

A send row names its direct dependencies only. The previous messages of its sender are in the past
of a message, so per sender the past is a prefix, and the whole past is a vector: for each sender,
the highest number. It is transitive through members that were not addressed: if m1 went to A and
B, B then sent m2 to C, and C then sent m3 to A, then A must not deliver m3 before m1. It reaches
across views and lives.
"""

from __future__ import annotations

from phalanx.journal.schema import Sent
from phalanx.verify.checkers.member_names import Member
from phalanx.verify.checkers.trace import Trace


class CausalVectors:
    """`of(sender, at)[i]` is the highest message of `senders[i]` before that send row.

    The entry of the sender itself holds only what it learned through others; all its own lower
    numbers precede a message anyway.
    """

    def __init__(self, trace: Trace) -> None:
        self.senders: list[Member] = sorted(
            {*trace.sends, *(s for by in trace.delivered.values() for s in by)}
        )
        self.rank = {s: i for i, s in enumerate(self.senders)}
        self.looped: list[Sent] = []
        """Send rows that depend on themselves: a message was delivered before it was sent."""
        self._vectors: dict[Member, list[list[int]]] = {s: [] for s in trace.sends}
        self._weights: dict[Member, list[int]] = {s: [] for s in trace.sends}
        self._compute(trace)

    def of(self, sender: Member, at: int) -> list[int]:
        return self._vectors[sender][at]

    def weight(self, sender: Member, at: int) -> int:
        """The number of other senders in the past of that send row."""
        return self._weights[sender][at]

    def _compute(self, trace: Trace) -> None:
        """Advance each sender until a dependency is not computed yet, in rounds."""
        open_ = [s for s in trace.sends if trace.sends[s].values]
        while open_:
            moved = False
            for sender in open_:
                rows, done = trace.sends[sender].values, self._vectors[sender]
                while len(done) < len(rows) and self._append(trace, sender, rows[len(done)]):
                    moved = True
            if not moved:
                sender = open_[0]
                row = trace.sends[sender].values[len(self._vectors[sender])]
                self.looped.append(row)
                self._append(trace, sender, row, at_once=True)
            open_ = [s for s in open_ if len(self._vectors[s]) < len(trace.sends[s].values)]

    def _append(self, trace: Trace, sender: Member, row: Sent, at_once: bool = False) -> bool:
        """Compute the vector of the sender's next send row; False if a dependency has none yet."""
        done = self._vectors[sender]
        if not row.dep_senders:
            done.append(done[-1] if done else [0] * len(self.senders))
            weights = self._weights[sender]
            weights.append(weights[-1] if weights else 0)
            return True
        direct = []
        for name, incarnation, number in zip(
            row.dep_senders, row.dep_incarnations, row.dep_numbers, strict=True
        ):
            dep = (name, incarnation)
            if dep not in self.rank:
                continue  # the run has no other row about that sender
            at = trace.sends[dep].index(number) if dep in trace.sends else -1
            ready = at < len(self._vectors.get(dep, ()))
            if not ready and not at_once:
                return False
            direct.append((dep, number, at if ready else -1))
        vector = list(done[-1]) if done else [0] * len(self.senders)
        for dep, number, at in direct:
            rank = self.rank[dep]
            if at >= 0:
                vector = list(map(max, vector, self._vectors[dep][at]))
            if number > vector[rank]:
                vector[rank] = number
        done.append(vector)
        own = vector[self.rank[sender]] > 0
        self._weights[sender].append(len(vector) - vector.count(0) - own)
        return True
