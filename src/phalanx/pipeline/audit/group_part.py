"""Parts of a large group, each of bounded size; their findings add up to those of the whole.

    numbers     a stretch of each sender's numbers: checks that look at cells. Cells do not cross
                the borders, and every row that meets the stretch is read.
    members     all deliveries of some members, and all sends: order at each member, causality
    positions   a stretch of the positions of a view: no two messages at one position
    merges      how far members had delivered when they proposed a view
    pair        two members in a view whose positions are broken: weak total order

A part is a pure function of files and of the summary of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.audit.causality import causality
from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.clock_jumps import clock_jumps
from phalanx.pipeline.audit.delivery_view import delivery_view, initial_view
from phalanx.pipeline.audit.group_findings import GroupFinding, GroupFindings
from phalanx.pipeline.audit.group_summary import GroupSummary, Summariser, merged, summary_of
from phalanx.pipeline.audit.integrity import integrity, no_duplication
from phalanx.pipeline.audit.liveness import liveness
from phalanx.pipeline.audit.lost_receivers import lost_receivers
from phalanx.pipeline.audit.merges import judge_merges, upto
from phalanx.pipeline.audit.message_columns import GroupColumns
from phalanx.pipeline.audit.number_ranges import Bools, Longs, NumberStretch
from phalanx.pipeline.audit.order import one_message, one_position, rising, weak_total_order
from phalanx.pipeline.audit.part_reader import (
    CAUSES,
    Filter,
    GroupFiles,
    RowGroupFacts,
    codes,
    columns_of,
    facts_of_rows,
    read_row_groups,
    read_tables,
)
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.receipts import receipts
from phalanx.pipeline.audit.row_coder import RowCoder
from phalanx.pipeline.audit.synchrony import marker_sides, safe_prefix, virtual_synchrony
from phalanx.pipeline.group_tables import GroupTables, filtered_tables
from phalanx.pipeline.lake.lake_schema import VIEWS

Kind = Literal["numbers", "members", "positions", "merges", "pair"]
Check = Callable[[PreparedGroup], None]

SMALL_TABLES = (
    *("life", "topology", "view_change_step", "view_installed", "transitional"),
    *("merged_component", "queue", "gap", "corrupt", VIEWS),
)
"""Few rows, whatever a group delivers."""
COUNTED_TABLES = ("deliver", "sent", "accepted", "stable", "ordered", "all_delivered", "not_sent")
SUMMARY_ROWS = 1 << 20
"""Rows of a table that are counted at a time."""
OF_NUMBERS: tuple[Check, ...] = (
    *(integrity, delivery_view, virtual_synchrony, safe_prefix, liveness, one_position),
    *(receipts, lost_receivers),
)
OF_MEMBERS: tuple[Check, ...] = (no_duplication, initial_view, marker_sides, rising, causality)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What of a group a part judges."""

    kind: Kind
    low: list[int] = []
    """Numbers: per member, in the order of ranks, the first number and the one behind the last."""
    high: list[int] = []
    members: list[int] = []
    """Members, pair: by rank."""
    views: list[str] = []
    """Positions, pair."""
    positions: tuple[int, int] = (0, 0)
    """From the first to before the second."""
    first: bool = False
    row_groups: dict[str, list[list[int]]] = {}
    """Row groups that have rows of the part, by table and file; all of other tables."""


class LargeGroup(msgspec.Struct, frozen=True):
    """What all tasks of a group need."""

    group: GroupFiles
    summary: bytes = b""
    """Encoded; empty until there is one."""


class Part(NamedTuple):
    """One part of a large group, and all that judging it needs."""

    group: GroupFiles
    summary: GroupSummary
    what: Selection


class PartFindings(msgspec.Struct):
    """What a part found."""

    times: dict[str, int]
    counts: dict[str, int]
    kept: list[GroupFinding]
    disordered: list[int]


def encoded_findings(out: GroupFindings) -> bytes:
    kept = [finding for some in out.kept.values() for finding in some]
    return msgspec.msgpack.encode(
        PartFindings(dict(out.times), dict(out.counts), kept, sorted(out.disordered))
    )


def decoded_findings(data: bytes) -> GroupFindings:
    found = msgspec.msgpack.decode(data, type=PartFindings)
    out = GroupFindings()
    out.times.update(found.times)
    out.counts.update(found.counts)
    for finding in found.kept:
        out.kept.setdefault(finding.property, []).append(finding)
    out.disordered.update(found.disordered)
    return out


# ---------------------------------------------------------------------------- summaries


class SummaryTask(msgspec.Struct, frozen=True):
    """Some files of a group. The small tables are read by every task, and count in the first."""

    files: list[tuple[str, int]]
    """Tables, and places among the files of the table."""
    first: bool


class CountedSummary(msgspec.Struct):
    """The summary of some files, and what their row groups have."""

    summary: GroupSummary
    clocks: dict[str, str]
    """Members whose clock goes back, as far as these rows show."""
    row_groups: list[list[RowGroupFacts]]
    """By file."""


def summarise(group: GroupFiles, task: SummaryTask) -> CountedSummary:
    """Reads the rows of messages batch by batch."""
    small = {name: files for name, files in group.files.items() if name in SMALL_TABLES}
    known = filtered_tables(group.key, group.journals, small, {})
    clocks: dict[str, str] = {}
    found: list[GroupSummary] = []
    row_groups: list[list[RowGroupFacts]] = []
    for table, file in task.files:
        row_groups.append([])
        for rows in _some_rows(group, table, file, row_groups[-1]):
            tables = known.joined(table, rows)
            found.append(_summary(tables, task.first and not found))
            clocks |= clock_jumps(tables)
    if task.first and not found:
        found.append(_summary(known, True))
    return CountedSummary(merged(found), clocks, row_groups)


def _some_rows(
    group: GroupFiles, table: str, file: int, facts: list[RowGroupFacts]
) -> Iterator[Any]:
    """The rows of a file, about so many at a time; adds the facts of each row group."""
    held: list[Any] = []
    labels = {j.journal: f"{j.member}.{j.incarnation}" for j in group.journals}
    for rows in read_row_groups(group, table, file, columns_of(table, CAUSES), None):
        facts.append(facts_of_rows(table, rows, labels))
        if held and sum(one.num_rows for one in held) + rows.num_rows > SUMMARY_ROWS:
            yield arrow().concat_tables(held).unify_dictionaries()
            held = []
        if rows.num_rows:
            held.append(rows)
    if held:
        yield arrow().concat_tables(held).unify_dictionaries()


def _summary(tables: GroupTables, lives: bool) -> GroupSummary:
    coder = RowCoder()
    rows = Summariser(tables, coder).rows(lives=lives)
    return summary_of(coder.views, rows)


# ---------------------------------------------------------------------------- judging a part


def judge_part(part: Part) -> GroupFindings:
    summary = part.summary
    run, out = Chronicle(summary.rows()), GroupFindings()
    match part.what.kind:
        case "merges":
            judge_merges(run, out, lambda k, rows: _upto(part, summary, run, k, rows))
        case "numbers":
            _numbers(part, summary, run, out)
        case "members":
            _members(part, summary, run, out)
        case "positions":
            tables = _tables(part, ("deliver",), {"deliver": _at_positions(part)})
            prepared = PreparedGroup(
                GroupColumns(tables, summary), out, positions=part.what.positions
            )
            one_message(prepared)
        case "pair":
            (view,) = part.what.views
            wanted = _by_members(run, part.what.members, view)
            columns = GroupColumns(_tables(part, ("deliver",), {"deliver": wanted}), summary)
            weak_total_order(PreparedGroup(columns, out), columns.view_number(view))
    return out


def _upto(
    part: Part, summary: GroupSummary, run: Chronicle, k: int, rows: list[int]
) -> dict[int, Longs]:
    """Of one member after the other: their rows need not be in memory together."""
    tables = _tables(part, ("deliver",), {"deliver": _by_members(run, [k])})
    return upto(GroupColumns(tables, summary).deliveries, k, rows, len(run.members))


def _numbers(part: Part, summary: GroupSummary, run: Chronicle, out: GroupFindings) -> None:
    low, high = (np.array(values, dtype=np.int64) for values in (part.what.low, part.what.high))
    bounds = {m.label: (int(low[m.k]), int(high[m.k])) for m in run.members}
    own = {m.journal.journal: bounds[m.label] for m in run.known if m.journal is not None}
    filters = {
        "deliver": _meeting(bounds),
        "sent": _own_meeting(own),
        "accepted": _own_meeting(own),
    }
    columns = GroupColumns(_tables(part, COUNTED_TABLES, filters), summary)
    prepared = PreparedGroup(columns, out, stretch=NumberStretch(low, high), first=part.what.first)
    for check in OF_NUMBERS:
        check(prepared)


def _members(part: Part, summary: GroupSummary, run: Chronicle, out: GroupFindings) -> None:
    filters = {"deliver": _by_members(run, part.what.members)}
    names = ("deliver", "sent", "transitional")
    columns = GroupColumns(_tables(part, names, filters, frozenset({"t_ns"})), summary)

    def delivered_in(s: int, v: int, number: int) -> bool:
        sender = run.members[s]
        rows = {"deliver": _message(sender.member, sender.incarnation, run.vids[v], number)}
        every = part._replace(what=msgspec.structs.replace(part.what, row_groups={}))
        return bool(_tables(every, ("deliver",), rows)["deliver"].num_rows)

    prepared = PreparedGroup(columns, out, members=part.what.members, delivered_in=delivered_in)
    for check in OF_MEMBERS:
        check(prepared)


def _tables(
    part: Part,
    names: Sequence[str],
    filters: Mapping[str, Filter],
    without: frozenset[str] = CAUSES | {"t_ns"},
) -> GroupTables:
    group = part.group
    small = {name: group.files.get(name, []) for name in (*names, VIEWS) if name in SMALL_TABLES}
    found = filtered_tables(group.key, group.journals, small, {})
    large = [name for name in names if name not in SMALL_TABLES]
    for name, table in read_tables(group, large, filters, part.what.row_groups, without).items():
        found = found.joined(name, table)
    return found


# ---------------------------------------------------------------------------- which rows


def _of_rows(code: Longs, values: Sequence[Any]) -> Any:
    """A value for each row, by its code."""
    return np.array(values)[code]


def _meets(rows: Any, low: Any, high: Any) -> Bools:
    first, last = (RowCoder().longs(rows, name) for name in ("first", "last"))
    found: Bools = (last >= low) & (first < high)
    return found


def _meeting(bounds: Mapping[str, tuple[int, int]]) -> Filter:
    def wanted(rows: Any) -> Bools:
        code, pairs = RowCoder().pairs(rows, "sender", "sender_incarnation")
        spans = [bounds[f"{name}.{incarnation}"] for name, incarnation in pairs]
        low, high = (_of_rows(code, [span[i] for span in spans]) for i in range(2))
        return _meets(rows, low, high)

    return wanted


def _own_meeting(bounds: Mapping[str, tuple[int, int]]) -> Filter:
    def wanted(rows: Any) -> Bools:
        code, journals = codes(rows, "journal")
        spans = [bounds.get(journal, (0, 0)) for journal in journals]
        low, high = (_of_rows(code, [span[i] for span in spans]) for i in range(2))
        return _meets(rows, low, high)

    return wanted


def _in(rows: Any, column: str, wanted: Collection[Any]) -> Bools:
    code, values = codes(rows, column)
    found: Bools = _of_rows(code, [value in wanted for value in values])
    return found


def _by_members(run: Chronicle, members: Sequence[int], view: str | None = None) -> Filter:
    journals = {j.journal for k in members if (j := run.members[k].journal) is not None}

    def wanted(rows: Any) -> Bools:
        found = _in(rows, "journal", journals)
        return found if view is None else found & _in(rows, "view", {view})

    return wanted


def _message(member: str, incarnation: int, view: str, number: int) -> Filter:
    def wanted(rows: Any) -> Bools:
        sender = _in(rows, "sender", {member}) & _in(rows, "sender_incarnation", {incarnation})
        return sender & _in(rows, "view", {view}) & _meets(rows, number, number + 1)

    return wanted


def _at_positions(part: Part) -> Filter:
    low, high = part.what.positions

    def wanted(rows: Any) -> Bools:
        pos, first, last = (RowCoder().longs(rows, name, -1) for name in ("pos", "first", "last"))
        here = _in(rows, "view", part.what.views)
        found: Bools = here & (pos >= 0) & (pos < high) & (pos + last - first >= low)
        return found

    return wanted
