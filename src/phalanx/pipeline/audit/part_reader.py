"""Read parts of the Parquet files of a large group: some row groups, some columns, some rows.

A summary of each row group (`RowGroupFacts`) says which senders' numbers, which positions and which
journals it has, so that a part reads little more than its own rows. Texts stay dictionary codes,
as they are in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.parquet_reader import check_codes, check_rows, open_parquet
from phalanx.pipeline.audit.number_ranges import Bools, Longs
from phalanx.pipeline.audit.row_coder import RowCoder
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.segment_stats import JournalFacts

Filter = Callable[[Any], Bools]
"""Which rows of a table are read."""
RowGroups = Mapping[str, Sequence[Sequence[int]]]
"""Row groups to read, by table and file; all of a table that is not there."""

NUMBERED = {"deliver": ("sender", "sender_incarnation"), "sent": (), "accepted": ()}
"""Tables with messages first..last, and the columns that say whose; their author's if none do."""
_UNUSED = frozenset({"cluster", "run", "profile", "group"})
_BY_JOURNAL = frozenset({"member", "incarnation"})
"""Columns that the facts of the journal have too."""
_USED = {
    table: [
        name
        for name in schema(table).names
        if name not in _UNUSED and (table == "stable" or name not in _BY_JOURNAL)
    ]
    for table in ("deliver", "sent", "accepted", "stable", "ordered", "all_delivered", "not_sent")
}
_OF_OTHERS = ["journal", "lseq", "step", "t_ns"]
_CODED = frozenset({"journal", "view", "origin", "sender", "service", "region"})
"""Texts of messages that stay codes; those of receipts are compared with each other."""
CAUSES = frozenset({"dep_senders", "dep_incarnations", "dep_numbers"})


class GroupFiles(msgspec.Struct, frozen=True):
    """Where the rows of a group are."""

    key: GroupKey
    journals: list[JournalFacts]
    files: dict[str, list[LakeFile]]
    """Parquet files by table, of a lake with its `views`; they may hold rows of other groups."""


class RowGroupFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one row group of a file has."""

    journals: list[str]
    numbers: dict[str, tuple[int, int]]
    """The lowest and highest number of each sender, by label."""
    positions: dict[str, tuple[int, int]]
    """The lowest and highest position in each view."""


def columns_of(table: str, without: frozenset[str] = frozenset()) -> list[str]:
    """The columns of a table that checks look at."""
    return [name for name in _USED.get(table, _OF_OTHERS) if name not in without]


def read_row_groups(
    group: GroupFiles, table: str, file: int, columns: Sequence[str], some: Sequence[int] | None
) -> Iterator[Any]:
    """The rows of the group in some row groups of a file, or in all, one Arrow table for each.
    PipelineError for a file that cannot be read."""
    pa = arrow()
    listed = group.files[table][file]
    fields = [schema(table).field(name) for name in columns]
    texts = [name for name in columns if _is_coded(table, name)]
    wanted = {facts.journal for facts in group.journals}
    try:
        with open_parquet(listed.path, rows=listed.rows, read_dictionary=texts) as source:
            there = [name for name in columns if name in source.schema_arrow.names]
            for i in range(source.num_row_groups) if some is None else some:
                rows = source.read_row_group(i, there, use_threads=False)
                check_rows(rows.num_rows, source.metadata.row_group(i).num_rows)
                check_codes(rows)
                yield _own(_as(table, rows, fields), wanted)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        problem = "cannot be read as Parquet"
        remedy = "restore it, or export or ingest the journals again, to another place"
        raise PipelineError(listed.path, problem, remedy) from error


def _is_coded(table: str, column: str) -> bool:
    return column == "journal" or (table in NUMBERED and column in _CODED)


def _as(table: str, rows: Any, fields: Sequence[Any]) -> Any:
    """All columns, one chunk each; null if the file lacks them."""
    pa = arrow()
    arrays = []
    for f in fields:
        coded = _is_coded(table, f.name)
        kind = pa.dictionary(pa.int32(), pa.string()) if coded else f.type
        if f.name not in rows.schema.names:
            arrays.append(pa.nulls(rows.num_rows, kind))
            continue
        column = rows.column(f.name)
        if column.type != kind:
            column = column.dictionary_encode() if coded else column.cast(kind)
        arrays.append(column.combine_chunks())
    return pa.table(arrays, names=[f.name for f in fields])


def _own(rows: Any, wanted: set[str]) -> Any:
    code, journals = codes(rows, "journal")
    mine = np.array([journal in wanted for journal in journals], dtype=bool)
    return rows if mine.all() else rows.filter(arrow().array(mine[code]))


def codes(rows: Any, column: str) -> tuple[Longs, list[Any]]:
    return RowCoder().coded(rows, column)


def read_tables(
    group: GroupFiles,
    names: Sequence[str],
    filters: Mapping[str, Filter],
    row_groups: RowGroups,
    without: frozenset[str],
) -> dict[str, Any]:
    """Some rows of some tables. Rows are filtered one row group at a time."""
    pa = arrow()
    found: dict[str, list[Any]] = {}
    for table in names:
        columns, keep = columns_of(table, without), filters.get(table)
        for file in range(len(group.files.get(table, ()))):
            some = row_groups[table][file] if table in row_groups else None
            for rows in read_row_groups(group, table, file, columns, some):
                if keep is not None:
                    kept = keep(rows)
                    if not kept.all():
                        rows = rows.filter(pa.array(kept))
                if rows.num_rows:
                    found.setdefault(table, []).append(rows)
    return {table: pa.concat_tables(some).unify_dictionaries() for table, some in found.items()}


# ---------------------------------------------------------------------------- row groups


def facts_of_rows(table: str, rows: Any, labels: Mapping[str, str]) -> RowGroupFacts:
    """`labels`: members by journal."""
    code, journals = codes(rows, "journal")
    numbers: dict[str, tuple[int, int]] = {}
    positions: dict[str, tuple[int, int]] = {}
    if table in NUMBERED and rows.num_rows:
        coder = RowCoder()
        who = [labels[journal] for journal in journals]
        if NUMBERED[table]:
            code, pairs = coder.pairs(rows, *NUMBERED[table])
            who = [f"{name}.{incarnation}" for name, incarnation in pairs]
        numbers = _spans(code, who, coder.longs(rows, "first"), coder.longs(rows, "last"))
    if table == "deliver" and rows.num_rows:
        positions = _positions(rows)
    return RowGroupFacts(journals, numbers, positions)


def _spans(
    code: Longs, names: Sequence[str], low: Longs, high: Longs
) -> dict[str, tuple[int, int]]:
    lowest = np.full(len(names), np.iinfo(np.int64).max)
    highest = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(lowest, code, low)
    np.maximum.at(highest, code, high)
    spans = zip(lowest.tolist(), highest.tolist(), strict=True)
    return {name: span for name, span in zip(names, spans, strict=True) if span[0] <= span[1]}


def _positions(rows: Any) -> dict[str, tuple[int, int]]:
    coder = RowCoder()
    pos = coder.longs(rows, "pos", -1)
    there = np.flatnonzero(pos >= 0)
    code, views = codes(rows, "view")
    length = coder.longs(rows, "last") - coder.longs(rows, "first")
    return _spans(code[there], views, pos[there], (pos + length)[there])
