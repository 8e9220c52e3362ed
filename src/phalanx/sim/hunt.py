"""Hunting mutants: how many seeds does it take until a checker catches a broken rule?

For each mutant, seeds of the kind it needs are played one after the other until a run fails;
if none does, its directed scenarios are: schedules that chance seldom draws, written down. What
a run failed with names the checker. A mutant that survives means that a rule is not tested: it is
a failure of the simulator, not a success of the protocol, unless the rule is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.sim.kinds import MEMBERS, scenario_of
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.run import RunResult, run
from phalanx.sim.scenariofile import load
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


def hunt(
    mutant: str,
    seeds: range,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
) -> Catch:
    """Play seeds under one mutant until a run fails, then its scenarios in folder `directed`.

    The seeds are of the mutant's kind, with groups as large as `members` says or that kind has.
    """
    broken = MUTANTS[mutant]
    lo, hi = members or MEMBERS[broken.kind]
    catch = Catch(mutant, broken.breaks, len(seeds), None, None, 0, ())
    with apply(mutant):
        for played, seed in enumerate(seeds, start=1):
            result = run(scenario_of(seed, lo, hi, broken.kind))
            if result.failed:
                return _caught(catch, result, seeds_needed=played, seed=seed)
        for name in broken.scenarios if directed is not None else ():
            assert directed is not None
            result = run(load(directed / f"{name}.toml"))
            if result.failed:
                return _caught(catch, result, scenario=name)
    return catch


def _caught(catch: Catch, result: RunResult, **where: Any) -> Catch:
    size = len(result.scenario.members)
    return msgspec.structs.replace(catch, members=size, caught_by=result.signature, **where)


def hunt_all(
    seeds: range,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
) -> Generator[Catch, None, None]:
    """Every mutant, or only some, on as many processes as there are cores, in their order."""
    workers = min(jobs or os.cpu_count() or 1, len(MUTANTS))
    tasks = ((mutant, seeds, members, directed) for mutant in only or MUTANTS)
    yield from in_order(_hunt, tasks, workers)


def _hunt(task: tuple[str, range, tuple[int, int] | None, Path | None]) -> Catch:
    return hunt(*task)
