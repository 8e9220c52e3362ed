"""Judge some views of a group, on the rows of these views and of those before them.

`judge_views` is the audit of `--since` and `--until`, and of `phalanx watch`. A violation belongs
to the view that it names, or in which its rows lie, and counts if this view is judged. So the rows
of other views in the scope are evidence only, and violations among them are left to the audit of
their views.

What is not local to a view:

- `no-view-crossing-inversion`, `reliable-causal`, `no-duplication`, `same-view`, and `integrity`
  of messages from an earlier view: rows that point outside of the scope make it deeper, up to the
  whole life of the group. So does a message that a member never delivered.
- `integrity`, `receipt-truth`, `accepted-is-sent` and `merge-report-truth` count from the
  beginning of a life: their counts before the scope are carried (`journal_excerpt`).
- Liveness, and whatever else a simulator knows of a settled run, is asked of whole runs only:
  unverifiable here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

import numpy as np

from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.clock_jumps import clock_jumps
from phalanx.pipeline.audit.group_findings import GroupFinding, GroupFindings
from phalanx.pipeline.audit.journal_excerpt import JournalExcerpt
from phalanx.pipeline.audit.judge import (
    MESSAGE_CHECKS,
    checks_of_few_rows,
    facts_of_journals,
    refuse_second_journals,
    verdicts_of,
)
from phalanx.pipeline.audit.message_columns import GroupColumns, ReceiptRows
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs, holder, packed
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.receipts import newly
from phalanx.pipeline.audit.verdicts import RunVerdicts
from phalanx.pipeline.audit.view_scope import (
    WHOLE,
    ScopeReader,
    ViewScope,
    deeper,
    scope_of,
    scope_tables,
)
from phalanx.pipeline.audit.view_stays import StayIndex, stays_of, views_in
from phalanx.pipeline.group_tables import GroupTables, each_batch, filtered_tables
from phalanx.pipeline.lake.lake_schema import VIEWS
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.time_window import TimeWindow
from phalanx.verify.properties import PROPERTIES

OF_TWO_VIEWS = ("same-view", "no-view-crossing-inversion")
"""Of messages that were delivered in two views. The audit of the later one finds them."""
_OF_ROWS = ("initial-view", "receipt-truth", "no-duplication", "basic")
"""Found in one row, which may name another view than it lies in."""
_NEVER = ("self-delivery", "reliable-causal")
"""Messages that a member never delivered, not even in another view."""
_FOR_INDEX = ("view_installed", "clock", VIEWS)
_BATCH_ROWS = 1 << 18
ReadScope = Callable[[ViewScope], tuple[GroupTables, dict[str, JournalExcerpt]]]
"""Reads the rows of a scope."""


def judge_views(
    tables: GroupTables,
    views: Collection[str],
    names: Sequence[str] = PROPERTIES,
    depth: int = 1,
) -> RunVerdicts:
    """The verdicts on some views of a group that is in memory. With the depth WHOLE all rows are
    evidence."""
    index = StayIndex(stays_of(tables["view_installed"]))
    scope = scope_of(tables.key, tables.journals, index, views, depth)
    return judge_scope(
        scope, tables.journals, index, lambda scope: scope_tables(tables, scope), names
    )


def judge_scope(
    scope: ViewScope,
    journals: Sequence[JournalFacts],
    index: StayIndex,
    read: ReadScope,
    names: Sequence[str] = PROPERTIES,
) -> RunVerdicts:
    """The same of a group whose rows `read` reads. `journals` and `index` are of the whole
    group."""
    refuse_second_journals(scope.key, scope.journals)
    while True:
        tables, excerpts = read(scope)
        columns = GroupColumns(tables, None, excerpts)
        run = columns.run
        chosen = {columns.views[view] for view in scope.views if view in columns.views}
        out = GroupFindings(_Belongs(run, chosen))
        prepared = PreparedGroup(columns, out)
        if scope.depth < WHOLE and _points_outside(prepared, scope, chosen):
            scope = deeper(scope, journals, index)
            continue
        for check in MESSAGE_CHECKS:
            check(prepared)
        if scope.depth >= WHOLE or not any(map(out.violated, _NEVER)):
            break
        scope = scope_of(scope.key, journals, index, scope.views, WHOLE)
    checks_of_few_rows(run, out)
    found = verdicts_of(run, out, names, facts_of_journals(run, chosen))
    found.clocks.extend(clock_jumps(tables).values())
    return found


def judge_window(
    tables: GroupTables, names: Sequence[str], window: TimeWindow
) -> RunVerdicts | None:
    """The verdicts on the views that overlap a window; None if there are none. Of a group in
    memory: a kernel."""
    index = StayIndex(stays_of(tables["view_installed"]))
    views = views_in(tables, window, index)
    if not views:
        return None
    scope = scope_of(tables.key, tables.journals, index, views)
    return judge_scope(
        scope, tables.journals, index, lambda scope: scope_tables(tables, scope), names
    )


def judge_window_of_files(
    group: GroupFiles, names: Sequence[str], window: TimeWindow
) -> RunVerdicts | None:
    """The same of a group in files: only the rows of the scope are in memory together."""
    small = {name: group.files[name] for name in _FOR_INDEX if name in group.files}
    known = filtered_tables(group.key, group.journals, small, {})
    index = StayIndex(stays_of(known["view_installed"]))
    views = views_in(known, window, index)
    if not views:
        return None
    scope = scope_of(group.key, group.journals, index, views)

    def read(scope: ViewScope) -> tuple[GroupTables, dict[str, JournalExcerpt]]:
        reader = ScopeReader(scope)
        for name, batch in each_batch(group.key, group.journals, group.files, _BATCH_ROWS):
            reader.add(name, batch)
        return reader.tables()

    return judge_scope(scope, group.journals, index, read, names)


class _Belongs:
    """Whether a violation belongs to some views."""

    def __init__(self, run: Chronicle, views: set[int]) -> None:
        self._views = views
        self._lseqs = {m.k: [row.lseq for row in m.installs] for m in run.known}
        # Rows before the first view count as of that view.
        views_of = {m.k: [row.v for row in m.installs] or [-1] for m in run.known}
        self._at = {k: [found[0], *found] for k, found in views_of.items()}

    def __call__(self, finding: GroupFinding) -> bool:
        return not self._views.isdisjoint(self._views_of(finding))

    def _views_of(self, finding: GroupFinding) -> set[int]:
        """Two views if a message was delivered in both; else the one that the finding names, or
        the one in which the row lies that is wrong: the last one, but if a delivery contradicts
        what was accepted, the delivery."""
        named = set() if finding.v is None else {finding.v}
        if finding.property in OF_TWO_VIEWS and finding.w is not None:
            return {*named, finding.w}
        if finding.property == "self-delivery" and finding.w is not None:
            return {finding.w}  # the view that the message belongs to
        by_row = finding.property in _OF_ROWS or finding.kind.endswith("/origin")
        if not finding.rows or (named and not by_row):
            return named
        k, lseq = finding.rows[0 if finding.kind.endswith("/altered") else -1]
        view = self._at[k][bisect_right(self._lseqs[k], lseq)]
        return {view} if view >= 0 else named


def _points_outside(p: PreparedGroup, scope: ViewScope, chosen: set[int]) -> bool:
    """Whether rows of the views that are judged refer to messages outside of the scope. Members of
    a correct group hardly ever write such rows."""
    views = np.array(sorted(chosen), dtype=np.int64)
    cut = np.array([m.excerpt.is_cut for m in p.run.members] + [False])
    return (
        _old_deliveries(p, scope, views, cut)
        or _old_sends(p, views, cut)
        or any(
            _old_receipts(p, rows, stable, views)
            for rows, stable in ((p.columns.stable, True), (p.columns.ordered, False))
        )
    )


def _old_deliveries(p: PreparedGroup, scope: ViewScope, views: Longs, cut: Bools) -> bool:
    """Deliveries of messages whose sending is not here, though the journal of their sender is, or
    that belong to another view."""
    facts, sends = p.facts, p.sends
    goes_on = np.array([m.excerpt.goes_on for m in p.run.members] + [False])
    d = p.deliveries
    d = d.at(np.isin(d.v, views) | np.isin(facts.where(d.k, d.lseq).now, views))
    starts = packed(sends.s, sends.first)
    at = holder(starts, sends.last, sends.s, d.s, d.first)
    end = holder(starts, sends.last, sends.s, d.s, d.last)
    lacking = facts.known[d.s] & ((at < 0) | (end < 0))
    older, later = d.first <= facts.sent_before[d.s], goes_on[d.s] & (d.last > facts.sent_last[d.s])
    if (lacking & ((cut[d.s] & older) | later)).any():
        return True
    there = np.flatnonzero(at >= 0)
    home = sends.home[at[there]]
    if ((home >= 0) & (home != d.v[there])).any():
        return True
    context = [p.columns.views[view] for view in scope.context if view in p.columns.views]
    return bool((~facts.known[d.s] & ~np.isin(d.o, context)).any())


def _old_sends(p: PreparedGroup, views: Longs, cut: Bools) -> bool:
    """Sends with a number that was used before, and messages, or reports on messages, that were
    accepted before the scope, where that matters: for sets of receivers and checksums."""
    sends, given, lost = p.sends, p.submissions, p.columns.not_sent
    sends = sends.at(np.isin(sends.home, views) | np.isin(sends.v, views))
    if (sends.first <= p.facts.sent_before[sends.s])[cut[sends.s]].any():
        return True
    with_digests = bool((given.digest != NONE).any() or (p.rows.digest != NONE).any())
    sends = sends.at(cut[sends.s] & ((sends.t >= 0) | with_digests))
    lost = lost.at(np.isin(p.facts.where(lost.s, lost.lseq).now, views) & cut[lost.s])
    order = np.lexsort((given.first, given.s))
    starts = packed(given.s[order], given.first[order])
    return any(
        bool((holder(starts, given.last[order], given.s[order], rows.s, rows.first) < 0).any())
        for rows in (sends, lost)
    )


def _old_receipts(p: PreparedGroup, rows: ReceiptRows, stable: bool, views: Longs) -> bool:
    """Receipts that speak of messages from before the scope."""
    first = newly(rows.s, rows.upto)
    older = np.zeros(len(rows), dtype=bool)
    for m in p.run.known:
        before = m.excerpt.stable if stable else m.excerpt.ordered
        if m.excerpt.is_cut and before is not None:
            mine = rows.s == m.k
            new = np.maximum(first, before + 1)
            older |= mine & (new <= rows.upto) & (new <= m.excerpt.sent)
    return bool((older & np.isin(p.facts.where(rows.s, rows.lseq).now, views)).any())
