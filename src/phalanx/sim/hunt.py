"""Hunting mutants: how many seeds does it take until a checker catches a broken rule?

For each mutant, seeds are played one after the other until a run fails; what it failed with
names the checker. A mutant that survives means that a rule is not tested: it is a failure
of the simulator, not a success of the protocol.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import msgspec

from phalanx.sim.kinds import scenario_of
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.run import run
from phalanx.sim.sweep import Seeds
from phalanx.sim.workers import in_order


class Catch(msgspec.Struct, frozen=True):
    """What became of a mutant. `seed` None: it survived all the seeds."""

    mutant: str
    breaks: str
    seeds_needed: int
    seed: int | None
    members: int
    caught_by: tuple[str, ...]


def hunt(mutant: str, seeds: Seeds) -> Catch:
    """Play seeds under one mutant until a run fails."""
    breaks = MUTANTS[mutant][0]
    with apply(mutant):
        for seed in range(seeds.first, seeds.end):
            result = run(scenario_of(seed, seeds.lo, seeds.hi, seeds.kind))
            if result.failed:
                played = seed - seeds.first + 1
                members = len(result.scenario.members)
                return Catch(mutant, breaks, played, seed, members, result.signature)
    return Catch(mutant, breaks, seeds.end - seeds.first, None, 0, ())


def hunt_all(seeds: Seeds, jobs: int | None = None) -> Generator[Catch, None, None]:
    """Every mutant, on as many processes as there are cores, in their order."""
    workers = min(jobs or os.cpu_count() or 1, len(MUTANTS))
    yield from in_order(_hunt, ((mutant, seeds) for mutant in MUTANTS), workers)


def _hunt(task: tuple[str, Seeds]) -> Catch:
    return hunt(*task)
