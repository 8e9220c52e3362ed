"""One trial of each kind, the same for every benchmarked system.

Flood: every member sends as fast as it may and delivers everything. Latency: some members send at a
low rate and measure how long their own messages take to come back. Idle: nobody sends; measures the
cost of membership. Failover: a member is killed, or cut off and healed; measures the time until the
last member concerned has the new view.
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
"""How long a group rests before the idle measurement."""


class Flood(NamedTuple):
    """Means over the members, and the cost of a member meanwhile."""

    messages_per_second: float
    bytes_per_second: float
    cpu_share: float
    rss_bytes: int
    views_changed: int
    """Views that were installed although no member joined or left."""
    others: float
    """Cores that were busy with other work meanwhile."""
    complaints: list[str]
    """One line for each member that did not leave."""


def flood(system: BenchmarkedSystem, task: Trial, warm: float, seconds: float) -> Flood:
    with system.start_group(task) as group:
        views = group.views_seen
        window = group.window(warm, seconds)
        results = group.results()
        views = group.views_seen - views
    if not all(r["ns"] for r in results):
        raise TrialFailed(f"{system.name}: a member was not scheduled during the measurement")
    costs = window.costs()
    return Flood(
        fmean(r["messages"] / r["ns"] * 1e9 for r in results),
        fmean(r["bytes"] / r["ns"] * 1e9 for r in results),
        fmean(c.cpu_share for c in costs),
        round(fmean(c.rss_bytes for c in costs)),
        views,
        window.others(),
        group.complaints,
    )


class Times(NamedTuple):
    """Nanoseconds from `send` to the sender's own delivery, over all senders, sorted."""

    times: list[int]
    others: float


def latency(system: BenchmarkedSystem, task: Trial, warm: float, seconds: float) -> Times:
    with system.start_group(task) as group:
        window = group.window(warm, seconds)
        times = sorted(ns for result in group.results() for ns in result["latencies_ns"])
    if not times:
        raise TrialFailed(f"{system.name}: no message came back")
    return Times(times, window.others())


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest of the sorted values that is not below this share of them."""
    return values[min(len(values) - 1, int(len(values) * share))]


def idle(system: BenchmarkedSystem, seconds: float) -> Cost:
    """The mean cost of one member."""
    with system.start_group(Trial(mode="views")) as group:
        costs = group.window(SETTLE_SECONDS, seconds).costs()
        group.results()
    return Cost(
        fmean(c.cpu_share for c in costs),
        round(fmean(c.rss_bytes for c in costs)),
        fmean(c.sent_per_second for c in costs),
        fmean(c.received_per_second for c in costs),
    )


class CuttableNetwork(Protocol):
    """A network that can be cut."""

    def isolate(self, i: int) -> None: ...
    def heal(self) -> None: ...


class Change(NamedTuple):
    """One change of view: `kill`, `cut` or `heal`, and its seconds."""

    kind: str
    seconds: float


def failover(
    system: BenchmarkedSystem,
    trials: int,
    network: CuttableNetwork | None,
    done: Callable[[], None],
) -> Iterator[Change]:
    """Each trial kills one member, starts it again, and with a `network` cuts it off and heals the
    cut, for each member in turn. `done` is called after each trial."""
    with system.start_group(Trial(mode="views")) as group:
        for trial in range(trials):
            victim = trial % group.n
            yield _kill(group, victim)
            if network is not None:
                yield from _cut(group, victim, network)
            done()


def _kill(group: ProcessGroup, victim: int) -> Change:
    others = [i for i in range(group.n) if i != victim]
    _rest()
    at = group.kill(victim)
    last = group.wait_for_view(others, at, VIEW_SECONDS)
    group.start(victim)
    group.wait_for_view(range(group.n), at, VIEW_SECONDS)
    return Change("kill", (last - at) / 1e9)


def _cut(group: ProcessGroup, victim: int, network: CuttableNetwork) -> Iterator[Change]:
    others = [i for i in range(group.n) if i != victim]
    _rest()
    try:
        at = monotonic_ns()
        network.isolate(victim)
        last = group.wait_for_view(others, at, VIEW_SECONDS)
        group.wait_for_view([victim], at, VIEW_SECONDS)
        yield Change("cut", (last - at) / 1e9)
        _rest()
    finally:
        at = monotonic_ns()
        network.heal()
    last = group.wait_for_view(range(group.n), at, VIEW_SECONDS)
    yield Change("heal", (last - at) / 1e9)


def _rest() -> None:
    """Wait for the previous step to end, for a random time, so that faults meet every phase of the
    protocol's timers."""
    time.sleep(0.5 + random.random())
