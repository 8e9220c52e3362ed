"""Views and memberships from when to when: by hand, and against plain loops on simulated runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipeline.made import MS, WALL, Hand, each, of_rows, rows_of, simulated

from phalanx.journal import schema as ev
from phalanx.pipeline.group_tables import GroupTables, groups_of_rows
from phalanx.pipeline.history.intervals import (
    Membership,
    ViewInterval,
    intervals,
    memberships,
)
from phalanx.pipeline.history.view_summary import views

MADE = "made"


@pytest.fixture(scope="module")
def runs() -> dict[str, list[ev.Event]]:
    return simulated()


@pytest.fixture(scope="module")
def groups(runs: dict[str, list[ev.Event]]) -> list[GroupTables]:
    """Simulated runs, and one by hand: ada stops, bea is killed, cyd crashes, dov's is torn."""
    ada = Hand("ada.1", MADE).view(0, "v1", "ada.1 bea.1").view(40, "v2", "ada.1 cyd.1")
    ada.view(70, "v3", "ada.1 bea.2 cyd.1").life(100, "STOP")
    bea = Hand("bea.1", MADE, boot="two").view(5, "v1", "ada.1 bea.1").clock(9, 0)
    cyd = Hand("cyd.1", MADE).view(50, "v2", "ada.1 cyd.1").life(60, "CRASH")
    dov = Hand("dov.1", MADE).view(0, "v1", "dov.1")
    dov.put(1, ev.Gap, first=2, last=2, reason="disk full")
    dov.view(2, "v9", "dov.1", previous="v8")
    made = [hand.journal for hand in (ada, bea, cyd, dov)]
    return groups_of_rows([*made, *(j for rows in runs.values() for j in of_rows(rows))])


def made_intervals(groups: list[GroupTables]) -> list[ViewInterval]:
    return [one for one in each(intervals, groups) if one.run == MADE]


def test_an_interval_ends_with_the_next_view_or_with_the_journal(groups: list[GroupTables]) -> None:
    found = made_intervals(groups)
    columns = ("member", "view", "next_view", "from_t_ns", "to_t_ns", "end", "gained", "lost")
    assert rows_of((one for one in found if one.member != "dov"), *columns) == [
        ("ada", "v1", "v2", 0, 40 * MS, "VIEW", ["ada.1", "bea.1"], []),
        ("ada", "v2", "v3", 40 * MS, 70 * MS, "VIEW", ["cyd.1"], ["bea.1"]),
        ("ada", "v3", None, 70 * MS, 100 * MS, "STOP", ["bea.2"], []),
        ("bea", "v1", None, 5 * MS, 9 * MS, "OPEN", ["ada.1", "bea.1"], []),
        ("cyd", "v2", None, 50 * MS, 60 * MS, "CRASH", ["ada.1", "cyd.1"], []),
    ]
    wall = ("from_wall_ns", "to_wall_ns", "from_lseq", "to_lseq", "from_sim_ns")
    assert rows_of((one for one in found if one.member == "bea"), *wall) == [
        (WALL + 5 * MS, WALL + 9 * MS, 1, 3, None)
    ]


def test_rows_that_are_missing_may_hide_a_view(groups: list[GroupTables]) -> None:
    found = made_intervals(groups)
    assert rows_of(found, "member", "view", "gapped") == [
        ("ada", "v1", 0),
        ("ada", "v2", 0),
        ("ada", "v3", 0),
        ("bea", "v1", 0),
        ("cyd", "v2", 0),
        ("dov", "v1", 1),
        ("dov", "v9", 1),
    ]


def test_a_membership_lasts_over_consecutive_views_and_knows_who_came_back(
    groups: list[GroupTables],
) -> None:
    found = [one for one in each(memberships, groups) if (one.run, one.member) == (MADE, "ada")]
    columns = (
        "target",
        "target_incarnation",
        "first_view",
        "last_view",
        "next_view",
        "from_t_ns",
        "to_t_ns",
    )
    assert rows_of(found, *columns, "end", "back_view", "back_incarnation", "back_t_ns") == [
        ("ada", 1, "v1", "v3", None, 0, 100 * MS, "STOP", None, None, None),
        ("bea", 1, "v1", "v1", "v2", 0, 40 * MS, "VIEW", "v3", 2, 70 * MS),
        ("bea", 2, "v3", "v3", None, 70 * MS, 100 * MS, "STOP", None, None, None),
        ("cyd", 1, "v2", "v3", None, 40 * MS, 100 * MS, "STOP", None, None, None),
    ]


def test_a_view_is_one_row_whoever_installed_it(groups: list[GroupTables]) -> None:
    found = [one for one in each(views, groups) if one.run == MADE and one.view in ("v2", "v3")]
    columns = ("view", "members", "causes", "gained", "lost", "installed", "absent")
    assert rows_of(found, *columns, "from_wall_ns", "to_wall_ns") == [
        (
            *("v2", ["ada", "cyd"], ["boot", "removal"], ["ada.1", "cyd.1"], ["bea.1"]),
            *(["ada.1", "cyd.1"], [], WALL + 40 * MS, WALL + 70 * MS),
        ),
        (
            *("v3", ["ada", "bea", "cyd"], ["removal"], ["bea.2"], []),
            *(["ada.1"], ["bea.2", "cyd.1"], WALL + 70 * MS, WALL + 100 * MS),
        ),
    ]


Stay = tuple[Any, ...]


def plain_stays(rows: list[ev.Event]) -> dict[tuple[str, int], list[Stay]]:
    """Per life: (view, from, to, members), by a loop."""
    found: dict[tuple[str, int], list[Stay]] = {}
    last: dict[tuple[str, int], int] = {}
    for row in rows:
        who = row.member, row.incarnation
        last[who] = row.sim_ns or 0
        if isinstance(row, ev.ViewInstalled):
            mine = found.setdefault(who, [])
            if mine:
                mine[-1] = (*mine[-1][:2], row.sim_ns, mine[-1][3])
            mine.append(
                (
                    row.view,
                    row.sim_ns,
                    None,
                    list(zip(row.members, row.member_incarnations, strict=True)),
                )
            )
    for who, mine in found.items():
        mine[-1] = (*mine[-1][:2], last[who], mine[-1][3])
    return found


def test_simulated_runs_have_the_intervals_that_a_loop_finds(
    groups: list[GroupTables], runs: dict[str, list[ev.Event]]
) -> None:
    expected = [
        (run, *who, view, begin, end)
        for run, rows in runs.items()
        for who, stays in plain_stays(rows).items()
        for view, begin, end, _ in stays
    ]
    found: list[ViewInterval] = [one for one in each(intervals, groups) if one.run in runs]
    columns = ("run", "member", "incarnation", "view", "from_sim_ns", "to_sim_ns")
    assert sorted(rows_of(found, *columns)) == sorted(expected)
    assert len(expected) > 50


def test_simulated_runs_have_the_memberships_that_a_loop_finds(
    groups: list[GroupTables], runs: dict[str, list[ev.Event]]
) -> None:
    expected = []
    for run, rows in runs.items():
        for who, stays in plain_stays(rows).items():
            begun: dict[tuple[str, int], int] = {}
            end = stays[-1][2]
            for view, begin, _, members in stays:
                gone = [m for m in begun if m not in members]
                expected += [(run, *who, *m, begun.pop(m), begin, view) for m in gone]
                for member in members:
                    begun.setdefault(member, begin)
            expected += [(run, *who, *m, since, end, None) for m, since in begun.items()]
    found: list[Membership] = [one for one in each(memberships, groups) if one.run in runs]
    columns = (
        "run",
        "member",
        "incarnation",
        "target",
        "target_incarnation",
        "from_sim_ns",
        "to_sim_ns",
        "next_view",
    )
    assert sorted(rows_of(found, *columns), key=str) == sorted(expected, key=str)
    assert sum(view is not None for *_, view in expected) > 10
