"""Schemas of the tables of a lake, and the conversion of event rows to and from them.

A table of events in a lake has the columns of `journal.schema` and two more: `at`, the instant by
the wall clock of the member's machine, and `day`, the date at which the segment began. The members
of a view are stored once, in the table `views`; `view_installed` has `members_key` instead of them.
The key depends on the members, so that installs of one view that name different members, which
is a violation, stay apart.

`group` and `day` partition the tables. They are in the Parquet files too, so that the files can be
read without the Delta log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.segment import Header
from phalanx.pipeline.schemas import EVENTS, JOURNALS, SEGMENTS, arrow_schema

FORMAT = 3
"""Of lakes. 1 and 2: Parquet files with manifests of our own."""
VIEWS = "views"
VERSIONS = "versions"
OWN_TABLES = frozenset({*EVENTS, JOURNALS, SEGMENTS, VIEWS, VERSIONS})
"""Tables that ingest fills; all others are derived."""
INSTALLS = "view_installed"
MEMBERS = ("members", "member_incarnations")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = (
    (datetime(year, month, day, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    for year, month, day in ((1, 1, 2), (9999, 12, 30))
)


class ViewMembers(msgspec.Struct, frozen=True):
    """The members of a view, as one or more members installed it."""

    cluster: str
    run: str
    group: str
    view: str
    members_key: str
    joins: int
    removals: int
    members: list[str]
    member_incarnations: list[int]

    @property
    def key(self) -> tuple[str, ...]:
        return self.cluster, self.run, self.group, self.view, self.members_key


KEYS = ViewMembers.__struct_fields__[:5]


@cache
def lake_schema(table: str) -> Any:
    """The Arrow schema of a table that phalanx itself fills."""
    pa = arrow()
    instant = pa.timestamp("us", tz="UTC")
    if table == VERSIONS:
        return pa.schema(
            [
                pa.field("lake_version", pa.int64(), nullable=False),
                pa.field("table", pa.string(), nullable=False),
                pa.field("delta_version", pa.int64(), nullable=False),
                pa.field("committed", instant, nullable=False),
                pa.field("what", pa.string(), nullable=False),
                pa.field("writer", pa.string(), nullable=False),
            ]
        )
    fields = list(arrow_schema(INSTALLS if table == VIEWS else table))
    if table == VIEWS:
        wanted = (*KEYS[:4], *ViewMembers.__struct_fields__[5:])
        fields = [field for field in fields if field.name in wanted]
    elif table == INSTALLS:
        fields = [field for field in fields if field.name not in MEMBERS]
    if table in (VIEWS, INSTALLS):
        fields.append(pa.field("members_key", pa.string(), nullable=False))
    if table in EVENTS:
        fields.append(pa.field("at", instant))
    if table in (JOURNALS, SEGMENTS):
        fields += [pa.field("began", instant), pa.field("ended", instant)]
    if "day" in partitions(table):
        fields.append(pa.field("day", pa.date32()))
    # An empty partition value is null in a Delta log.
    return pa.schema([f.with_nullable(True) if f.name == "group" else f for f in fields])


def partitions(table: str) -> list[str]:
    """The columns that partition a table that ingest fills. Derived tables may have others."""
    if table in EVENTS or table == SEGMENTS:
        return ["group", "day"]
    return ["group"] if table in (JOURNALS, VIEWS) else []


def day_of(wall_ns: int) -> str:
    """The date in UTC, as Delta writes it; 1970-01-01 for a clock that no calendar has."""
    found = instant_of(wall_ns)
    return (found or EPOCH).date().isoformat()


def instant_of(wall_ns: int) -> datetime | None:
    """An instant in nanoseconds of the epoch; None if no calendar has it."""
    microseconds = wall_ns // 1000
    if not _FIRST_US <= microseconds <= _LAST_US:
        return None
    return EPOCH + timedelta(microseconds=microseconds)


def to_lake(table: str, batch: Any, header: Header, views: dict[tuple[str, ...], Any]) -> Any:
    """A batch of events of one segment with the columns of the lake. The views that it installs are
    added to `views`, by their keys."""
    pa = arrow()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if table == INSTALLS:
        columns["members_key"] = pa.array(_collect_views(batch, views), pa.string())
    columns["at"] = _instants(columns["t_ns"], header.wall_ns - header.mono_ns)
    day = pa.scalar(date.fromisoformat(day_of(header.wall_ns)), pa.date32())
    columns["day"] = pa.repeat(day, batch.num_rows)
    schema = lake_schema(table)
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _instants(t_ns: Any, offset_ns: int) -> Any:
    pa = arrow()
    instant = pa.timestamp("us", tz="UTC")
    low, high = pa.compute.min_max(t_ns).as_py().values()
    if low is None or instant_of(low + offset_ns) is None or instant_of(high + offset_ns) is None:
        found = [instant_of(value + offset_ns) for value in t_ns.to_pylist()]
        return pa.array(found, instant)
    microseconds = pa.compute.divide(pa.compute.add(t_ns, offset_ns), 1000)
    return microseconds.cast(instant)


def _collect_views(batch: Any, views: dict[tuple[str, ...], Any]) -> list[str]:
    names = [name for name in ViewMembers.__struct_fields__ if name != "members_key"]
    keys = []
    for row in batch.select(names).to_pylist():
        found = ViewMembers(members_key=members_key(*(row[name] for name in MEMBERS)), **row)
        views.setdefault(found.key, found)
        keys.append(found.members_key)
    return keys


def members_key(members: Sequence[str], incarnations: Sequence[int]) -> str:
    """The digest of the members of a view by which installs refer to it."""
    return blake2b(msgspec.json.encode([members, incarnations]), digest_size=8).hexdigest()


def from_lake(table: str, rows: Any, views: Mapping[tuple[str, ...], ViewMembers]) -> Any:
    """An Arrow table with the columns of the lake as one with those of `journal.schema`. Columns
    that its writer did not have are null, and columns of its own are left out. PipelineError for
    a view without its members."""
    pa = arrow()
    schema = arrow_schema(table)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if table == INSTALLS and "members_key" in columns:
        keys = zip(*(columns[name].to_pylist() for name in KEYS), strict=True)
        found = [_view_of(views, key) for key in keys]
        for name in MEMBERS:
            columns[name] = [getattr(view, name) for view in found]
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows.num_rows, field.type))
        elif isinstance(values, list):
            arrays.append(pa.array(values, field.type))
        else:
            arrays.append(values if values.type == field.type else values.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _view_of(views: Mapping[tuple[str, ...], ViewMembers], key: tuple[str, ...]) -> ViewMembers:
    if key not in views:
        problem = f"the table `views` lacks the members of view {key[3]!r} of group {key[2]!r}"
        raise PipelineError(VIEWS, problem, "ingest the journals into a new lake")
    return views[key]


def views_of(rows: Any) -> dict[tuple[str, ...], ViewMembers]:
    """The rows of `views`, by their keys."""
    found: Iterable[dict[str, Any]] = rows.select(ViewMembers.__struct_fields__).to_pylist()
    return {view.key: view for view in (ViewMembers(**row) for row in found)}
