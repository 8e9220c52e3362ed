"""Times on the page: by one clock, or by none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.pipeline.report.model import Clock
from phalanx.pipeline.report.removals import _since_began
from phalanx.pipeline.report.time_axis import JournalSpan, RunAxis, _reach

HOUR_US = 3_600_000_000


def run_of(clock: Clock) -> RunAxis:
    """ada and cyd on one machine, bea on another, whose wall clock is an hour ahead."""
    machines = {"ada": 0, "bea": 1, "cyd": 0}
    journals = [
        JournalSpan(
            name=member,
            member=member,
            incarnation=1,
            machine=machine,
            rows=1,
            torn=False,
            ended="OPEN",
            shift_ns=0,
            begin=0,
            end=1,
        )
        for member, machine in machines.items()
    ]
    return RunAxis("c", "r", "g", mode=None, clock=clock, began=None, span=1, journals=journals)


def steps() -> list[tuple[int, Any]]:
    told = [("ada", 10), ("cyd", 30), ("bea", HOUR_US + 5), ("bea", HOUR_US + 9), ("ada", 50)]
    return [(at, SimpleNamespace(member=member, incarnation=1)) for member, at in told]


def test_durations_of_two_machines_are_each_by_its_own_clock() -> None:
    assert [at for at, _ in _since_began(run_of("wall"), steps())] == [0, 20, 0, 4, 40]


def test_where_one_clock_is_shared_all_steps_are_by_it() -> None:
    found = [at for at, _ in _since_began(run_of("simulated"), steps())]
    assert found == [0, 20, HOUR_US - 5, HOUR_US - 1, 40]


def test_a_life_reaches_to_the_end_of_its_journal_whatever_the_last_rows_were() -> None:
    assert _reach(3600, (5, 10)) == (5, 3600)
    assert _reach(3600, None) == (3600, 3600)
    assert _reach(7, (2, 7)) == (2, 7)
