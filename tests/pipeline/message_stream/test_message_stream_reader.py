"""The stream of messages from journals on disk: batches, restarts, bodies, damage, lost rows."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from tests.journal.journal_folder import journal, segment
from tests.pipeline.message_stream.made_group import MadeGroup
from tests.pipeline.message_stream.simulated_group import Item, Output, Truth

import phalanx
from phalanx import blocking
from phalanx.core.ids import MemberId
from phalanx.errors import PipelineError
from phalanx.journal import schema as ev
from phalanx.journal.blocks import Bodies, bodies_block, rows_block
from phalanx.journal.journal_header import BODIES_KEPT
from phalanx.journal.retention import marks
from phalanx.pipeline.message_stream.group_merge import (
    OTHER_COMPONENT,
    ROWS_MISSING,
    STARTED_LATE,
    Break,
)
from phalanx.pipeline.message_stream.message_stream_reader import MessageStreamReader
from phalanx.pipeline.message_stream.span_reader import message_schema
from phalanx.pipeline.stream_options import StreamOptions
from phalanx.sim.generators import scenario_of
from phalanx.sim.journal_export import journals as journals_of
from phalanx.sim.run import run

Rows = list[dict[str, Any]]


class Query:
    """What Spark does with a reader, without Spark."""

    def __init__(self, folder: Path, random: Random | None = None, **options: Any) -> None:
        self._given = [str(folder)], None, StreamOptions(**options)
        self._random = random
        self.reader = MessageStreamReader(*self._given)
        self.offset: dict[str, Any] = {}

    def batch(self) -> Rows | None:
        """None if there is nothing new."""
        limit = ReadMaxBytes(self._random.randint(1, 3000)) if self._random else ReadAllAvailable()
        end = self.reader.latestOffset(self.offset, limit)
        if end == self.offset:
            return None
        if self._random and self._random.random() < 0.3:  # killed after the offset was written
            self.reader = MessageStreamReader(*self._given)
        found: Rows = []
        for part in self.reader.partitions(self.offset, end):
            for batch in self.reader.read(part):
                assert batch.schema.equals(message_schema())
                found += batch.to_pylist()
        self.reader.commit(end)
        self.offset = json.loads(json.dumps(end))
        if self._random and self._random.random() < 0.2:
            self.reader = MessageStreamReader(*self._given)
        return found

    def everything_new(self) -> Rows:
        found: Rows = []
        while (more := self.batch()) is not None:
            found += more
        return found

    def everything(self) -> Rows:
        found = self.everything_new()
        assert [row["seq"] for row in found] == [*range(1, len(found) + 1)]
        return found


def items(rows: Rows) -> list[Item | Break]:
    found: list[Item | Break] = []
    for row in rows:
        if row["kind"] == "break":
            journals = row["from_journal"], row["journal"]
            reason = row["reason"]
            place = row["from_view"], row["from_pos"]
            found.append(Break(row["seq"], row["view"], row["pos"], reason, *journals, *place))
        else:
            who = row["sender"], row["sender_incarnation"]
            found.append((row["view"], row["pos"], *who, row["number"]))
    return found


def write(folder: Path, journals: dict[str, list[ev.Event]], block: int, **settings: Any) -> None:
    """As members write them: a block for some rows, small segments."""
    for rows in journals.values():
        head = rows[0]
        writer = journal(folder, head.member, head.incarnation, head.group, **settings)
        for at in range(0, len(rows), block):
            writer.write(list(rows[at : at + block]))
        writer.close()


@pytest.mark.parametrize("seed", range(6))
def test_journals_on_disk_give_the_stream_that_the_merge_gives(seed: int, tmp_path: Path) -> None:
    result = run(scenario_of(seed, 3, 5, "membership"))
    journals = {head.journal: list(rows) for head, rows in journals_of(result)}
    write(tmp_path, journals, block=20, segment_bytes=4096)
    truth = Truth(journals)
    whole = Query(tmp_path).everything()
    assert truth.problems(_output(whole)) == []
    found = Query(tmp_path, Random(seed)).everything()
    assert truth.problems(_output(found)) == []


def _output(rows: Rows) -> Output:
    return Output(items(rows), rows[-1]["view"] if rows else None)


def test_bodies_are_there_if_a_journal_keeps_them(tmp_path: Path) -> None:
    group = MadeGroup("ada", "bea").say("ada", 5).say("bea", 3)
    for name in ("ada", "bea"):
        config = {BODIES_KEPT: True}
        writer = journal(tmp_path, name, config=config, bodies=True, body_bytes_max=100)
        for row in group.rows[name]:
            writer.write([row])
            if isinstance(row, ev.Deliver):
                count = row.last - row.first + 1
                texts = [f"{row.sender}-{row.first + i}".encode() for i in range(count)]
                if row.sender == "bea":
                    texts[1] = b"x" * 101
                lengths = [len(text) for text in texts]
                sender = MemberId(row.sender, row.sender_incarnation)
                writer.write_bodies(sender, row.first, lengths, b"".join(texts))
        writer.close()
        assert writer.bodies_lost == 1
    for random in (None, Random(1), Random(2)):
        found = Query(tmp_path, random).everything()
        bodies = [row["body"] for row in found]
        assert bodies == [
            b"ada-1",
            b"ada-2",
            b"ada-3",
            b"ada-4",
            b"ada-5",
            b"bea-1",
            None,
            b"bea-3",
        ]


def test_rows_wait_for_their_bodies(tmp_path: Path) -> None:
    group = MadeGroup("ada").say("ada", 2)
    writer = journal(tmp_path, "ada", config={BODIES_KEPT: True}, bodies=True)
    writer.write(group.rows["ada"])
    query = Query(tmp_path)
    writer._keeper.turn_if_old()
    assert not query.batch()
    writer.write_bodies(MemberId("ada", 1), 1, [1, 1], b"ab")
    writer.close()
    assert [row["body"] for row in query.everything()] == [b"a", b"b"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("segments", [1, 2])
def test_bodies_that_a_flush_parted_from_their_rows_are_waited_for(
    tmp_path: Path, restart: bool, segments: int
) -> None:
    """A flush came between the rows of a step and its bodies: they are behind the next rows."""
    rows = MadeGroup("ada").say("ada", 2).say("ada", 2).say("ada", 2).rows["ada"]
    bodies = [Bodies("ada", 1, at, (1, 1), b"%d%d" % (at, at + 1)) for at in (1, 3, 5)]
    path = segment(tmp_path, config={BODIES_KEPT: True})
    blocks = [rows_block(rows[:4]), bodies_block(bodies[:1])]
    more = [rows_block(rows[4:]), bodies_block(bodies[1:])]
    path.write_bytes(path.read_bytes() + b"".join(blocks))
    query = Query(tmp_path)
    assert not query.batch(), "two of four bodies are there"
    if segments == 2:
        path = segment(tmp_path, config={BODIES_KEPT: True}, number=2)
    path.write_bytes(path.read_bytes() + b"".join(more))
    if restart:
        query = Query(tmp_path)
    found = query.everything_new()
    assert [row["body"] for row in found] == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_broken_order_is_refused_and_both_rows_are_named(tmp_path: Path) -> None:
    group = MadeGroup("ada", "bea").say("ada", 1).say("bea", 1).close()
    swapped = group.swap("bea")
    write(tmp_path, group.rows | {"bea": swapped}, block=100)
    problem = (
        r"group 'g', view 1\.0:v1, position 0: journal \w+, row 3, has ada\.1#1; "
        r"journal \w+, row 3, has bea\.1#1; the journals contradict each other"
    )
    with pytest.raises(PipelineError, match=problem):
        Query(tmp_path).everything()


def test_a_message_that_comes_twice_is_refused(tmp_path: Path) -> None:
    group = MadeGroup("ada", "bea").say("ada", 3).say("bea", 1)
    for name in ("ada", "bea"):
        last = group.rows[name][2]
        assert isinstance(last, ev.Deliver)
        again = msgspec.structs.replace(last, lseq=5, pos=4)
        group.rows[name].append(again)
    write(tmp_path, group.close().rows, block=100)
    problem = (
        r"message ada\.1#1: journal \w+, row 5, has it in view 1\.0:v1 at position 4, and it was "
        r"delivered in journal \w+, row 3, view 1\.0:v1, position 0"
    )
    with pytest.raises(PipelineError, match=problem):
        Query(tmp_path).everything()


def test_a_pruned_journal_begins_with_a_break(tmp_path: Path) -> None:
    group = MadeGroup("ada")
    for _ in range(6):
        group.say("ada", 10)
    rows = group.close().rows["ada"]
    segment(tmp_path, rows[4:], number=2)
    first, *rest = Query(tmp_path).everything()
    assert (first["kind"], first["reason"], first["pos"]) == ("break", STARTED_LATE, 20)
    assert [row["number"] for row in rest] == [*range(21, 61)]


def test_a_damaged_block_breaks_continuity_unless_another_member_has_its_rows(
    tmp_path: Path,
) -> None:
    group = MadeGroup("ada", "bea")
    for _ in range(10):
        group.say("ada", 3)
    group.close().say("bea", 2).close()
    paths = {}
    for i, (name, rows) in enumerate(group.rows.items()):
        blocks = [rows[at : at + 4] for at in range(0, len(rows), 4)]
        paths[name] = segment(tmp_path, *blocks, member=name, journal=f"{i}" * 32)
    data = bytearray(paths["ada"].read_bytes())
    second = data.find(b"\xf1PJB", data.find(b"\xf1PJB") + 1)
    data[second + 80] ^= 255
    paths["ada"].write_bytes(data)
    found = Query(tmp_path).everything()
    assert [row["kind"] for row in found] == ["message"] * 32
    assert [row["number"] for row in found] == [*range(1, 31), 1, 2]
    paths["bea"].unlink()
    alone = Query(tmp_path).everything()
    (broke,) = [row for row in alone if row["kind"] == "break"]
    assert (broke["reason"], broke["from_pos"], broke["pos"]) == (ROWS_MISSING, 0, 18)
    assert [row["number"] for row in alone if row["kind"] == "message"] == [*range(19, 31), 1, 2]


def test_offsets_of_another_stream_are_refused(tmp_path: Path) -> None:
    reader = MessageStreamReader([str(tmp_path)], None, StreamOptions())
    with pytest.raises(PipelineError, match="not an offset of messages"):
        reader.latestOffset({"groups": {"a": 3}}, ReadAllAvailable())
    with pytest.raises(PipelineError, match="batch 3 does not follow batch 0"):
        reader.partitions({}, {"batch": 3})


def test_one_group_of_several_can_be_chosen_and_a_mark_is_left(tmp_path: Path) -> None:
    for name in ("g", "h"):
        group = MadeGroup("ada", group=name).say("ada", 2)
        write(tmp_path, group.rows, block=10)
    reader = MessageStreamReader([str(tmp_path)], "h", StreamOptions(mark="m"))
    end = reader.latestOffset({}, ReadAllAvailable())
    (part,) = reader.partitions({}, end)
    (batch,) = reader.read(part)
    assert {row["group"] for row in batch.to_pylist()} == {"h"}
    reader.commit(end)
    assert [set(m.taken.values()) for m in marks(tmp_path)] == [{0}]
    assert len(msgspec.json.encode(end)) < 2000


def test_the_messages_of_real_members_come_with_their_bodies_while_they_talk(
    tmp_path: Path,
) -> None:
    """ada, whose journal is followed, leaves in between."""
    name = f"stream-{os.getpid()}"
    given: dict[str, Any] = {"config": phalanx.local(), "journal": tmp_path}
    given["journal_settings"] = phalanx.JournalSettings(bodies=True, flush_ns=10_000_000)
    query = Query(tmp_path)
    found: Rows = []
    with blocking.join(name, name="bea", **given) as bea:
        with blocking.join(name, name="ada", **given) as ada:
            ada.wait_for(2, 20.0)
            bea.wait_for(2, 20.0)
            for i in range(20):
                member = (ada, bea)[i % 2]
                member.send_many([b"%d" % i] * 3).stable(20.0)
                found += query.batch() or []
            end = time.monotonic() + 20.0
            while len(found) < 60:  # before the view ends
                assert time.monotonic() < end
                found += query.batch() or []
                time.sleep(0.01)
        bea.send(b"last").stable(20.0)
    found += query.everything_new()
    assert [row["seq"] for row in found] == [*range(1, len(found) + 1)]
    bodies = [row["body"] for row in found if row["kind"] == "message"]
    assert bodies == [b"%d" % i for i in range(20) for _ in range(3)] + [b"last"]
    breaks = [row["reason"] for row in found if row["kind"] == "break"]
    assert set(breaks) <= {OTHER_COMPONENT}


# ---------------------------------------------------------------------- with Spark


def test_spark_streams_the_messages_of_a_group(spark: SparkSession, tmp_path: Path) -> None:
    """With a checkpoint: some journals first, all of them then."""
    result = run(scenario_of(3, 3, 5, "membership"))
    journals = {head.journal: list(rows) for head, rows in journals_of(result)}
    source, sink = tmp_path / "journals", tmp_path / "sink"
    for names in (sorted(journals)[:1], sorted(journals)[1:]):
        write(source, {name: journals[name] for name in names}, block=20, segment_bytes=4096)
        read = spark.readStream.format("phalanx").option("table", "messages")
        query = (
            read.option("maxBytesPerTrigger", 20_000)
            .load(str(source))
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(path=str(sink), format="parquet")
        )
        query.awaitTermination(120)
    found = spark.read.parquet(str(sink)).orderBy("seq").collect()
    rows = [row.asDict() for row in found]
    assert [row["seq"] for row in rows] == [*range(1, len(rows) + 1)]
    assert Truth(journals).problems(_output(rows)) == []
    with pytest.raises(AnalysisException, match=r"use spark\.readStream"):
        spark.read.format("phalanx").option("table", "messages").load(str(source)).count()
