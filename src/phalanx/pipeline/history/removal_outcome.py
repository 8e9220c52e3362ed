"""How a member's time in a view ended, by its own journal.

The journal of the removed member is the best evidence of what became of it, and needs no clock:

    LEFT      it requested to leave in this view or before
    CRASHED   its journal ends with a crash in this view or before it; only a simulator records that
    ENDED     its journal ends without a stop, in this view or before it: it was killed, or the
              journal is cut off. A killed member does not write its last rows, so this view may be
              missing
    STOPPED   its journal ends in this view with a stop, and it had not requested to leave
    APART     it went on to another view: it was alive, and had removed the others as well
    NEVER     its journal is complete, and has other views but not this one
    UNKNOWN   its journal is missing, or lacks rows that might show the outcome
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.history.intervals import IntervalEnd, ViewInterval, intervals, journal_ends
from phalanx.pipeline.segment_stats import JournalFacts

Fate = Literal["LEFT", "CRASHED", "ENDED", "STOPPED", "APART", "NEVER", "UNKNOWN"]
_BY_END: dict[IntervalEnd, Fate] = {
    "VIEW": "APART",
    "CRASH": "CRASHED",
    "STOP": "STOPPED",
    "OPEN": "ENDED",
}


class RemovalOutcome(msgspec.Struct, frozen=True):
    """What the journal of a member says of the end of a view."""

    fate: Fate
    own_next_view: str | None = None
    """The view the member went on to."""
    own_end_t_ns: int | None = None
    """The end of its journal, if it ended there."""
    own_end_sim_ns: int | None = None


class RemovalOutcomes:
    """The outcomes of all members of a group in all their views."""

    def __init__(self, group: GroupTables) -> None:
        self._journals = {(one.member, one.incarnation): one for one in reversed(group.journals)}
        self._spans = {(one.journal, one.view): one for one in intervals(group)}
        self._ends = journal_ends(group)
        self._left: dict[str, int] = {}
        steps = each_row(group["view_change_step"], "journal", "lseq", "action")
        for journal, lseq, action in steps:
            if action == "LEAVE":
                self._left[journal] = min(lseq, self._left.get(journal, lseq))

    def of(self, member: str, incarnation: int, view: str) -> RemovalOutcome:
        facts = self._journals.get((member, incarnation))
        if facts is None:
            return RemovalOutcome("UNKNOWN")
        span = self._spans.get((facts.journal, view))
        if span is None:
            return RemovalOutcome(self._elsewhere(facts))
        fate = self._fate(facts, span)
        if span.end == "VIEW":
            return RemovalOutcome(fate, span.next_view)
        return RemovalOutcome(fate, None, facts.end_t_ns, facts.end_sim_ns)

    def _elsewhere(self, facts: JournalFacts) -> Fate:
        """Of a member that never installed the view."""
        if facts.journal in self._left:
            return "LEFT"
        if self._ends[facts.journal] == "CRASH":
            return "CRASHED"
        if facts.torn:
            return "UNKNOWN"
        return "NEVER" if facts.stopped else "ENDED"

    def _fate(self, facts: JournalFacts, span: ViewInterval) -> Fate:
        if self._left.get(facts.journal, span.to_lseq) < span.to_lseq:
            return "LEFT"
        return _BY_END[span.end]
