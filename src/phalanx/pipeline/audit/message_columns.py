"""The rows of one group as numpy columns, with numbers instead of names.

Members are ranks in the order of their names, views and sets of receivers are numbered as they are
met; -1 stands for none, and NONE for a null of a column of numbers. `GroupColumns` reads the tables
of a group once: first the rows about lives and views (`Chronicle`), then the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import msgspec
import numpy as np

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.chronicle import (
    Chronicle,
    Fate,
    Install,
    JournalRecord,
    Marker,
    Receivers,
    SentRange,
    Use,
)
from phalanx.pipeline.audit.number_ranges import NONE, NUMBER_MAX, Bools, Longs
from phalanx.pipeline.audit.report_rows import (
    Closing,
    LastStep,
    Lost,
    QueueCounts,
    Receipts,
    Side,
    Submitted,
)
from phalanx.pipeline.group_tables import GroupTables, each_row

BASIC, CAUSAL, AGREED, SAFE = range(4)
SERVICES = ("BASIC", "CAUSAL", "AGREED", "SAFE")
_WHO = ("member", "incarnation", "lseq")


@dataclass(slots=True, kw_only=True)
class Columns:
    """Columns of equal length."""

    def at(self, where: Longs | Bools) -> Self:
        """The same columns of some rows."""
        return type(self)(**{f.name: getattr(self, f.name)[where] for f in fields(self)})

    def joined(self, more: Self) -> Self:
        both = ((f.name, getattr(self, f.name), getattr(more, f.name)) for f in fields(self))
        return type(self)(**{name: np.concatenate([one, two]) for name, one, two in both})

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(slots=True, kw_only=True)
class Deliveries(Columns):
    """Rows of `deliver`, by member and row."""

    k: Longs
    s: Longs
    lseq: Longs
    step: Longs
    ns: Longs
    """Simulated time where it may be compared, else NONE."""
    first: Longs
    last: Longs
    service: Longs
    v: Longs
    o: Longs
    """The view of the sending, as the row says."""
    regular: Bools
    frame: Longs
    pos: Longs
    batch: Longs
    t: Longs
    digest: Longs


@dataclass(slots=True, kw_only=True)
class Sends(Columns):
    """Rows of `sent`."""

    s: Longs
    lseq: Longs
    step: Longs
    ns: Longs
    first: Longs
    last: Longs
    service: Longs
    v: Longs
    phase: Longs
    frame: Longs
    t: Longs
    home: Longs
    """The view that the messages belong to; -1 if that cannot be known."""
    row: Longs
    """The row of the table, for the lists of dependencies."""


@dataclass(slots=True, kw_only=True)
class Submissions(Columns):
    """Rows of `accepted`."""

    s: Longs
    lseq: Longs
    step: Longs
    first: Longs
    last: Longs
    t: Longs
    digest: Longs


@dataclass(slots=True, kw_only=True)
class ReceiptRows(Columns):
    """Rows of `stable` or `ordered`."""

    s: Longs
    """The member that got the receipt."""
    lseq: Longs
    v: Longs
    upto: Longs
    foreign: Bools
    """It is about messages of another member."""


@dataclass(slots=True, kw_only=True)
class LostRows(Columns):
    """Rows of `not_sent`."""

    s: Longs
    lseq: Longs
    step: Longs
    first: Longs
    last: Longs
    rest: Longs
    t: Longs
    """The members that are gone, as a set of receivers; -1 in older journals."""


@dataclass(slots=True, kw_only=True)
class MarkerRows(Columns):
    """Rows of `transitional`."""

    k: Longs
    lseq: Longs
    v: Longs


class GroupColumns:
    """One group in one run."""

    def __init__(self, tables: GroupTables) -> None:
        self.tables = tables
        self.views: dict[str, int] = {}
        self._sets: dict[tuple[tuple[str, ...], tuple[int, ...] | None], int] = {}
        self._pa = arrow()
        journals = {journal.journal: journal for journal in tables.journals}
        self._journal_names = list(journals)
        deliver, sent = tables["deliver"], tables["sent"]
        author, authors = self._coded(deliver, "journal")
        sender, senders = self._pairs(deliver, "sender", "sender_incarnation")
        raw = {
            "view": self._viewed(deliver, "view"),
            "origin": self._viewed(deliver, "origin"),
            "sent": self._viewed(sent, "view"),
        }
        to = {name: self._receivers(tables[name]) for name in ("accepted", "sent", "deliver")}
        to["not_sent"] = self._receivers(tables["not_sent"], "members", "member_incarnations")
        small = list(self._small_rows())
        uses = self._uses(deliver, author, authors, sender, senders, raw["view"], raw["origin"])
        small += uses
        small += self._sent_ranges(sent, raw["sent"])
        small += [
            Receivers(t, list(names), None if incs is None else list(incs))
            for (names, incs), t in self._sets.items()
        ]
        self.run = Chronicle(small)
        self.run.vids |= {number: view for view, number in self.views.items()}
        run = self.run
        self.rank_of_journal = {m.journal.journal: m.k for m in run.known if m.journal is not None}
        self.deliveries = self._deliveries(
            deliver,
            self._ranks(author, authors),
            np.array([run.rank(*name) for name in senders] or [0], dtype=np.int64)[sender],
            raw["view"],
            raw["origin"],
            to["deliver"],
        )
        self.sends = self._sends(sent, raw["sent"], to["sent"])
        self.submissions = self._submissions(tables["accepted"], to["accepted"])
        self.stable = self._receipt_rows(tables["stable"], foreign=True)
        self.ordered = self._receipt_rows(tables["ordered"], foreign=False)
        self.not_sent = self._lost(tables["not_sent"], to["not_sent"])
        marked = tables["transitional"]
        self.markers = MarkerRows(
            k=self.authors(marked), lseq=self._longs(marked, "lseq"), v=self._viewed(marked, "view")
        )

    # ------------------------------------------------------------------ coding

    def _coded(self, table: Any, column: str) -> tuple[Longs, list[Any]]:
        """A column as indices into its distinct values."""
        found = table.column(column).combine_chunks().dictionary_encode()
        if isinstance(found, self._pa.ChunkedArray):
            found = found.combine_chunks()
        indices = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return indices.astype(np.int64), found.dictionary.to_pylist()

    def _pairs(self, table: Any, name: str, number: str) -> tuple[Longs, list[tuple[str, int]]]:
        """Two columns as indices into their distinct pairs."""
        a, names = self._coded(table, name)
        b, numbers = self._coded(table, number)
        both = a * max(1, len(numbers)) + b
        every, where = np.unique(both, return_inverse=True)
        pairs = [(names[i // len(numbers)], numbers[i % len(numbers)]) for i in every.tolist()]
        return where.reshape(-1).astype(np.int64), pairs

    def view_number(self, view: str | None) -> int:
        """The number of a view; -1 for none."""
        return -1 if view is None else self.views.setdefault(view, len(self.views))

    def _viewed(self, table: Any, column: str) -> Longs:
        where, views = self._coded(table, column)
        numbers = np.array([*map(self.view_number, views), -1], dtype=np.int64)
        found: Longs = numbers[where]
        return found

    def _receivers(self, table: Any, to: str = "to", inc: str = "to_incarnations") -> Longs:
        """Sets of receivers as numbers; -1 is the whole view."""
        pc = self._pa.compute
        found = np.full(table.num_rows, -1, dtype=np.int64)
        column = table.column(to).combine_chunks()
        if column.null_count == len(column):
            return found
        where = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        some = table.select([to, inc]).take(self._pa.array(where))
        names = some.column(to).combine_chunks()
        numbers = some.column(inc).combine_chunks()
        key = pc.binary_join_element_wise(
            pc.binary_join(names, "\x1f"),
            pc.coalesce(pc.binary_join(numbers.cast(self._pa.list_(self._pa.string())), ","), "?"),
            "\x1e",
        )
        code = key.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        _, firsts = np.unique(code, return_index=True)
        numbered = np.zeros(len(firsts), dtype=np.int64)
        for i, at in enumerate(firsts.tolist()):
            incs = numbers[at].as_py()
            whom = tuple(names[at].as_py()), None if incs is None else tuple(incs)
            numbered[i] = self._sets.setdefault(whom, len(self._sets))
        found[where] = numbered[code]
        return found

    def _longs(self, table: Any, column: str, null: int = NONE) -> Longs:
        values = table.column(column)
        if values.null_count:
            values = values.fill_null(null)
        return np.asarray(values.to_numpy()).astype(np.int64, copy=False)

    def authors(self, table: Any) -> Longs:
        """The ranks of the members that wrote the rows."""
        return self._ranks(*self._coded(table, "journal"))

    def _ranks(self, code: Longs, journals: Sequence[str]) -> Longs:
        ranks = [self.rank_of_journal[name] for name in journals]
        found: Longs = np.array(ranks or [0], dtype=np.int64)[code]
        return found

    # ------------------------------------------------------------------ lives and views

    def _small_rows(self) -> Iterator[Any]:
        tables, v = self.tables, self.view_number
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
                inside=_labels(row["members"], row["member_incarnations"]) or [],
                transitional=_labels(row["transitional"], row["transitional_incarnations"]) or [],
                context=row["context"],
                cause=row["cause"],
                components=row["components"],
                prev=None if row["previous"] is None else v(row["previous"]),
                previous=row["previous"],
                sim_ns=row["sim_ns"],
                joined=_labels(row["joined"], row["joined_incarnations"]),
                left=_labels(row["left"], row["left_incarnations"]),
            )
        names = ("members", "member_incarnations")
        for m, i, n, view, pos, members, incs in each_row(
            tables["transitional"], *_WHO, "view", "pos", *names
        ):
            yield Marker(m, i, n, view, v(view), pos, _labels(members, incs))
        yield from self._sides()
        for row in each_row(tables["queue"], *_WHO, "accepted", "submitted", "refused", "reason"):
            yield QueueCounts(*row)
        yield from self._last_steps()
        yield from self._closings()
        yield from self._counts()

    def _sides(self) -> Iterator[Side]:
        v = self.view_number
        for row in self.tables["merged_component"].to_pylist():
            yield Side(
                member=row["member"],
                incarnation=row["incarnation"],
                lseq=row["lseq"],
                view=row["view"],
                v=v(row["view"]),
                component=row["component"],
                w=v(row["component"]),
                members=_labels(row["members"], row["member_incarnations"]) or [],
                delivered=_labels(row["delivered"], row["delivered_incarnations"]) or [],
                delivered_upto=row["delivered_upto"],
                alone=_labels(row["alone"], row["alone_incarnations"]) or [],
                alone_first=row["alone_first"],
                alone_last=row["alone_last"],
            )

    def _last_steps(self) -> Iterator[LastStep]:
        """The step of the last row of each journal without a STOP."""
        ends = {j.journal: j for j in self.tables.journals if not j.stopped}
        if not ends:
            return
        pc, pa = self._pa.compute, self._pa
        wanted = pa.array(list(ends), pa.string())
        best: dict[str, tuple[int, int]] = {}
        for name in self.tables.names:
            table = self.tables[name].select(["journal", "lseq", "step"])
            for batch in table.to_batches():
                mine = batch.filter(pc.is_in(batch.column(0), value_set=wanted))
                if not mine.num_rows:
                    continue
                code = mine.column(0).dictionary_encode()
                index = code.indices.to_numpy(zero_copy_only=False)
                lseq, step = mine.column(1).to_numpy(), mine.column(2).to_numpy()
                for i, journal in enumerate(code.dictionary.to_pylist()):
                    at = np.flatnonzero(index == i)
                    high = at[np.argmax(lseq[at])]
                    best[journal] = max(
                        best.get(journal, (0, 0)), (int(lseq[high]), int(step[high]))
                    )
        for journal, (lseq, step) in best.items():
            facts = ends[journal]
            if lseq == facts.last:
                yield LastStep(facts.member, facts.incarnation, step)

    def _closings(self) -> Iterator[Closing]:
        """Receipts of stability that name members, or of a step that installs a view or is the
        last."""
        stable = self.tables["stable"]
        if not stable.num_rows:
            return
        pc = self._pa.compute
        installs = self.tables["view_installed"]
        steps = {*each_row(installs, "member", "incarnation", "step")}
        steps |= {(row.member, row.incarnation, row.step) for row in self._last_steps()}
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
        for m, i, n, step, view, members, incs in each_row(some, *columns):
            if members is not None or (m, i, step) in steps:
                yield Closing(m, i, n, step, view, self.view_number(view), _labels(members, incs))

    def _counts(self) -> Iterator[Any]:
        """How many receipts, submissions and reports each member has."""
        tables = self.tables
        by_journal = {j.journal: (j.member, j.incarnation) for j in tables.journals}
        for what in ("stable", "ordered", "all_delivered"):
            code, journals = self._coded(tables[what], "journal")
            upto = self._longs(tables[what], "upto")
            for i, journal in enumerate(journals):
                mine = upto[code == i]
                yield Receipts(*by_journal[journal], what, len(mine), int(mine.max()))
        code, journals = self._coded(tables["not_sent"], "journal")
        for i, journal in enumerate(journals):
            yield Lost(*by_journal[journal], int((code == i).sum()))
        queues: dict[str, list[int]] = {}
        for journal, lseq in each_row(tables["queue"], "journal", "lseq"):
            queues.setdefault(journal, []).append(lseq)
        accepted = tables["accepted"]
        code, journals = self._coded(accepted, "journal")
        size = self._longs(accepted, "last") - self._longs(accepted, "first") + 1
        lseq = self._longs(accepted, "lseq")
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
        service = self._services(deliver)
        pos, batch = self._longs(deliver, "pos"), self._longs(deliver, "batch")
        many = len(self.views)
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
        by_journal = {j.journal: (j.member, j.incarnation) for j in self.tables.journals}
        names = list(self.views)
        counts = (count(nonbasic), count(ordered), count(nonbasic & (batch != NONE)))
        found = []
        for i, at in enumerate(first.tolist()):
            v, o = int(view[at]), int(origin[at])
            who = (*by_journal[authors[author[at]]], *senders[sender[at]])
            high = None if highest[i] == NONE else int(highest[i])
            shown = (names[v], v, names[o], o, rows[i], *(c[i] for c in counts), high)
            found.append(Use(*who, *shown))
        return found

    def _sent_ranges(self, sent: Any, view: Longs) -> Iterator[SentRange]:
        """Rows of sends counted by member and view."""
        code, journals = self._coded(sent, "journal")
        last, lseq = self._longs(sent, "last"), self._longs(sent, "lseq")
        by_journal = {j.journal: (j.member, j.incarnation) for j in self.tables.journals}
        names = list(self.views)
        for i, journal in enumerate(journals):
            mine = np.flatnonzero(code == i)
            for v in np.unique(view[mine]).tolist():
                at = mine[view[mine] == v]
                high = at[np.argmax(last[at])]
                member, incarnation = by_journal[journal]
                shown = (names[v], v, len(at), int(last[high]), int(lseq[high]))
                yield SentRange(member, incarnation, *shown)

    # ------------------------------------------------------------------ messages

    def _services(self, table: Any) -> Longs:
        code, names = self._coded(table, "service")
        numbers = [SERVICES.index(name) for name in names]
        found: Longs = np.array(numbers or [0], dtype=np.int64)[code]
        return found

    def _time(self, table: Any) -> Longs:
        if not self.run.settled:
            return np.full(table.num_rows, NONE, dtype=np.int64)
        return self._longs(table, "sim_ns")

    def _bounds(self, table: Any) -> dict[str, Longs]:
        first, last = self._longs(table, "first"), self._longs(table, "last")
        if len(last) and int(last.max()) > NUMBER_MAX:
            problem = f"a message has the number {int(last.max())}"
            remedy = "no member numbers so many messages: the journal is damaged"
            raise PipelineError(f"group {self.tables.key.group!r}", problem, remedy)
        return {"first": first, "last": last}

    def _deliveries(
        self, table: Any, k: Longs, s: Longs, view: Longs, origin: Longs, t: Longs
    ) -> Deliveries:
        region, names = self._coded(table, "region")
        is_regular = np.array([name == "REGULAR" for name in names] or [False])
        found = Deliveries(
            k=k,
            s=s,
            lseq=self._longs(table, "lseq"),
            step=self._longs(table, "step"),
            ns=self._time(table),
            **self._bounds(table),
            service=self._services(table),
            v=view,
            o=origin,
            regular=is_regular[region],
            frame=self._longs(table, "frame"),
            pos=self._longs(table, "pos"),
            batch=self._longs(table, "batch"),
            t=t,
            digest=self._longs(table, "digest"),
        )
        return found.at(np.lexsort((found.lseq, found.k)))

    def _sends(self, table: Any, view: Longs, t: Longs) -> Sends:
        s = self.authors(table)
        phase = self._longs(table, "phase")
        found = Sends(
            s=s,
            lseq=self._longs(table, "lseq"),
            step=self._longs(table, "step"),
            ns=self._time(table),
            **self._bounds(table),
            service=self._services(table),
            v=view,
            phase=phase,
            frame=self._longs(table, "frame"),
            t=t,
            home=np.where(phase == 0, view, self._next_views(s, view)),
            row=np.arange(table.num_rows, dtype=np.int64),
        )
        return found.at(np.lexsort((found.lseq, found.first, found.s)))

    def _next_views(self, s: Longs, view: Longs) -> Longs:
        """The view that the sender installs after this one. If it lives to the end in this one,
        that one; -1 if that cannot be known."""
        run = self.run
        every, where = np.unique(s * len(self.views) + view, return_inverse=True)
        homes = []
        for key in every.tolist():
            member, v = run.members[key // len(self.views)], key % len(self.views)
            at = member.next.get(v)
            lives = run.settled and run.alive(member)
            homes.append(member.installs[at].v if at is not None else v if lives else -1)
        found: Longs = np.array(homes or [0], dtype=np.int64)[where.reshape(-1)]
        return found

    def _submissions(self, table: Any, t: Longs) -> Submissions:
        found = Submissions(
            s=self.authors(table),
            lseq=self._longs(table, "lseq"),
            step=self._longs(table, "step"),
            **self._bounds(table),
            t=t,
            digest=self._longs(table, "digest"),
        )
        return found.at(np.lexsort((found.lseq, found.s)))

    def _lost(self, table: Any, t: Longs) -> LostRows:
        found = LostRows(
            s=self.authors(table),
            lseq=self._longs(table, "lseq"),
            step=self._longs(table, "step"),
            **self._bounds(table),
            rest=self._longs(table, "rest", 0),
            t=t,
        )
        return found.at(np.lexsort((found.lseq, found.s)))

    def _receipt_rows(self, table: Any, *, foreign: bool) -> ReceiptRows:
        """`foreign`: rows name the sender that they are about."""
        pc = self._pa.compute
        others = np.zeros(table.num_rows, dtype=bool)
        if foreign and table.num_rows:
            other = pc.or_(
                pc.not_equal(table.column("sender"), table.column("member")),
                pc.not_equal(table.column("sender_incarnation"), table.column("incarnation")),
            )
            others = other.combine_chunks().to_numpy(zero_copy_only=False)
        found = ReceiptRows(
            s=self.authors(table),
            lseq=self._longs(table, "lseq"),
            v=self._viewed(table, "view"),
            upto=self._longs(table, "upto"),
            foreign=others,
        )
        return found.at(np.lexsort((found.lseq, found.s)))


def _labels(names: Iterable[str] | None, incarnations: Iterable[int] | None) -> list[str] | None:
    """Members as people write them, `ada.2`."""
    if names is None or incarnations is None:
        return None
    return [f"{name}.{inc}" for name, inc in zip(names, incarnations, strict=True)]
