"""Journals as Parquet: the same rows in the columns of the schema, once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journal.journal_folder import journal, keep, row, rows, segment
from tests.verify.trace_builder import odyssey

from phalanx.errors import JournalError
from phalanx.journal import parquet_export as parquet
from phalanx.journal import reader, retention
from phalanx.journal import schema as ev


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    pa = parquet.arrow()
    return {
        path.name: pa.parquet.read_table(path).to_pylist()
        for path in sorted(folder.iterdir())
        if not path.name.startswith("_")
    }


def test_every_row_comes_back_from_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    keep(tmp_path / "j", odyssey().rows)
    done = parquet.export([tmp_path / "j"], tmp_path / "lake")
    expected: dict[str, list[dict[str, Any]]] = {}
    for uuid, events in reader.read_all([tmp_path / "j"]).journals.items():
        for event in events:
            table = str(event.__struct_config__.tag)
            known = {"cluster": "c", "journal": uuid} | msgspec.structs.asdict(event)
            expected.setdefault(table, []).append(known)
    assert tables(tmp_path / "lake") == expected
    assert done.rows == sum(map(len, expected.values()))
    assert done.segments == 5


def test_types_follow_from_the_schema() -> None:
    pa = pytest.importorskip("pyarrow")
    for table in ev.TABLES:
        assert parquet.schema(table).field("lseq").type == pa.int64()
    deliver = parquet.schema("deliver")
    assert deliver.field("to").type == pa.list_(pa.string())
    assert deliver.field("to").nullable
    assert deliver.field("service").type == pa.string()
    assert not deliver.field("first").nullable
    assert parquet.schema("sent").field("dep_incarnations").type == pa.list_(pa.int64())


def test_a_second_export_writes_nothing_and_an_interrupted_one_is_made_good(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    keep(tmp_path / "j", odyssey().rows)
    first = parquet.export([tmp_path / "j"], tmp_path / "lake")
    before = tables(tmp_path / "lake")
    again = parquet.export([tmp_path / "j"], tmp_path / "lake")
    assert (again.files, again.before) == (0, first.segments)
    note = next((tmp_path / "lake" / "_segments").iterdir())
    note.unlink()
    assert parquet.export([tmp_path / "j"], tmp_path / "lake").segments == 1
    assert tables(tmp_path / "lake") == before
    assert not list((tmp_path / "lake").rglob("*.tmp"))


def test_segments_that_are_not_sealed_wait_unless_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = segment(tmp_path, rows(1, 3))
    live = journal(tmp_path, "bea")
    lake = tmp_path / "lake"
    assert parquet.export([tmp_path], lake).unsealed == 2
    done = parquet.export([tmp_path], lake, cut_short=True)
    assert (done.segments, done.rows, done.unsealed) == (1, 3, 1)
    path.write_bytes(segment(tmp_path, rows(1, 3), rows(4, 9)).read_bytes())
    assert parquet.export([tmp_path], lake, cut_short=True).rows == 9, "it has grown"
    assert [len(found) for found in tables(lake).values()] == [9]
    live.close()


def test_a_mark_names_what_was_taken_without_a_hole(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    written = journal(tmp_path)
    written.write(rows(1, 3))
    written.close()
    header = reader.read(next(tmp_path.glob("*.phj"))).header
    segment(tmp_path, [row(4)], journal=header.journal, number=2)
    parquet.export([tmp_path], tmp_path / "lake", marked_by="lake")
    assert retention.marks(tmp_path) == [retention.Mark("lake", {header.journal: 1})]
    parquet.export([tmp_path], tmp_path / "lake", cut_short=True, marked_by="lake")
    assert retention.marks(tmp_path)[0].taken == {header.journal: 2}


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(JournalError, match=r"pip install 'phalanx\[parquet\]'"):
        parquet.export([tmp_path], tmp_path / "lake")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    keep(tmp_path / "j", odyssey().rows)
    (tmp_path / "lake").write_text("")
    with pytest.raises(JournalError, match="cannot be written") as caught:
        parquet.export([tmp_path / "j"], tmp_path / "lake")
    assert str(tmp_path / "lake") in str(caught.value)
