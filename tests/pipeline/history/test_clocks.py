"""The wall clock through its steps."""

from __future__ import annotations

from tests.pipeline.made import MS, WALL, Hand

from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import GroupTables, each_row, groups_of_rows
from phalanx.pipeline.history.clocks import WallClock, wall_clocks


def clock_of(hand: Hand) -> tuple[GroupTables, WallClock]:
    (group,) = groups_of_rows([hand.journal])
    (clock,) = wall_clocks(group).values()
    return group, clock


def stepped() -> Hand:
    """The wall clock is set forward by a minute at 1 s and back by two at 2 s."""
    ada = Hand("ada.1").life(0, "START").view(500, "v1", "ada.1")
    ada.clock(1000, 60_000).view(1500, "v2", "ada.1").clock(2000, -60_000)
    return ada.view(2500, "v3", "ada.1").life(3000, "STOP")


def walls(hand: Hand) -> list[int | None]:
    """What the clock showed at each view."""
    group, clock = clock_of(hand)
    rows = sorted(each_row(group["view_installed"], "lseq", "t_ns", "sim_ns"))
    return [clock.at(*row) for row in rows]


def test_the_wall_clock_is_followed_through_its_steps() -> None:
    assert walls(stepped()) == [WALL + 500 * MS, WALL + 61_500 * MS, WALL - 57_500 * MS]


def test_a_simulated_member_has_no_wall_clock() -> None:
    assert walls(Hand("bea.1", simulated=True).view(0, "v1", "bea.1")) == [None]


def test_an_instant_comes_never_once_or_twice() -> None:
    _, clock = clock_of(stepped())

    def at(ms: int) -> list[float]:
        return [t_ns / MS for t_ns in clock.moments(WALL + ms * MS)]

    assert at(-58_001) == []
    assert at(-57_500) == [2500], "after it was set back"
    assert at(500) == [500]
    assert at(30_000) == [1000], "set forward over it: the moment of the step"
    assert at(61_500) == [1500]
    assert at(62_001) == []


def test_an_instant_before_a_clock_that_was_set_back_comes_twice() -> None:
    ada = Hand("ada.1").life(0, "START").clock(1000, -500).put(3000, ev.Life, op="STOP")
    _, clock = clock_of(ada)
    assert clock.moments(WALL + 700 * MS) == [700 * MS, 1200 * MS]
    assert clock.own_time_of(WALL + 700 * MS, 0) == 700 * MS
    assert clock.own_time_of(WALL + 700 * MS, -1) == 1200 * MS


def test_an_instant_that_the_clock_never_showed_is_before_or_after_all_rows() -> None:
    _, clock = clock_of(Hand("ada.1").life(0, "START").life(5, "STOP"))
    assert clock.own_time_of(WALL - 1, 0) == -1
    assert clock.own_time_of(WALL + 9 * MS, 0) == 5 * MS + 1
