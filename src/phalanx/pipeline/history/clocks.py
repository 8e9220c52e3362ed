"""Conversion between a member's own clock and its wall clock.

Rows carry `t_ns`, a monotonic clock that means nothing on another machine. The header of a journal
and its `clock` rows record the wall clock at some of these times; between two records it is assumed
to advance evenly, so steps of the wall clock are followed. A simulated row has the simulator's one
clock, `sim_ns`, and no wall clock.

    WALL(row) = t_ns + offset of the last clock row at or before it, else of the header
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.segment_stats import JournalFacts

NO_BOOT = ("", "unknown")
"""Boot ids of machines that could not tell theirs: equal to no other."""


def own_time(t_ns: int, sim_ns: int | None) -> int:
    """The clock by which durations at one member are measured: simulated time if there is any."""
    return t_ns if sim_ns is None else sim_ns


class WallClock:
    """The wall clock of one member, as its journal records it."""

    def __init__(
        self, facts: JournalFacts, marks: Sequence[tuple[int, int, int]], first_t_ns: int | None
    ) -> None:
        """`marks` are the clock rows: lseq, t_ns and wall_ns, in order. `first_t_ns` is the time of
        the first view: rows of the first step may be older than the header of their file."""
        self._began = facts.wall_ns - facts.mono_ns
        self._lseqs = [lseq for lseq, _, _ in marks]
        self._offsets = [wall_ns - t_ns for _, t_ns, wall_ns in marks]
        start = facts.mono_ns if first_t_ns is None else min(facts.mono_ns, first_t_ns)
        own = zip((t_ns for _, t_ns, _ in marks), self._offsets, strict=True)
        self._spans = sorted([(start, self._began), *own], key=lambda span: span[0])
        self._end = facts.end_t_ns

    def at(self, lseq: int, t_ns: int, sim_ns: int | None) -> int | None:
        """What the wall clock showed at a row; None in a simulation."""
        if sim_ns is not None:
            return None
        place = bisect_right(self._lseqs, lseq)
        return t_ns + (self._offsets[place - 1] if place else self._began)

    def moments(self, wall_ns: int) -> list[int]:
        """The member's own times at which its wall clock showed an instant. There is none before
        the journal begins and after it ends, and there are two where the clock was set back. Where
        the clock was set forward over the instant, the moment is that of the step."""
        found = set()
        for nth, (t_ns, offset) in enumerate(self._spans):
            last = nth + 1 == len(self._spans)
            until, later = (self._end + 1, offset) if last else self._spans[nth + 1]
            if t_ns + offset <= wall_ns < until + offset:
                found.add(wall_ns - offset)
            elif not last and until + offset <= wall_ns < until + later:
                found.add(until)
        return sorted(found)

    def own_time_of(self, wall_ns: int, nth: int) -> int:
        """The first (0) or last (-1) moment at which the wall clock showed an instant; before or
        after all rows if it never did."""
        found = self.moments(wall_ns)
        if found:
            return found[nth]
        t_ns, offset = self._spans[0]
        return t_ns - 1 if wall_ns < t_ns + offset else self._end + 1


def wall_clocks(group: GroupTables) -> dict[str, WallClock]:
    """By journal."""
    marks: dict[str, list[tuple[int, int, int]]] = {}
    for journal, *mark in each_row(group["clock"], "journal", "lseq", "t_ns", "wall_ns"):
        lseq, t_ns, wall_ns = mark
        marks.setdefault(journal, []).append((lseq, t_ns, wall_ns))
    first: dict[str, int] = {}
    for journal, t_ns in each_row(group["view_installed"], "journal", "t_ns"):
        first[journal] = min(t_ns, first.get(journal, t_ns))
    return {
        facts.journal: WallClock(
            facts, sorted(marks.get(facts.journal, ())), first.get(facts.journal)
        )
        for facts in group.journals
    }
