"""What befalls real members on a real network, and what they make of it."""

from __future__ import annotations

import time

import pytest
from tests.real.conftest import Theatre

from phalanx.harness.controller import MemberProcess, all_in_view

SETTLE_SECONDS = 20.0


def talk(members: list[MemberProcess], count: int = 100) -> None:
    """Each says some of each service, and all of it is everywhere."""
    marks = [len(member.events) for member in members]
    for member in members:
        for service in ("basic", "causal", "agreed", "safe"):
            member.do("send", count=count, service=service, stable=True)
    for member, mark in zip(members, marks, strict=True):
        member.wait(
            lambda t: t["event"] == "sent" and t["service"] == "safe", 30, mark, "all is said"
        )


def test_the_survivors_of_a_kill_go_on_in_one_view(theatre: Theatre) -> None:
    members = theatre.start_all()
    talk(members)
    began = members[3].kill()
    rest = members[:3]
    all_in_view(rest, SETTLE_SECONDS)
    ends = [member.in_view([m.name for m in rest])["t_ns"] for member in rest]
    assert max(ends) - began < 5e9
    talk(rest)
    for member in rest:
        member.leave()


def test_a_frozen_member_is_removed_and_comes_back_when_it_thaws(theatre: Theatre) -> None:
    members = theatre.start_all()
    talk(members)
    members[0].freeze()
    all_in_view(members[1:], SETTLE_SECONDS)
    talk(members[1:])
    members[0].thaw()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    for member in members:
        member.leave()


def test_a_short_freeze_changes_nothing(theatre: Theatre) -> None:
    members = theatre.start_all()
    views = [len(member.views) for member in members]
    members[0].freeze()
    time.sleep(0.3)  # the fault itself
    members[0].thaw()
    talk(members)
    assert [len(member.views) for member in members] == views
    for member in members:
        member.leave()


def test_parts_of_a_split_network_go_on_and_merge_when_it_heals(theatre: Theatre) -> None:
    members = theatre.start_all()
    talk(members)
    theatre.lan.partition([0, 1], [2, 3])
    all_in_view(members[:2], SETTLE_SECONDS)
    all_in_view(members[2:], SETTLE_SECONDS)
    talk(members[:2])
    talk(members[2:])
    theatre.lan.heal()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    for member in members:
        member.leave()


@pytest.mark.parametrize("theatre", [6], indirect=True)
def test_three_parts_merge_into_one(theatre: Theatre) -> None:
    members = theatre.start_all()
    parts = [members[:1], members[1:3], members[3:]]
    theatre.lan.partition([0], [1, 2], [3, 4, 5])
    for part in parts:
        all_in_view(part, SETTLE_SECONDS)
        talk(part)
    theatre.lan.heal()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    for member in members:
        member.leave()


@pytest.mark.parametrize("one_way", [False, True])
def test_one_cut_link_changes_no_view(theatre: Theatre, one_way: bool) -> None:
    members = theatre.start_all()
    talk(members)
    views = [len(member.views) for member in members]
    if one_way:
        theatre.lan.cut_one_way(0, 1)
    else:
        theatre.lan.cut(0, 1)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        talk(members, 20)
    assert [len(member.views) for member in members] == views
    theatre.lan.heal()
    talk(members)
    for member in members:
        member.leave()


def test_nothing_is_lost_though_three_packets_in_ten_are(theatre: Theatre) -> None:
    members = theatre.start_all()
    for i in range(len(members)):
        theatre.lan.lose(i, 0.3)
    talk(members, 50)
    theatre.lan.heal()
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    left = [member.leave() for member in members]
    for told in left:
        assert sum(told["delivered"].values()) == 4 * 4 * (50 + 100)


def test_a_member_comes_back_under_its_name_in_a_new_life(theatre: Theatre) -> None:
    members = theatre.start_all()
    talk(members)
    members[1].kill()
    again = theatre.start(1)
    again.joined()
    name, _, incarnation = again.events[0]["me"].partition(".")
    assert name == "bea"
    assert int(incarnation) > int(members[1].events[0]["me"].partition(".")[2])
    members[1] = again
    all_in_view(members, SETTLE_SECONDS)
    talk(members)
    for member in members:
        member.leave()


def test_a_wall_clock_that_is_set_disturbs_nobody(theatre: Theatre) -> None:
    members = theatre.start_all()
    views = [len(member.views) for member in members]
    for seconds in (86_400.0, -7 * 86_400.0):
        members[0].run("step_clock", by=seconds)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            talk(members, 10)
    assert [len(member.views) for member in members] == views
    for member in members:
        member.leave()
    from phalanx.journal import reader
    from phalanx.journal.schema import Clock

    rows = reader.read_all([theatre.journals]).rows
    offsets = [
        row.wall_ns - row.t_ns for row in rows if isinstance(row, Clock) and row.member == "ada"
    ]
    assert max(offsets) - min(offsets) > 86_400e9, "the journal knows that the clock was set"
