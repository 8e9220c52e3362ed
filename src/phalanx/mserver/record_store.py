"""Durable records of an mserver or an interface: one SQLite database for each.

A record is bytes under a key, and a write replaces some of them in one transaction that is on disk
when `write` returns. The machines of the service say what must be durable (`Persist`) before the
message that depends on it leaves; a driver collects what one step persists into one write.

The database has write-ahead logging and full synchronisation, and belongs to one process at a time.
After a failed write the store accepts no more: nobody knows what the disk holds then, and the next
start finds out. A kill at any moment leaves the records as they were before or after a write
(`tests/mserver/test_record_store_kills.py`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from phalanx.errors import StateError

SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (key TEXT PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL);
"""


class StateDamaged(StateError):
    """The database is not one that a store has left behind: its disk has lost or changed data."""


class RecordStore(Protocol):
    """Keeps records through restarts."""

    def load(self) -> dict[str, bytes]:
        """All records."""

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Replace these records, all or none; None removes one. They are durable when this
        returns. StateError if they cannot be: then the store accepts no more."""

    def close(self) -> None: ...


class MemoryRecords:
    """Records that end with the object, for simulations and tests."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}

    def load(self) -> dict[str, bytes]:
        return dict(self._records)

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        for key, body in changes.items():
            if body is None:
                self._records.pop(key, None)
            else:
                self._records[key] = body

    def close(self) -> None:
        pass


class SqliteRecords:
    """Records in a SQLite database. `facts` say whose they are: a database of another owner, or of
    another schema version, is refused. A new database takes them over."""

    def __init__(self, path: Path, facts: Mapping[str, str]) -> None:
        self._path = str(path)
        self._failed = False
        fresh = not path.exists()
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            self._prepare(fresh, facts)
        except BaseException:
            self._database.close()
            raise
        if fresh:
            _sync_folder(path.parent)

    @property
    def facts(self) -> dict[str, str]:
        """The facts as stored. Those of the first opening count."""
        return dict(self._database.execute("SELECT name, value FROM facts"))

    def load(self) -> dict[str, bytes]:
        """All records. StateDamaged if one is not as it was written."""
        out: dict[str, bytes] = {}
        try:
            for key, body, digest in self._database.execute("SELECT * FROM records ORDER BY key"):
                if _digest(key, body) != digest:
                    raise self._damaged(f"record {key!r} is not as it was written")
                out[key] = body
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return out

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        if self._failed:
            raise StateError(self._path, "an earlier write failed", "restart the process")
        execute = self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            for key, body in changes.items():
                if body is None:
                    execute("DELETE FROM records WHERE key = ?", (key,))
                else:
                    row = (key, body, _digest(key, body))
                    execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
            execute("COMMIT")
        except sqlite3.Error as error:
            self._failed = True
            raise self._unusable(error) from error

    def close(self) -> None:
        """Safe to call twice."""
        self._database.close()

    def _prepare(self, fresh: bool, facts: Mapping[str, str]) -> None:
        execute = self._database.execute
        try:
            execute("PRAGMA locking_mode = EXCLUSIVE")
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")
            tables = {name for (name,) in execute("SELECT name FROM sqlite_master")}
            if not tables:  # new, or its creation was interrupted
                rows = {"schema_version": str(SCHEMA_VERSION), **facts}
                execute("BEGIN IMMEDIATE")
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    execute(statement)
                for row in rows.items():
                    execute("INSERT INTO facts VALUES (?, ?)", row)
                execute("COMMIT")
            elif not fresh:
                self._check(facts)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _check(self, facts: Mapping[str, str]) -> None:
        found = [text for (text,) in self._database.execute("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            raise self._damaged(str(found[0]) if found else "it cannot be checked")
        stored = self.facts
        version = stored.get("schema_version")
        if version != str(SCHEMA_VERSION):
            remedy = f"use the version of phalanx that wrote it; this one reads {SCHEMA_VERSION}"
            raise StateError(self._path, f"schema version {version}", remedy)
        for name, value in facts.items():
            if name != "incarnation" and stored.get(name) != value:
                problem = f"it is of {name} {stored.get(name)!r}, not {value!r}"
                raise StateError(self._path, problem, "choose another state directory")

    def _damaged(self, problem: str) -> StateDamaged:
        remedy = "move it away, so that the process starts without it and takes a new incarnation"
        return StateDamaged(self._path, f"the database is damaged: {problem}", remedy)

    def _unusable(self, error: sqlite3.Error) -> StateError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return self._damaged(str(error))
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StateError(self._path, "another process uses it", "stop that process")
        remedy = "make room on the disk, check that it works and that this process may write to it"
        return StateError(self._path, str(error), remedy)


def _digest(key: str, body: bytes) -> bytes:
    return blake2b(
        body, digest_size=16, key=blake2b(key.encode(), digest_size=32).digest()
    ).digest()


def _sync_folder(folder: Path) -> None:
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
