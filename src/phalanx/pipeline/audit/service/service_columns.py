"""The rows of a service as columns of numbers: what the kernels of the service's audit read.

A `ServiceFrame` is some rows of one table with the process that wrote them. Texts become codes that
are equal where the texts are (`codes`), so that rows are grouped and compared by sorting. A kernel
is a function from the tables to `ServiceViolation`s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.verdicts import VerdictRow
from phalanx.pipeline.group_tables import GroupTables, each_row
from phalanx.pipeline.segment_stats import JournalFacts

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
KEPT = 3
"""Counter-examples that are kept of each property."""


class LifeFacts(msgspec.Struct, frozen=True):
    """One life of one process. `order` sorts the lives of all hosts; `complete`: nothing can be
    missing behind its end; `last`: no later life of the host is here."""

    order: int
    host: str
    life: int
    process: str
    is_server: bool
    complete: bool
    torn: bool
    crashed: bool
    last: bool

    @property
    def label(self) -> str:
        return f"{self.host}.{self.life}"


class ServiceViolation(msgspec.Struct, frozen=True):
    """One way in which one property was broken."""

    property: str
    text: str
    rows: tuple[VerdictRow, ...]


class ServiceResults:
    """How often each property was tested, and its violations."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.kept: dict[str, list[ServiceViolation]] = {}

    def add(self, name: str, tested: int, violations: Iterable[ServiceViolation]) -> None:
        self.times[name] += int(tested)
        for violation in violations:
            self.found[name] += 1
            kept = self.kept.setdefault(name, [])
            if len(kept) < KEPT:
                kept.append(violation)


class ServiceFrame:
    """Rows of one table. `life` is the order of the life that wrote each."""

    def __init__(self, table: Any, lives: Sequence[LifeFacts]) -> None:
        self.table = table
        self.lives = lives
        order = {(life.host, life.life): life.order for life in lives}
        writers = each_row(table, "member", "incarnation")
        self.life: Longs = np.array([order[who] for who in writers], dtype=np.int64)
        self.lseq = self.longs("lseq")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def longs(self, name: str) -> Longs:
        """A column of numbers; null is -1."""
        column = arrow().compute.fill_null(self.table.column(name), -1)
        found: Longs = column.to_numpy().astype(np.int64)
        return found

    def texts(self, name: str) -> list[str]:
        """A column of texts; null is empty."""
        found: list[str] = arrow().compute.fill_null(self.table.column(name), "").to_pylist()
        return found

    def joined(self, name: str) -> list[str]:
        """A column of lists of texts, each list as one text."""
        found: list[str] = arrow().compute.binary_join(self.table.column(name), "\n").to_pylist()
        return found

    def each(self, name: str) -> tuple[Longs, list[str]]:
        """The elements of a column of lists: which row, and the text."""
        column = self.table.column(name).combine_chunks()
        compute = arrow().compute
        rows: Longs = compute.list_parent_indices(column).to_numpy(zero_copy_only=False)
        return rows.astype(np.int64), compute.list_flatten(column).to_pylist()

    def process(self) -> list[str]:
        return [self.lives[i].process for i in self.life.tolist()]

    def where(self, keep: Bools) -> ServiceFrame:
        return ServiceFrame(self.table.filter(arrow().array(keep)), self.lives)

    def place(self, i: int) -> VerdictRow:
        life = self.lives[int(self.life[i])]
        return VerdictRow(life.host, life.life, int(self.lseq[i]))


def frame(tables: GroupTables, name: str, lives: Sequence[LifeFacts]) -> ServiceFrame:
    """All rows of a table."""
    return ServiceFrame(tables[name], lives)


def codes(*columns: Sequence[Any] | Longs) -> Longs:
    """For each row a number that is the same where all columns are."""
    code: Longs = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if isinstance(column, np.ndarray):
            own: Longs = np.unique(column, return_inverse=True)[1].astype(np.int64)
        else:
            known: dict[Any, int] = {}
            own = np.array([known.setdefault(v, len(known)) for v in column], dtype=np.int64)
        width = int(own.max()) + 1 if len(own) else 1
        code = np.unique(code * width + own, return_inverse=True)[1].astype(np.int64)
    return code


def numbers(vids: Sequence[str]) -> Longs:
    """The numbers of states and views; -1 for none."""
    return np.array([int(v.partition(":")[0]) if v else -1 for v in vids], dtype=np.int64)


def lives_of(tables: GroupTables) -> list[LifeFacts]:
    """All lives of all processes, in the order of hosts and lives."""
    started = {
        (host, life): (process, kind == "SERVER")
        for host, life, process, kind in each_row(
            tables["process_started"], "member", "incarnation", "process", "kind"
        )
    }
    ops: dict[tuple[str, int], set[str]] = {}
    for host, life, op in each_row(tables["life"], "member", "incarnation", "op"):
        ops.setdefault((host, life), set()).add(op)
    found = sorted({(j.member, j.incarnation): j for j in tables.journals}.items())
    last = {host: life for (host, life), _ in found}
    return [
        _facts(order, journal, started.get(who), ops.get(who, set()), last[who[0]] == who[1])
        for order, (who, journal) in enumerate(found)
    ]


def _facts(
    order: int,
    journal: JournalFacts,
    started: tuple[str, bool] | None,
    ops: set[str],
    last: bool,
) -> LifeFacts:
    process, is_server = started if started is not None else (f"{journal.member}.0", False)
    complete = bool({"STOP", "CRASH"} & ops)
    return LifeFacts(
        order,
        journal.member,
        journal.incarnation,
        process,
        is_server,
        complete,
        bool(journal.torn),
        "CRASH" in ops,
        last,
    )
