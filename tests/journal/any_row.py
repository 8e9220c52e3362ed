"""Any row of any table, drawn from the schema itself."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from phalanx.journal import schema as ev

NUMBERS = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=5)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a column's type, from the schema itself."""
    match kind:
        case msgspec.inspect.IntType():
            return NUMBERS
        case msgspec.inspect.StrType():
            return NAMES
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.LiteralType():
            return st.sampled_from(kind.values)
        case msgspec.inspect.ListType():
            return st.lists(_of(kind.item_type), max_size=3)
        case msgspec.inspect.UnionType():
            return st.one_of([_of(t) for t in kind.types])
    raise AssertionError(f"no values for {kind}")


def _rows(table: type[ev.Row]) -> st.SearchStrategy[ev.Event]:
    info = msgspec.inspect.type_info(table)
    assert isinstance(info, msgspec.inspect.StructType)
    columns = {f.name: _of(f.type) for f in info.fields}
    return cast("st.SearchStrategy[ev.Event]", st.builds(table, **columns).map(_made_possible))


def _made_possible(row: Any) -> Any:
    """The row with numbers from 1, ranges that are some, and lists that belong together."""
    changes: dict[str, Any] = {"lseq": max(1, row.lseq)}
    if hasattr(row, "first"):
        first, last = sorted(1 + number % ev.NUMBER_MAX for number in (row.first, row.last))
        changes |= {"first": first, "last": last}
    for names in ev.EQUAL_LENGTHS.get(type(row), ()):
        shortest = min(len(getattr(row, name)) for name in names)
        changes |= {name: getattr(row, name)[:shortest] for name in names}
    for name, incarnations in ev.NAMED.get(type(row), ()):
        named = getattr(row, name)
        changes |= {incarnations: None if named is None else list(range(len(named)))}
    return msgspec.structs.replace(row, **changes)


ROWS = st.lists(st.one_of([_rows(t) for t in ev.TABLES.values()]), max_size=10)
