"""Changes of one flat group: the product's group for one broadcast domain, in its simulator, with
links of 100 to 200 us."""

from __future__ import annotations

import statistics
from random import Random

import click
import msgspec

from bench import bench_views
from phalanx.sim.scenario.model import MS, SECOND, Heal, Network, Partition, Scenario, Traffic
from phalanx.sim.world import World


class FlatCost(msgspec.Struct, frozen=True):
    """A change of a flat group, the median of its trials: packets, and copies of them."""

    members: int
    change: str
    time_ms: float
    packets: int
    copies: int
    trials: int


def flat(n: int, change: str, trials: int) -> FlatCost:
    """The product's group for one broadcast domain: a member crashes, or one joins."""
    play_one = _flat_join if change == "join" else lambda n, s: bench_views.play("crash", n, s, 0)
    found = [play_one(n, seed) for seed in range(trials)]
    packets = int(statistics.median(trial.packets for trial in found))
    seconds = statistics.median(trial.seconds for trial in found)
    return FlatCost(n, change, round(seconds * 1e3, 1), packets, packets * (n - 1), trials)


def _flat_join(n: int, seed: int) -> bench_views.Trial:
    """One member is cut off and comes back: the merge is a join."""
    rng = Random(f"join {n} {seed}")
    names = tuple(f"m{i:03}" for i in range(n))
    cut = SECOND + rng.randrange(SECOND)
    at = cut + 3 * SECOND + rng.randrange(SECOND)
    every = 200 * MS
    scenario = Scenario(
        name="join",
        seed=seed,
        members=names,
        steps_max=20_000_000,
        network=Network(delay_ns=100_000, jitter_ns=100_000),
        traffic=(Traffic(from_=names[0], every_ns=every, count=at // every + 10),),
        partition=(Partition(at_ns=cut, groups=((rng.choice(names[1:]),),)),),
        heal=(Heal(at_ns=at),),
    )
    bench_views.Counted.sent = []
    outcome = World(scenario, bench_views.make).run()
    if outcome.exception or outcome.stuck:
        raise click.ClickException(f"join {n} {seed}: {outcome.exception or outcome.stuck}")
    return bench_views.measure("join", n, at, outcome.rows)


def documented(n: int) -> int:
    """Copies of a crash by the documented cost: one packet of each survivor, to all others
    (docs/results/2026-11-15-membership.md)."""
    return (n - 1) * (n - 1)
