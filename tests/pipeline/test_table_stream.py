"""A table of live journals as a stream: each row once, in batches that can be repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from tests.journal.journal_folder import keep, row, rows, segment
from tests.pipeline.lakes import written
from tests.verify.trace_builder import odyssey

from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.journal.blocks import rows_block
from phalanx.journal.retention import marks, tidy
from phalanx.journal.segment import Footer, footer_bytes
from phalanx.pipeline.schemas import EVENTS, arrow_schema
from phalanx.pipeline.source import JournalSource, register
from phalanx.pipeline.stream_options import StreamOptions, stream_options
from phalanx.pipeline.table_stream import TableStreamReader


class Query:
    """What Spark does with a reader, without Spark. A checkpoint is the offset."""

    def __init__(self, folder: Path, table: str, **options: Any) -> None:
        self._given = [str(folder)], table, StreamOptions(**options)
        self.reader = TableStreamReader(*self._given)
        self.offset: dict[str, Any] = self.reader.initialOffset()
        self.size = options.get("bytes_max")

    def restart(self) -> None:
        self.reader = TableStreamReader(*self._given)

    def batch(self, repeat: bool = False) -> list[dict[str, Any]]:
        limit = ReadMaxBytes(self.size) if self.size else ReadAllAvailable()
        start, self.offset = self.offset, self.reader.latestOffset(self.offset, limit)
        self.offset = json.loads(json.dumps(self.offset))
        if repeat:
            self.restart()
        found = []
        for part in self.reader.partitions(start, self.offset):
            found += [r for batch in self.reader.read(part) for r in batch.to_pylist()]
        self.reader.commit(self.offset)
        return found


def sealed(path: Path, first: int, last: int) -> Path:
    footer = Footer(rows=last - first + 1, first=first, last=last, begin_ns=0, end_ns=0, crc=0)
    path.write_bytes(path.read_bytes() + footer_bytes(footer))
    return path


@pytest.mark.parametrize("size", [None, 1, 3000])
def test_a_stream_reads_the_rows_of_every_table_once(tmp_path: Path, size: int | None) -> None:
    keep(tmp_path, odyssey().rows)
    expected = written(tmp_path)
    for table in EVENTS:
        query = Query(tmp_path, table, **({"bytes_max": size} if size else {}))
        found = []
        for i in range(100):
            before = query.offset
            found += query.batch(repeat=i % 2 == 1)
            if query.offset == before:
                break
        found.sort(key=lambda r: (r["journal"], r["lseq"]))
        assert found == expected.get(table, []), table


def test_batches_have_the_schema_that_is_declared(tmp_path: Path) -> None:
    segment(tmp_path, rows(1, 3))
    reader = TableStreamReader([str(tmp_path)], "stable", StreamOptions())
    end = reader.latestOffset({}, ReadAllAvailable())
    (part,) = reader.partitions({}, end)
    for batch in reader.read(part):
        assert batch.schema.equals(arrow_schema("stable"), check_metadata=True)


def test_damage_is_one_corrupt_row(tmp_path: Path) -> None:
    path = segment(tmp_path, rows(1, 3), rows(4, 6), rows(7, 9))
    data = bytearray(path.read_bytes())
    second = data.find(b"\xf1PJB", data.find(b"\xf1PJB") + 1)
    data[second + 80] ^= 1
    path.write_bytes(data)
    query = Query(tmp_path, "corrupt", bytes_max=1)
    found = [r for _ in range(6) for r in query.batch()]
    (one,) = found
    assert (one["lseq"], one["offset"], one["file"]) == (4, second, str(path))
    assert [r["lseq"] for r in Query(tmp_path, "stable").batch()] == [1, 2, 3, 7, 8, 9]


def test_a_block_that_holds_no_rows_of_ours_is_one_corrupt_row(tmp_path: Path) -> None:
    wrong = ev.Accepted(**_common(2), first=9, last=3, service="SAFE", size=1)
    segment(tmp_path, [row(1)], [wrong], [row(3)])
    (one,) = Query(tmp_path, "corrupt").batch()
    assert (one["lseq"], one["run"]) == (2, "r")


def _common(lseq: int) -> dict[str, Any]:
    known: dict[str, Any] = {"run": "r", "profile": "T", "group": "g", "member": "ada"}
    return known | {"incarnation": 1, "lseq": lseq, "step": lseq, "t_ns": lseq}


def test_pruned_rows_are_an_error_that_names_them_or_a_gap_row(tmp_path: Path) -> None:
    one = sealed(segment(tmp_path, rows(1, 3)), 1, 3)
    query = Query(tmp_path, "stable")
    assert len(query.batch()) == 3
    two = sealed(segment(tmp_path, rows(4, 6), number=2), 4, 6)
    segment(tmp_path, rows(7, 8), number=3)
    one.unlink()
    two.unlink()
    problem = "journal 0+ of ada.1 in group 'g': rows 4 to 6 were deleted before the stream read"
    with pytest.raises(PipelineError, match=problem):
        query.batch()
    with pytest.raises(PipelineError, match=r"rows 1 to 6 .*; restore .* onPruned=skip"):
        Query(tmp_path, "stable").batch()
    assert [r["lseq"] for r in Query(tmp_path, "stable", skip=True).batch()] == [7, 8]
    (gap,) = Query(tmp_path, "gap", skip=True).batch()
    assert (gap["first"], gap["last"], gap["lseq"], gap["reason"]) == (1, 6, 6, "pruned")


def test_a_marked_stream_keeps_retention_from_deleting_what_it_has_not_read(tmp_path: Path) -> None:
    sealed(segment(tmp_path, rows(1, 3)), 1, 3)
    sealed(segment(tmp_path, rows(4, 6), number=2), 4, 6)
    query = Query(tmp_path, "stable", mark="stream", bytes_max=1)
    query.batch()
    assert tidy(tmp_path, keep_bytes=1, keep_ns=0) == []
    query.batch()
    assert [m.taken for m in marks(tmp_path)] == [{"00" * 16: 1}]
    assert len(tidy(tmp_path, keep_bytes=1, keep_ns=0)) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"maxBytesPerTrigger": "many"}, "maxBytesPerTrigger = 'many': not a size"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger = '0': not a size"),
        ({"onPruned": "ignore"}, "onPruned = 'ignore': there is none; one of fail, skip"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, str], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        stream_options(options)
    source = JournalSource({"path": "j", "table": "sent"} | options)
    with pytest.raises(PipelineError, match=problem):
        source.streamReader(source.schema())


# ---------------------------------------------------------------------- with Spark


def stream_to(spark: SparkSession, source: Path, sink: Path, **options: str) -> int:
    """What is there now, in bounded batches: how many batches there are since the beginning."""
    read = spark.readStream.format("phalanx").option("table", "stable").options(**options)
    query = (
        read.load(str(source))
        .writeStream.option("checkpointLocation", f"{sink}-checkpoint")
        .trigger(availableNow=True)
        .start(path=str(sink), format="parquet")
    )
    query.awaitTermination(120)
    return len(list((sink.with_name(f"{sink.name}-checkpoint") / "commits").glob("[0-9]*")))


def test_spark_follows_journals_from_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = tmp_path / "journals", tmp_path / "sink"
    source.mkdir()
    path = segment(source, *(rows(n, n + 9) for n in range(1, 100, 10)))
    assert stream_to(spark, source, sink, maxBytesPerTrigger="300") > 2
    path.write_bytes(path.read_bytes() + rows_block(rows(101, 110)))
    segment(source, rows(1, 5), journal="11" * 16, member="bea")
    stream_to(spark, source, sink)
    found = spark.read.parquet(str(sink)).select("journal", "lseq").collect()
    assert sorted(r["lseq"] for r in found if r["journal"] == "00" * 16) == [*range(1, 111)]
    assert sorted(r["lseq"] for r in found if r["journal"] != "00" * 16) == [*range(1, 6)]


def test_spark_says_what_was_pruned(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "journals"
    source.mkdir()
    segment(source, rows(7, 8), number=3)
    with pytest.raises(StreamingQueryException, match="rows 1 to 6 were deleted before"):
        stream_to(spark, source, tmp_path / "sink")


def test_a_stream_that_begins_adds_nothing_to_what_the_tasks_of_others_are_sent(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark sends the map with the tasks of all queries, and does so without a lock."""
    source = tmp_path / "journals"
    source.mkdir()
    segment(source, rows(1, 5))
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    environment = manager.lookupDataSource("phalanx").dataSourceCls().envVars()
    stream_to(spark, source, tmp_path / "first")
    before = sorted(environment)
    register(spark)  # as for a new session: the map is made again
    environment = manager.lookupDataSource("phalanx").dataSourceCls().envVars()
    assert sorted(environment) == before
    stream_to(spark, source, tmp_path / "second")
    assert sorted(environment) == before


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    segment(tmp_path, rows(1, 5))
    options = {"table": "stable", "path": str(tmp_path), "columns": "lseq, journal"}
    source = JournalSource(options)
    assert source.schema().names == ["lseq", "journal"]
    reader = source.streamReader(source.schema())
    end = reader.latestOffset({}, ReadAllAvailable())
    (part,) = reader.partitions({}, end)
    batch: Any
    (batch,) = reader.read(part)
    assert batch.to_pydict() == {"lseq": [1, 2, 3, 4, 5], "journal": ["00" * 16] * 5}
    for wrong in ("lseq,nope", "lseq,lseq", ""):
        with pytest.raises(PipelineError, match="is no column of the table, or is there twice"):
            JournalSource(options | {"columns": wrong}).schema()
