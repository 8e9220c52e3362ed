"""What each message causally follows, at the level of deliveries (PROTOCOLS D.3).

A send row names its direct dependencies only. A message has its sender's previous messages in
its past, so per sender the past is a prefix and the whole past a vector: for each sender, the
highest number. It is transitive through members that were not addressed: if m1 went to A and
B, B then sent m2 to C, and C then sent m3 to A, then A must not see m3 before m1.
"""

from __future__ import annotations

from phalanx.journal.events import Send
from phalanx.sim.checkers.trace import Member, Trace


class Vectors:
    """`of(sender, at)[i]` is the highest message of `senders[i]` before that send row.

    The entry of the sender itself is left at what others told it; all its own lower numbers
    precede a message by themselves.
    """

    def __init__(self, trace: Trace) -> None:
        self.senders: list[Member] = sorted(
            {*trace.sends, *(s for by in trace.delivered.values() for s in by)}
        )
        self.rank = {s: i for i, s in enumerate(self.senders)}
        self.looped: list[Send] = []
        """Send rows that depend on themselves: some message was delivered before its sending."""
        self._vectors: dict[Member, list[list[int]]] = {s: [] for s in trace.sends}
        self._compute(trace)

    def of(self, sender: Member, at: int) -> list[int]:
        return self._vectors[sender][at]

    def _compute(self, trace: Trace) -> None:
        """Each sender goes on until a dependency is not known yet; round and round."""
        open_ = [s for s in trace.sends if trace.sends[s].values]
        while open_:
            moved = False
            for sender in open_:
                rows, done = trace.sends[sender].values, self._vectors[sender]
                while len(done) < len(rows) and self._ready(trace, rows[len(done)]):
                    self._append(trace, sender, rows[len(done)])
                    moved = True
            if not moved:
                sender = open_[0]
                row = trace.sends[sender].values[len(self._vectors[sender])]
                self.looped.append(row)
                self._append(trace, sender, row)
            open_ = [s for s in open_ if len(self._vectors[s]) < len(trace.sends[s].values)]

    def _ready(self, trace: Trace, row: Send) -> bool:
        for name, inc, number in zip(row.dep_nodes, row.dep_incs, row.dep_numbers, strict=True):
            sends = trace.sends.get((name, inc))
            if sends is not None and sends.index(number) >= len(self._vectors[name, inc]):
                return False
        return True

    def _append(self, trace: Trace, sender: Member, row: Send) -> None:
        done = self._vectors[sender]
        vector = list(done[-1]) if done else [0] * len(self.senders)
        for name, inc, number in zip(row.dep_nodes, row.dep_incs, row.dep_numbers, strict=True):
            dep = (name, inc)
            if dep not in self.rank:
                continue  # nothing else is known of that sender
            vector[self.rank[dep]] = max(vector[self.rank[dep]], number)
            at = trace.sends[dep].index(number) if dep in trace.sends else -1
            if 0 <= at < len(self._vectors[dep]):
                vector = list(map(max, vector, self._vectors[dep][at]))
        done.append(vector)
