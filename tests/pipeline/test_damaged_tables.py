"""Parquet files of a lake or an export whose bytes have changed are refused, never judged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from tests.journal.journal_folder import keep
from tests.verify.trace_builder import odyssey

from phalanx.errors import JournalError, PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.journal.parquet_export import export
from phalanx.pipeline.audit import audit_plan, wanted
from phalanx.pipeline.audit.part_reader import GroupFiles, columns_of, read_row_groups
from phalanx.pipeline.group_plan import plan_groups
from phalanx.pipeline.group_tables import each_batch, read_groups, tables_of_files
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake
from phalanx.pipeline.lake_sql import register_duckdb

FLIPS = 40


def flips(path: Path, times: int) -> Iterator[None]:
    """One bit of the pages of a file is another, each time another bit; at the end none is."""
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    chosen = random.Random(times)
    for _ in range(times):
        changed = bytearray(whole)
        changed[chosen.randrange(4, len(whole) - footer)] ^= 1 << chosen.randrange(8)
        path.write_bytes(changed)
        yield
    path.write_bytes(whole)


def only_file(lake: Path, table: str) -> Path:
    return Path(Lake(lake).snapshot().files(table)[0].path)


def check_refused_or_same(path: Path, read: Callable[[], object], times: int = FLIPS) -> None:
    right = read()
    refused = 0
    for _ in flips(path, times):
        try:
            assert read() == right
        except (PipelineError, JournalError, duckdb.Error):
            refused += 1
    assert refused > times // 2
    assert read() == right


def test_a_flipped_bit_in_a_table_of_a_lake_is_an_error_and_not_another_row(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    ingest([keep(tmp_path / "fleet", odyssey().rows)], lake)
    snapshot, plan = Lake(lake).snapshot(), plan_groups([lake])
    files = {table: plan.files[table] for table in ("deliver", "views")}
    group = GroupFiles(tables_of_files(plan.journals, files)[0].key, plan.journals, files)

    def rows_of_groups() -> object:
        return tables_of_files(plan.journals, files)[0]["deliver"].to_pylist()

    def rows_of_parts() -> object:
        found = read_row_groups(group, "deliver", 0, columns_of("deliver"), None)
        return [row for rows in found for row in rows.to_pylist()]

    def rows_in_batches() -> object:
        found = each_batch(group.key, plan.journals, files, 10)
        return [row for _, rows in found for row in rows.to_pylist()]

    database = duckdb.connect()
    register_duckdb(database, lake)

    def rows_of_duckdb() -> object:
        return database.sql("select * from deliver order by journal, lseq").fetchall()

    deliver = only_file(lake, "deliver")
    check_refused_or_same(deliver, lambda: snapshot.read("deliver").to_pylist())
    check_refused_or_same(deliver, rows_of_groups)
    check_refused_or_same(deliver, rows_of_parts)
    check_refused_or_same(deliver, rows_in_batches)
    check_refused_or_same(deliver, rows_of_duckdb)


def test_a_flipped_bit_in_the_head_of_a_page_leaves_no_code_without_a_text(tmp_path: Path) -> None:
    """Heads have no checksum. One flip in 400 cut a dictionary short, and its codes remained."""
    lake = tmp_path / "lake"
    ingest([keep(tmp_path / "fleet", odyssey().rows)], lake)
    plan = plan_groups([lake])
    files = {table: plan.files[table] for table in ("deliver", "views")}
    group = GroupFiles(tables_of_files(plan.journals, files)[0].key, plan.journals, files)

    def rows() -> object:
        found = read_row_groups(group, "deliver", 0, columns_of("deliver"), None)
        return [row for rows in found for row in rows.to_pylist()]

    check_refused_or_same(only_file(lake, "deliver"), rows, 50 * FLIPS)


def test_a_flipped_bit_in_an_exported_file_is_an_error_and_not_another_row(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export([keep(tmp_path / "fleet", odyssey().rows)], folder)
    exported = sorted((folder / "deliver").glob("*.parquet"))[0]

    def rows() -> object:
        return read_groups([folder])[0]["deliver"].to_pylist()

    check_refused_or_same(exported, rows)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_file_of_a_lake_with_another_number_of_rows_is_refused(tmp_path: Path, rows: int) -> None:
    lake = tmp_path / "lake"
    ingest([keep(tmp_path / "fleet", odyssey().rows)], lake)
    path = only_file(lake, "deliver")
    whole = arrow().parquet.read_table(path)
    arrow().parquet.write_table(whole.slice(0, rows), path)
    with pytest.raises(PipelineError, match=path.name):
        audit_plan(plan_groups([lake]), wanted(None), engine="local")
    with pytest.raises(PipelineError, match=path.name):
        Lake(lake).snapshot().read("deliver")
