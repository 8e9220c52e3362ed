"""The algebra of ranges, each function against sets of numbers on random ranges."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from phalanx.pipeline.ranges import cut, first_wins, grid, islands, overlapping, sweep

Range = tuple[int, int, int, int]
"""Key, first, last, order."""


@pytest.fixture(scope="module")
def drawn() -> list[Range]:
    dice = Random("ranges")
    rows = []
    for key in range(12):
        for order in range(dice.randrange(1, 9)):
            first = dice.randrange(1, 30)
            rows.append((key, first, first + dice.randrange(6), order))
    rows += [(99, 1, 3, 0), (99, 4, 9, 1)]  # apart: touching is not overlapping
    return rows


@pytest.fixture(scope="module")
def frame(spark: SparkSession, drawn: list[Range]) -> DataFrame:
    return spark.createDataFrame(drawn, "k int, first bigint, last bigint, n bigint")


def by_key(drawn: list[Range]) -> dict[int, list[Range]]:
    found = defaultdict(list)
    for row in drawn:
        found[row[0]].append(row)
    return found


def test_islands_are_the_unique_maximal_ranges(frame: DataFrame, drawn: list[Range]) -> None:
    found = sorted(tuple(row) for row in islands(frame, ["k"]).collect())
    expected = []
    for key, rows in by_key(drawn).items():
        numbers = {n for _, first, last, _ in rows for n in range(first, last + 1)}
        starts = sorted(n for n in numbers if n - 1 not in numbers)
        ends = sorted(n for n in numbers if n + 1 not in numbers)
        expected += [(key, a, b) for a, b in zip(starts, ends, strict=True)]
    assert found == sorted(expected)


def test_a_sweep_sums_what_covers_each_number(frame: DataFrame, drawn: list[Range]) -> None:
    found = {
        (row.k, n): row.n
        for row in sweep(
            frame.selectExpr("k", "first", "last", "n + 1 as n"), ["k"], ["n"]
        ).collect()
        for n in range(row.first, row.last + 1)
        if row.n
    }
    expected: defaultdict[tuple[int, int], int] = defaultdict(int)
    for key, first, last, order in drawn:
        for n in range(first, last + 1):
            expected[key, n] += order + 1
    assert found == dict(expected)


def test_cells_are_cut_by_no_range_and_make_up_every_range(
    frame: DataFrame, drawn: list[Range]
) -> None:
    cells = cut(frame, grid([frame], ["k"]), ["k"]).collect()
    pieces = defaultdict(list)
    for row in cells:
        pieces[row.k, row.first, row.last, row.n].append((row.c1, row.c2))
        for _, first, last, _ in by_key(drawn)[row.k]:
            assert last < row.c1 or first > row.c2 or first <= row.c1 <= row.c2 <= last
    for key, found in pieces.items():
        numbers = [n for c1, c2 in sorted(found) for n in range(c1, c2 + 1)]
        assert numbers == list(range(key[1], key[2] + 1))
    assert pieces.keys() == set(drawn)


def test_the_first_range_keeps_what_later_ones_have_too(
    frame: DataFrame, drawn: list[Range]
) -> None:
    found = {
        (row.k, n): row.n
        for row in first_wins(frame, ["k"], "n").collect()
        for n in range(row.first, row.last + 1)
    }
    expected: dict[tuple[int, int], int] = {}
    for key, first, last, order in sorted(drawn, key=lambda row: row[3]):
        for n in range(first, last + 1):
            expected.setdefault((key, n), order)
    assert found == expected


def test_only_keys_under_which_ranges_share_a_number_overlap(
    frame: DataFrame, drawn: list[Range]
) -> None:
    found = {row.k for row in overlapping(frame, ["k"]).collect()}
    expected = set()
    for key, rows in by_key(drawn).items():
        numbers = [n for _, first, last, _ in rows for n in range(first, last + 1)]
        if len(set(numbers)) < len(numbers):
            expected.add(key)
    assert found == expected
    assert 99 not in found
