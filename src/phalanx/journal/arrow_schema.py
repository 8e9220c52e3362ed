"""Arrow schemas of the tables of `journal.schema`, derived from its annotations (needs pyarrow).

Every table begins with two columns that come from the header of a segment: the cluster, and the
UUID of the journal.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from phalanx.errors import JournalError
from phalanx.journal.schema import SCHEMA_VERSION, TABLES

EXTRA = "pip install 'phalanx[parquet]'"
IDENTITY = ("cluster", "journal")


def arrow() -> Any:
    """pyarrow and its Parquet module, or JournalError that names the extra."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise JournalError("pyarrow", None, "Parquet needs pyarrow", EXTRA) from error
    return pyarrow


@cache
def schema(table: str) -> Any:
    """The Arrow schema of a table: which cluster and journal a row is of, and its own columns."""
    pa = arrow()
    kind = TABLES[table]
    hints = get_type_hints(kind)
    front = [field(name, str) for name in IDENTITY]
    fields = [*front, *(field(name, hints[name]) for name in kind.__struct_fields__)]
    return pa.schema(fields, metadata={"phalanx_schema": str(SCHEMA_VERSION)})


def field(name: str, hint: Any) -> Any:
    """The Arrow field of an annotated column."""
    pa = arrow()
    column, nullable = _column(pa, hint)
    return pa.field(name, column, nullable=nullable)


def _column(pa: Any, hint: Any) -> tuple[Any, bool]:
    """The type, and whether it may be null."""
    if get_origin(hint) in (types.UnionType, Union):
        (inner,) = [arg for arg in get_args(hint) if arg is not type(None)]
        return _column(pa, inner)[0], True
    if get_origin(hint) is list:
        return pa.list_(_column(pa, get_args(hint)[0])[0]), False
    if hint is int:
        return pa.int64(), False
    assert hint is str or get_origin(hint) is Literal, f"no column for {hint}"
    return pa.string(), False
