"""Who lived until when, and who could reach whom.

A member *left* if it said so, or if it stopped before the run did; both are told by its own
journal. It is *alive* if its journal goes on to the end of the run and is whole. What a journal
does not say is not held against anyone: one without a STOP row may lack a suffix, one with a
hole in `lseq`, or that says itself that rows are lost (*torn*), may lack anything. Where members
share no clock nobody knows who stopped before whom, so whoever stopped counts as having left.
"""

from __future__ import annotations

from phalanx.journal.schema import CtxStep, Event, Life, Topology
from phalanx.verify.checkers.member_names import Member


class LifeSpans:
    """Fates of members. `over`: the run settled, nothing more would happen."""

    def __init__(self, over: bool) -> None:
        self.over = over
        self.crashed: dict[Member, Life] = {}
        self.stopped: dict[Member, Life] = {}
        self.left: dict[Member, Event] = {}
        self.torn: set[Member] = set()
        self.topology: dict[Member, list[Topology]] = {}
        self.changed_ns = 0
        """When the truth about who is there and who reaches whom last changed."""
        self._known: set[Member] = set()
        self._end_ns = 0

    def add(self, member: Member, journal: list[Event]) -> None:
        self._known.add(member)
        self._end_ns = max(self._end_ns, journal[-1].sim_ns or 0)

    def note(self, member: Member, row: Life | Topology | CtxStep) -> None:
        """Rows that tell of a fate."""
        if isinstance(row, Topology):
            self.topology.setdefault(member, []).append(row)
        elif isinstance(row, CtxStep):
            if row.action == "LEAVE":
                self.left.setdefault(member, row)
            return
        elif row.op == "STOP":
            self.stopped[member] = row
            return
        elif row.op == "CRASH":
            self.crashed[member] = row
        self.changed_ns = max(self.changed_ns, row.sim_ns or 0)

    def close(self) -> None:
        """All rows were noted."""
        for member, stop in self.stopped.items():
            if stop.sim_ns is None or stop.sim_ns < self._end_ns:
                self.left.setdefault(member, stop)
        for row in self.left.values():
            self.changed_ns = max(self.changed_ns, row.sim_ns or 0)

    def alive(self, member: Member) -> bool:
        return (
            member in self._known
            and member not in self.crashed
            and member not in self.left
            and member not in self.torn
        )

    def whole(self, member: Member) -> bool:
        """All that it did is in its journal."""
        if member not in self._known or member in self.torn:
            return False
        return member in self.stopped or (self.over and member not in self.crashed)

    def gone_by(self, member: Member, sim_ns: int) -> bool:
        """It had crashed or was leaving by then."""
        row: Event | None = self.crashed.get(member) or self.left.get(member)
        return row is not None and row.sim_ns is not None and row.sim_ns <= sim_ns

    def reach(self, member: Member, sim_ns: int | None = None) -> list[str] | None:
        """The names that it could exchange packets with, at the end or at that time."""
        found = None
        for row in self.topology.get(member, ()):
            if sim_ns is not None and (row.sim_ns is None or row.sim_ns > sim_ns):
                break
            found = row.component
        return found
