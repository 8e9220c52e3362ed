"""Marks carried along, and the wall clock through its steps."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.pipeline.made import MS, WALL, Hand, rows_of

from phalanx.journal import schema as ev
from phalanx.pipeline.history.asof_join import as_of
from phalanx.pipeline.history.clocks import moments, with_wall
from phalanx.pipeline.tables import Tables, from_rows


def test_each_row_has_the_last_mark_at_or_before_it_or_the_first_behind_it(
    spark: SparkSession,
) -> None:
    rows = spark.createDataFrame([("a", 1), ("a", 5), ("a", 7), ("b", 7)], "k string, at long")
    marks = spark.createDataFrame(
        [("a", 2, "two"), ("a", 5, "five"), ("a", 6, "six")], "k string, at long, word string"
    )
    before = as_of(rows, marks, ["k"], "at", ["word"])
    assert rows_of(before, "k", "at", "word") == [
        ("a", 1, None), ("a", 5, "five"), ("a", 7, "six"), ("b", 7, None),
    ]  # fmt: skip
    behind = as_of(rows, marks, ["k"], "at", ["word"], behind=True)
    assert rows_of(behind, "k", "at", "word") == [
        ("a", 1, "two"), ("a", 5, "five"), ("a", 7, None), ("b", 7, None),
    ]  # fmt: skip


def stepped(spark: SparkSession) -> Tables:
    """ada's wall clock is set forward by a minute at 1 s and back by two at 2 s; bea is
    simulated."""
    ada = Hand("ada.1").life(0, "START").view(500, "v1", "ada.1")
    ada.clock(1000, 60_000).view(1500, "v2", "ada.1").clock(2000, -60_000)
    ada.view(2500, "v3", "ada.1").life(3000, "STOP")
    bea = Hand("bea.1", simulated=True).view(0, "v1", "bea.1")
    return from_rows(spark, [ada.journal, bea.journal])


def test_the_wall_clock_is_followed_through_its_steps(spark: SparkSession) -> None:
    tables = stepped(spark)
    found = with_wall(tables, tables["view_installed"])
    assert rows_of(found, "member", "view", "wall_ns") == [
        ("ada", "v1", WALL + 500 * MS),
        ("ada", "v2", WALL + 61_500 * MS),
        ("ada", "v3", WALL - 57_500 * MS),
        ("bea", "v1", None),
    ]


def test_an_instant_comes_never_once_or_twice(spark: SparkSession) -> None:
    tables = stepped(spark)
    ada = Tables(spark, {n: tables[n].where("member = 'ada'") for n in ("clock", "journals")})

    def at(ms: int) -> list[float]:
        return sorted(row["t_ns"] / MS for row in moments(ada, WALL + ms * MS).collect())

    assert at(-58_001) == []
    assert at(-57_500) == [2500], "after it was set back"
    assert at(500) == [500]
    assert at(30_000) == [1000], "set forward over it: the moment of the step"
    assert at(61_500) == [1500]
    assert at(62_001) == []


def test_an_instant_before_a_clock_that_was_set_back_comes_twice(spark: SparkSession) -> None:
    ada = Hand("ada.1").life(0, "START").clock(1000, -500).put(3000, ev.Life, op="STOP")
    tables = from_rows(spark, [ada.journal])
    found = moments(tables, WALL + 700 * MS).collect()
    assert sorted(row["t_ns"] for row in found) == [700 * MS, 1200 * MS]
