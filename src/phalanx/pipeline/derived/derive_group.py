"""The derived tables of one group: the kernel of `phalanx lake derive`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.derived.derived_tables import DERIVED, DerivedTable
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.lake.lake_schema import instant_of
from phalanx.pipeline.time_window import TimeWindow


class DerivedRows(msgspec.Struct, frozen=True):
    """The rows of one group in one run, by table: streams of Arrow, which tasks can return."""

    key: GroupKey
    tables: dict[str, bytes]

    def __getitem__(self, table: str) -> Any:
        """The Arrow table of this name."""
        return arrow().ipc.open_stream(self.tables[table]).read_all()


def derive_group(
    names: Sequence[str], window: TimeWindow, bucket_ns: int, group: GroupTables
) -> DerivedRows:
    """The rows of these tables that fall into the window. They are made of the whole history of the
    group: an interval that reaches into the window has its true beginning and end."""
    window.check_clock(group)
    found = {}
    for name in names:
        rows = DERIVED[name].rows(group, bucket_ns)
        found[name] = _stream(rows.filter(in_window(DERIVED[name], rows, window)))
    return DerivedRows(group.key, found)


def in_window(table: DerivedTable, rows: Any, window: TimeWindow) -> Any:
    """Which rows fall into a window, as Arrow booleans. Rows without a time always do."""
    pa = arrow()
    compute = pa.compute
    found = pa.repeat(pa.scalar(True), rows.num_rows)
    if table.begin is None:
        return found
    begin = rows.column(table.begin)
    end = begin if table.end is None else rows.column(table.end)
    if (since := _scalar(window.since)) is not None:
        # A bucket of time, and a time without a length, counts by its beginning.
        later = compute.or_(compute.greater(end, since), compute.greater_equal(begin, since))
        found = compute.and_(found, compute.fill_null(later, True))
    if (until := _scalar(window.until)) is not None:
        found = compute.and_(found, compute.fill_null(compute.less(begin, until), True))
    return found


def _scalar(at: Instant | None) -> Any:
    """None is open, or beyond any calendar."""
    found = None if at is None else instant_of(at.ns)
    return None if found is None else arrow().scalar(found, arrow().timestamp("us", tz="UTC"))


def _stream(rows: Any) -> bytes:
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found
