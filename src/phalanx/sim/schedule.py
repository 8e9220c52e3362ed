"""The event heap of the simulation, and the events that a scenario plans.

An entry is (time, kind, machine's index, data); machines have the numbers of the scenario's
members. Submissions are planned one at a time: the data of a SAY entry is the submission and the
rest of its [[traffic]] table, so that a million planned messages cost no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from typing import Any

from phalanx.sim.scenario.model import CHANGES, Scenario
from phalanx.sim.traffic import PlannedSubmission, plan


class Kind(IntEnum):
    """Kinds of events. The first four are not planned but follow from others."""

    ARRIVE = 0
    TIMER = 1
    WAKE = 2
    HAND = 3
    SAY = 4
    PAUSE = 5
    WEATHER = 6
    GARBAGE = 7
    HEAL = 8
    PARTITION = 9
    CUT = 10
    CRASH = 11
    LEAVE = 12
    RESTART = 13
    IMPOSTER = 14
    CLOCK = 15
    BUSY = 16
    BREAK = 17
    READER = 18
    ROLE = 19


# Plain integers for the hot path, where a look-up in the enumeration costs too much.
ARRIVE, TIMER, WAKE, HAND = range(4)

Entry = tuple[int, int, int, Any]


class Schedule:
    """Future events by time; events of one instant keep the order in which they were added."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, int, Any]] = []
        self._tick = count()

    def put(self, at: int, kind: int, machine: int, data: Any) -> None:
        heappush(self.heap, (at, next(self._tick), kind, machine, data))

    def arrive(self, at: int, machine: int, packets: list[bytes]) -> None:
        heappush(self.heap, (at, next(self._tick), ARRIVE, machine, packets))

    def pop(self) -> tuple[int, int, int, int, Any]:
        """Time, sequence number, kind, machine and data of the next event."""
        return heappop(self.heap)


def agenda(scenario: Scenario) -> Iterator[Entry]:
    """The planned entries; those of one instant are in the order in which they happen."""
    index = {name: i for i, name in enumerate(scenario.members)}
    for i, traffic in enumerate(scenario.traffic):
        yield from next_said(index[traffic.from_], plan(scenario, i))
    for pause in scenario.pause:
        yield pause.at_ns, Kind.PAUSE, index[pause.member], pause.at_ns + pause.for_ns
    for burst in scenario.burst:
        yield burst.at_ns, Kind.WEATHER, 0, None
        yield burst.at_ns + burst.for_ns, Kind.WEATHER, 0, None
    for reader in scenario.reader:
        yield reader.at_ns, Kind.READER, index[reader.member], None
        yield reader.at_ns + reader.for_ns, Kind.READER, index[reader.member], None
    yield from _changes(scenario, index)
    for garbage in scenario.garbage:
        for n in range(garbage.count):
            at = garbage.at_ns + n * garbage.every_ns
            yield at, Kind.GARBAGE, index[garbage.to], garbage.kind


def _changes(scenario: Scenario, index: dict[str, int]) -> Iterator[Entry]:
    """Entries of faults that may change views. The end of a fault is an entry of its own."""
    for table in CHANGES:
        kind = Kind[table.rstrip("_").upper()]
        for row in getattr(scenario, table):
            where = index[row.member] if hasattr(row, "member") else 0
            yield row.at_ns, kind, where, row
            if table == "cut" and row.for_ns is not None:
                yield row.at_ns + row.for_ns, Kind.WEATHER, 0, None
            elif table == "busy":
                yield row.at_ns + row.for_ns, Kind.BUSY, where, None


def next_said(member: int, submissions: Iterator[PlannedSubmission]) -> Iterator[Entry]:
    """The next submission of a table, none when there are no more."""
    submission = next(submissions, None)
    if submission is not None:
        yield submission.at_ns, Kind.SAY, member, (submission, submissions)
