"""Change a lake: one transaction over all its tables (needs deltalake).

    with change(lake, "ingest") as transaction:
        transaction.add("deliver", files)
        version = transaction.commit()

A transaction begins from the newest version and describes the next one as sets of files. `commit`
brings each Delta table to its set, then appends to `versions`. Each of these commits succeeds only
if nobody else has committed to the table since the transaction looked at it, so of two writers
one gets a LakeConflict and has changed nothing that a reader of the lake sees.

On one machine a lock keeps a second writer out from the start. Before it does anything, a writer
brings tables that a killed one had committed to, without publishing, back to the published state,
and removes the files that killed writers of this machine left.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.lake.lake import (
    WORK,
    Lake,
    LakeBusy,
    Snapshot,
    VersionRows,
    create_table,
    description,
    explained,
    files_of,
    is_ours,
    latest_delta_version,
    open_table,
    tables_in,
    unwritable,
)
from phalanx.pipeline.lake.lake_file import LakeFile, PartitionWriter, read_files
from phalanx.pipeline.lake.lake_schema import OWN_TABLES, VERSIONS, lake_schema, partitions

if TYPE_CHECKING:
    from deltalake import DeltaTable

VERSION_FILES_MAX = 32
"""When `versions` has more files than this, a commit writes it as one."""
_PAUSE_SECONDS = 0.1
_WRITER = re.compile("[0-9a-f]{16}")
_DERIVED = re.compile("[a-z][a-z0-9_]{0,60}")


class LakeTransaction:
    """The next version of a lake. Nothing is visible before `commit`."""

    def __init__(self, lake: Lake, writer: str, what: str) -> None:
        self.lake, self.writer = lake, writer
        self._what = what
        # Committed to last: fails if anybody has published since.
        self._versions = open_table(lake.place, VERSIONS)
        rows = VersionRows(lake.place, self._versions)
        self.base = Snapshot(lake.place, rows.newest, rows.tables(rows.newest))
        """The version that the transaction begins from."""
        self._files: dict[str, dict[str, LakeFile]] = {}
        self._schemas: dict[str, Any] = {}
        self._partition_by: dict[str, list[str]] = {}
        self._written = 0

    @property
    def work(self) -> Path:
        """A folder for notes, removed at the end."""
        return self.lake.place / WORK / self.writer

    def tables(self) -> list[str]:
        """All tables that exist, or will."""
        return sorted({*self.base.delta_versions, *self._files} - {VERSIONS})

    def files(self, table: str) -> list[LakeFile]:
        """The files of a table as they will be."""
        return list(self._wanted(table).values())

    def create(self, tables: Iterable[str]) -> None:
        """Creates tables that do not exist, so that queries can name them."""
        for table in tables:
            if table not in self.base.delta_versions:
                self._wanted(table)

    def add(self, table: str, files: Iterable[LakeFile]) -> None:
        """Adds files that lie in the folder of the table."""
        self._wanted(table).update({file.name: file for file in files})

    def remove(self, table: str, files: Iterable[LakeFile]) -> None:
        wanted = self._wanted(table)
        for file in files:
            del wanted[file.name]

    def write(self, table: str, rows: Any, group: str = "", day: str = "", level: int = 1) -> None:
        """Writes the rows of one partition to a file, and adds it."""
        self._written += 1
        writer = PartitionWriter(self.lake.place, f"{self.writer}-w{self._written:05}", level)
        try:
            writer.add(table, rows, group, day)
            self.add(table, writer.finish()[table])
        except OSError as error:
            raise unwritable(self.lake.place / table, error) from error
        finally:
            writer.abandon()

    def define(self, table: str, schema: Any, partition_by: Sequence[str] = ()) -> None:
        """The schema of a derived table, which is created if it does not exist. PipelineError if it
        has a column of the same name and another type, or other partitions."""
        if table in OWN_TABLES or not _DERIVED.fullmatch(table):
            remedy = "choose another name, of letters, digits and underscores"
            raise PipelineError(table, "no name for a derived table", remedy)
        self._schemas[table] = schema
        self._partition_by[table] = list(partition_by)
        if table in self.base.delta_versions:
            delta = open_table(self.lake.place, table)
            _check_types(delta, schema, table)
            there = delta.metadata().partition_columns
            if there != list(partition_by):
                problem = f"partitioned by {there}, not by {list(partition_by)}"
                remedy = "choose another name, or a new lake"
                raise PipelineError(str(self.lake.place / table), problem, remedy)
        self._wanted(table)

    def replace(
        self,
        table: str,
        rows: Any,
        where: Mapping[str, Any] | Callable[[Any], Any] | None = None,
    ) -> None:
        """Replaces rows of a derived table: all, those whose columns have the values of `where`, or
        those for which `where`, a function of an Arrow table, is true. The table has the columns of
        `rows`; it is created if it does not exist. PipelineError if it has a column of the same
        name and another type."""
        pa = arrow()
        self.define(table, rows.schema)
        before = self.files(table)
        if where is None:
            self.remove(table, before)
        else:
            for file in before:
                found = read_files([file], rows.schema)
                matches = where(found) if callable(where) else _matches(found, where)
                if pa.compute.any(matches).as_py():
                    self.remove(table, [file])
                    kept = found.filter(pa.compute.invert(matches))
                    if kept.num_rows:
                        self.write(table, kept)
        if rows.num_rows:
            self.write(table, rows)

    def commit(self) -> int:
        """Publishes the change, and returns its version; that of the base if nothing changed.
        LakeConflict if somebody else has published meanwhile."""
        changed = {}
        for table, wanted in sorted(self._files.items()):
            before = {file.name for file in self.base.files(table)}
            if wanted.keys() != before or table not in self.base.delta_versions:
                changed[table] = self._commit(table, wanted)
        if not changed:
            return self.base.version
        return self._publish(changed)

    def replace_versions(self, rows: Any) -> None:
        """Replaces the rows of `versions`, in one commit: for vacuum, which removes versions."""
        before = self.files(VERSIONS)
        self.remove(VERSIONS, before)
        self.write(VERSIONS, rows)
        self._apply(self._versions, VERSIONS, self._wanted(VERSIONS))

    def undo_unpublished(self) -> None:
        """Brings each Delta table back to the state that is published."""
        for table in tables_in(self.lake.place):
            listed = self.base.delta_versions.get(table, -1)
            if latest_delta_version(self.lake.place, table) == listed:
                continue
            if listed < 0 and not is_ours(self.lake.place, table):
                continue
            published = {file.name: file for file in self.base.files(table)}
            delta = open_table(self.lake.place, table)
            self._apply(delta, table, published)

    # ------------------------------------------------------------------ Delta commits

    def _wanted(self, table: str) -> dict[str, LakeFile]:
        if table not in self._files:
            if table == VERSIONS:
                listed = files_of(self._versions, self.lake.place, VERSIONS)
            else:
                listed = self.base.files(table)
            self._files[table] = {file.name: file for file in listed}
        return self._files[table]

    def _commit(self, table: str, wanted: Mapping[str, LakeFile]) -> int:
        place = self.lake.place
        schema = lake_schema(table) if table in OWN_TABLES else self._schemas.get(table)
        if schema is not None and latest_delta_version(place, table) < 0:
            by = self._partition_by.get(table, partitions(table))
            create_table(place, table, schema, by)
        delta = open_table(place, table)
        if schema is not None and _add_columns(delta, place / table, schema):
            delta = open_table(place, table)
        return self._apply(delta, table, wanted)

    def _apply(self, delta: DeltaTable, table: str, wanted: Mapping[str, LakeFile]) -> int:
        """Commits what leads from the files of `delta` to those wanted; the new version."""
        from deltalake.transaction import AddAction, CommitProperties, RemoveAction

        now_ms = time.time_ns() // 1_000_000
        place = self.lake.place
        by = delta.metadata().partition_columns
        listed = files_of(delta, place, table)
        there = {file.name for file in listed}
        same_rows = self._what == "compact"
        actions: list[Any] = []
        for file in [*listed, *wanted.values()]:
            path, values = os.path.relpath(file.path, place / table), _partition(by, file)
            stats = file.stats or f'{{"numRecords": {file.rows}}}'
            if file.name not in wanted:
                actions.append(RemoveAction(path, not same_rows, now_ms, file.bytes, values))
            elif file.name not in there:
                actions.append(AddAction(path, file.bytes, values, now_ms, not same_rows, stats))
        version: int = delta.version()
        if not actions:
            return version
        with explained(place / table):
            delta.create_write_transaction(
                actions,
                mode="append",
                schema=delta.schema(),
                partition_by=by,
                commit_properties=CommitProperties(
                    max_commit_retries=0,
                    custom_metadata={"phalanx": {"writer": self.writer, "what": self._what}},
                ),
            )
        return version + 1

    def _publish(self, changed: Mapping[str, int]) -> int:
        pa = arrow()
        version = self.base.version + 1
        common = {"committed": datetime.now(UTC), "what": self._what, "writer": self.writer}
        rows = [
            {"lake_version": version, "table": table, "delta_version": delta_version} | common
            for table, delta_version in changed.items()
        ]
        made = pa.Table.from_pylist(rows, schema=lake_schema(VERSIONS))
        before = self.files(VERSIONS)
        if len(before) >= VERSION_FILES_MAX:
            self.remove(VERSIONS, before)
            made = pa.concat_tables([read_files(before, made.schema).cast(made.schema), made])
        self.write(VERSIONS, made)
        self._apply(self._versions, VERSIONS, self._wanted(VERSIONS))
        return version


@contextmanager
def change(lake: Lake, what: str, *, wait_seconds: float = 0.0) -> Iterator[LakeTransaction]:
    """A transaction; call `commit` at its end. One at a time on a machine: LakeBusy if another
    process has one and does not end it in time. Files that were written and not published are
    removed at the end."""
    with ExitStack() as stack:
        _enter_lock(stack, lake.place, wait_seconds)
        writer = uuid.uuid4().hex[:16]
        _raise_schema_version(lake)
        transaction = LakeTransaction(lake, writer, what)
        transaction.undo_unpublished()
        _sweep(lake)
        try:
            transaction.work.mkdir()
            (transaction.work / "host").write_text(gethostname())
        except OSError as error:
            raise unwritable(lake.place, error) from error
        try:
            yield transaction
        except BaseException:
            with suppress(PipelineError):
                LakeTransaction(lake, writer, what).undo_unpublished()
            raise
        finally:
            _sweep(lake)


def _enter_lock(stack: ExitStack, place: Path, wait_seconds: float) -> None:
    until = time.monotonic() + wait_seconds
    while True:
        try:
            stack.enter_context(_locked(place))
            return
        except LakeBusy:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    path = place / WORK / "lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(place, error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            problem = "another process writes to it now"
            raise LakeBusy(str(place), problem, "wait until it ends") from error
        yield
    finally:
        os.close(fd)


def writers_elsewhere(place: Path) -> set[str]:
    """Writers on other machines that may still run: their files must stay."""
    return {note.name for note in _notes(place) if not _is_mine(note)}


def _sweep(lake: Lake) -> None:
    """Removes the files of writers of this machine that ended without publishing. Only one runs at
    a time, under the lock."""
    notes = [note for note in _notes(lake.place) if _is_mine(note)]
    if not notes:
        return
    newest = open_table(lake.place, VERSIONS)
    listed = {file.path for file in files_of(newest, lake.place, VERSIONS)}
    published = VersionRows(lake.place, newest).writers
    for note in notes:
        if note.name not in published:
            for left in lake.place.glob(f"*/*{note.name}*"):
                if left.parent.name != WORK and str(left) not in listed:
                    with suppress(OSError):
                        left.unlink()
        shutil.rmtree(note, ignore_errors=True)


def _notes(place: Path) -> list[Path]:
    work = place / WORK
    return [note for note in work.iterdir() if _WRITER.fullmatch(note.name) and note.is_dir()]


def _is_mine(note: Path) -> bool:
    try:
        return (note / "host").read_text() in ("", gethostname())
    except OSError:
        return True  # killed before it wrote anything


def _raise_schema_version(lake: Lake) -> None:
    """From now on an earlier phalanx, which lacks tables or columns, refuses the lake."""
    delta = open_table(lake.place, VERSIONS)
    if delta.metadata().description != description():
        with explained(lake.place / VERSIONS):
            delta.alter.set_table_description(description())


def _add_columns(delta: DeltaTable, path: Path, schema: Any) -> bool:
    """Adds the columns that a later schema has; True if there were any."""
    from deltalake import Schema

    there = {field.name for field in delta.schema().fields}
    missing = [name for name in schema.names if name not in there]
    if missing:
        fields = Schema.from_arrow(
            arrow().schema([schema.field(n).with_nullable(True) for n in missing])
        )
        with explained(path):
            delta.alter.add_columns(fields.fields)
            delta.alter.set_table_description(description())
    return bool(missing)


def _check_types(delta: DeltaTable, schema: Any, table: str) -> None:
    there = arrow().schema(delta.schema().to_arrow())
    for field in schema:
        if field.name in there.names and there.field(field.name).type != field.type:
            problem = f"column {field.name!r} is {there.field(field.name).type}, not {field.type}"
            raise PipelineError(table, problem, "give the rows the types that the table has")


def _partition(columns: Iterable[str], file: LakeFile) -> dict[str, str | None]:
    values = {"group": file.group, "day": file.day}
    return {name: values[name] or None for name in columns}


def _matches(rows: Any, where: Mapping[str, Any]) -> Any:
    pa = arrow()
    found = pa.repeat(pa.scalar(True), rows.num_rows)
    for name, value in where.items():
        same = pa.compute.equal(rows.column(name), pa.scalar(value, rows.schema.field(name).type))
        found = pa.compute.and_(found, pa.compute.fill_null(same, False))
    return found
