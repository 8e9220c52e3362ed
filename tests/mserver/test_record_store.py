"""Records on disk: what a write leaves, whose database is refused, and what damage shows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from phalanx.errors import NameInUse, StateError
from phalanx.mserver.open_records import open_records
from phalanx.mserver.record_store import (
    MemoryRecords,
    RecordStore,
    SqliteRecords,
    StateDamaged,
)

FACTS = {"cluster": "c", "kind": "mserver", "name": "m1", "incarnation": "7"}


def opened(path: Path, **facts: str) -> SqliteRecords:
    return SqliteRecords(path / "m1.db", FACTS | facts)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_write_replaces_adds_and_removes(kind: str, tmp_path: Path) -> None:
    store: RecordStore = MemoryRecords() if kind == "memory" else opened(tmp_path)
    store.write({"set/a": b"1", "set/b": b"2"})
    store.write({"set/a": b"3", "set/b": None, "set/c": b"", "set/none": None})
    assert store.load() == {"set/a": b"3", "set/c": b""}
    store.close()


def test_records_and_the_incarnation_are_there_after_a_restart(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write({"x": b"\x00" * 100_000})
    store.close()
    store.close()
    again = opened(tmp_path, incarnation="8")
    assert again.load() == {"x": b"\x00" * 100_000}
    assert again.facts["incarnation"] == "7"
    again.close()


def test_each_write_is_synchronised(tmp_path: Path) -> None:
    store = opened(tmp_path)
    database = store._database
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    store.close()


@pytest.mark.parametrize("fact", ["cluster", "kind", "name"])
def test_the_database_of_another_owner_is_refused(fact: str, tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(StateError, match=f"it is of {fact} ") as caught:
        opened(tmp_path, **{fact: "other"})
    assert not isinstance(caught.value, StateDamaged)
    opened(tmp_path).close()


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with sqlite3.connect(tmp_path / "m1.db") as database:
        database.execute("UPDATE facts SET value = '9' WHERE name = 'schema_version'")
    database.close()
    with pytest.raises(StateError, match="schema version 9"):
        opened(tmp_path)


def test_a_second_process_cannot_use_the_database(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write({"x": b"1"})
    second = sqlite3.connect(tmp_path / "m1.db", timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        second.execute("SELECT * FROM records")
    second.close()
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m1.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StateDamaged, match="damaged"):
        opened(tmp_path)
    assert (tmp_path / "m1.db").read_bytes().startswith(b"nothing")


@pytest.mark.parametrize("at", range(0, 12, 2))
def test_changed_bytes_are_found_or_do_no_harm(at: int, tmp_path: Path) -> None:
    """A page that the disk has changed: either the store refuses, or the records are whole."""
    records = {f"set/{n}": bytes([n]) * 900 for n in range(40)}
    store = opened(tmp_path)
    store.write(records)
    store.close()
    path = tmp_path / "m1.db"
    data = bytearray(path.read_bytes())
    start = len(data) * at // 12
    data[start : start + 600] = bytes(600)
    path.write_bytes(data)
    refused = False
    try:
        again = opened(tmp_path)
        try:
            assert again.load() == records
        finally:
            again.close()
    except StateDamaged:
        refused = True
    assert refused or at > 0


def test_a_changed_record_is_found_by_its_digest(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write({"set/a": b"1"})
    store.close()
    with sqlite3.connect(tmp_path / "m1.db") as database:
        database.execute("UPDATE records SET body = x'32'")
    database.close()
    again = opened(tmp_path)
    with pytest.raises(StateDamaged, match="'set/a' is not as it was written"):
        again.load()
    again.close()


def test_the_incarnation_stays_with_the_database_and_is_never_reused(tmp_path: Path) -> None:
    first = open_records("c", "mserver", "m1", tmp_path)
    first.close()
    again = open_records("c", "mserver", "m1", tmp_path)
    assert again.me == first.me
    again.close()
    (tmp_path / "mserver-m1.db").unlink()
    anew = open_records("c", "mserver", "m1", tmp_path)
    assert anew.me.incarnation > first.me.incarnation
    anew.close()


def test_one_name_is_held_by_one_process(tmp_path: Path) -> None:
    first = open_records("c", "mserver", "m1", tmp_path)
    with pytest.raises(NameInUse):
        open_records("c", "mserver", "m1", tmp_path)
    other = open_records("c", "interface", "m1", tmp_path)
    other.close()
    first.close()
    open_records("c", "mserver", "m1", tmp_path).close()


def test_names_that_look_alike_have_databases_of_their_own(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "a%2f%b", "é"]
    opened_all = [open_records("c", "mserver", name, tmp_path) for name in names]
    assert len(list(tmp_path.glob("*.db"))) == len(names)
    for each in opened_all:
        each.close()
