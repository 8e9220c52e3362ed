"""The tables `verdicts` and `findings` of a lake: judge the views of all groups, here or on Spark.

A group is a task. A verdict that comes to the same as the one that the lake has stays as it is,
with the time and the version at which it was reached, and one that was reached on a later version
of the lake is not replaced by an older one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.pipeline.engine import run_encoded
from phalanx.pipeline.group_plan import GroupTask, by_group
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.lake.lake import Snapshot
from phalanx.pipeline.lake.lake_transaction import LakeTransaction
from phalanx.pipeline.schemas import SEGMENTS
from phalanx.pipeline.time_window import TimeWindow
from phalanx.pipeline.verdict_tables import (
    FINDINGS,
    UNIT,
    VERDICTS,
    finding_rows,
    verdict_rows,
    verdict_schema,
)
from phalanx.pipeline.watch.fill_verdicts import units_of
from phalanx.pipeline.watch.unit_audit import LakeGroup, UnitVerdict, put_verdicts

VERDICT_TABLES = (VERDICTS, FINDINGS)
"""Filled together."""
_REACHED = ("lake_version", "judged")
"""When a verdict was reached, not what it is."""
UnitKey = tuple[str, ...]


class VerdictTask(msgspec.Struct, frozen=True):
    """A group of a version of a lake whose views are to be judged."""

    place: str
    version: int
    key: GroupKey
    group: GroupTask
    window: TimeWindow


def judged_plan(
    plan: GroupTask,
    snapshot: Snapshot,
    window: TimeWindow,
    *,
    on_spark: bool = False,
    master: str | None = None,
) -> Iterator[UnitVerdict]:
    """The verdicts on all views of the groups of a plan that overlap the window."""
    tasks = []
    for key, group in by_group(plan).items():
        # A large group is read by the days at which its segments began.
        files = {**group.files, SEGMENTS: snapshot.files(SEGMENTS, groups=[key.group])}
        whole = msgspec.structs.replace(group, files=files)
        task = VerdictTask(str(snapshot.place), snapshot.version, key, whole, window)
        tasks.append(msgspec.msgpack.encode(task))
    results = (
        run_encoded(tasks, judge_task, b"", master)
        if on_spark
        else (judge_task(b"", task) for task in tasks)
    )
    for result in results:
        yield from msgspec.msgpack.decode(result, type=list[UnitVerdict])


def judge_task(shared: bytes, encoded: bytes) -> bytes:
    """The encoded verdicts of an encoded task. Tasks share nothing."""
    task = msgspec.msgpack.decode(encoded, type=VerdictTask)
    snapshot = Snapshot(Path(task.place), task.version, {}, task.group.files)
    group = LakeGroup(snapshot, task.key, task.group.journals)
    return msgspec.msgpack.encode(list(units_of(group, task.window)))


def put_changed(transaction: LakeTransaction, units: Sequence[UnitVerdict]) -> int:
    """Writes the verdicts that differ from those of the lake; how many these are."""
    for table in VERDICT_TABLES:
        transaction.define(table, verdict_schema(table))
    reached, before = _content(*(_of_lake(transaction.base, table) for table in VERDICT_TABLES))
    _, now = _content(
        verdict_rows(unit.verdict for unit in units).to_pylist(),
        finding_rows(row for unit in units for row in unit.findings).to_pylist(),
    )
    changed = [
        unit
        for unit in units
        if now[unit.key] != before.get(unit.key)
        and unit.verdict.lake_version >= reached.get(unit.key, 0)
    ]
    if changed:
        put_verdicts(transaction, changed)
    return len(changed)


def _of_lake(snapshot: Snapshot, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if table in snapshot.delta_versions:
        found = snapshot.read(table, columns=verdict_schema(table).names).to_pylist()
    return found


def _content(
    verdicts: Sequence[dict[str, Any]], findings: Sequence[dict[str, Any]]
) -> tuple[dict[UnitKey, int], dict[UnitKey, list[Any]]]:
    """By unit, the version that its verdict was reached on, and all that the verdict says."""
    reached = {_key(row): row["lake_version"] or 0 for row in verdicts}
    content: dict[UnitKey, list[Any]] = {}
    order = sorted(findings, key=lambda row: (row["property"], row["nth"]))
    for row in (*verdicts, *order):
        said = {name: value for name, value in row.items() if name not in _REACHED}
        content.setdefault(_key(row), []).append(said)
    return reached, content


def _key(row: Mapping[str, Any]) -> UnitKey:
    return tuple(row[name] for name in UNIT)
