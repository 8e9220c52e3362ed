"""Joins and leaves at a steady rate, or as fast as they are answered, on anything that has groups.

The steady load is open: a change begins when its time has come, whether the ones before it are done
or not. Joins and leaves alternate, each of a group chosen at random, so that the groups keep their
sizes about.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Protocol


class Groups(Protocol):
    """What the load is put on."""

    @property
    def members(self) -> dict[str, list[str]]:
        """The members of each group, without those that are about to leave."""

    async def join(self, group: str) -> None:
        """A new member of a group. CallFailed if it is refused."""

    async def leave(self, group: str, member: str) -> None: ...


class CallFailed(Exception):
    """A call that was refused or not answered, by the name of its error."""


@dataclass
class LoadResult:
    """One stretch of load. Latencies in milliseconds."""

    changes: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    began: float = 0.0
    seconds: float = 0.0
    joins: list[float] = field(default_factory=list)
    leaves: list[float] = field(default_factory=list)

    @property
    def done(self) -> int:
        return len(self.joins) + len(self.leaves)

    def summary(self) -> dict[str, Any]:
        return {
            "changes_begun": self.changes,
            "changes_done": self.done,
            "changes_per_second": round(self.done / self.seconds, 1) if self.seconds else 0.0,
            "joins_per_second": round(len(self.joins) / self.seconds, 1) if self.seconds else 0.0,
            "failed": dict(self.failed),
            "join_ms": percentiles(self.joins),
            "leave_ms": percentiles(self.leaves),
        }


def percentiles(values: list[float]) -> dict[str, float]:
    """Of latencies; their count alone if there are fewer than two."""
    if len(values) < 2:
        return {"count": len(values)}
    cuts = quantiles(values, n=100, method="inclusive")
    marks = {"p50": median(values), "p90": cuts[89], "p99": cuts[98], "max": max(values)}
    return {"count": len(values), **{name: round(value, 2) for name, value in marks.items()}}


async def steady(groups: Groups, rate: float, seconds: float, draw: random.Random) -> LoadResult:
    """Joins and leaves at a rate, for a time, until the last is answered."""
    result = LoadResult(began=time.perf_counter())
    tasks: list[asyncio.Task[None]] = []
    while (elapsed := time.perf_counter() - result.began) < seconds:
        while result.changes < elapsed * rate:
            result.changes += 1
            tasks.append(asyncio.create_task(_change(groups, result, result.changes % 2, draw)))
        wait = result.changes / rate - (time.perf_counter() - result.began)
        await asyncio.sleep(max(0.0, wait))
    await asyncio.gather(*tasks)
    result.seconds = time.perf_counter() - result.began
    return result


async def closed(groups: Groups, workers: int, seconds: float, draw: random.Random) -> LoadResult:
    """Each worker makes a join and a leave in turn, the next when the last is answered."""
    result = LoadResult(began=time.perf_counter())

    async def work() -> None:
        joins = 0
        while time.perf_counter() - result.began < seconds:
            joins = 1 - joins
            result.changes += 1
            await _change(groups, result, joins, draw)

    await asyncio.gather(*(work() for _ in range(workers)))
    result.seconds = time.perf_counter() - result.began
    return result


async def _change(groups: Groups, result: LoadResult, joins: int, draw: random.Random) -> None:
    name = draw.choice(list(groups.members))
    here = groups.members[name]
    begun = time.perf_counter()
    try:
        if joins or not here:
            await groups.join(name)
            result.joins.append(1000 * (time.perf_counter() - begun))
        else:
            await groups.leave(name, here[draw.randrange(len(here))])
            result.leaves.append(1000 * (time.perf_counter() - begun))
    except CallFailed as error:
        result.failed[str(error)] += 1
