"""Summary of a group: lives, views, and counts of what each member sent, delivered and received.

The summary is all that a `Chronicle` reads, and is small whatever the group delivered. Summaries of
parts that have no row in common are merged by `merged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.chronicle import (
    Fate,
    Install,
    JournalRecord,
    Marker,
    Receivers,
    SentRange,
    Use,
)
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs
from phalanx.pipeline.audit.report_rows import (
    Closing,
    LastStep,
    Lost,
    QueueCounts,
    Receipts,
    Side,
    Submitted,
)
from phalanx.pipeline.audit.row_coder import AGREED, BASIC, RowCoder
from phalanx.pipeline.group_tables import GroupTables, each_row

_WHO = ("member", "incarnation", "lseq")


class SmallRows(msgspec.Struct):
    """The rows that a `Chronicle` reads, by kind."""

    journals: list[JournalRecord] = []
    fates: list[Fate] = []
    installs: list[Install] = []
    markers: list[Marker] = []
    sides: list[Side] = []
    queues: list[QueueCounts] = []
    uses: list[Use] = []
    sent: list[SentRange] = []
    receivers: list[Receivers] = []
    closings: list[Closing] = []
    receipts: list[Receipts] = []
    submitted: list[Submitted] = []
    last_steps: list[LastStep] = []
    lost: list[Lost] = []


_KINDS: dict[type, str] = {
    JournalRecord: "journals",
    Fate: "fates",
    Install: "installs",
    Marker: "markers",
    Side: "sides",
    QueueCounts: "queues",
    Use: "uses",
    SentRange: "sent",
    Receivers: "receivers",
    Closing: "closings",
    Receipts: "receipts",
    Submitted: "submitted",
    LastStep: "last_steps",
    Lost: "lost",
}


class GroupSummary(msgspec.Struct):
    """Lives, views and counts of a group: enough for its `Chronicle`, whatever it delivered."""

    views: list[str]
    """By number."""
    kinds: SmallRows

    def number(self, coder: RowCoder) -> None:
        """Let a coder number views and sets as the summary does."""
        coder.views.update({view: number for number, view in enumerate(self.views)})
        for found in self.kinds.receivers:
            incs = found.to_incarnations
            coder.sets[tuple(found.to), None if incs is None else tuple(incs)] = found.t

    def rows(self) -> list[Any]:
        return [row for name in _KINDS.values() for row in getattr(self.kinds, name)]


def summary_of(views: dict[str, int], rows: Iterable[Any]) -> GroupSummary:
    found = GroupSummary(list(views), SmallRows())
    for row in rows:
        getattr(found.kinds, _KINDS[type(row)]).append(row)
    return found


def merged(summaries: Sequence[GroupSummary]) -> GroupSummary:
    """One summary of parts that have no row in common; views and sets are numbered anew."""
    views: dict[str, int] = {}
    sets: dict[tuple[tuple[str, ...], tuple[int, ...] | None], Receivers] = {}

    def v(view: str) -> int:
        return views.setdefault(view, len(views))

    rows: list[Any] = []
    for row in (row for summary in summaries for row in summary.rows()):
        match row:
            case Receivers():
                incs = None if row.to_incarnations is None else tuple(row.to_incarnations)
                key = tuple(row.to), incs
                if key not in sets:
                    sets[key] = msgspec.structs.replace(row, t=len(sets))
                continue
            case Use():
                row = msgspec.structs.replace(row, v=v(row.view), o=v(row.origin))
            case Install():
                previous = None if row.previous is None else v(row.previous)
                row = msgspec.structs.replace(row, v=v(row.view), prev=previous)
            case Side():
                row = msgspec.structs.replace(row, v=v(row.view), w=v(row.component))
            case SentRange() | Marker() | Closing():
                row = msgspec.structs.replace(row, v=v(row.view))
        rows.append(row)
    return summary_of(views, [*rows, *sets.values()])


class Summariser:
    """Makes the summary of the rows in some tables."""

    def __init__(self, tables: GroupTables, coder: RowCoder) -> None:
        self._tables, self._coder = tables, coder
        self._pa = arrow()

    def rows(self, *, lives: bool = True) -> list[Any]:
        """The rows of the summary. Without `lives` only counts: of a part that is not the first."""
        deliver, sent, coder = self._tables["deliver"], self._tables["sent"], self._coder
        author, authors = coder.coded(deliver, "journal")
        sender, senders = coder.pairs(deliver, "sender", "sender_incarnation")
        view, origin = coder.viewed(deliver, "view"), coder.viewed(deliver, "origin")
        found = list(self._lives()) if lives else []
        found += [*self._last_steps(), *self._closings(), *self._counts()]
        found += self._uses(deliver, author, authors, sender, senders, view, origin)
        found += self._sent_ranges(sent, coder.viewed(sent, "view"))
        for name in ("accepted", "sent", "deliver"):
            coder.receivers(self._tables[name])
        coder.receivers(self._tables["not_sent"], "members", "member_incarnations")
        return found + [
            Receivers(t, list(names), None if incs is None else list(incs))
            for (names, incs), t in coder.sets.items()
        ]

    def _lives(self) -> Iterator[Any]:
        tables, v = self._tables, self._coder.view_number
        for journal in tables.journals:
            yield msgspec.convert(msgspec.structs.asdict(journal), JournalRecord)
        for m, i, n, ns, op, reason in each_row(tables["life"], *_WHO, "sim_ns", "op", "reason"):
            yield Fate(m, i, n, op, ns, reason=reason)
        for m, i, n, ns, component in each_row(tables["topology"], *_WHO, "sim_ns", "component"):
            yield Fate(m, i, n, sim_ns=ns, component=component)
        steps = each_row(tables["view_change_step"], *_WHO, "sim_ns", "action", "stage", "context")
        for m, i, n, ns, action, stage, context in steps:
            yield Fate(m, i, n, action, ns, stage=stage, context=context)
        for row in tables["view_installed"].to_pylist():
            yield Install(
                member=row["member"],
                incarnation=row["incarnation"],
                lseq=row["lseq"],
                step=row["step"],
                view=row["view"],
                v=v(row["view"]),
                joins=row["joins"],
                removals=row["removals"],
                inside=labels(row["members"], row["member_incarnations"]) or [],
                transitional=labels(row["transitional"], row["transitional_incarnations"]) or [],
                context=row["context"],
                cause=row["cause"],
                components=row["components"],
                prev=None if row["previous"] is None else v(row["previous"]),
                previous=row["previous"],
                sim_ns=row["sim_ns"],
                joined=labels(row["joined"], row["joined_incarnations"]),
                left=labels(row["left"], row["left_incarnations"]),
                role_members=labels(row["role_members"], row["role_incarnations"]) or [],
                role_serials=row["role_serials"] or [],
                role_operations=row["role_operations"] or [],
            )
        names = ("members", "member_incarnations")
        for m, i, n, view, pos, members, incs in each_row(
            tables["transitional"], *_WHO, "view", "pos", *names
        ):
            yield Marker(m, i, n, view, v(view), pos, labels(members, incs))
        yield from self._sides()
        for row in each_row(tables["queue"], *_WHO, "accepted", "submitted", "refused", "reason"):
            yield QueueCounts(*row)

    def _sides(self) -> Iterator[Side]:
        v = self._coder.view_number
        for row in self._tables["merged_component"].to_pylist():
            yield Side(
                member=row["member"],
                incarnation=row["incarnation"],
                lseq=row["lseq"],
                view=row["view"],
                v=v(row["view"]),
                component=row["component"],
                w=v(row["component"]),
                members=labels(row["members"], row["member_incarnations"]) or [],
                delivered=labels(row["delivered"], row["delivered_incarnations"]) or [],
                delivered_upto=row["delivered_upto"],
                alone=labels(row["alone"], row["alone_incarnations"]) or [],
                alone_first=row["alone_first"],
                alone_last=row["alone_last"],
            )

    def _last_steps(self) -> Iterator[LastStep]:
        """The step of the last row of each journal without a STOP."""
        ends = {j.journal: j for j in self._tables.journals if not j.stopped}
        if not ends:
            return
        best: dict[str, tuple[int, int]] = {}
        for name in self._tables.names:
            table = self._tables[name]
            code, journals = self._coder.coded(table, "journal")
            lseq, step = self._coder.longs(table, "lseq"), self._coder.longs(table, "step")
            for i, journal in enumerate(journals):
                if journal in ends:
                    at = np.flatnonzero(code == i)
                    high = at[np.argmax(lseq[at])]
                    last = int(lseq[high]), int(step[high])
                    best[journal] = max(best.get(journal, (0, 0)), last)
        for journal, (row, at_step) in best.items():
            facts = ends[journal]
            if row == facts.last:
                yield LastStep(facts.member, facts.incarnation, at_step)

    def _closings(self) -> Iterator[Closing]:
        """Receipts of stability that name members, or of a step that installs a view or may be the
        last. More of them do no harm."""
        stable = self._tables["stable"]
        if not stable.num_rows:
            return
        pc = self._pa.compute
        installs = self._tables["view_installed"]
        steps = {*each_row(installs, "member", "incarnation", "step")}
        code, journals = self._coder.coded(stable, "journal")
        step = self._coder.longs(stable, "step")
        by_journal = {j.journal: (j.member, j.incarnation) for j in self._tables.journals}
        for i, journal in enumerate(journals):
            steps.add((*by_journal[journal], int(step[code == i].max())))
        own = pc.and_(
            pc.equal(stable.column("sender"), stable.column("member")),
            pc.equal(stable.column("sender_incarnation"), stable.column("incarnation")),
        )
        ends = self._pa.array(sorted({step for _, _, step in steps}), self._pa.int64())
        may = pc.or_(
            pc.is_valid(stable.column("members")),
            pc.is_in(stable.column("step"), value_set=ends),
        )
        some = stable.filter(pc.and_(own, may))
        columns = (*_WHO, "step", "view", "members", "member_incarnations")
        for m, i, n, at, view, members, incs in each_row(some, *columns):
            if members is not None or (m, i, at) in steps:
                yield Closing(
                    m, i, n, at, view, self._coder.view_number(view), labels(members, incs)
                )

    def _counts(self) -> Iterator[Any]:
        """How many receipts, submissions and reports each member has."""
        tables = self._tables
        by_journal = {j.journal: (j.member, j.incarnation) for j in tables.journals}
        for what in ("stable", "ordered", "all_delivered"):
            code, journals = self._coder.coded(tables[what], "journal")
            upto = self._coder.longs(tables[what], "upto")
            for i, journal in enumerate(journals):
                mine = upto[code == i]
                yield Receipts(*by_journal[journal], what, len(mine), int(mine.max()))
        code, journals = self._coder.coded(tables["not_sent"], "journal")
        for i, journal in enumerate(journals):
            yield Lost(*by_journal[journal], int((code == i).sum()))
        queues: dict[str, list[int]] = {}
        for journal, lseq in each_row(tables["queue"], "journal", "lseq"):
            queues.setdefault(journal, []).append(lseq)
        accepted = tables["accepted"]
        code, journals = self._coder.coded(accepted, "journal")
        size = self._coder.longs(accepted, "last") - self._coder.longs(accepted, "first") + 1
        lseq = self._coder.longs(accepted, "lseq")
        for i, journal in enumerate(journals):
            at = np.flatnonzero(code == i)
            after = np.searchsorted(np.array(sorted(queues.get(journal, []))), lseq[at])
            for number in np.unique(after).tolist():
                count = int(size[at][after == number].sum())
                yield Submitted(*by_journal[journal], number, count)

    def _uses(
        self,
        deliver: Any,
        author: Longs,
        authors: Sequence[str],
        sender: Longs,
        senders: Sequence[tuple[str, int]],
        view: Longs,
        origin: Longs,
    ) -> list[Use]:
        """Deliveries counted by member, sender and view."""
        if not len(author):
            return []
        service = self._coder.services(deliver)
        pos, batch = self._coder.longs(deliver, "pos"), self._coder.longs(deliver, "batch")
        many = len(self._coder.views)
        key = ((author * len(senders) + sender) * many + view) * many + origin
        every, first, where = np.unique(key, return_index=True, return_inverse=True)
        where = where.reshape(-1)
        nonbasic, ordered = service != BASIC, service >= AGREED

        def count(what: Bools) -> list[int]:
            return [int(n) for n in np.bincount(where[what], minlength=len(every))]

        highest = np.full(len(every), NONE, dtype=np.int64)
        placed = ordered & (pos != NONE)
        np.maximum.at(highest, where[placed], pos[placed])
        rows = np.bincount(where, minlength=len(every)).tolist()
        some = np.bincount(where[_is_selective(deliver)], minlength=len(every))
        by_journal = {j.journal: (j.member, j.incarnation) for j in self._tables.journals}
        names = list(self._coder.views)
        counts = (count(nonbasic), count(ordered), count(nonbasic & (batch != NONE)))
        found = []
        for i, at in enumerate(first.tolist()):
            v, o = int(view[at]), int(origin[at])
            who = (*by_journal[authors[author[at]]], *senders[sender[at]])
            high = None if highest[i] == NONE else int(highest[i])
            shown = (names[v], v, names[o], o, rows[i], *(c[i] for c in counts), high)
            found.append(Use(*(*who, *shown, bool(some[i]))))
        return found

    def _sent_ranges(self, sent: Any, view: Longs) -> Iterator[SentRange]:
        """Rows of sends counted by member and view."""
        code, journals = self._coder.coded(sent, "journal")
        last, lseq = self._coder.longs(sent, "last"), self._coder.longs(sent, "lseq")
        by_journal = {j.journal: (j.member, j.incarnation) for j in self._tables.journals}
        names, some = list(self._coder.views), _is_selective(sent)
        for i, journal in enumerate(journals):
            mine = np.flatnonzero(code == i)
            for v in np.unique(view[mine]).tolist():
                at = mine[view[mine] == v]
                high = at[np.argmax(last[at])]
                member, incarnation = by_journal[journal]
                shown = (names[v], v, len(at), int(last[high]), int(lseq[high]), any(some[at]))
                yield SentRange(member, incarnation, *shown)


def _is_selective(table: Any) -> Bools:
    """Which rows of messages name receivers."""
    found: Bools = table.column("to").is_valid().to_numpy().astype(bool)
    return found


def labels(names: Iterable[str] | None, incarnations: Iterable[int] | None) -> list[str] | None:
    """Members as people write them, `ada.2`."""
    if names is None or incarnations is None:
        return None
    return [f"{name}.{inc}" for name, inc in zip(names, incarnations, strict=True)]
