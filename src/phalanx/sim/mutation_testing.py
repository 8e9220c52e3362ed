"""Hunting mutants: how many seeds does it take until a checker catches a broken rule?

For each mutant, seeds are played one after the other on the ground that suits it until one fails:
random scenarios, or random walks of small groups. If none does, its directed scenarios are
played: schedules that chance seldom draws, written down. What failed names the checker. A mutant
that survives means that a rule is not tested: it is a failure of the simulator, not a success of
the protocol, unless the rule is not needed.
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


class Played(msgspec.Struct, frozen=True):
    """What a seed came to: the properties that were violated, and how large the group was."""

    violated: tuple[str, ...]
    members: int


Walker = Callable[[int | Path], Played]
"""Plays the random walk of a seed or a story in a file: `phalanx.explore.random_walk.play`, which
this package may not import."""


class MutantResult(msgspec.Struct, frozen=True):
    """What became of a mutant. Neither `seed` nor `scenario`: it survived."""

    mutant: str
    breaks: str
    ground: str
    seeds_needed: int
    """So many were played."""
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


def hunt(
    mutant: str,
    seeds: range,
    walk: Walker,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
) -> MutantResult:
    """Play seeds under one mutant until one fails, then its scenarios in folder `directed`.

    `members` is how large the groups of scenarios are, if not as their kind has them.
    """
    broken = MUTANTS[mutant]
    ground = broken.ground
    catch = MutantResult(mutant, broken.breaks, ground, len(seeds))
    with apply(mutant):
        for played, seed in enumerate(seeds, start=1):
            if ground == "walk":
                result = walk(seed)
            else:
                result = _play(scenario_of(seed, *(members or MEMBERS[ground]), ground))
            if result.violated:
                return _caught(catch, result, seeds_needed=played, seed=seed)
        for file in written_for(mutant, directed) if directed is not None else ():
            result = play_file(file, walk)
            if result.violated:
                return _caught(catch, result, scenario=file.name)
    return catch


def written_for(mutant: str, folder: Path) -> list[Path]:
    """The scenarios and stories that are meant to catch a mutant: they have its name."""
    return sorted(folder.glob(f"{mutant.replace('-', '_')}.*"))


def play_file(file: Path, walk: Walker) -> Played:
    """A scenario, or a story."""
    return _play(load(file)) if file.suffix == ".toml" else walk(file)


def _play(scenario: Scenario) -> Played:
    return Played(run(scenario).signature, len(scenario.members))


def _caught(catch: MutantResult, result: Played, **where: Any) -> MutantResult:
    return msgspec.structs.replace(
        catch, members=result.members, caught_by=result.violated, **where
    )


def hunt_all(
    seeds: range,
    walk: Walker,
    members: tuple[int, int] | None = None,
    directed: Path | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
) -> Generator[MutantResult, None, None]:
    """Every mutant, or only some, on as many processes as there are cores, in their order."""
    workers = min(jobs or os.cpu_count() or 1, len(MUTANTS))
    tasks = ((mutant, seeds, walk, members, directed) for mutant in only or MUTANTS)
    yield from in_order(_hunt, tasks, workers)


def _hunt(task: tuple[str, range, Walker, tuple[int, int] | None, Path | None]) -> MutantResult:
    return hunt(*task)
