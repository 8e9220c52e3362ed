"""The view that a member had at an instant."""

from __future__ import annotations

import pytest
from tests.pipeline.made import MS, WALL, Hand

from phalanx.errors import PipelineError
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.history.instant import Instant, parse
from phalanx.pipeline.history.view_at import ViewAt, view_at, views_at


@pytest.fixture(scope="module")
def groups() -> list[GroupTables]:
    """Two lives of ada, the first with a clock that was set back; bea, simulated."""
    one = Hand("ada.1").life(0, "START").view(100, "v1", "ada.1").view(900, "v2", "ada.1 cyd.1")
    one.clock(1000, -500).view(1100, "v3", "ada.1").put(2000, type(one.rows[0]), op="STOP")
    two = Hand("ada.2").life(5000, "START").view(5100, "v4", "ada.2")
    bea = Hand("bea.1", "s", "sim", simulated=True).life(0, "START").view(100, "w1", "bea.1")
    bea.view(200, "w2", "bea.1 cyd.1").life(300, "CRASH")
    return groups_of_rows([one.journal, two.journal, bea.journal])


def answers(groups: list[GroupTables], group: str, member: str, at: Instant) -> list[ViewAt]:
    mine = [one for one in groups if one.key.group == group]
    return view_at((views_at(member, at, None, one) for one in mine), group, member)


def asked(
    groups: list[GroupTables], member: str, ms: int, group: str = "g"
) -> list[tuple[str, str, str]]:
    at = Instant(ms * MS + (WALL if group == "g" else 0), simulated=group == "sim")
    return [
        (one.member, one.answer, one.stay.view if one.stay else "")
        for one in answers(groups, group, member, at)
    ]


def test_each_life_answers_with_its_view_or_that_it_had_none(groups: list[GroupTables]) -> None:
    assert asked(groups, "ada", 50) == [("ada.1", "before", "v1"), ("ada.2", "before", "v4")]
    assert asked(groups, "ada", 300) == [("ada.1", "in view", "v1"), ("ada.2", "before", "v4")]
    assert asked(groups, "ada.1", 1800) == [("ada.1", "after", "v3")]


def test_where_the_clock_was_set_back_both_views_are_told(groups: list[GroupTables]) -> None:
    assert asked(groups, "ada.1", 950) == [("ada.1", "in view", "v2"), ("ada.1", "in view", "v3")]


def test_simulated_time_finds_the_view_from_its_first_to_before_its_last_instant(
    groups: list[GroupTables],
) -> None:
    assert asked(groups, "bea", 99, "sim") == [("bea.1", "before", "w1")]
    assert asked(groups, "bea", 100, "sim") == [("bea.1", "in view", "w1")]
    assert asked(groups, "bea", 200, "sim") == [("bea.1", "in view", "w2")]
    assert asked(groups, "bea", 300, "sim") == [("bea.1", "after", "w2")]


@pytest.mark.parametrize(
    ("group", "member", "instant", "told"),
    [
        ("g", "eva", "1800000000", r"member 'eva' of group 'g': .*: ada.1, ada.2"),
        ("g", "ada.3", "1800000000", r"member 'ada.3' of group 'g': .*: ada.1, ada.2"),
        ("g", "ada", "1s", "run 'r': is not simulated; give an instant of the wall clock"),
        ("sim", "bea", "2027-01-15", "run 's': is simulated and has no wall clock"),
        ("g", "ada", "soon", "INSTANT 'soon': not an instant"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    groups: list[GroupTables], group: str, member: str, instant: str, told: str
) -> None:
    with pytest.raises(PipelineError, match=told):
        answers(groups, group, member, parse(instant))


def test_a_run_that_is_not_there_is_told_with_those_that_are(groups: list[GroupTables]) -> None:
    at = Instant(WALL, simulated=False)
    with pytest.raises(PipelineError, match=r"run 'x' of group 'g': .*; runs in these .*: r"):
        view_at((views_at("ada", at, "x", one) for one in groups[:1]), "g", "ada", "x")
