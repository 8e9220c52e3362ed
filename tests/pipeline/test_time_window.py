"""A group between two instants: as if its journals began and ended there."""

from __future__ import annotations

import pytest
from tests.pipeline.made import MS, WALL, Hand

from phalanx.errors import PipelineError
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.history.intervals import intervals
from phalanx.pipeline.measures.latency import latency
from phalanx.pipeline.measures.registry import MEASURES
from phalanx.pipeline.measures.suspicion_intervals import suspicions
from phalanx.pipeline.measures.view_change_duration import changes
from phalanx.pipeline.time_window import TimeWindow, within


def group(simulated: bool = False) -> GroupTables:
    """ada in three views, which it installs at 0, 40 and 80 ms; bea stops at 45."""
    ada = Hand("ada.1", simulated=simulated).view(0, "v1", "ada.1 bea.1")
    ada.submit(5, 1, 2, 10, "AGREED").suspect(35, "bea.1", "SUSPECTED")
    ada.view(40, "v2", "ada.1 bea.1 cyd.1").suspect(50, "cyd.1", "SUSPECTED")
    ada.deliver(55, "ada.1", 1, 1, "AGREED").view(80, "v3", "ada.1")
    ada.deliver(85, "ada.1", 2, 2, "AGREED").life(100, "STOP")
    bea = Hand("bea.1", simulated=simulated).view(1, "v1", "ada.1 bea.1").life(45, "STOP")
    (found,) = groups_of_rows([ada.journal, bea.journal])
    return found


def between(since_ms: int | None, until_ms: int | None, simulated: bool = False) -> GroupTables:
    zero = 0 if simulated else WALL
    bounds = (
        None if ms is None else Instant(zero + ms * MS, simulated) for ms in (since_ms, until_ms)
    )
    return within(group(simulated), TimeWindow(*bounds))


@pytest.mark.parametrize("simulated", [False, True])
def test_a_view_in_use_begins_with_the_window_and_the_last_ends_with_it(simulated: bool) -> None:
    found = [
        (one.member, one.view, one.from_ns // MS, one.to_ns // MS, one.end)
        for one in intervals(between(42, 90, simulated))
    ]
    assert found == [
        ("ada", "v2", 42, 80, "VIEW"),
        ("ada", "v3", 80, 90, "OPEN"),
        ("bea", "v1", 42, 45, "STOP"),
    ]


def test_a_member_whose_journal_ends_before_the_window_is_not_in_it() -> None:
    found = between(46, None)
    assert [facts.member for facts in found.journals] == ["ada"]
    assert found.journals[0].stopped == 1


def test_changes_before_the_window_do_not_count_and_standing_suspicions_do() -> None:
    found = between(60, None)
    assert [one.view for one in changes(found)] == ["v3"]
    told = [(one.target, one.from_ns // MS, one.to_ns // MS) for one in suspicions(found)]
    assert told == [("bea", 60, 80), ("cyd", 60, 80)]


def test_a_delivery_in_the_window_has_its_latency_whenever_it_was_submitted() -> None:
    (found,) = latency(between(60, None))
    assert (found.count, found.max_ns) == (1, 80 * MS)


def test_nothing_is_left_of_a_group_that_is_outside() -> None:
    for found in (between(101, None), between(None, 0)):
        assert found.journals == ()
        assert all(measure(found) == [] for measure in MEASURES.values())


def test_without_instants_nothing_changes() -> None:
    whole = group()
    assert within(whole, TimeWindow()) is whole
    assert between(None, 1000)["deliver"].num_rows == 2
    assert between(None, 1000).journals == whole.journals


def test_an_instant_of_the_other_clock_is_an_error() -> None:
    window = TimeWindow(since=Instant(WALL, simulated=False))
    with pytest.raises(PipelineError, match="is simulated and has no wall clock"):
        within(group(simulated=True), window)


def test_rows_that_are_not_state_are_left_out_on_both_sides() -> None:
    found = between(50, 81)
    assert found["deliver"].column("t_ns").to_pylist() == [55 * MS]
    assert found["life"].num_rows == 0
    assert found["accepted"].num_rows == 1
    assert found.journals[0].rows == 5
