"""Raw journals as a table: what is read, without a JVM; and that Spark reads the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    LessThanOrEqual,
)
from tests.journal.journal_folder import keep, rows, segment
from tests.pipeline.lakes import written
from tests.verify.trace_builder import odyssey

from phalanx.errors import PipelineError
from phalanx.journal import parquet_export as parquet
from phalanx.journal.blocks import rows_block
from phalanx.pipeline.schemas import EVENTS, arrow_schema
from phalanx.pipeline.source import JournalReader, JournalSource, Wanted, find, parted


def read(reader: JournalReader) -> list[dict[str, Any]]:
    """As Spark does it: plan, send the parts over, read each."""
    parts = list(reader.partitions()) or [InputPartition(None)]
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of five members, and copies of some."""
    folder = keep(tmp_path_factory.mktemp("fleet"), odyssey().rows)
    for path in list(folder.glob("*.phj"))[:2]:
        (folder / "copies").mkdir(exist_ok=True)
        shutil.copy(path, folder / "copies" / path.name)
    return folder


def test_every_table_is_read_whole_and_once(fleet: Path) -> None:
    expected = written(fleet)
    for table in EVENTS:
        found = read(JournalReader([str(fleet)], table))
        found.sort(key=lambda row: (row["journal"], row["lseq"]))
        assert found == expected.get(table, []), table


def test_batches_have_the_schema_that_is_declared(fleet: Path) -> None:
    reader = JournalReader([str(fleet)], "deliver")
    (part,) = reader.partitions()
    for batch in reader.read(part):
        assert batch.schema.equals(arrow_schema("deliver"), check_metadata=True)


def test_an_empty_folder_and_filters_that_nothing_fits_give_no_rows(
    fleet: Path, tmp_path: Path
) -> None:
    assert read(JournalReader([str(tmp_path)], "deliver")) == []
    reader = JournalReader([str(fleet)], "deliver")
    reader.pushFilters([EqualTo(("member",), "nobody")])
    assert read(reader) == []


def test_filters_on_the_header_leave_out_segments(fleet: Path) -> None:
    reader = JournalReader([str(fleet)], "deliver")
    tests: list[Filter] = [
        In(("member",), ("a", "d")),
        EqualTo(("incarnation",), 1),
        IsNotNull(("member",)),
    ]
    assert list(reader.pushFilters(tests)) == tests, "Spark must test them too"
    found = read(reader)
    assert {(row["member"], row["incarnation"]) for row in found} == {("a", 1), ("d", 1)}
    everything = written(fleet)["deliver"]
    assert len(found) == sum(
        row["member"] in "ad" and row["incarnation"] == 1 for row in everything
    )


def test_filters_on_numbers_leave_out_blocks(tmp_path: Path) -> None:
    segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    reader = JournalReader([str(tmp_path)], "stable")
    reader.pushFilters([GreaterThan(("lseq",), 3), LessThanOrEqual(("lseq",), 5)])
    assert [row["lseq"] for row in read(reader)] == [4, 5, 6]


def test_filters_that_contradict_each_other_want_nothing() -> None:
    wanted = (
        Wanted("deliver").narrowed(EqualTo(("member",), "a")).narrowed(EqualTo(("member",), "b"))
    )
    assert wanted.equal == {"member": []}


def test_a_live_segment_is_read_as_far_as_it_went_when_it_was_planned(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3))
    reader = JournalReader([str(path)], "stable")
    (part,) = reader.partitions()
    path.write_bytes(path.read_bytes() + rows_block(rows(4, 5)))
    for _ in range(2):
        assert [batch.num_rows for batch in reader.read(part)] == [3]
    assert len(read(reader)) == 5


def test_large_journals_are_parted_and_small_ones_share_a_part(fleet: Path) -> None:
    offers = find([fleet], Wanted("deliver"))
    assert len(parted(offers)) == 1
    large = [msgspec.structs.replace(offer, size=20 << 20) for offer in offers]
    assert len(parted(large)) == len(large) == 5


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"path": "j"}, "table = ''"),
        ({"path": "j", "table": "sends"}, "table = 'sends': there is none; one of accepted, sent,"),
        ({"table": "sent"}, "path: nothing to read"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, str], problem: str) -> None:
    source = JournalSource(options)
    with pytest.raises(PipelineError, match=problem):
        source.reader(source.schema())


def test_exported_files_are_no_journals(fleet: Path, tmp_path: Path) -> None:
    parquet.export([fleet], tmp_path)
    with pytest.raises(PipelineError, match="these are exported files"):
        find([tmp_path], Wanted("deliver"))


def test_spark_reads_the_same_rows(spark: SparkSession, fleet: Path) -> None:
    read = spark.read.format("phalanx").option("paths", json.dumps([str(fleet)]))
    found = read.option("table", "view_installed").load().drop("sim_ns")
    expected = [
        {k: v for k, v in r.items() if k != "sim_ns"} for r in written(fleet)["view_installed"]
    ]
    rows = [r.asDict() for r in found.orderBy("journal", "lseq").collect()]
    assert rows == expected
    sends = spark.read.format("phalanx").option("table", "deliver").load(str(fleet))
    of_one = sends.where((F.col("member") == "a") & (F.col("lseq") < 20)).count()
    everything = written(fleet)["deliver"]
    assert of_one == sum(r["member"] == "a" and r["lseq"] < 20 for r in everything)
