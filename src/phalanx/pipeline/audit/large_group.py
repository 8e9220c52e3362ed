"""Judge one large group in parts: plan the parts, and add up their findings.

    journals    raw ones are written as Parquet files (see `plan_audit`)
    summaries   files of messages: what each member sent and delivered, counted
    parts       numbers, members, positions and merges (see `group_part`)
    pairs       of members in views whose positions are broken

Each step is one list of tasks, pure functions of files, that any number of workers may take. What
all tasks of a step need, the files and the summary of the group, is sent once (`LargeGroup`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec

from phalanx.journal.schema import NUMBER_MAX
from phalanx.pipeline.audit.chronicle import Chronicle
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.pipeline.audit.group_part import (
    SMALL_TABLES,
    SUMMARY_ROWS,
    CountedSummary,
    LargeGroup,
    Part,
    Selection,
    SummaryTask,
    decoded_findings,
    encoded_findings,
    judge_part,
    summarise,
)
from phalanx.pipeline.audit.group_summary import GroupSummary, merged
from phalanx.pipeline.audit.part_reader import NUMBERED, GroupFiles, RowGroupFacts
from phalanx.pipeline.ingest_task import Task as WriteTask
from phalanx.pipeline.ingest_task import take
from phalanx.pipeline.lake.lake_file import LakeFile

PART_ROWS = 1_500_000
"""Deliveries in one part, about: its columns and what is computed of them take less than 1 GB."""

RunTasks = Callable[[bytes, Sequence[bytes]], Iterator[bytes]]
"""Runs encoded tasks somewhere, in any order, with the bytes that they share, and returns their
results in the order of tasks."""

LargeTask = WriteTask | SummaryTask | Selection
_KINDS: dict[type, bytes] = {WriteTask: b"w", SummaryTask: b"s", Selection: b"p"}


def run_large_task(shared: bytes, data: bytes) -> bytes:
    """What a worker does with one task."""
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
    if data[:1] == b"w":
        return encode(take(decode(data[1:], type=WriteTask)))
    large = decode(shared, type=LargeGroup)
    if data[:1] == b"s":
        return encode(summarise(large.group, decode(data[1:], type=SummaryTask)))
    summary = decode(large.summary, type=GroupSummary)
    part = Part(large.group, summary, decode(data[1:], type=Selection))
    return encoded_findings(judge_part(part))


def encoded_task(task: LargeTask) -> bytes:
    return _KINDS[type(task)] + msgspec.msgpack.encode(task)


def judge_large(
    group: GroupFiles, run_tasks: RunTasks, part_rows: int = PART_ROWS
) -> tuple[Chronicle, GroupFindings, list[str]]:
    """The findings of the checks of messages on one group, and clocks that go back."""
    group = msgspec.structs.replace(group, files=_without_stats(group.files))
    shared = msgspec.msgpack.encode(LargeGroup(group))
    summaries = list(_summaries(group))
    results = run_tasks(shared, [encoded_task(task) for task in summaries])
    counted = [msgspec.msgpack.decode(data, type=CountedSummary) for data in results]
    summary = merged([one.summary for one in counted])
    numbers: dict[str, int] = {}
    for facts in (facts for one in counted for file in one.row_groups for facts in file):
        for label, (_, number) in facts.numbers.items():
            numbers[label] = max(number, numbers.get(label, 0))
    run, out = Chronicle(summary.rows()), GroupFindings()
    run.vids |= dict(enumerate(summary.views))
    shared = msgspec.msgpack.encode(LargeGroup(group, msgspec.msgpack.encode(summary)))
    known: dict[str, list[list[RowGroupFacts]]] = {
        table: [[] for _ in files] for table, files in group.files.items()
    }
    for task, one in zip(summaries, counted, strict=True):
        for (table, file), row_groups in zip(task.files, one.row_groups, strict=True):
            known[table][file] = row_groups
    for select in (_parts(run, numbers, part_rows), _pairs(run, out.disordered)):
        parts = [
            msgspec.structs.replace(what, row_groups=_wanted(run, known, what)) for what in select
        ]
        for data in run_tasks(shared, [encoded_task(what) for what in parts]):
            out.merge(decoded_findings(data))
    clocks: dict[str, str] = {}
    for one in counted:
        clocks |= one.clocks
    return run, out, list(clocks.values())


def _without_stats(files: dict[str, list[LakeFile]]) -> dict[str, list[LakeFile]]:
    return {
        name: [msgspec.structs.replace(file, stats="") for file in some]
        for name, some in files.items()
    }


def _summaries(group: GroupFiles) -> Iterator[SummaryTask]:
    places = [
        (name, i)
        for name, files in group.files.items()
        for i in range(len(files) if name not in SMALL_TABLES else 0)
    ]
    sizes = ((n, group.files[name][i].rows) for n, (name, i) in enumerate(places))
    some = list(_bins(sizes, SUMMARY_ROWS)) or [[]]
    for n, numbers in enumerate(some):
        yield SummaryTask([places[number] for number in numbers], first=n == 0)


def _wanted(
    run: Chronicle, known: Mapping[str, Sequence[Sequence[RowGroupFacts]]], what: Selection
) -> dict[str, list[list[int]]]:
    """The row groups that may have rows of a part."""
    match what.kind:
        case "numbers":
            spans = {m.label: (what.low[m.k], what.high[m.k]) for m in run.members}

            def has(facts: RowGroupFacts) -> bool:
                return any(
                    spans[label][0] <= last and first < spans[label][1]
                    for label, (first, last) in facts.numbers.items()
                )

            tables: Iterable[str] = NUMBERED
        case "positions":
            low, high = what.positions

            def has(facts: RowGroupFacts) -> bool:
                spans = [facts.positions.get(view, (0, -1)) for view in what.views]
                return any(first <= last and low <= last and first < high for first, last in spans)

            tables = ("deliver",)
        case "members" | "pair":
            mine = {j.journal for k in what.members if (j := run.members[k].journal) is not None}

            def has(facts: RowGroupFacts) -> bool:
                return not mine.isdisjoint(facts.journals)

            tables = ("deliver",)
        case "merges":
            return {}
    return {
        table: [[i for i, facts in enumerate(file) if has(facts)] for file in known[table]]
        for table in tables
        if table in known
    }


def _parts(run: Chronicle, numbers: dict[str, int], part_rows: int) -> Iterator[Selection]:
    rows = sum(m.delivered for m in run.known)
    count = max(1, -(-rows // part_rows))
    ends = [numbers.get(m.label, 0) + 1 for m in run.members]
    for i in range(count):
        last = i == count - 1
        low = [end * i // count for end in ends]
        high = [NUMBER_MAX if last else end * (i + 1) // count for end in ends]
        yield Selection(kind="numbers", low=low, high=high, first=i == 0)
    for members in _bins(((m.k, m.delivered + m.sent) for m in run.members), part_rows):
        yield Selection(kind="members", members=members)
    ordered: dict[int, int] = {}
    highest: dict[int, int] = {}
    for m in run.known:
        for v, use in m.uses.items():
            ordered[v] = ordered.get(v, 0) + use.ordered
            highest[v] = max(highest.get(v, 0), use.highest or 0)
    small = [(v, size) for v, size in ordered.items() if 0 < size <= part_rows]
    for views in _bins(small, part_rows):
        names = [run.vids[v] for v in views]
        yield Selection(kind="positions", views=names, positions=(0, 1 << 62))
    for v, size in ordered.items():
        if size > part_rows:
            many, end = -(-size // part_rows), highest[v] + 1
            for i in range(many):
                upto = 1 << 62 if i == many - 1 else end * (i + 1) // many
                place = (end * i // many, upto)
                yield Selection(kind="positions", views=[run.vids[v]], positions=place)
    yield Selection(kind="merges")


def _bins(sizes: Iterable[tuple[int, int]], limit: int) -> Iterator[list[int]]:
    """Neighbours together up to a limit."""
    held: list[int] = []
    total = 0
    for number, size in sizes:
        if held and total + size > limit:
            yield held
            held, total = [], 0
        held.append(number)
        total += size
    if held:
        yield held


def _pairs(run: Chronicle, disordered: Iterable[int]) -> Iterator[Selection]:
    views = set(disordered)
    for route in run.routes:
        if route.v in views and route.w is not None:
            for a, b in combinations(sorted(m.k for m in route.members), 2):
                yield Selection(kind="pair", views=[run.vids[route.v]], members=[a, b])
