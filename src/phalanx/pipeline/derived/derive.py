"""Fill the derived tables of a lake (needs deltalake).

The rows of each group are computed from one version of the lake, in this process or on Spark,
without holding the lake: members may be ingested meanwhile. One transaction then replaces what
differs, group by group and day by day, in all tables, so that they are published together and a
derivation that is killed leaves the lake as it was. A derivation that finds nothing new leaves it
as it is, without a new version.

If another process replaces the same tables in between, the derivation begins again, because its
rows may be the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from functools import partial
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.derived.derive_group import DerivedRows, derive_group, in_window
from phalanx.pipeline.derived.derive_verdicts import VERDICT_TABLES, judged_plan, put_changed
from phalanx.pipeline.derived.derived_tables import DERIVED, DerivedTable
from phalanx.pipeline.engine import Engine, Progress, choose, run_plan
from phalanx.pipeline.group_plan import by_group, plan_groups
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.lake.lake import Lake, LakeConflict
from phalanx.pipeline.lake.lake_file import LakeFile, read_files
from phalanx.pipeline.lake.lake_transaction import LakeTransaction, change
from phalanx.pipeline.time_window import TimeWindow
from phalanx.pipeline.watch.unit_audit import UnitVerdict

BUCKET_NS = 60_000_000_000
ATTEMPTS = 3
"""How often a derivation begins again after another process has replaced the same tables."""
WAIT_SECONDS = 30.0
"""How long it waits for another process that writes to the lake."""


TABLES = (*DERIVED, *VERDICT_TABLES)
"""All derived tables."""


class DerivedCount(msgspec.Struct):
    """What a derivation did to one table."""

    rows: int
    """Rows that the journals show."""
    replaced: int = 0
    """Groups and days of which the table had other rows, or none; of `verdicts` and `findings`,
    views."""


class DeriveResult(msgspec.Struct, kw_only=True):
    """What a derivation did."""

    version: int
    """The newest of the lake: a new one only if anything was replaced."""
    groups: int
    """Groups, in all runs and clusters."""
    tables: dict[str, DerivedCount]
    violated: int = 0
    """Views of which the verdict is *violated*."""


def derive(
    lake: Lake,
    *,
    names: Sequence[str] = TABLES,
    group: str | None = None,
    window: TimeWindow | None = None,
    bucket_ns: int = BUCKET_NS,
    engine: Engine = "auto",
    master: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> DeriveResult:
    """Replaces the rows of these tables: of all groups that the lake has journals of, or of those
    with one name; those that fall into the window, or all. All other rows stay. PipelineError for
    a lake that cannot be read or written, and for a group that is not there. `verdicts` and
    `findings` are filled together."""
    window = window or TimeWindow()
    measured = [name for name in names if name in DERIVED]
    kernel = partial(derive_group, measured, window, bucket_ns)
    for attempt in range(1, ATTEMPTS + 1):
        snapshot = lake.snapshot()
        plan = plan_groups([lake.place], at=snapshot.version, group=group)
        on_spark = choose(engine, master, plan.bytes) == "spark"
        units: list[UnitVerdict] = []
        with _session(master) if on_spark else nullcontext():
            found: list[DerivedRows] = []
            if measured:
                found += run_plan(
                    plan, kernel, engine=engine, master=master, progress=progress, tell=tell
                )
            if len(measured) < len(names):
                units += judged_plan(plan, snapshot, window, on_spark=on_spark, master=master)
        try:
            with change(lake, "derive", wait_seconds=WAIT_SECONDS) as transaction:
                _check_unchanged(transaction, measured, snapshot.delta_versions)
                counts = {
                    name: _put(transaction, name, DERIVED[name], found, window) for name in measured
                }
                if len(measured) < len(names):
                    counts |= _put_units(transaction, units)
                version = transaction.commit()
            violated = sum(unit.verdict.verdict == "violated" for unit in units)
            return DeriveResult(
                version=version, groups=len(by_group(plan)), tables=counts, violated=violated
            )
        except LakeConflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _check_unchanged(
    transaction: LakeTransaction, names: Sequence[str], before: dict[str, int]
) -> None:
    """LakeConflict if somebody has replaced one of the tables since the rows were computed."""
    now = transaction.base.delta_versions
    for name in names:
        if now.get(name) != before.get(name):
            problem = "another process replaced it at the same time"
            raise LakeConflict(str(transaction.lake.place / name), problem, "run it again")


def _put_units(
    transaction: LakeTransaction, units: Sequence[UnitVerdict]
) -> dict[str, DerivedCount]:
    replaced = put_changed(transaction, units)
    findings = sum(len(unit.findings) for unit in units)
    rows = (len(units), findings)
    return {
        name: DerivedCount(count, replaced)
        for name, count in zip(VERDICT_TABLES, rows, strict=True)
    }


def _session(master: str | None) -> AbstractContextManager[Any]:
    """One session for both jobs."""
    from phalanx.pipeline.session_shutdown import one_session

    return one_session(master, quick=True)


def _put(
    transaction: LakeTransaction,
    name: str,
    table: DerivedTable,
    found: Sequence[DerivedRows],
    window: TimeWindow,
) -> DerivedCount:
    """Replaces the rows of all these groups in one table, where they differ."""
    transaction.define(name, table.schema, table.partition_by)
    by_group: dict[str, dict[GroupKey, Any]] = {}
    for one in found:
        by_group.setdefault(one.key.group, {})[one.key] = one[name]
    files: dict[str, list[LakeFile]] = {}
    for file in transaction.files(name):
        files.setdefault(file.group, []).append(file)
    count = DerivedCount(0)
    for group, some in by_group.items():
        count.rows += sum(rows.num_rows for rows in some.values())
        mine = files.get(group, [])
        before = read_files(mine, table.schema)
        after = _updated(table, before, some, window)
        for day in sorted({*_days(before), *_days(after)}):
            old, new = (_of_day(rows, day).sort_by(table.order) for rows in (before, after))
            if not old.equals(new):
                transaction.remove(name, [file for file in mine if file.day == day])
                if new.num_rows:
                    transaction.write(name, new, group, day)
                count.replaced += 1
    return count


def _updated(
    table: DerivedTable, before: Any, found: dict[GroupKey, Any], window: TimeWindow
) -> Any:
    """The rows of one group name with those that were found in some runs. Rows of other runs stay,
    and those outside of the window that were not found again."""
    pa = arrow()
    fresh = pa.concat_tables([rows.cast(before.schema) for rows in found.values()])
    mine = [key in found for key in _keys(before, GroupKey._fields)]
    if window:
        again = set(_keys(fresh, (*GroupKey._fields, *table.key)))
        inside = in_window(table, before, window).to_pylist()
        keys = _keys(before, (*GroupKey._fields, *table.key))
        mine = [
            own and (within or key in again)
            for own, within, key in zip(mine, inside, keys, strict=True)
        ]
    kept = before.filter(pa.array([not own for own in mine], pa.bool_()))
    return pa.concat_tables([kept, fresh])


def _keys(rows: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    values = [rows.column(name).to_pylist() for name in columns]
    return list(zip(*values, strict=True))


def _days(rows: Any) -> list[str]:
    """The partitions that the rows are of; one without a name if the table has no days."""
    if "day" not in rows.schema.names:
        return [""]
    return [day.isoformat() for day in rows.column("day").unique().to_pylist()]


def _of_day(rows: Any, day: str) -> Any:
    if not day:
        return rows
    wanted = arrow().scalar(date.fromisoformat(day), arrow().date32())
    return rows.filter(arrow().compute.equal(rows.column("day"), wanted))
