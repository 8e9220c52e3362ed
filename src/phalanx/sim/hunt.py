"""Hunting mutants: how many seeds does it take until a checker catches a broken rule?

For each mutant, seeds of the kind it needs are played one after the other until a run fails;
if none does, its directed scenarios are: schedules that chance seldom draws, written down. What
a run failed with names the checker. A mutant that survives means that a rule is not tested: it is
a failure of the simulator, not a success of the protocol, unless the rule is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import msgspec

from phalanx.sim.kinds import MEMBERS, scenario_of
from phalanx.sim.mutants import MUTANTS, Mutant, apply
from phalanx.sim.run import run
from phalanx.sim.scenariofile import load
from phalanx.sim.sweep import Seeds
from phalanx.sim.workers import in_order


class Catch(msgspec.Struct, frozen=True):
    """What became of a mutant. Neither `seed` nor `scenario`: it survived."""

    mutant: str
    breaks: str
    seeds_needed: int
    """So many were played."""
    seed: int | None
    scenario: str | None
    members: int
    caught_by: tuple[str, ...]

    @property
    def survived(self) -> bool:
        return self.seed is None and self.scenario is None

    @property
    def place(self) -> str:
        """The seed or scenario that caught it, `-` if none did."""
        return self.scenario or ("-" if self.seed is None else str(self.seed))


def hunt(mutant: str, seeds: Seeds, directed: Path | None = None) -> Catch:
    """Play seeds under one mutant until a run fails, then its scenarios in folder `directed`.

    The kind of the seeds is the mutant's own; their numbers of members count if they were given
    for that kind.
    """
    broken = MUTANTS[mutant]
    chosen = _chosen(seeds, broken)
    with apply(mutant):
        for seed in range(chosen.first, chosen.end):
            result = run(scenario_of(seed, chosen.lo, chosen.hi, chosen.kind))
            if result.failed:
                played = seed - chosen.first + 1
                members = len(result.scenario.members)
                return Catch(mutant, broken.breaks, played, seed, None, members, result.signature)
        played = max(0, chosen.end - chosen.first)
        for name in broken.scenarios if directed is not None else ():
            assert directed is not None
            result = run(load(directed / f"{name}.toml"))
            if result.failed:
                members = len(result.scenario.members)
                return Catch(mutant, broken.breaks, played, None, name, members, result.signature)
    return Catch(mutant, broken.breaks, played, None, None, 0, ())


def _chosen(seeds: Seeds, mutant: Mutant) -> Seeds:
    if seeds.kind == mutant.kind:
        return seeds
    lo, hi = MEMBERS[mutant.kind]
    return msgspec.structs.replace(seeds, kind=mutant.kind, lo=lo, hi=hi)


def hunt_all(
    seeds: Seeds, jobs: int | None = None, directed: Path | None = None
) -> Generator[Catch, None, None]:
    """Every mutant, on as many processes as there are cores, in their order."""
    workers = min(jobs or os.cpu_count() or 1, len(MUTANTS))
    tasks = ((mutant, seeds, directed) for mutant in MUTANTS)
    yield from in_order(_hunt, tasks, workers)


def _hunt(task: tuple[str, Seeds, Path | None]) -> Catch:
    return hunt(*task)
