"""How long changes took, and into which components a group fell."""

from __future__ import annotations

import pytest
from tests.pipeline import corners
from tests.pipeline.made import MS, WALL, Hand, each, of_rows
from tests.verify.trace_builder import odyssey

from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.measures.partitions import PartitionInterval, partitions
from phalanx.pipeline.measures.view_change_duration import ViewChangeDuration, changes

CORNERS = (
    *(corners.two_views_of_one_change, corners.given_up_before, corners.heard_through_others),
    corners.beginning_missing,
)

Changed = dict[str, list[ViewChangeDuration]]


def halves(run: str, boots: tuple[str, str], simulated: bool) -> list[Hand]:
    """ada and bea together, apart from 50 and 60 ms on, together again."""
    hands = []
    for who, boot, late in (("ada.1", boots[0], 0), ("bea.1", boots[1], 10)):
        hand = Hand(who, run, boot=boot, simulated=simulated).view(late, "v1", "ada.1 bea.1")
        hand.view(50 + late, f"alone-{who}", who).view(90 + late, "v2", "ada.1 bea.1")
        hands.append(hand.life(150 + late, "STOP"))
    return hands


@pytest.fixture(scope="module")
def groups() -> list[GroupTables]:
    ada = Hand("ada.1", "steps").view(0, "v1", "ada.1 bea.1 cyd.1")
    ada.step(5, "START", stage="COLLECT").step(6, "FORGET")
    ada.suspect(10, "bea.1", "SUSPECTED").suspect(11, "bea.1", "OPERATIONAL", evidence="DIRECT")
    ada.suspect(20, "bea.1", "SUSPECTED").step(45, "FA", "bea.1").step(46, "CLOSED")
    ada.view(47, "v2", "ada.1 cyd.1")
    ada.step(60, "START", stage="COLLECT").suspect(61, "cyd.1", "SUSPECTED")
    ada.step(65, "COMMIT", stage="COMMIT").step(70, "CLOSED")
    ada.view(71, "v3", "ada.1 dov.1", cause="join").life(80, "STOP")
    hands = [
        ada,
        *halves("sim", ("one", "two"), simulated=True),
        *halves("boot", ("one", "one"), simulated=False),
        *halves("wall", ("one", "two"), simulated=False),
        *(hand for corner in CORNERS for hand in corner()),
    ]
    told = of_rows(odyssey().rows)
    return groups_of_rows([*(hand.journal for hand in hands), *told])


@pytest.fixture(scope="module")
def changed(groups: list[GroupTables]) -> Changed:
    """By run, in order."""
    found: Changed = {}
    for row in sorted(each(changes, groups), key=lambda row: row.at_ns):
        found.setdefault(row.run, []).append(row)
    return found


def test_a_change_lasts_from_its_first_sign_that_was_not_taken_back(
    changed: Changed,
) -> None:
    columns = ("view", "cause", "lost", "steps", "suspicion_ns", "agreement_ns", "took_ns")
    assert [tuple(getattr(row, name) for name in columns) for row in changed["steps"]] == [
        ("v2", "removal", ["bea.1"], 2, 25 * MS, 2 * MS, 27 * MS),
        ("v3", "join", ["cyd.1"], 3, 0, 11 * MS, 11 * MS),
    ]
    (semi,) = changed["semi"]
    assert (semi.suspicion_ns, semi.took_ns) == (400 * MS, 401 * MS)


def test_where_one_change_made_two_views_both_began_with_it(changed: Changed) -> None:
    assert [row.agreement_ns for row in changed["twice"]] == [10 * MS, 20 * MS]
    assert [row.agreement_ns for row in changed["given up"]] == [MS, MS]


def test_whom_a_view_gained_is_unknown_where_the_one_before_is_missing(
    changed: Changed,
) -> None:
    (late,) = changed["late"]
    assert (late.gained, late.lost) == (None, None)


def of_run(groups: list[GroupTables], run: str) -> list[PartitionInterval]:
    return [row for group in groups if group.key.run == run for row in partitions(group)]


@pytest.mark.parametrize(("run", "zero"), [("sim", 0), ("boot", 0), ("wall", WALL)])
def test_components_that_hold_views_at_once_are_a_partition(
    groups: list[GroupTables], run: str, zero: int
) -> None:
    rows = of_run(groups, run)
    told = [
        (
            (row.from_ns - zero) // MS,
            (row.to_ns - zero) // MS,
            row.components,
            [" ".join(view["members"]) for view in row.views],
        )
        for row in rows
    ]
    assert told == [
        (10, 50, 1, ["ada.1 bea.1"]),
        (50, 60, 1, ["ada.1"]),
        (60, 90, 2, ["ada.1", "bea.1"]),
        (90, 100, 1, ["bea.1"]),
        (100, 160, 1, ["ada.1 bea.1"]),
    ]
    clock = {"sim": ("SIM", 0), "boot": ("BOOT", 0), "wall": ("WALL", 1)}[run]
    assert {(row.clock, row.approximate) for row in rows} == {clock}


def test_a_group_that_parts_and_meets_shows_its_components(groups: list[GroupTables]) -> None:
    rows = of_run(groups, "r")
    told = [[" ".join(view["members"]) for view in row.views] for row in rows]
    assert ["a.1 b.1 c.1 d.1"] in told
    assert ["a.1 b.1", "c.1 d.1"] in told, "parted"
    assert ["a.1 b.1", "c.1", "d.2"] in told, "d crashed and came back alone"
    assert told[-1] == ["a.1 c.1 d.2"]
