"""Files of schema version 7, as phalanx wrote them, are read with the names of now.

`schema7/every_table` has a segment and a text file with the same rows: every table, every column,
every value of every vocabulary, written by version 7. `version8.jsonl` has what they say, with the
names of now. `schema7/run` has the journals of a simulated run in which a group splits, merges,
loses a member and gets it back; `schema7/export` one of them as exported Parquet.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from phalanx.cli.main import main
from phalanx.errors import EventFileError
from phalanx.journal import jsonl, parquet_export, reader, renamed
from phalanx.journal import schema as ev
from phalanx.journal.columnar_reader import ColumnarReader, Copy
from phalanx.journal.columns import columns_of, pack, unpack
from phalanx.journal.service_schema import SERVICE_TABLES

FILES = Path(__file__).with_name("schema7")
SEGMENT = FILES / "every_table" / "g-ada-000003-000001.phj"
OLD = FILES / "every_table" / "version7.jsonl"
NEW = FILES / "every_table" / "version8.jsonl"
LATER_TABLES: set[type] = {ev.ChannelReport, *SERVICE_TABLES.values()}
LATER_COLUMNS = {
    (ev.ViewInstalled, f"role_{name}")
    for name in ("members", "incarnations", "serials", "operations")
}
LATER_VALUES = {"role", "S"}
"""What came after version 8."""
NOT_TESTED = {
    "no-view-crossing-inversion",
    "termination-of-delivery",
    "safe-indication-liveness",
    "bounded-window",
}


def expected() -> list[ev.Event]:
    """Version 8 wrote them, so that this reads no old name."""
    assert json.loads(NEW.read_text().splitlines()[0])["phalanx_events"] == 8
    return jsonl.read(NEW)[1]


def test_the_files_have_every_table_every_column_and_every_value() -> None:
    rows = expected()
    assert {type(row) for row in rows} == set(ev.TABLES.values()) - LATER_TABLES
    for kind in {type(row) for row in rows}:
        some = [row for row in rows if type(row) is kind]
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType)
        for field in info.fields:
            found = [getattr(row, field.name) for row in some]
            later = (kind, field.name) in LATER_COLUMNS
            assert any(value not in (None, []) for value in found) is not later, (kind, field.name)
            if isinstance(field.type, msgspec.inspect.LiteralType):
                assert set(found) == set(field.type.values) - LATER_VALUES, (kind, field.name)


def test_a_segment_of_version_7_is_read_row_for_row() -> None:
    found = reader.read(SEGMENT)
    assert found.rows == expected()
    assert (found.problems, found.sealed, found.header.schema) == ([], True, 7)
    assert (found.header.member, found.header.incarnation) == ("ada", 3)


def test_a_text_file_of_version_7_is_read_row_for_row() -> None:
    assert jsonl.read(OLD) == ({"seed": 1}, expected())


def test_the_columnar_reader_reads_the_same_of_version_7() -> None:
    scan = ColumnarReader([Copy(str(SEGMENT), SEGMENT.stat().st_size)])
    found: list[dict[str, Any]] = []
    for rows in scan:
        columns = [
            list(values) if len(values) == rows.rows else [*values] * rows.rows
            for values in rows.columns.values()
        ]
        found += [
            dict(zip(rows.columns, values, strict=True)) | {"table": rows.table}
            for values in zip(*columns, strict=True)
        ]
    written = [msgspec.to_builtins(row) for row in expected()]
    identity = {"cluster": "c", "journal": "7" * 32}
    assert sorted(found, key=lambda row: int(row["lseq"])) == [row | identity for row in written]
    assert (scan.found.corrupt, scan.found.stopped) == (1, 1)


def test_old_names_are_not_names_of_version_8(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(OLD.read_text().replace('"phalanx_events":7', '"phalanx_events":8'))
    with pytest.raises(EventFileError, match="not a row of the schema"):
        jsonl.read(path)
    rows = expected()[:1]
    assert unpack(pack(rows)[0], "ada", 3, "g") == rows
    with pytest.raises(ValueError, match="there is no table 'accepted'"):
        columns_of(pack(rows)[0], 7)


def test_a_block_of_version_1_lacks_the_columns_that_came_later() -> None:
    shared: list[Any] = [1, [4], [2], [9], [None], ["r"], ["T"]]
    body = msgspec.msgpack.encode({"submit": [*shared, [1], [3], ["SAFE"], [60]]})
    (row,) = unpack(body, "ada", 1, "g", 1)
    assert isinstance(row, ev.Accepted)
    assert (row.member, row.lseq, row.first, row.last, row.size) == ("ada", 4, 1, 3, 60)
    assert (row.to, row.to_incarnations, row.digest) == (None, None, None)


def test_check_judges_journals_of_version_7() -> None:
    result = CliRunner().invoke(main, ["check", "--json", str(FILES / "run")])
    assert result.exit_code == 0, result.output
    (group,) = json.loads(result.stdout)["groups"]
    assert (group["rows"], group["violated"], group["torn"]) == (448, [], {})
    assert group["members"] == ["ada.1", "bea.1", "bea.2", "cyd.1"]
    verdicts = {name: found["verdict"] for name, found in group["properties"].items()}
    assert {name for name, verdict in verdicts.items() if verdict != "holds"} == NOT_TESTED
    assert group["properties"]["merge-report-truth"]["checked"] == 11


def test_an_export_of_version_7_is_replaced_by_one_with_the_names_of_now(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "export"
    shutil.copytree(FILES / "export", folder)
    done = parquet_export.export([FILES / "run" / "sim-bea-000002-000001.phj"], folder)
    assert (done.segments, done.before, done.rows) == (1, 0, 19)
    old = [table for table in renamed.TABLES if list((folder / table).glob("*"))]
    assert old == []
    assert len(list((folder / "view_installed").glob("*.parquet"))) == 1
    again = parquet_export.export([FILES / "run" / "sim-bea-000002-000001.phj"], folder)
    assert (again.segments, again.before) == (0, 1)


def test_every_new_name_is_one_of_the_schema() -> None:
    for old, table in renamed.TABLES.items():
        assert table in ev.TABLES
        assert old not in ev.TABLES
    for table, columns in renamed.COLUMNS.items():
        assert set(columns.values()) <= set(ev.TABLES[table].__struct_fields__)
    assert set(renamed.IN_ALL.values()) <= set(ev.Row.__struct_fields__)
