"""Parquet files of a lake: write rows divided by group and day, and read them.

A writer collects the rows of a partition and writes them as one file, so that many small segments
of a group share it. Files are complete and synced to disk before anybody learns their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.parquet_reader import check_rows, open_parquet
from phalanx.journal.parquet_writer import ParquetFileWriter

GROUP_ROWS = 1 << 16
"""Rows of a row group: so many are held in memory for each partition and table."""
_RANGES = ("lseq", "at", "lake_version")
"""Columns whose least and greatest values are kept, for readers to skip files and parts."""


class LakeFile(msgspec.Struct, frozen=True):
    """A Parquet file that is complete. `group` and `day` are its partition, "" without one."""

    path: str
    """Absolute."""
    rows: int
    bytes: int
    group: str = ""
    day: str = ""
    stats: str = ""
    """As in the Delta log; "" if only the number of rows is known."""

    @property
    def name(self) -> str:
        return Path(self.path).name


class PartitionWriter:
    """Writes rows of any tables, a file for each partition: LAKE/TABLE/NAME-0.parquet. Every method
    may raise OSError; `abandon` then leaves nothing behind."""

    def __init__(self, lake: Path, name: str, level: int = 1) -> None:
        """`level` is that of the compression, from 1 to 19."""
        self._lake, self._name, self._level = lake, name, level
        self._parts: dict[tuple[str, str, str], _Partition] = {}

    def add(self, table: str, rows: Any, group: str = "", day: str = "") -> None:
        """An Arrow batch or table; all of one partition have one schema."""
        key = table, group, day
        part = self._parts.get(key)
        if part is None:
            path = self._lake / table / f"{self._name}-{len(self._parts)}.parquet"
            part = self._parts[key] = _Partition(path, rows.schema, self._level)
        part.add(rows)

    def finish(self) -> dict[str, list[LakeFile]]:
        """All files, by table."""
        for part in self._parts.values():
            part.complete()
        found: dict[str, list[LakeFile]] = {}
        for (table, group, day), part in self._parts.items():
            found.setdefault(table, []).append(part.show(group, day))
        return found

    def abandon(self) -> None:
        for part in self._parts.values():
            part.abandon()


class _Partition:
    """Rows of one table and partition on their way to a file."""

    def __init__(self, path: Path, schema: Any, level: int) -> None:
        self._path, self._schema, self._level = path, schema, level
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._file: ParquetFileWriter | None = None
        self._ranges: dict[str, tuple[Any, Any]] = {}

    def add(self, rows: Any) -> None:
        pa = arrow()
        whole = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self._pending.append(whole)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= GROUP_ROWS:
            self._write()

    def complete(self) -> None:
        if self._pending or self._file is None:
            self._write()
        assert self._file is not None
        self._file.complete()

    def show(self, group: str, day: str) -> LakeFile:
        assert self._file is not None
        file = self._file.show()
        return LakeFile(file.path, file.rows, file.bytes, group, day, self._stats(file.rows))

    def abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()

    def _write(self) -> None:
        pa = arrow()
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            ranged = [name for name in _RANGES if name in self._schema.names]
            self._file = ParquetFileWriter(self._path, self._schema, ranged, self._level)
        rows = pa.concat_tables(self._pending) if self._pending else self._schema.empty_table()
        for name in _RANGES:
            if name in rows.schema.names:
                low, high = pa.compute.min_max(rows.column(name)).as_py().values()
                if low is not None:
                    before = self._ranges.get(name, (low, high))
                    self._ranges[name] = min(low, before[0]), max(high, before[1])
        for batch in rows.combine_chunks().to_batches():
            self._file.write(batch)
        self._pending, self._pending_rows = [], 0

    def _stats(self, rows: int) -> str:
        lows = {name: _spelled(low) for name, (low, _) in self._ranges.items()}
        highs = {name: _spelled(high, up=True) for name, (_, high) in self._ranges.items()}
        return json.dumps({"numRecords": rows, "minValues": lows, "maxValues": highs})


def _spelled(value: Any, up: bool = False) -> Any:
    """As Delta has it: instants in whole milliseconds, rounded so that the range covers all."""
    if not isinstance(value, datetime):
        return value
    whole = value + timedelta(microseconds=999) if up else value
    return whole.strftime("%Y-%m-%dT%H:%M:%S.") + f"{whole.microsecond // 1000:03}Z"


def read_file(file: LakeFile | str, columns: Sequence[str] | None = None) -> Any:
    """An Arrow table. PipelineError for a file that is missing or damaged."""
    pa = arrow()
    path, rows = (file, -1) if isinstance(file, str) else (file.path, file.rows)
    try:
        with open_parquet(path, rows=rows) as source:
            there = source.schema_arrow.names
            wanted = None if columns is None else [name for name in columns if name in there]
            found = source.read(wanted)
            check_rows(found.num_rows, source.metadata.num_rows)
            return found
    except (pa.ArrowException, OSError) as error:
        problem = "this file of the lake is missing or damaged"
        remedy = "restore it, or ingest the journals into a new lake"
        raise PipelineError(path, problem, remedy) from error


def read_files(
    files: Iterable[LakeFile | str], schema: Any, columns: Sequence[str] | None = None
) -> Any:
    """All rows of these files as one Arrow table of this schema, or some columns of it. Columns
    that a file lacks are null."""
    pa = arrow()
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    nullable = pa.schema([field.with_nullable(True) for field in wanted])
    tables = []
    for file in files:
        found = read_file(file, wanted.names)
        arrays = [
            found.column(field.name).cast(field.type)
            if field.name in found.schema.names
            else pa.nulls(found.num_rows, field.type)
            for field in nullable
        ]
        tables.append(pa.Table.from_arrays(arrays, schema=nullable))
    return pa.concat_tables(tables) if tables else nullable.empty_table()
