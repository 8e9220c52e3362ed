"""Schemas of the derived tables `verdicts` and `findings` of a lake.

    verdicts    one row for each view of a group: what the audit of this view comes to
    findings    the counter-examples of the properties that a view violates, some of each

A unit is (cluster, run, group, view). All rows of a unit are written together, and replaced when
the unit is judged again because rows of its members arrived late. `phalanx watch` writes them as
views close; `fill_verdicts(lake, group=None, window=TimeWindow())` in
`phalanx.pipeline.watch.fill_verdicts` writes those of all groups or one, and of a window of time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from phalanx.journal.arrow_schema import arrow
from phalanx.verify.properties import Verdict

VERDICTS = "verdicts"
FINDINGS = "findings"
UNIT = ("cluster", "run", "group", "view")
"""The columns that identify a unit, in both tables."""
ViewStatus = Literal["open", "incomplete", "closed"]
"""closed: nothing about the view can follow; incomplete: judged although rows of members may be
missing that were silent for too long; open: some members are still in it."""


class ViewVerdictRow(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one view of a group."""

    cluster: str
    run: str
    group: str
    view: str
    joins: int
    removals: int
    members: list[str]
    """Labels of all members of the view, as `ada.2`."""
    began: datetime | None
    """When the first member installed it, by the wall clock of its machine."""
    ended: datetime | None
    """When the last member left it, by the wall clock of its machine; null while it is open."""
    status: ViewStatus
    verdict: Verdict
    """violated if any property is, else holds if any does."""
    violated: list[str]
    """Properties that rows contradict."""
    holds: list[str]
    """Properties that rows tested and none contradicts."""
    unverifiable: list[str]
    """All others: rows are missing, or nothing tested them."""
    violations: int
    """How often properties are violated; `findings` has some of each."""
    absent: list[str]
    """Members of the view without a journal."""
    torn: list[str]
    """Members of which rows are missing that could contradict something."""
    rows: int
    """Rows that were read, with those of the views before."""
    evidence: str
    """What became of each member, and the row that shows it: `ada.1:left:120 bea.1:stopped:88`;
    blanks and % in names are %20 and %25."""
    lake_version: int
    """The version of the lake whose rows were judged."""
    judged: datetime
    """When."""


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One counter-example in one view."""

    cluster: str
    run: str
    group: str
    view: str
    property: str
    nth: int
    """From 0, among the examples of the property in this view."""
    violations: int
    """How often the property is violated in this view."""
    text: str
    """What is wrong, in a sentence."""
    members: list[str]
    """Names of the members involved."""
    sender: str | None
    """The messages involved: `first` to `last` of this sender."""
    sender_incarnation: int | None
    first: int | None
    last: int | None
    row_members: list[str]
    """The rows that show it: members, incarnations and row numbers, in three lists."""
    row_incarnations: list[int]
    row_lseqs: list[int]
    lake_version: int
    judged: datetime


@cache
def verdict_schema(table: str) -> Any:
    """The Arrow schema of `verdicts` or `findings`."""
    pa = arrow()
    instant = pa.timestamp("us", tz="UTC")
    text, number, names = pa.string(), pa.int64(), pa.list_(pa.string())
    columns: dict[str, Any]
    if table == VERDICTS:
        columns = {
            **dict.fromkeys(UNIT, text),
            "joins": number,
            "removals": number,
            "members": names,
            "began": instant,
            "ended": instant,
            "status": text,
            "verdict": text,
            "violated": names,
            "holds": names,
            "unverifiable": names,
            "violations": number,
            "absent": names,
            "torn": names,
            "rows": number,
            "evidence": text,
            "lake_version": number,
            "judged": instant,
        }
    elif table == FINDINGS:
        columns = {
            **dict.fromkeys(UNIT, text),
            "property": text,
            "nth": number,
            "violations": number,
            "text": text,
            "members": names,
            "sender": text,
            "sender_incarnation": number,
            "first": number,
            "last": number,
            "row_members": names,
            "row_incarnations": pa.list_(number),
            "row_lseqs": pa.list_(number),
            "lake_version": number,
            "judged": instant,
        }
    else:
        raise AssertionError(f"{table} is no table of verdicts")
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def verdict_rows(rows: Iterable[ViewVerdictRow]) -> Any:
    """Rows of `verdicts` as an Arrow table."""
    return _table(VERDICTS, rows)


def finding_rows(rows: Iterable[FindingRow]) -> Any:
    """Rows of `findings` as an Arrow table."""
    return _table(FINDINGS, rows)


def _table(table: str, rows: Iterable[msgspec.Struct]) -> Any:
    some = [msgspec.structs.asdict(row) for row in rows]
    return arrow().Table.from_pylist(some, schema=verdict_schema(table))
