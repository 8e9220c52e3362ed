"""One trial of each kind, the same for every side.

Flood: every member sends as fast as it may and delivers everything. Latency: some send now and
then, and time how long their own messages take to come back. Idle: nobody sends; what does being a
member cost? Failover: a member is killed, or cut off and healed; how long until the last of those
concerned has the new view?
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from time import monotonic_ns
from typing import NamedTuple, Protocol

from phalanx.benchmark.process_group import ProcessGroup, TrialFailed
from phalanx.benchmark.trial import BenchmarkedSystem, Trial
from phalanx.benchmark.usage import Cost

VIEW_SECONDS = 60.0
SETTLE_SECONDS = 1.5
"""A group is left alone for this long before it is called idle."""


class Flood(NamedTuple):
    """Means over the members, and what each member costs meanwhile."""

    messages_per_second: float
    bytes_per_second: float
    cpu_share: float
    rss_bytes: int
    views_changed: int
    """Views that were installed while the group should have stayed as it was."""
    others: float
    """Cores that were busy with something else meanwhile."""
    complaints: list[str]
    """Of members that did not leave as they should."""


def flood(side: BenchmarkedSystem, task: Trial, warm: float, seconds: float) -> Flood:
    with side.crew(task) as crew:
        views = crew.views_seen
        window = crew.window(warm, seconds)
        results = crew.results()
        views = crew.views_seen - views
    if not all(r["ns"] for r in results):
        raise TrialFailed(f"{side.name}: a member did not run at all while it should have measured")
    costs = window.costs()
    return Flood(
        fmean(r["messages"] / r["ns"] * 1e9 for r in results),
        fmean(r["bytes"] / r["ns"] * 1e9 for r in results),
        fmean(c.cpu_share for c in costs),
        round(fmean(c.rss_bytes for c in costs)),
        views,
        window.others(),
        crew.complaints,
    )


class Times(NamedTuple):
    """Nanoseconds from `send` to one's own delivery, of all senders together, sorted."""

    times: list[int]
    others: float


def latency(side: BenchmarkedSystem, task: Trial, warm: float, seconds: float) -> Times:
    with side.crew(task) as crew:
        window = crew.window(warm, seconds)
        times = sorted(ns for result in crew.results() for ns in result["latencies_ns"])
    if not times:
        raise TrialFailed(f"{side.name}: no message came back")
    return Times(times, window.others())


def percentile(values: Sequence[int], share: float) -> int:
    """The least of the sorted values that is not below this share of them."""
    return values[min(len(values) - 1, int(len(values) * share))]


def idle(side: BenchmarkedSystem, seconds: float) -> Cost:
    """The mean cost of one member."""
    with side.crew(Trial(mode="views")) as crew:
        costs = crew.window(SETTLE_SECONDS, seconds).costs()
        crew.results()
    return Cost(
        fmean(c.cpu_share for c in costs),
        round(fmean(c.rss_bytes for c in costs)),
        fmean(c.sent_per_second for c in costs),
        fmean(c.received_per_second for c in costs),
    )


class LossCounts(Protocol):
    """A network that can be cut."""

    def isolate(self, i: int) -> None: ...
    def heal(self) -> None: ...


class Change(NamedTuple):
    """One change of view: `kill`, `cut` or `heal`, and its seconds."""

    kind: str
    seconds: float


def failover(
    side: BenchmarkedSystem, trials: int, network: LossCounts | None, done: Callable[[], None]
) -> Iterator[Change]:
    """Each trial kills one member, starts it again, and with a `network` cuts it off and heals the
    cut; every member has its turn. `done` is called after each trial."""
    with side.crew(Trial(mode="views")) as crew:
        for trial in range(trials):
            victim = trial % crew.n
            yield _kill(crew, victim)
            if network is not None:
                yield from _cut(crew, victim, network)
            done()


def _kill(crew: ProcessGroup, victim: int) -> Change:
    others = [i for i in range(crew.n) if i != victim]
    _rest()
    at = crew.kill(victim)
    last = crew.wait_for_view(others, at, VIEW_SECONDS)
    crew.start(victim)
    crew.wait_for_view(range(crew.n), at, VIEW_SECONDS)
    return Change("kill", (last - at) / 1e9)


def _cut(crew: ProcessGroup, victim: int, network: LossCounts) -> Iterator[Change]:
    others = [i for i in range(crew.n) if i != victim]
    _rest()
    try:
        at = monotonic_ns()
        network.isolate(victim)
        last = crew.wait_for_view(others, at, VIEW_SECONDS)
        crew.wait_for_view([victim], at, VIEW_SECONDS)
        yield Change("cut", (last - at) / 1e9)
        _rest()
    finally:
        at = monotonic_ns()
        network.heal()
    last = crew.wait_for_view(range(crew.n), at, VIEW_SECONDS)
    yield Change("heal", (last - at) / 1e9)


def _rest() -> None:
    """Long enough for what came before to end, and by chance, so that a fault falls on every phase
    of the protocol's timers."""
    time.sleep(0.5 + random.random())
