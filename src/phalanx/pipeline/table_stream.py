"""One table of live journals as a stream: `spark.readStream.format("phalanx")`.

    spark.readStream.format("phalanx").option("table", "deliver").load("journals/")

The offset of a stream is the place reached in each journal, `{journal: [segment, byte, lseq]}`. A
batch is all whole blocks between two offsets, so each row is in exactly one batch, also if the
query ends and begins again from its checkpoint. Rows of one journal are in the order of `lseq`
within a partition; between partitions Spark keeps no order.

Damage is a row of `corrupt`, once. Rows that retention deleted before they were read are an error
that names them, or with `onPruned=skip` a row of `gap`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from phalanx.journal.blocks import ROWS, Block, Damage
from phalanx.journal.column_buffer import ColumnBuffer, contradictory
from phalanx.journal.columns import ColumnBlock, columns_of
from phalanx.journal.reader import read_header
from phalanx.journal.retention import mark
from phalanx.journal.segment import Header
from phalanx.journal.tail_reader import (
    Place,
    SegmentList,
    Segments,
    Stretch,
    plan,
    read_blocks,
    replan,
)
from phalanx.pipeline.stream_options import StreamOptions, refuse_missing

TASKS = 8
"""A batch has about so many tasks, unless they would be smaller or larger than this."""
TASK_BYTES_MIN, TASK_BYTES_MAX = 256 << 10, 4 << 20

Offset = dict[str, list[int]]


# ---------------------------------------------------------------------- reading, without Spark


def table_batches(
    stretches: Sequence[Stretch], table: str, names: Sequence[str] | None = None
) -> Iterator[Any]:
    """The rows of one table in these stretches, as Arrow batches of all or some columns."""
    gathered = ColumnBuffer(table, names)
    headers: dict[str, Header] = {}
    for stretch in stretches:
        header = headers.get(stretch.path)
        if header is None:
            header = headers[stretch.path] = read_header(Path(stretch.path))
        for rows, columns in _stretch_rows(stretch, header, table):
            gathered.add(rows, columns)
            if gathered.full:
                yield gathered.take().replace_schema_metadata(None)
    if gathered.rows:
        yield gathered.take().replace_schema_metadata(None)


def _stretch_rows(
    stretch: Stretch, header: Header, table: str
) -> Iterator[tuple[int, Mapping[str, Sequence[Any]]]]:
    same: dict[str, Sequence[Any]] = {
        name: [getattr(header, name)]
        for name in ("cluster", "journal", "group", "member", "incarnation")
    }
    # The rows that are made here need to know the rows around them, whatever table these are of.
    only = None if table in ("corrupt", "gap") else (table,)
    near = _Neighbour(header)
    reached = stretch.after
    missing = stretch.missing
    parts = read_blocks(stretch) if stretch.end else iter(())
    for part in parts:
        packed: dict[str, ColumnBlock] = {}
        if isinstance(part, Block):
            if part.kind != ROWS or part.last <= reached:
                continue
            try:
                packed = columns_of(part.body, header.schema, only)
                if any(map(contradictory, packed.values())):
                    raise ValueError("columns that contradict each other")
            except (ValueError, RecursionError, OverflowError):
                part = Damage(part.offset, part.size, tail=False)
        near.see(packed)
        if missing is not None:
            reached = missing.last
            if table == "gap":
                lost = {"first": [missing.first], "last": [missing.last]}
                yield 1, same | near.row(reached) | lost | {"reason": [missing.reason]}
            missing = None
        if isinstance(part, Damage):
            if table == "corrupt":
                where: dict[str, Sequence[Any]] = {
                    "file": [stretch.path],
                    "offset": [part.offset],
                    "length": [part.size],
                }
                yield 1, same | near.row(reached + 1) | where
            continue
        if table in packed:
            kept = _new_rows(packed[table], reached) if part.first <= reached else packed[table]
            if kept.rows:
                yield kept.rows, kept.columns | same
        reached = part.last
    if missing is not None and table == "gap":
        lost = {"first": [missing.first], "last": [missing.last]}
        yield 1, same | near.row(missing.last) | lost | {"reason": [missing.reason]}


class _Neighbour:
    """The last row that was read: a row that is made here takes its run and its time."""

    def __init__(self, header: Header) -> None:
        self._run = ""
        self._step = 0
        self._t_ns = header.mono_ns

    def see(self, packed: Mapping[str, ColumnBlock]) -> None:
        for table in packed.values():
            self._run = table.columns["run"][-1]
            self._step = max(self._step, table.columns["step"][-1])
            self._t_ns = table.columns["t_ns"][-1]

    def row(self, lseq: int) -> dict[str, Sequence[Any]]:
        known: dict[str, Sequence[Any]] = {"run": [self._run], "profile": ["T"], "sim_ns": [None]}
        return known | {"lseq": [lseq], "step": [self._step], "t_ns": [self._t_ns]}


def _new_rows(table: ColumnBlock, reached: int) -> ColumnBlock:
    keep = [number > reached for number in table.columns["lseq"]]
    columns = {
        name: values if len(values) == 1 else list(compress(values, keep))
        for name, values in table.columns.items()
    }
    return ColumnBlock(table.kind, sum(keep), columns)


def tasks_of(found: Mapping[str, Sequence[Stretch]]) -> list[list[Stretch]]:
    """Neighbouring stretches together, in tasks of about equal size."""
    total = sum(s.end - s.begin for stretches in found.values() for s in stretches)
    limit = min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, total // TASKS))
    tasks: list[list[Stretch]] = []
    room = 0
    for stretches in found.values():
        for stretch in stretches:
            if room <= 0:
                tasks.append([])
                room = limit
            tasks[-1].append(stretch)
            room -= stretch.end - stretch.begin
    return tasks


def places_of(offset: Mapping[str, Sequence[int]]) -> dict[str, Place]:
    return {journal: Place(*place) for journal, place in offset.items()}


# ---------------------------------------------------------------------- what Spark calls


class StretchPartition(InputPartition):
    """Stretches that one task reads."""

    def __init__(self, stretches: list[Stretch]) -> None:
        super().__init__(None)
        self.stretches = msgspec.msgpack.encode(stretches)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self,
        paths: Sequence[str],
        table: str,
        options: StreamOptions,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._paths = list(paths)
        self._table = table
        self._columns = columns
        self._options = options
        self._list = SegmentList(paths)
        self._frozen: Segments | None = None
        self._planned: tuple[Offset, Offset, dict[str, list[Stretch]]] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names, here and below
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = self._list.find()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        segments = self._frozen if self._frozen is not None else self._list.find()
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        places, found = plan(segments, places_of(start), bytes_max)
        if not self._options.skip:
            refuse_missing(segments, found)
        end = {journal: list(place) for journal, place in places.items()}
        self._planned = start, end, found
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._planned is not None and self._planned[:2] == (start, end):
            found = self._planned[2]
        else:  # the query began again with a batch that was planned before
            segments = self._list.find()
            found = replan(segments, places_of(start), places_of(end))
            if not self._options.skip:
                refuse_missing(segments, found)
        return [StretchPartition(task) for task in tasks_of(found)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, StretchPartition)
        stretches = msgspec.msgpack.decode(partition.stretches, type=list[Stretch])
        return table_batches(stretches, self._table, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch is in the sink: what lies before the current segment may be deleted."""
        if self._options.mark is not None:
            taken = {journal: place[0] - 1 for journal, place in end.items()}
            for path in map(Path, self._paths):
                if path.is_dir():
                    mark(path, self._options.mark, taken)
