"""Everything a scenario plans, as events for the world's heap.

An entry is (time, kind, member's index, data). Submissions come one at a time: the data of a
SAY entry is the submission and the rest of its [[traffic]] table, so that a million planned
messages cost no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.sim.scenario import Scenario
from phalanx.sim.traffic import Submission, plan

ARRIVE, TIMER, SAY, WAKE, PAUSE, WEATHER, GARBAGE = range(7)

Entry = tuple[int, int, int, Any]


def agenda(scenario: Scenario) -> Iterator[Entry]:
    """The entries that are known from the start, in no particular order."""
    index = {name: i for i, name in enumerate(scenario.members)}
    for i, traffic in enumerate(scenario.traffic):
        yield from next_said(index[traffic.from_], plan(scenario, i))
    for pause in scenario.pause:
        yield pause.at_ns, PAUSE, index[pause.member], pause.at_ns + pause.for_ns
    for burst in scenario.burst:
        yield burst.at_ns, WEATHER, 0, None
        yield burst.at_ns + burst.for_ns, WEATHER, 0, None
    for garbage in scenario.garbage:
        for n in range(garbage.count):
            yield garbage.at_ns + n * garbage.every_ns, GARBAGE, index[garbage.to], garbage.kind


def next_said(member: int, submissions: Iterator[Submission]) -> Iterator[Entry]:
    """The next submission of a table, none when there are no more."""
    submission = next(submissions, None)
    if submission is not None:
        yield submission.at_ns, SAY, member, (submission, submissions)
