"""Rows and segments as lines for people."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from phalanx.journal.schema import Event, Row
from phalanx.journal.segment import Header


def line(row: Event) -> str:
    """A row: number, the member's own clock in seconds, who, the table, and its columns by name;
    those that are None or empty are left out."""
    columns = msgspec.structs.asdict(row)
    own = [
        f"{name}={_value(value)}"
        for name, value in columns.items()
        if name not in Row.__struct_fields__ and value is not None and value != []
    ]
    table = row.__struct_config__.tag
    who = f"{row.member}.{row.incarnation}"
    return f"{row.lseq:>8} {row.t_ns / 1e9:>14.6f}  {who:<12} {table:<16} {' '.join(own)}".rstrip()


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def instant(header: Header, t_ns: int) -> str:
    """What the wall clock said, going by the one in the header, in UTC."""
    wall_ns = header.wall_ns + t_ns - header.mono_ns
    try:
        at = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return "?"
    return at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
