"""Write Parquet files, one for each table that has rows, atomically (needs pyarrow).

Rows come as columns, of one segment or of many. Each file is written under a temporary name, synced
to disk, and renamed when all files are complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from phalanx.journal.arrow_schema import arrow, schema
from phalanx.journal.column_buffer import ColumnBuffer
from phalanx.journal.columnar_reader import Rows


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that is complete."""

    path: str
    rows: int
    bytes: int


class ParquetTableWriter:
    """Every method may raise OSError; `abandon` then leaves nothing behind."""

    def __init__(
        self, place: Callable[[str], Path], facts: Mapping[str, str] | None = None
    ) -> None:
        """`place` names the file of a table; `facts` are kept as metadata of each."""
        self._place = place
        self._facts = dict(facts or {})
        self._gathered: dict[str, ColumnBuffer] = {}
        self._open: dict[str, ParquetFileWriter] = {}

    def add(self, rows: Rows) -> None:
        gathered = self._gathered.get(rows.table)
        if gathered is None:
            gathered = self._gathered[rows.table] = ColumnBuffer(rows.table)
        gathered.add(rows.rows, rows.columns)
        if gathered.full:
            self.add_batch(rows.table, gathered.take())

    def add_batch(self, table: str, batch: Any) -> None:
        """An Arrow batch of the table's schema."""
        file = self._open.get(table)
        if file is None:
            path = self._place(table)
            path.parent.mkdir(parents=True, exist_ok=True)
            plain = schema(table)
            facts = {**plain.metadata, **self._facts}
            file = self._open[table] = ParquetFileWriter(path, plain.with_metadata(facts))
        file.write(batch)

    def finish(self) -> dict[str, WrittenFile]:
        """What there is now, by table."""
        for table, gathered in self._gathered.items():
            if gathered.rows:
                self.add_batch(table, gathered.take())
        for file in self._open.values():
            file.complete()
        return {table: file.show() for table, file in self._open.items()}

    def abandon(self) -> None:
        for file in self._open.values():
            file.abandon()


class ParquetFileWriter:
    """One Parquet file under a temporary name, until `show` renames it. With `statistics` only
    these columns have them, and the copy of the Arrow schema is left out: for files of few rows,
    which would be twice as large."""

    def __init__(
        self, path: Path, given: Any, statistics: Sequence[str] | None = None, level: int = 1
    ) -> None:
        pa = arrow()
        self.path = path
        # Engines pass over names that begin so. Two attempts at one task must not share one.
        self._fresh = path.with_name(f"_{path.name}.{os.getpid()}.tmp")
        self._rows = 0
        self._schema = given
        # Numbers seldom repeat: a dictionary of them would only be made and thrown away.
        texts = [f.name for f in given if not pa.types.is_integer(f.type)]
        self._writer = pa.parquet.ParquetWriter(
            self._fresh,
            given,
            compression="zstd",
            compression_level=level,
            use_dictionary=texts,
            write_statistics=True if statistics is None else list(statistics),
            store_schema=statistics is None,
            write_page_checksum=True,
        )

    def write(self, batch: Any) -> None:
        self._rows += batch.num_rows
        self._writer.write_batch(batch.replace_schema_metadata(self._schema.metadata))

    def complete(self) -> None:
        """Closes the file, and syncs it to disk."""
        self._writer.close()
        fd = os.open(self._fresh, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def show(self) -> WrittenFile:
        """Gives the file its name."""
        self._fresh.rename(self.path)
        return WrittenFile(str(self.path), self._rows, self.path.stat().st_size)

    def abandon(self) -> None:
        """Removes the file, unless it has its name already."""
        with suppress(Exception):
            self._writer.close()
        with suppress(OSError):
            self._fresh.unlink()
