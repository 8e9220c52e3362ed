"""Judge views of the groups of a lake, as rows of `verdicts` and `findings`.

A unit is a view of a group. The rows of small groups are read once for all of their units; of
larger groups each unit reads its scope, batch by batch, so that memory is bounded by the views and
not by the life of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.arrow_columns import codes
from phalanx.pipeline.audit.journal_excerpt import JournalExcerpt
from phalanx.pipeline.audit.judge_views import judge_scope
from phalanx.pipeline.audit.verdicts import Result, RunVerdicts
from phalanx.pipeline.audit.view_scope import (
    LIVES,
    ScopeReader,
    ViewScope,
    carried_to,
    scope_of,
    scope_tables,
)
from phalanx.pipeline.audit.view_stays import StayIndex, ViewStay, stays_of
from phalanx.pipeline.group_tables import (
    GroupKey,
    GroupTables,
    each_batch,
    filtered_tables,
    tables_of_files,
)
from phalanx.pipeline.history.clocks import WallClock, wall_clocks
from phalanx.pipeline.lake.lake import Snapshot
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.lake.lake_groups import files_of_groups
from phalanx.pipeline.lake.lake_schema import VIEWS, day_of, instant_of
from phalanx.pipeline.lake.lake_transaction import LakeTransaction
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.verdict_tables import (
    FINDINGS,
    UNIT,
    VERDICTS,
    FindingRow,
    ViewVerdictRow,
    finding_rows,
    verdict_rows,
)
from phalanx.pipeline.watch.closed_views import JudgeView

MEMORY_ROWS = 500_000
"""Groups of up to so many rows are read once for all of their units."""
_BATCH_ROWS = 1 << 18
CARRIED_MAX = 16
_FOR_INDEX = ("view_installed", "clock", VIEWS)
_EVERYWHERE = (*LIVES, "view_change_step", VIEWS)


class CarriedExcerpts:
    """Excerpts of journals that begin at recent installs, so that the next view can be judged
    without the rows before. Bounded: the last few of each journal."""

    def __init__(self) -> None:
        self._by_journal: dict[str, dict[int, JournalExcerpt]] = {}

    def put(self, found: Mapping[tuple[str, int], JournalExcerpt]) -> None:
        for (journal, lseq), excerpt in found.items():
            mine = self._by_journal.setdefault(journal, {})
            mine[lseq] = excerpt
            for old in sorted(mine)[:-CARRIED_MAX]:
                del mine[old]

    def of(self, scope: ViewScope) -> dict[str, JournalExcerpt] | None:
        """Those that a scope begins with; None if one is not known."""
        found: dict[str, JournalExcerpt] = {}
        for journal, rows in scope.ranges.items():
            if rows.first > 1:
                excerpt = self._by_journal.get(journal, {}).get(rows.first)
                if excerpt is None:
                    return None
                found[journal] = excerpt
        return found

    def forget(self, journals: Collection[str]) -> None:
        """Those of journals that are not among these."""
        for journal in self._by_journal.keys() - set(journals):
            del self._by_journal[journal]


class UnitVerdict(msgspec.Struct, frozen=True):
    """What the audit of one view comes to."""

    verdict: ViewVerdictRow
    findings: list[FindingRow]

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(getattr(self.verdict, name) for name in UNIT)


def group_key(facts: JournalFacts) -> GroupKey:
    return GroupKey(facts.cluster, facts.run, facts.group)


class LakeGroup:
    """One group of a version of a lake."""

    def __init__(
        self,
        snapshot: Snapshot,
        key: GroupKey,
        journals: Sequence[JournalFacts],
        carried: CarriedExcerpts | None = None,
    ) -> None:
        """`carried`: excerpts that judging earlier views of the group left."""
        self._snapshot, self.key, self.journals = snapshot, key, list(journals)
        self._carried = CarriedExcerpts() if carried is None else carried
        self.files = files_of_groups(snapshot, [key.group])
        for file in (file for some in self.files.values() for file in some):
            if not Path(file.path).is_file():
                remedy = "restore it, or ingest the journals into a new lake"
                raise PipelineError(file.path, "a file of the lake is missing", remedy)
        small = {name: self.files[name] for name in _FOR_INDEX if name in self.files}
        self.known = filtered_tables(key, self.journals, small, {})
        """Views and clocks."""
        self.index = StayIndex(stays_of(self.known["view_installed"]))
        self._tables: GroupTables | None = None

    @property
    def rows(self) -> int:
        return sum(facts.rows for facts in self.journals)

    def epoch(self, view: str) -> tuple[int, int, str]:
        """By which views are ordered."""
        return min((stay.joins, stay.removals, view) for stay in self.index.by_view[view])

    def judge(self, unit: JudgeView) -> UnitVerdict:
        """The verdict on one view."""
        scope = scope_of(self.key, self.journals, self.index, [unit.view])
        rows = 0

        def read(scope: ViewScope) -> tuple[GroupTables, dict[str, JournalExcerpt]]:
            nonlocal rows
            tables, excerpts = self._read(scope)
            rows = tables.rows
            if self.rows > MEMORY_ROWS:
                self._carried.put(carried_to(unit.view, tables, excerpts, self.index))
            return tables, excerpts

        found = judge_scope(scope, self.journals, self.index, read)
        return self._rows_of(unit, found, rows)

    def recent(self, rows: int) -> GroupTables:
        """The last rows of each journal, so many; all if the group is small."""
        if self.rows <= MEMORY_ROWS:
            return self._whole()
        journals = [facts.journal for facts in self.journals]
        first = np.array([facts.last - rows for facts in self.journals], np.int64)

        def wanted(batch: Any) -> Any:
            journal = codes(arrow().chunked_array([batch.column("journal")]), journals)
            lseq = batch.column("lseq").to_numpy(zero_copy_only=False)
            return lseq > first[journal]

        filters = dict.fromkeys(self.files, wanted)
        return filtered_tables(self.key, self.journals, self.files, filters)

    def _whole(self) -> GroupTables:
        if self._tables is None:
            (self._tables,) = tables_of_files(self.journals, self.files)
        return self._tables

    def _read(self, scope: ViewScope) -> tuple[GroupTables, dict[str, JournalExcerpt]]:
        if self.rows <= MEMORY_ROWS:
            return scope_tables(self._whole(), scope)
        carried = self._carried.of(scope)
        reader = ScopeReader(scope, carried)
        files = self._files_of(scope) if carried is not None else self.files
        for name, batch in each_batch(self.key, scope.journals, files, _BATCH_ROWS):
            reader.add(name, batch)
        return reader.tables()

    def _files_of(self, scope: ViewScope) -> dict[str, list[LakeFile]]:
        """The files of the days at which segments with rows of the scope began, and those of
        tables that are read wherever their rows are."""
        days = {
            day_of(segment.wall_ns)
            for segment in self._snapshot.segments(groups=[self.key.group])
            if (found := scope.ranges.get(segment.journal)) is not None
            and segment.last >= found.first
        }
        return {
            name: [file for file in files if name in _EVERYWHERE or file.day in days]
            for name, files in self.files.items()
        }

    def _rows_of(self, unit: JudgeView, found: RunVerdicts, rows: int) -> UnitVerdict:
        now = datetime.now(UTC)
        stays = self.index.by_view[unit.view]
        began, ended = self._times(stays)
        by_verdict: dict[str, list[str]] = {"violated": [], "holds": [], "unverifiable": []}
        for name, result in found.properties.items():
            by_verdict[result.verdict].append(name)
        best = next(name for name in ("violated", "holds", "unverifiable") if by_verdict[name])
        common: dict[str, Any] = dict(zip(UNIT, (*self.key, unit.view), strict=True))
        common |= {"lake_version": self._snapshot.version, "judged": now}
        verdict: dict[str, Any] = {
            **common,
            **by_verdict,
            "joins": stays[0].joins,
            "removals": stays[0].removals,
            "members": sorted(self.index.members([unit.view])),
            "began": began,
            "ended": None if unit.status == "open" else ended,
            "status": unit.status,
            "verdict": best,
            "violations": sum(result.violations for result in found.properties.values()),
            "absent": list(found.absent),
            "torn": list(found.torn),
            "rows": rows,
            "evidence": unit.evidence,
        }
        return UnitVerdict(
            msgspec.convert(verdict, ViewVerdictRow),
            [row for result in found.properties.values() for row in _findings(result, common)],
        )

    def _times(self, stays: Sequence[ViewStay]) -> tuple[datetime | None, datetime | None]:
        """When the first member installed a view, and the last one left it."""
        clocks: Mapping[str, WallClock] = wall_clocks(self.known)
        facts = {one.journal: one for one in self.journals}
        began, ended = [], []
        for stay in stays:
            journal, then = facts[stay.journal], self.index.next(stay)
            end_ns, simulated = journal.end_t_ns, journal.end_sim_ns
            if simulated is not None:
                end_ns = simulated
            end_ns, lseq = (end_ns, journal.last) if then is None else (then.own_ns, then.lseq)
            clock = clocks[stay.journal]
            sim = (stay.own_ns, end_ns) if simulated is not None else (None, None)
            began.append(clock.at(stay.lseq, stay.own_ns, sim[0]) or stay.own_ns)
            ended.append(clock.at(lseq, end_ns, sim[1]) or end_ns)
        return instant_of(min(began)), instant_of(max(ended))


def _findings(result: Result, common: Mapping[str, Any]) -> list[FindingRow]:
    return [
        msgspec.convert(
            {
                **common,
                "property": example.property,
                "nth": nth,
                "violations": result.violations,
                "text": example.text,
                "members": list(example.members),
                "sender": example.sender,
                "sender_incarnation": example.sender_incarnation,
                "first": example.first,
                "last": example.last,
                "row_members": [row.member for row in example.rows],
                "row_incarnations": [row.incarnation for row in example.rows],
                "row_lseqs": [row.lseq for row in example.rows],
            },
            FindingRow,
        )
        for nth, example in enumerate(result.counterexamples)
    ]


def put_verdicts(transaction: LakeTransaction, units: Sequence[UnitVerdict]) -> None:
    """Writes the rows of these units in place of those that the lake has of them."""
    keys = {unit.key for unit in units}
    tables = {
        VERDICTS: verdict_rows(unit.verdict for unit in units),
        FINDINGS: finding_rows(row for unit in units for row in unit.findings),
    }
    for table, rows in tables.items():
        transaction.replace(table, rows, _of_units(keys))


def _of_units(keys: Collection[tuple[str, ...]]) -> Callable[[Any], Any]:
    def matches(rows: Any) -> Any:
        there = zip(*(rows.column(name).to_pylist() for name in UNIT), strict=True)
        return arrow().array([key in keys for key in there], arrow().bool_())

    return matches


def judged_evidence(snapshot: Snapshot) -> dict[GroupKey, dict[str, str]]:
    """By group and view, the evidence of all verdicts that the lake has."""
    found: dict[GroupKey, dict[str, str]] = {}
    if VERDICTS not in snapshot.delta_versions:
        return found
    rows = snapshot.read(VERDICTS, columns=[*UNIT, "evidence"])
    columns = (rows.column(name).to_pylist() for name in (*UNIT, "evidence"))
    for cluster, run, group, view, evidence in zip(*columns, strict=True):
        found.setdefault(GroupKey(cluster, run, group), {})[view] = evidence
    return found
