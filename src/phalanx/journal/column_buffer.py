"""Collect blocks into Arrow batches, column by column, without creating rows (needs pyarrow).

A block stores a column as one value or as many. Blocks are small, as they hold the rows between two
flushes, and each Arrow array costs microseconds whatever its length. So columns are collected over
many blocks, also of several segments, and become arrays when there are enough values.

`contradictory` is `jsonl.contradiction` for a whole block: the two must agree, and a test checks
that on blocks of every kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from operator import le
from typing import Any

from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.columns import ColumnBlock
from phalanx.journal.schema import EQUAL_LENGTHS, NAMED, NUMBER_MAX, RANGES

BATCH_ROWS = 1 << 16
BATCH_BLOCKS = 1 << 9
"""More than so many small lists and collecting garbage takes longer than all the rest."""


def contradictory(packed: ColumnBlock) -> bool:
    """Columns of some row say what cannot be so together."""
    columns = packed.columns
    if min(columns["lseq"]) < 1:
        return True
    for names in EQUAL_LENGTHS.get(packed.kind, ()):
        head, *others = (_lengths(columns[name], packed.rows) for name in names)
        if any(other != head for other in others):
            return True
    if packed.kind in RANGES:
        if not _are_ranges(columns["first"], columns["last"], packed.rows):
            return True
    return not all(
        _are_named(columns[names], columns[incarnations], packed.rows)
        for names, incarnations in NAMED.get(packed.kind, ())
    )


def _each(values: Sequence[Any], rows: int) -> Iterable[Any]:
    return values if len(values) == rows else repeat(values[0], rows)


def _lengths(values: Sequence[Any], rows: int) -> list[int]:
    return [len(some) for some in values] if len(values) == rows else [len(values[0])] * rows


def _are_ranges(firsts: Sequence[int], lasts: Sequence[int], rows: int) -> bool:
    known = min(firsts) >= 1 and max(lasts) <= NUMBER_MAX
    return known and all(map(le, _each(firsts, rows), _each(lasts, rows)))


def _are_named(to: Sequence[Any], incarnations: Sequence[Any], rows: int) -> bool:
    if len(incarnations) == 1 and incarnations[0] is None:
        return True
    pairs = zip(_each(to, rows), _each(incarnations, rows), strict=True)
    return all(
        those is None or (names is not None and len(names) == len(those)) for names, those in pairs
    )


class ColumnBuffer:
    """Rows of one table, as columns that grow by a block at a time; of all columns, or of some."""

    def __init__(self, table: str, names: Sequence[str] | None = None) -> None:
        self.table = table
        self.rows = 0
        self._schema = schema(table)
        if names is not None:
            self._schema = arrow().schema([self._schema.field(name) for name in names])
        self._counts: list[int] = []
        self._pieces: dict[str, list[Sequence[Any]]] = {name: [] for name in self._schema.names}

    def add(self, rows: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """All columns of so many rows, each with one value or as many as there are rows."""
        self.rows += rows
        self._counts.append(rows)
        for name, pieces in self._pieces.items():
            pieces.append(columns[name])

    @property
    def full(self) -> bool:
        """There are enough rows for a batch."""
        return self.rows >= BATCH_ROWS or len(self._counts) >= BATCH_BLOCKS

    def take(self) -> Any:
        """An Arrow batch of what has gathered; nothing is left."""
        pa = arrow()
        places = list(chain.from_iterable(map(repeat, range(len(self._counts)), self._counts)))
        which = pa.array(places, pa.int32())
        arrays = [self._array(pa, field, which) for field in self._schema]
        self.rows, self._counts = 0, []
        for pieces in self._pieces.values():
            pieces.clear()
        return pa.record_batch(arrays, schema=self._schema)

    def _array(self, pa: Any, field: Any, which: Any) -> Any:
        pieces = self._pieces[field.name]
        if all(len(piece) == 1 for piece in pieces):
            return pa.array([piece[0] for piece in pieces], field.type).take(which)
        values: list[Any] = []
        for piece, rows in zip(pieces, self._counts, strict=True):
            values += piece if len(piece) == rows else [*piece] * rows
        return pa.array(values, field.type)
