"""The view that a member had at an instant."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.made import MS, WALL, Hand

from phalanx.errors import PipelineError
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.view_at import view_at
from phalanx.pipeline.tables import Tables, from_rows


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """Two lives of ada, the first with a clock that was set back; bea, simulated."""
    one = Hand("ada.1").life(0, "START").view(100, "v1", "ada.1").view(900, "v2", "ada.1 cyd.1")
    one.clock(1000, -500).view(1100, "v3", "ada.1").put(2000, type(one.rows[0]), op="STOP")
    two = Hand("ada.2").life(5000, "START").view(5100, "v4", "ada.2")
    bea = Hand("bea.1", "s", "sim", simulated=True).life(0, "START").view(100, "w1", "bea.1")
    bea.view(200, "w2", "bea.1 cyd.1").life(300, "CRASH")
    return from_rows(spark, [one.journal, two.journal, bea.journal])


def asked(tables: Tables, member: str, ms: int, group: str = "g") -> list[tuple[str, str, str]]:
    at = Instant(ms * MS + (WALL if group == "g" else 0), simulated=group == "sim")
    return [
        (one.member, one.answer, one.stay.view if one.stay else "")
        for one in view_at(tables, group, member, at)
    ]


def test_each_life_answers_with_its_view_or_that_it_had_none(tables: Tables) -> None:
    assert asked(tables, "ada", 50) == [("ada.1", "before", "v1"), ("ada.2", "before", "v4")]
    assert asked(tables, "ada", 300) == [("ada.1", "in view", "v1"), ("ada.2", "before", "v4")]
    assert asked(tables, "ada.1", 1800) == [("ada.1", "after", "v3")]


def test_where_the_clock_was_set_back_both_views_are_told(tables: Tables) -> None:
    assert asked(tables, "ada.1", 950) == [("ada.1", "in view", "v2"), ("ada.1", "in view", "v3")]


def test_simulated_time_finds_the_view_from_its_first_to_before_its_last_instant(
    tables: Tables,
) -> None:
    assert asked(tables, "bea", 99, "sim") == [("bea.1", "before", "w1")]
    assert asked(tables, "bea", 100, "sim") == [("bea.1", "in view", "w1")]
    assert asked(tables, "bea", 200, "sim") == [("bea.1", "in view", "w2")]
    assert asked(tables, "bea", 300, "sim") == [("bea.1", "after", "w2")]


@pytest.mark.parametrize(
    ("group", "member", "instant", "told"),
    [
        ("h", "ada", "1s", r"group 'h': .*; groups in these journals: g, sim"),
        ("g", "eva", "1800000000", r"member 'eva' of group 'g': .*: ada.1, ada.2"),
        ("g", "ada.3", "1800000000", r"member 'ada.3' of group 'g': .*: ada.1, ada.2"),
        ("g", "ada", "1s", "run 'r': is not simulated; give an instant of the wall clock"),
        ("sim", "bea", "2027-01-15", "run 's': is simulated and has no wall clock"),
        ("g", "ada", "soon", "INSTANT 'soon': not an instant"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    tables: Tables, group: str, member: str, instant: str, told: str
) -> None:
    with pytest.raises(PipelineError, match=told):
        view_at(tables, group, member, instant)
