"""Which rows of a group the audit of some of its views needs, and how to read only these.

The messages of a view were sent in it, or in the view before while that was closing. So the scope
of some views has, of each journal, the rows from the view before the first of them to the step that
installs the view after the last one; of members that installed none of these views the rows up to
their first view. It also has the rows of `life` and the requests to leave, wherever they are. What
counts from the beginning of a life is carried (`journal_excerpt`): one value for each journal, or
one for each sender.

Rows that point further back (`points_outside`) are judged with a deeper scope: the views before
those, then four times as many, and in the end the whole life.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.arrow_columns import Bools, Ints, codes, ints
from phalanx.pipeline.audit.group_summary import labels
from phalanx.pipeline.audit.journal_excerpt import FAR, JournalExcerpt
from phalanx.pipeline.audit.merge_record import MergeRecord, raise_to
from phalanx.pipeline.audit.view_stays import StayIndex, ViewStay
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.segment_stats import JournalFacts

WHOLE = 1 << 30
"""The depth of a scope that has all rows."""
_DEEPER = 4
LIVES = ("life", "topology")
"""Few rows, which are read wherever they are."""
LOSSES = ("gap", "corrupt")
_COUNTED = ("sent", "stable", "ordered", "queue", "accepted", "deliver")
_MERGES = ("view_installed", "merged_component")


class RowRange(msgspec.Struct, frozen=True):
    """Of a journal the rows from number `first` to `last`, and the rest of the step of `last`; to
    its end if that is None."""

    first: int
    last: int | None = None
    last_step: int = -1


class ViewScope(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that the audit of some views reads."""

    key: GroupKey
    views: frozenset[str]
    """Those that are judged."""
    context: frozenset[str]
    """Those whose rows are read."""
    ranges: dict[str, RowRange]
    """By journal."""
    journals: list[JournalFacts]
    """Of all members of the views that are judged, with rows in the scope or not."""
    depth: int


def scope_of(
    key: GroupKey,
    journals: Sequence[JournalFacts],
    index: StayIndex,
    views: Iterable[str],
    depth: int = 1,
) -> ViewScope:
    """The scope of some views, with so many views before them. Journals are all of the group."""
    chosen = frozenset(views)
    context = set(chosen)
    if depth >= WHOLE:
        context = set(index.by_view)
    else:
        edge = chosen
        for _ in range(depth):
            edge = frozenset(index.before(edge) - context)
            context |= edge
            if not edge:
                break
        if depth > 1:
            context |= index.after(chosen)
    ranges: dict[str, RowRange] = {}
    for journal, stays in index.by_journal.items():
        inside = [stay for stay in stays if stay.view in context]
        if inside and depth < WHOLE:
            first = 1 if inside[0] is stays[0] and inside[0].previous is None else inside[0].lseq
            then = index.next(inside[-1])
            ranges[journal] = _until(first, then)
    if depth >= WHOLE:
        ranges = {facts.journal: RowRange(1) for facts in journals}
    people = index.members(chosen)
    kept = [
        facts
        for facts in journals
        if facts.journal in ranges or f"{facts.member}.{facts.incarnation}" in people
    ]
    for facts in kept:  # members that did not install any of them: how they began
        if facts.journal not in ranges:
            mine = index.by_journal.get(facts.journal)
            ranges[facts.journal] = _until(1, mine[0] if mine else None)
    return ViewScope(
        key=key,
        views=chosen,
        context=frozenset(context),
        ranges=ranges,
        journals=kept,
        depth=depth,
    )


def _until(first: int, then: ViewStay | None) -> RowRange:
    """To the step that installs the next view."""
    return RowRange(first) if then is None else RowRange(first, then.lseq, then.step)


def deeper(scope: ViewScope, journals: Sequence[JournalFacts], index: StayIndex) -> ViewScope:
    """The next deeper scope of the same views."""
    wider = scope_of(scope.key, journals, index, scope.views, scope.depth * _DEEPER)
    if wider.context == scope.context or len(wider.context) > len(index.by_view) // 2:
        return scope_of(scope.key, journals, index, scope.views, WHOLE)
    return wider


class ScopeReader:
    """Collects the rows of a scope from batches of rows, and what the rows before them say."""

    def __init__(
        self, scope: ViewScope, carried: Mapping[str, JournalExcerpt] | None = None
    ) -> None:
        """`carried`: excerpts that are known, by journal; rows before them are not looked at."""
        self.scope = scope
        self._names = [facts.journal for facts in scope.journals]
        self._carried = dict(carried or {})
        size = len(self._names)
        ranges = [scope.ranges[name] for name in self._names]
        lasts = [FAR if r.last is None else r.last for r in ranges]
        self._first = np.array([r.first for r in ranges] or [0], np.int64)
        self._last = np.array(lasts or [0], np.int64)
        self._last_step = np.array([r.last_step for r in ranges] or [0], np.int64)
        self._rows = np.zeros(size, np.int64)
        self._rows_before = np.zeros(size, np.int64)
        self._lost = np.zeros(size, bool)
        self._lost_before = np.zeros(size, bool)
        self._high = np.zeros(size, np.int64)
        self._parts: dict[str, list[Any]] = {}
        self._before = {name: np.zeros(size, np.int64) for name in ("sent", "stable", "ordered")}
        self._submitted = np.zeros(size, np.int64)
        self._queue: dict[int, tuple[int, tuple[int, int, int]]] = {}
        self._delivered: list[dict[str, int]] = [{} for _ in range(size)]
        self._installs: dict[int, list[dict[str, Any]]] = {}
        """Rows before the scope: installs, and reports of merges by view."""
        self._merges: dict[tuple[int, str], dict[str, int]] = {}

    def add(self, name: str, table: Any) -> None:
        """Some rows of a table of the group."""
        if not table.num_rows:
            return
        journal = codes(table.column("journal"), self._names)
        lseq, step = ints(table.column("lseq")), ints(table.column("step"))
        mine = journal >= 0
        at = np.where(mine, journal, 0)
        inside = mine & (lseq >= self._first[at])
        inside &= (lseq <= self._last[at]) | (step == self._last_step[at])
        before = mine & (lseq < self._first[at])
        size = len(self._names)
        if size:
            self._rows += np.bincount(journal[inside], minlength=size)
            self._rows_before += np.bincount(journal[before], minlength=size)
            np.maximum.at(self._high, journal[inside], lseq[inside])
        if name in LOSSES:
            self._lost[journal[inside]] = True
            self._lost_before[journal[before]] = True
        if name in _COUNTED:
            self._count(name, table, journal, lseq, before & self._uncarried(at))
        elif name in _MERGES:
            self._note_merges(name, table, journal, before & self._uncarried(at))
        kept = inside
        if name in LIVES:
            kept = mine
        elif name == "view_change_step":
            kept = inside | (mine & (codes(table.column("action"), ["LEAVE"]) >= 0))
        if kept.any():
            self._parts.setdefault(name, []).append(table.filter(arrow().array(kept)))

    def _uncarried(self, journal: Ints) -> Bools:
        carried = np.array([name in self._carried for name in self._names] or [False])
        found: Bools = ~carried[journal]
        return found

    def _count(self, name: str, table: Any, journal: Ints, lseq: Ints, before: Bools) -> None:
        where = np.flatnonzero(before)
        if not len(where):
            return
        whose = journal[where]
        match name:
            case "sent":
                np.maximum.at(self._before["sent"], whose, ints(table.column("last"))[where])
            case "stable" | "ordered":
                upto = ints(table.column("upto"))[where]
                np.maximum.at(self._before[name], whose, upto)
            case "accepted":
                count = ints(table.column("last")) - ints(table.column("first")) + 1
                np.add.at(self._submitted, whose, count[where])
            case "queue":
                columns = ("accepted", "submitted", "refused")
                counts = [ints(table.column(column)) for column in columns]
                for i, k in zip(where.tolist(), whose.tolist(), strict=True):
                    if lseq[i] > self._queue.get(k, (0,))[0]:
                        found = (int(counts[0][i]), int(counts[1][i]), int(counts[2][i]))
                        self._queue[k] = int(lseq[i]), found
            case "deliver":
                self._count_delivered(table, journal, where)

    def _count_delivered(self, table: Any, journal: Ints, where: Ints) -> None:
        some = table.take(arrow().array(where))
        last = ints(some.column("last"))
        names = some.column("sender").combine_chunks().dictionary_encode()
        if isinstance(names, arrow().ChunkedArray):
            names = names.combine_chunks()
        words = names.dictionary.to_pylist()
        code = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        incarnation = ints(some.column("sender_incarnation"))
        order = np.lexsort((last, incarnation, code, journal[where]))
        keys = np.stack([journal[where][order], code[order], incarnation[order]])
        ends = np.append(np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)), len(order) - 1)
        for end in ends.tolist():
            k, name, number = (int(x) for x in keys[:, end])
            label = f"{words[name]}.{number}"
            high = self._delivered[k]
            high[label] = max(high.get(label, 0), int(last[order[end]]))

    def _note_merges(self, name: str, table: Any, journal: Ints, before: Bools) -> None:
        where = np.flatnonzero(before)
        some = table.take(arrow().array(where)) if len(where) else table.slice(0, 0)
        for k, row in zip(journal[where].tolist(), some.to_pylist(), strict=True):
            if name == "view_installed":
                self._installs.setdefault(k, []).append(row)
            else:
                senders = labels(row["delivered"], row["delivered_incarnations"]) or []
                reported = dict(zip(senders, row["delivered_upto"], strict=True))
                raise_to(self._merges.setdefault((k, row["view"]), {}), reported)

    def _record(self, k: int, base: MergeRecord | None) -> MergeRecord | None:
        if base is None:
            return None
        found, facts = base.copy(), self.scope.journals[k]
        for row in sorted(self._installs.get(k, ()), key=lambda row: row["lseq"]):
            inside = labels(row["members"], row["member_incarnations"]) or []
            together = labels(row["transitional"], row["transitional_incarnations"]) or []
            reported = self._merges.get((k, row["view"]), {})
            found.installed(f"{facts.member}.{facts.incarnation}", inside, together, reported)
        return found

    def tables(self) -> tuple[GroupTables, dict[str, JournalExcerpt]]:
        """The rows of the scope, and the excerpts that they are of. Journals count as unsettled:
        what a part of a run owes in the end is not asked."""
        pa = arrow()
        tables = {name: pa.concat_tables(parts) for name, parts in self._parts.items()}
        first_sent = self._first_sent(tables.get("sent"))
        excerpts: dict[str, JournalExcerpt] = {}
        journals = []
        for k, facts in enumerate(self.scope.journals):
            excerpts[facts.journal] = self._excerpt(k, facts, first_sent)
            begin = excerpts[facts.journal].begin
            complete = self._rows[k] == max(0, self._high[k] - begin + 1)
            torn = int(not complete or bool(self._lost[k]))
            last = int(self._high[k]) or facts.last
            changed = {"torn": torn, "last": last, "rows": int(self._rows[k]), "settled": 0}
            journals.append(msgspec.structs.replace(facts, **changed))
        return GroupTables(self.scope.key, journals, tables), excerpts

    def _first_sent(self, sent: Any) -> Ints:
        found = np.full(max(1, len(self._names)), FAR, np.int64)
        if sent is not None:
            journal = codes(sent.column("journal"), self._names)
            np.minimum.at(found, journal, ints(sent.column("first")))
        return found

    def _excerpt(self, k: int, facts: JournalFacts, first_sent: Ints) -> JournalExcerpt:
        found = self.scope.ranges[facts.journal]
        goes_on = found.last is not None and int(self._high[k]) < facts.last
        if found.first <= 1:
            return JournalExcerpt(goes_on=goes_on)
        if (carried := self._carried.get(facts.journal)) is not None:
            return msgspec.structs.replace(carried, goes_on=goes_on)
        if self._rows_before[k] != found.first - 1 or self._lost_before[k]:
            sent = int(first_sent[k]) - 1 if first_sent[k] < FAR else FAR
            return JournalExcerpt(
                begin=found.first,
                goes_on=goes_on,
                sent=sent,
                stable=None,
                ordered=None,
                queue=None,
                submitted=None,
                delivered=None,
                merges=None,
            )
        return self.counted(k, JournalExcerpt(), goes_on)

    def counted(self, k: int, base: JournalExcerpt, goes_on: bool = False) -> JournalExcerpt:
        """The excerpt that begins where the scope of a journal does, if the rows before it that
        were added begin with `base`."""
        sent = int(self._before["sent"][k])
        if base.sent < FAR:
            sent = max(sent, base.sent)
        delivered = None
        if base.delivered is not None:
            delivered = dict(base.delivered)
            for label, number in self._delivered[k].items():
                delivered[label] = max(number, delivered.get(label, 0))
        queue = self._queue[k][1] if k in self._queue else base.queue
        submitted = base.submitted
        if submitted is not None:
            submitted += int(self._submitted[k])
        return JournalExcerpt(
            begin=int(self._first[k]),
            goes_on=goes_on,
            sent=sent or base.sent,
            stable=_higher(base.stable, int(self._before["stable"][k])),
            ordered=_higher(base.ordered, int(self._before["ordered"][k])),
            queue=None if submitted is None else queue,
            submitted=submitted,
            delivered=delivered,
            merges=self._record(k, base.merges),
        )


def _higher(base: int | None, number: int) -> int | None:
    if base is None:
        return number or None
    return max(base, number)


def carried_to(
    view: str, tables: GroupTables, excerpts: Mapping[str, JournalExcerpt], index: StayIndex
) -> dict[tuple[str, int], JournalExcerpt]:
    """Excerpts that begin where members installed a view, by journal and row, from the rows of a
    scope that has them all: what a scope of the next view begins with."""
    stays = {stay.journal: stay for stay in index.by_view.get(view, ())}
    journals = [facts for facts in tables.journals if facts.journal in stays]
    ranges = {journal: RowRange(stay.lseq) for journal, stay in stays.items()}
    scope = ViewScope(
        key=tables.key,
        views=frozenset({view}),
        context=frozenset({view}),
        ranges=ranges,
        journals=journals,
        depth=1,
    )
    reader = ScopeReader(scope)
    for name in (*_COUNTED, *_MERGES):
        reader.add(name, tables[name])
    return {
        (facts.journal, ranges[facts.journal].first): reader.counted(k, excerpts[facts.journal])
        for k, facts in enumerate(journals)
        if not facts.torn
    }


def scope_tables(
    group: GroupTables, scope: ViewScope
) -> tuple[GroupTables, dict[str, JournalExcerpt]]:
    """The rows of a scope of a group that is in memory."""
    reader = ScopeReader(scope)
    for name in group.names:
        reader.add(name, group[name])
    return reader.tables()
