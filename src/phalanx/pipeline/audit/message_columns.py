"""The rows of one group as numpy columns, with numbers instead of names.

Members are ranks in the order of their names, views and sets of receivers are numbered as they are
met (`row_coder`). `GroupColumns` reads the tables of a group: first the rows about lives and views
(`group_summary`, `chronicle`), then the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.schema import NUMBER_MAX
from phalanx.pipeline.audit.chronicle import (
    Chronicle,
)
from phalanx.pipeline.audit.group_summary import GroupSummary, Summariser
from phalanx.pipeline.audit.journal_excerpt import JournalExcerpt
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs, order_of
from phalanx.pipeline.audit.row_coder import RowCoder
from phalanx.pipeline.group_tables import GroupTables


@dataclass(slots=True, kw_only=True)
class Columns:
    """Columns of equal length."""

    def at(self, where: Longs | Bools | slice) -> Self:
        """The same columns of some rows; of a slice, without a copy."""
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
class NotSentRows(Columns):
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

    def __init__(
        self,
        tables: GroupTables,
        summary: GroupSummary | None = None,
        excerpts: Mapping[str, JournalExcerpt] | None = None,
    ) -> None:
        """Of the rows in these tables; of a part of a large group, with the summary of all; of
        some views, with the excerpts of the journals that the rows are of."""
        self.tables, self.coder = tables, RowCoder()
        coder = self.coder
        if summary is None:
            small = Summariser(tables, coder).rows()
        else:
            summary.number(coder)
            small = summary.rows()
        deliver, sent = tables["deliver"], tables["sent"]
        author, authors = coder.coded(deliver, "journal")
        sender, senders = coder.pairs(deliver, "sender", "sender_incarnation")
        run = self.run = Chronicle(small)
        for m in run.known:
            if excerpts is not None and m.journal is not None:
                m.excerpt = excerpts[m.journal.journal]
        self.rank_of_journal = {m.journal.journal: m.k for m in run.known if m.journal is not None}
        s = np.array([run.rank(*name) for name in senders] or [0], dtype=np.int64)[sender]
        self.deliveries = self._deliveries(deliver, self._ranks(author, authors), s)
        self.sends = self._sends(sent)
        self.submissions = self._submissions(tables["accepted"])
        self.stable = self._receipt_rows(tables["stable"], foreign=True)
        self.ordered = self._receipt_rows(tables["ordered"], foreign=False)
        self.not_sent = self._lost(tables["not_sent"])
        marked = tables["transitional"]
        lseq = coder.longs(marked, "lseq")
        self.markers = MarkerRows(k=self.authors(marked), lseq=lseq, v=coder.viewed(marked, "view"))
        run.vids |= {number: view for view, number in coder.views.items()}

    @property
    def views(self) -> dict[str, int]:
        return self.coder.views

    def view_number(self, view: str) -> int:
        return self.coder.view_number(view)

    def authors(self, table: Any) -> Longs:
        """The ranks of the members that wrote the rows."""
        return self._ranks(*self.coder.coded(table, "journal"))

    def _ranks(self, code: Longs, journals: Sequence[str]) -> Longs:
        ranks = [self.rank_of_journal[name] for name in journals]
        found: Longs = np.array(ranks or [0], dtype=np.int64)[code]
        return found

    # ------------------------------------------------------------------ messages

    def _time(self, table: Any) -> Longs:
        if not self.run.settled:
            return np.full(table.num_rows, NONE, dtype=np.int64)
        return self.coder.longs(table, "sim_ns")

    def _bounds(self, table: Any) -> dict[str, Longs]:
        first, last = self.coder.longs(table, "first"), self.coder.longs(table, "last")
        if len(last) and int(last.max()) > NUMBER_MAX:
            problem = f"a message has the number {int(last.max())}"
            remedy = "no member numbers so many messages: the journal is damaged"
            raise PipelineError(f"group {self.tables.key.group!r}", problem, remedy)
        return {"first": first, "last": last}

    def _deliveries(self, table: Any, k: Longs, s: Longs) -> Deliveries:
        region, names = self.coder.coded(table, "region")
        is_regular = np.array([name == "REGULAR" for name in names] or [False])
        found = Deliveries(
            k=k,
            s=s,
            lseq=self.coder.longs(table, "lseq"),
            step=self.coder.longs(table, "step"),
            ns=self._time(table),
            **self._bounds(table),
            service=self.coder.services(table),
            v=self.coder.viewed(table, "view"),
            o=self.coder.viewed(table, "origin"),
            regular=is_regular[region],
            frame=self.coder.longs(table, "frame"),
            pos=self.coder.longs(table, "pos"),
            batch=self.coder.longs(table, "batch"),
            t=self.coder.receivers(table),
            digest=self.coder.longs(table, "digest"),
        )
        return found.at(order_of(found.k, found.lseq))

    def _sends(self, table: Any) -> Sends:
        s, view = self.authors(table), self.coder.viewed(table, "view")
        phase = self.coder.longs(table, "phase")
        found = Sends(
            s=s,
            lseq=self.coder.longs(table, "lseq"),
            step=self.coder.longs(table, "step"),
            ns=self._time(table),
            **self._bounds(table),
            service=self.coder.services(table),
            v=view,
            phase=phase,
            frame=self.coder.longs(table, "frame"),
            t=self.coder.receivers(table),
            home=np.where(phase == 0, view, self._next_views(s, view)),
            row=np.arange(table.num_rows, dtype=np.int64),
        )
        return found.at(order_of(found.s, found.first, found.lseq))

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

    def _submissions(self, table: Any) -> Submissions:
        found = Submissions(
            s=self.authors(table),
            lseq=self.coder.longs(table, "lseq"),
            step=self.coder.longs(table, "step"),
            **self._bounds(table),
            t=self.coder.receivers(table),
            digest=self.coder.longs(table, "digest"),
        )
        return found.at(order_of(found.s, found.lseq))

    def _lost(self, table: Any) -> NotSentRows:
        found = NotSentRows(
            s=self.authors(table),
            lseq=self.coder.longs(table, "lseq"),
            step=self.coder.longs(table, "step"),
            **self._bounds(table),
            rest=self.coder.longs(table, "rest", 0),
            t=self.coder.receivers(table, "members", "member_incarnations"),
        )
        return found.at(order_of(found.s, found.lseq))

    def _receipt_rows(self, table: Any, *, foreign: bool) -> ReceiptRows:
        """`foreign`: rows name the sender that they are about."""
        pc = arrow().compute
        others = np.zeros(table.num_rows, dtype=bool)
        if foreign and table.num_rows:
            other = pc.or_(
                pc.not_equal(table.column("sender"), table.column("member")),
                pc.not_equal(table.column("sender_incarnation"), table.column("incarnation")),
            )
            others = other.combine_chunks().to_numpy(zero_copy_only=False)
        found = ReceiptRows(
            s=self.authors(table),
            lseq=self.coder.longs(table, "lseq"),
            v=self.coder.viewed(table, "view"),
            upto=self.coder.longs(table, "upto"),
            foreign=others,
        )
        return found.at(order_of(found.s, found.lseq))
