"""Encode the rows of one flush as columns, and decode them: pure values, no files.

A table becomes its number of rows and a list per column. A list that would repeat one value has it
once; `lseq`, `step` and `t_ns`, which grow, are a first value and differences. So a block of a busy
member is a few long lists of small numbers, which compress well.

Columns are stored by position: first those that every table has, then the table's own in the order
of `journal.schema`. Therefore columns are only ever added at the end of a table. `group`, `member`
and `incarnation` never change within a segment and are in its header instead. Tables are stored by
name; blocks of earlier versions have the names and values of `journal.renamed`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate, chain
from operator import attrgetter, sub
from types import GenericAlias
from typing import Any, Literal, NamedTuple, cast, get_type_hints

import msgspec

from phalanx.journal import renamed
from phalanx.journal.jsonl import contradiction
from phalanx.journal.schema import SCHEMA_VERSION, TABLES, Event, Row

GROWING = ("lseq", "step", "t_ns")
SHARED = (*GROWING, "sim_ns", "run", "profile")
IN_HEADER = ("group", "member", "incarnation")
ROWS_MAX = 1 << 17
"""Of one block. A repeated value costs nothing, so only this bounds what a block unfolds to."""
NUMBER_MAX = (1 << 63) - 1


class _Table(NamedTuple):
    name: str
    kind: type[Row]
    names: tuple[str, ...]
    values: Any
    """From a row to the values of its columns."""
    decoder: msgspec.msgpack.Decoder[Any]
    defaults: dict[str, Any]
    numbers: frozenset[str]
    """Columns of whole numbers: 64 bits, in any format. `lists`: those of lists of them."""
    lists: frozenset[str]
    written: dict[str, dict[str, str]]
    """Columns whose values are stored under other names: what is stored, and what it means."""


def _table(name: str, kind: type[Row], former: bool = False) -> _Table:
    hints = get_type_hints(kind)
    written = {}
    if former:
        written = {column: of for (table, column), of in renamed.VALUES.items() if table == name}
    for column, of in written.items():
        hints[column] = Literal[tuple(of)]
    own = [f for f in kind.__struct_fields__ if f not in SHARED and f not in IN_HEADER]
    names = (*SHARED, *own)
    lists = {f: GenericAlias(list, (hints[f],)) for f in names}
    fields: list[Any] = [("rows", int), *((f, lists[f]) for f in SHARED)]
    # A file of before may lack the last columns: they come back as their defaults.
    fields += [(f, lists[f], msgspec.field(default_factory=list)) for f in own]
    columns = msgspec.defstruct(f"{kind.__name__}Columns", fields, array_like=True)
    info = msgspec.structs.fields(kind)
    defaults = {f.name: f.default for f in info if f.default is not msgspec.NODEFAULT}
    defaults |= {f.name: [] for f in info if f.default_factory is not msgspec.NODEFAULT}
    numbers = frozenset(f for f in names if hints[f] in (int, int | None))
    of_lists = frozenset(f for f in names if hints[f] in (list[int], list[int] | None))
    decoder = msgspec.msgpack.Decoder(columns)
    values = attrgetter(*names)
    return _Table(name, kind, names, values, decoder, defaults, numbers, of_lists, written)


_TABLES = {name: _table(name, kind) for name, kind in TABLES.items()}
_FORMER = {
    renamed.former_table(name): _table(name, kind, former=True) for name, kind in TABLES.items()
}
_NAMES: dict[type[Row], str] = {kind: name for name, kind in TABLES.items()}
_BLOCK = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.msgpack.Encoder()


def pack(rows: Sequence[Event]) -> tuple[bytes, int]:
    """The rows, table by table, and of how many tables they are."""
    by_kind: dict[type[Row], list[Event]] = {}
    for row in rows:
        kind = type(row)
        if kind in by_kind:
            by_kind[kind].append(row)
        else:
            by_kind[kind] = [row]
    block: dict[str, list[Any]] = {}
    for table, of_kind in by_kind.items():
        name = _NAMES[table]
        columns = list(zip(*map(_TABLES[name].values, of_kind), strict=True))
        growing = [_differences(c) for c in columns[: len(GROWING)]]
        rest = [_once(c) for c in columns[len(GROWING) :]]
        block[name] = [len(of_kind), *growing, *rest]
    return _ENCODER.encode(block), len(block)


def _once(values: tuple[Any, ...]) -> Sequence[Any]:
    return values[:1] if values.count(values[0]) == len(values) else values


def _differences(values: tuple[int, ...]) -> Sequence[int]:
    return (values[0], *_once(tuple(map(sub, values[1:], values)))) if len(values) > 1 else values


class ColumnBlock(NamedTuple):
    """The rows of one table in a block, as columns. A column of one value has it in every row."""

    kind: type[Row]
    rows: int
    columns: dict[str, Sequence[Any]]
    """All but those that are in the header."""


def unpack(
    body: bytes,
    member: str,
    incarnation: int,
    group: str,
    schema: int = SCHEMA_VERSION,
    only: Container[str] | None = None,
) -> list[Event]:
    """The rows in the order of their numbers; with `only`, those of some tables. ValueError for
    anything that `pack` does not make (msgspec's own errors are ValueErrors too)."""
    rows: list[Event] = []
    for packed in columns_of(body, schema, only).values():
        rows += _rows(packed, member, incarnation, group)
    rows.sort(key=attrgetter("lseq"))
    return rows


def columns_of(
    body: bytes, schema: int = SCHEMA_VERSION, only: Container[str] | None = None
) -> dict[str, ColumnBlock]:
    """The same without making rows, by table; not yet asked is what columns of one row say of each
    other (`jsonl.contradiction`). With `only`, the other tables are not decoded. ValueError for
    anything that `pack` does not make."""
    found = {}
    tables = _TABLES if schema >= renamed.RENAMED_IN else _FORMER
    block = _BLOCK.decode(body)
    if not block:
        raise ValueError("a block without rows")
    for name, raw in block.items():
        table = tables.get(name)
        if table is None:
            raise ValueError(f"there is no table {name!r}")
        if only is None or table.name in only:
            found[table.name] = _packed(table, table.decoder.decode(raw))
    return found


def _packed(table: _Table, decoded: Any) -> ColumnBlock:
    count = decoded.rows
    if not 0 < count <= ROWS_MAX:
        raise ValueError(f"a table of {count} rows")
    columns: dict[str, Sequence[Any]] = {}
    for name in table.names:
        values = getattr(decoded, name)
        if name in GROWING:
            values = _summed(values, count)
        elif not values and name not in SHARED:
            if name not in table.defaults:
                raise ValueError(f"column {name} is missing")
            values = [table.defaults[name]]  # a column that the writer did not know
        if len(values) not in (1, count) or (name in GROWING and len(values) != count):
            raise ValueError(f"column {name} has {len(values)} values for {count} rows")
        numbers = values if name in table.numbers else ()
        if name in table.lists:
            numbers = [*chain.from_iterable(some for some in values if some)]
        if numbers and not _fits(numbers, name in GROWING):
            raise ValueError(f"a value of column {name} has more than 64 bits")
        columns[name] = values
    for name, of in table.written.items():
        columns[name] = [of[value] for value in columns[name]]
    return ColumnBlock(table.kind, count, columns)


def _fits(values: Sequence[int | None], growing: bool) -> bool:
    """Msgpack has nothing below 64 bits, but sums may lie there."""
    try:
        high = max(values)  # type: ignore[type-var]
        low = min(values) if growing else 0  # type: ignore[type-var]
    except TypeError:  # there is None among them
        known = [value for value in values if value is not None]
        return not known or _fits(known, growing)
    return high is None or low is None or (high <= NUMBER_MAX and low >= -NUMBER_MAX - 1)


def _rows(packed: ColumnBlock, member: str, incarnation: int, group: str) -> list[Event]:
    names = tuple(packed.columns)
    count = packed.rows
    columns = [c if len(c) == count else [*c] * count for c in packed.columns.values()]
    rows = []
    for values in zip(*columns, strict=True):
        known: dict[str, Any] = dict(zip(names, values, strict=True))
        row = cast(Event, packed.kind(group=group, member=member, incarnation=incarnation, **known))
        if wrong := contradiction(row):
            raise ValueError(wrong)
        rows.append(row)
    return rows


def _summed(values: list[int], count: int) -> list[int]:
    if len(values) == 2 and count > 2:
        values = [values[0], *values[1:] * (count - 1)]
    return list(accumulate(values))
