"""Mutation testing: break one protocol rule at a time and verify that a checker catches it.

For each mutant, seeds are run one after the other until one fails: random scenarios, or random
walks of small groups, whichever suits the mutant. If none fails, its directed scenarios are run:
schedules that random draws seldom produce. The failed check names the checker. A mutant that
survives shows a rule that is not tested, which is a defect of the simulator unless the rule is not
needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.sim.generators import MEMBERS, scenario_of
from phalanx.sim.mutants import MUTANTS, apply
from phalanx.sim.run import run
from phalanx.sim.scenario.model import Scenario
from phalanx.sim.scenario.toml_file import load
from phalanx.sim.worker_pool import in_order


class SeedOutcome(msgspec.Struct, frozen=True):
    """The properties that a seed or file violated, and the size of its group."""

    violated: tuple[str, ...]
    members: int


Walker = Callable[[int | Path], SeedOutcome]
"""Runs the random walk of a seed or a story in a file: `phalanx.explore.random_walk.play`, which
this package may not import."""


class MutantResult(msgspec.Struct, frozen=True):
    """The seed or scenario that caught a mutant. It survived if both are None."""

    mutant: str
    breaks: str
    ground: str
    seeds_needed: int
    """How many seeds were tried."""
    seed: int | None = None
    scenario: str | None = None
    members: int = 0
    caught_by: tuple[str, ...] = ()

    @property
    def survived(self) -> bool:
        return self.seed is None and self.scenario is None

    @property
    def place(self) -> str:
        """The seed or scenario that caught it, `-` if none did."""
        return self.scenario or ("-" if self.seed is None else str(self.seed))


def run_mutant(
    mutant: str,
    seeds: Sequence[int],
    walk: Walker,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
) -> MutantResult:
    """Run seeds under one mutant until one fails, then its scenarios in folder `directed`.

    `members` replaces the default group sizes of the kind of scenario.
    """
    broken = MUTANTS[mutant]
    ground = broken.ground
    survivor = MutantResult(mutant, broken.breaks, ground, len(seeds))
    with apply(mutant):
        for tried, seed in enumerate(seeds, start=1):
            if ground == "walk":
                result = walk(seed)
            else:
                result = _run_scenario(scenario_of(seed, *(members or MEMBERS[ground]), ground))
            if result.violated:
                return _caught(survivor, result, seeds_needed=tried, seed=seed)
        for file in directed_files(mutant, directed) if directed is not None else ():
            result = run_file(file, walk)
            if result.violated:
                return _caught(survivor, result, scenario=file.name)
    return survivor


def directed_files(mutant: str, folder: Path) -> list[Path]:
    """The scenarios and stories written to catch a mutant; their file name is its name."""
    return sorted(folder.glob(f"{mutant.replace('-', '_')}.*"))


def run_file(file: Path, walk: Walker) -> SeedOutcome:
    """Run a scenario (TOML) or a story."""
    return _run_scenario(load(file)) if file.suffix == ".toml" else walk(file)


def _run_scenario(scenario: Scenario) -> SeedOutcome:
    return SeedOutcome(run(scenario).signature, len(scenario.members))


def _caught(survivor: MutantResult, result: SeedOutcome, **where: Any) -> MutantResult:
    return msgspec.structs.replace(
        survivor, members=result.members, caught_by=result.violated, **where
    )


def run_mutants(
    seeds: range,
    walk: Walker,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
) -> Generator[MutantResult, None, None]:
    """Run every mutant, or those of `only`, on all cores; yield the results in order."""
    workers = min(jobs or os.cpu_count() or 1, len(MUTANTS))
    tasks = ((mutant, seeds, walk, members, directed) for mutant in only or MUTANTS)
    yield from in_order(_run_task, tasks, workers)


def _run_task(task: tuple[str, range, Walker, tuple[int, int] | None, Path | None]) -> MutantResult:
    return run_mutant(*task)
