"""Life spans of members: which members lived until when, and which could reach each other.

A member *left* if it announced that it leaves, or if it stopped before the run ended; its own
journal shows both. It is *alive* if its journal is whole and goes on to the end of the run. A
journal without a STOP row may lack its last rows; a *torn* one, with a hole in `lseq` or a row that
reports lost rows, may lack any row. Missing rows are not held against a member. Members that share
no clock cannot be compared in time, so there each member that stopped counts as having left.
"""

from __future__ import annotations

from phalanx.journal.schema import Event, Life, Topology, ViewChangeStep
from phalanx.verify.checkers.member_names import Member


class LifeSpans:
    """Starts and ends of the members with a journal. `over`: the run settled."""

    def __init__(self, over: bool) -> None:
        self.over = over
        self.crashed: dict[Member, Life] = {}
        self.stopped: dict[Member, Life] = {}
        self.left: dict[Member, Event] = {}
        self.torn: set[Member] = set()
        self.topology: dict[Member, list[Topology]] = {}
        self.began_ns: dict[Member, int | None] = {}
        """Per member, the simulated time of its first row."""
        self.changed_ns = 0
        """When a member last started, crashed or left, or the topology last changed."""
        self._end_ns = 0

    def add(self, member: Member, began_ns: int | None, end_ns: int | None) -> None:
        """A member with a journal, and the simulated times of its first and its last row."""
        self.began_ns[member] = began_ns
        self._end_ns = max(self._end_ns, end_ns or 0)

    def note(self, member: Member, row: Life | Topology | ViewChangeStep) -> None:
        """Read the next row of a member that may show a start, an end or a topology."""
        if isinstance(row, Topology):
            self.topology.setdefault(member, []).append(row)
        elif isinstance(row, ViewChangeStep):
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
        """Finish, after all rows were read."""
        for member, stop in self.stopped.items():
            if stop.sim_ns is None or stop.sim_ns < self._end_ns:
                self.left.setdefault(member, stop)
        for row in self.left.values():
            self.changed_ns = max(self.changed_ns, row.sim_ns or 0)

    def alive(self, member: Member) -> bool:
        return (
            member in self.began_ns
            and member not in self.crashed
            and member not in self.left
            and member not in self.torn
        )

    def whole(self, member: Member) -> bool:
        """Whether the journal of a member has all its rows."""
        if member not in self.began_ns or member in self.torn:
            return False
        return member in self.stopped or (self.over and member not in self.crashed)

    def gone_by(self, member: Member, sim_ns: int) -> bool:
        """Whether a member had crashed or was leaving at that time."""
        row: Event | None = self.crashed.get(member) or self.left.get(member)
        return row is not None and row.sim_ns is not None and row.sim_ns <= sim_ns

    def reach(self, member: Member, sim_ns: int | None = None) -> list[str] | None:
        """The names a member could exchange packets with, at the end or at that time."""
        found = None
        for row in self.topology.get(member, ()):
            if sim_ns is not None and (row.sim_ns is None or row.sim_ns > sim_ns):
                break
            found = row.component
        return found
