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

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.receipts import receipts
from phalanx.pipeline.audit.row_coder import RowCoder
from phalanx.pipeline.audit.synchrony import marker_sides, safe_prefix, virtual_synchrony
from phalanx.pipeline.group_tables import GroupKey, GroupTables, each_batch, filtered_tables
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.lake.lake_schema import VIEWS
from phalanx.pipeline.segment_stats import JournalFacts

Kind = Literal["numbers", "members", "positions", "merges", "pair"]
Check = Callable[[PreparedGroup], None]
Filter = Callable[[Any], Any]
"""Which rows of a batch are read: a condition for each, or None for all."""

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


class GroupFiles(msgspec.Struct, frozen=True):
    """Where the rows of a group are."""

    key: GroupKey
    journals: list[JournalFacts]
    files: dict[str, list[LakeFile]]
    """Parquet files by table, of a lake with its `views`; they may hold rows of other groups."""


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
    """One file of a group. The small tables are read by every task, and count in the first."""

    table: str
    file: int
    """Its place among the files of the table."""
    first: bool


class CountedSummary(msgspec.Struct):
    """The summary of some files, and the highest number that was seen of each sender."""

    summary: GroupSummary
    numbers: dict[str, int]
    """By label."""
    clocks: dict[str, str]
    """Members whose clock goes back, as far as these rows show."""


def summarise(group: GroupFiles, task: SummaryTask) -> CountedSummary:
    """Reads the rows of messages batch by batch."""
    small = {name: files for name, files in group.files.items() if name in SMALL_TABLES}
    known = filtered_tables(group.key, group.journals, small, {})
    numbers: dict[str, int] = {}
    clocks: dict[str, str] = {}
    found: list[GroupSummary] = []
    files = {task.table: group.files[task.table][task.file : task.file + 1]} if task.table else {}
    for name, batch in each_batch(group.key, group.journals, files, SUMMARY_ROWS):
        tables = known.joined(name, batch)
        found.append(_summary(tables, numbers, task.first and not found))
        clocks |= clock_jumps(tables)
    if task.first and not found:
        found.append(_summary(known, numbers, True))
    return CountedSummary(merged(found), numbers, clocks)


def _summary(tables: GroupTables, numbers: dict[str, int], lives: bool) -> GroupSummary:
    coder = RowCoder()
    rows = Summariser(tables, coder).rows(lives=lives)
    for name, *who in (
        ("sent", "member", "incarnation"),
        ("deliver", "sender", "sender_incarnation"),
    ):
        table = tables[name]
        if table.num_rows:
            code, pairs = coder.pairs(table, *who)
            last = coder.longs(table, "last")
            for i, (member, incarnation) in enumerate(pairs):
                label = f"{member}.{incarnation}"
                numbers[label] = max(numbers.get(label, 0), int(last[code == i].max()))
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
    columns = GroupColumns(_tables(part, ("deliver", "sent", "transitional"), filters), summary)

    def delivered_in(s: int, v: int, number: int) -> bool:
        sender = run.members[s]
        rows = {"deliver": _message(sender.member, sender.incarnation, run.vids[v], number)}
        return bool(_tables(part, ("deliver",), rows)["deliver"].num_rows)

    prepared = PreparedGroup(columns, out, members=part.what.members, delivered_in=delivered_in)
    for check in OF_MEMBERS:
        check(prepared)


def _tables(part: Part, names: Sequence[str], filters: Mapping[str, Filter]) -> GroupTables:
    wanted = (*names, VIEWS)
    files = {name: part.group.files[name] for name in wanted if name in part.group.files}
    return filtered_tables(part.group.key, part.group.journals, files, filters)


# ---------------------------------------------------------------------------- which rows


def _pairs(batch: Any, name: str, number: str) -> Iterator[tuple[Any, str, int]]:
    """Each pair of values of two columns, and where it is."""
    names, numbers = (batch.column(column).dictionary_encode() for column in (name, number))
    code = names.indices.to_numpy(zero_copy_only=False) * len(numbers.dictionary)
    code = code + numbers.indices.to_numpy(zero_copy_only=False)
    words, others = names.dictionary.to_pylist(), numbers.dictionary.to_pylist()
    for key in np.unique(code).tolist():
        yield code == key, words[key // len(others)], others[key % len(others)]


def _meets(batch: Any, where: Bools, low: int, high: int) -> Bools:
    first, last = batch.column("first").to_numpy(), batch.column("last").to_numpy()
    found: Bools = where & (last >= low) & (first < high)
    return found


def _meeting(bounds: Mapping[str, tuple[int, int]]) -> Filter:
    def wanted(batch: Any) -> Any:
        found = np.zeros(batch.num_rows, dtype=bool)
        for where, name, incarnation in _pairs(batch, "sender", "sender_incarnation"):
            found |= _meets(batch, where, *bounds[f"{name}.{incarnation}"])
        return found

    return wanted


def _own_meeting(bounds: Mapping[str, tuple[int, int]]) -> Filter:
    def wanted(batch: Any) -> Any:
        found = np.zeros(batch.num_rows, dtype=bool)
        journals = batch.column("journal").dictionary_encode()
        code = journals.indices.to_numpy(zero_copy_only=False)
        for i, journal in enumerate(journals.dictionary.to_pylist()):
            if journal in bounds:
                found |= _meets(batch, code == i, *bounds[journal])
        return found

    return wanted


def _by_members(run: Chronicle, members: Sequence[int], view: str | None = None) -> Filter:
    pa = arrow()
    journals = [run.members[k].journal for k in members]
    names = pa.array([j.journal for j in journals if j is not None], pa.string())

    def wanted(batch: Any) -> Any:
        found = pa.compute.is_in(batch.column("journal"), value_set=names)
        if view is not None:
            found = pa.compute.and_(found, pa.compute.equal(batch.column("view"), view))
        return found.to_numpy(zero_copy_only=False)

    return wanted


def _message(member: str, incarnation: int, view: str, number: int) -> Filter:
    pc = arrow().compute

    def wanted(batch: Any) -> Any:
        found = pc.and_(
            pc.and_(
                pc.equal(batch.column("sender"), member),
                pc.equal(batch.column("sender_incarnation"), incarnation),
            ),
            pc.equal(batch.column("view"), view),
        ).to_numpy(zero_copy_only=False)
        return _meets(batch, found, number, number + 1)

    return wanted


def _at_positions(part: Part) -> Filter:
    pa = arrow()
    low, high = part.what.positions
    views = pa.array(part.what.views, pa.string())

    def wanted(batch: Any) -> Any:
        here = pa.compute.is_in(batch.column("view"), value_set=views)
        here = here.to_numpy(zero_copy_only=False)
        pos = batch.column("pos").fill_null(-1).to_numpy(zero_copy_only=False)
        first, last = batch.column("first").to_numpy(), batch.column("last").to_numpy()
        return here & (pos >= 0) & (pos < high) & (pos + last - first >= low)

    return wanted
