"""The derived tables by name: how each is made, its key, and the time of its rows.

A table has the columns of its class and `day`, the date (UTC) of the row's instant, and is
partitioned by `group` and `day`. A table without a time, whose rows describe the whole history of a
group, is partitioned by `group` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from phalanx.journal.arrow_schema import arrow, field
from phalanx.pipeline.derived.derived_suspicions import (
    RemovalEvidenceRow,
    RemovalRow,
    SuspicionRow,
    removal_evidence_rows,
    removal_rows,
    suspicion_rows,
)
from phalanx.pipeline.derived.derived_traffic import (
    LatencyRow,
    LinkRow,
    ThroughputRow,
    latency_rows,
    link_rows,
    throughput_rows,
)
from phalanx.pipeline.derived.derived_views import (
    ChangeRow,
    MembershipRow,
    ViewIntervalRow,
    change_rows,
    membership_rows,
    view_interval_rows,
)
from phalanx.pipeline.group_tables import GroupKey, GroupRow, GroupTables
from phalanx.pipeline.lake.lake_schema import EPOCH
from phalanx.pipeline.measures.detector_quality import DetectorQuality, detector

Rows = Sequence[GroupRow]


class DerivedTable(NamedTuple):
    """One derived table."""

    kind: type[GroupRow]
    """The class of its rows."""
    key: tuple[str, ...]
    """Columns that identify a row within its group and run."""
    make: Callable[..., Rows]
    """Gets the group and, for a table of buckets of time, their length."""
    buckets: bool = False
    begin: str | None = None
    """The column with the instant of a row, or with the beginning of its time."""
    end: str | None = None
    """The column with the end of its time."""

    @property
    def partition_by(self) -> list[str]:
        return ["group"] if self.begin is None else ["group", "day"]

    @property
    def order(self) -> list[tuple[str, str]]:
        """How rows are sorted in the files."""
        return [(name, "ascending") for name in (*GroupKey._fields, *self.key)]

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        pa = arrow()
        hints = get_type_hints(self.kind)
        fields = [_field(name, hints[name]) for name in self.kind.__struct_fields__]
        if self.begin is not None:
            fields.append(pa.field("day", pa.date32(), nullable=False))
        # An empty partition value is null in a Delta log.
        return pa.schema([f.with_nullable(True) if f.name == "group" else f for f in fields])

    def rows(self, group: GroupTables, bucket_ns: int) -> Any:
        """The rows of one group, as an Arrow table in the order of the files."""
        made = self.make(group, bucket_ns) if self.buckets else self.make(group)
        found = [msgspec.structs.asdict(row) for row in made]
        if self.begin is not None:
            for row in found:
                row["day"] = (row[self.begin] or EPOCH).date()
        return arrow().Table.from_pylist(found, schema=self.schema).sort_by(self.order)


def _field(name: str, hint: Any) -> Any:
    """Like `journal.arrow_schema.field`, for instants and fractions too."""
    pa = arrow()
    nullable = NoneType in get_args(hint)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if nullable else [hint]
    if kinds == [datetime]:
        return pa.field(name, pa.timestamp("us", tz="UTC"), nullable=nullable)
    if kinds == [float]:
        return pa.field(name, pa.float64(), nullable=nullable)
    return field(name, hint)


_PAIR = ("member", "incarnation", "target", "target_incarnation")
_TARGET = ("target", "target_incarnation")
DERIVED: dict[str, DerivedTable] = {
    "view_intervals": DerivedTable(
        ViewIntervalRow,
        ("journal", "from_lseq"),
        view_interval_rows,
        begin="from_at",
        end="to_at",
    ),
    "memberships": DerivedTable(
        MembershipRow,
        ("journal", "from_lseq", *_TARGET),
        membership_rows,
        begin="from_at",
        end="to_at",
    ),
    "changes": DerivedTable(ChangeRow, ("journal", "lseq"), change_rows, begin="at"),
    "removals": DerivedTable(RemovalRow, ("journal", "lseq", *_TARGET), removal_rows, begin="at"),
    "removal_evidence": DerivedTable(
        RemovalEvidenceRow,
        (*_TARGET, "view", "next_view", "journal", "lseq"),
        removal_evidence_rows,
        begin="at",
    ),
    "suspicions": DerivedTable(
        SuspicionRow, ("journal", "from_lseq", *_TARGET), suspicion_rows, begin="from_at"
    ),
    "detector": DerivedTable(DetectorQuality, _PAIR, detector),
    "latency": DerivedTable(
        LatencyRow,
        ("from_ns", "bucket_ns", "clock", "scope", "service"),
        latency_rows,
        buckets=True,
        begin="from_at",
    ),
    "throughput": DerivedTable(
        ThroughputRow,
        ("from_ns", "bucket_ns", "clock", "member", "incarnation", "service"),
        throughput_rows,
        buckets=True,
        begin="from_at",
    ),
    "links": DerivedTable(
        LinkRow, ("peer", "peer_incarnation", "journal", "view"), link_rows, begin="at"
    ),
}
