"""Sweeps: run the random scenarios of many seeds on all cores and add up the verdicts.

Each run comes back as a few numbers, so a sweep of any length needs little memory. The sum does not
depend on the number of workers or on the order in which they finish. Ctrl-C ends a sweep early and
keeps the results so far; a worker that dies ends it with WorkerDied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from phalanx.sim.generators import CASES, Kind, scenario_of
from phalanx.sim.generators.fixed_view import MEMBERS_HI, MEMBERS_LO
from phalanx.sim.journal_export import JournalExporter
from phalanx.sim.run import RunResult, run
from phalanx.sim.scenario.model import SECOND
from phalanx.sim.worker_pool import in_order
from phalanx.verify.properties import FIXED_VIEW, PROPERTIES

CHUNK = 8
CHUNK_KEPT = 32
"""Where the journals of a part become one file a table."""


class Seeds(msgspec.Struct, frozen=True):
    """Seeds first to end - 1 of one kind of scenario, with groups of lo to hi members."""

    first: int
    end: int
    lo: int = MEMBERS_LO
    hi: int = MEMBERS_HI
    kind: Kind = "fixed"


class Tally(msgspec.Struct):
    """The summed results of runs."""

    kind: Kind = "fixed"
    runs: int = 0
    failed_runs: int = 0
    violations: int = 0
    stuck: int = 0
    lowest_failing_seed: int | None = None
    lowest_failure: list[str] = []
    failing_seeds: list[int] = []
    faults: dict[str, int] = {}
    cases: dict[str, int] = {}
    properties: dict[str, dict[str, int]] = {}
    steps: int = 0
    simulated_ns: int = 0
    slowest_seed: int | None = None
    slowest_s: float = 0.0
    interrupted: bool = False

    @property
    def never_evaluated(self) -> list[str]:
        """Properties that mean something here and that no run put to the test."""
        asked = FIXED_VIEW if self.kind == "fixed" else PROPERTIES
        return [p for p in asked if not self.properties.get(p, {}).get("evaluated")]

    @property
    def never_happened(self) -> list[str]:
        """Faults and cases that this kind of scenario is there for and that no run went through."""
        counts = (self.faults, self.cases)
        asked = CASES.get(self.kind, ())
        return [case for case in asked if not any(count.get(case) for count in counts)]

    def add_run(self, result: RunResult) -> None:
        """Count one run."""
        self.runs += 1
        self.steps += result.steps
        self.simulated_ns += result.sim_ns
        violated = result.violated
        self.violations += sum(violated.values())
        self.stuck += result.stuck
        if result.failed:
            self.failed_runs += 1
            self._failed([result.seed], result.seed, list(result.signature))
        self._slow(result.seed, result.wall_s)
        _add(self.faults, result.faults)
        _add(self.cases, result.cases)
        for name, found in result.report.properties.items():
            if found.evaluated or found.found:
                row = self.properties.setdefault(name, {"evaluated": 0, "violated": 0})
                _add(row, {"evaluated": found.evaluated, "violated": found.found})
        if result.exception:
            row = self.properties.setdefault("exception", {"evaluated": 0, "violated": 0})
            _add(row, {"evaluated": 1, "violated": 1})

    def add(self, other: Tally) -> None:
        """Count the runs of another tally too."""
        for key in ("runs", "failed_runs", "violations", "stuck", "steps", "simulated_ns"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        if other.lowest_failing_seed is not None:
            self._failed(other.failing_seeds, other.lowest_failing_seed, other.lowest_failure)
        self._slow(other.slowest_seed, other.slowest_s)
        _add(self.faults, other.faults)
        _add(self.cases, other.cases)
        for name, row in other.properties.items():
            _add(self.properties.setdefault(name, {"evaluated": 0, "violated": 0}), row)

    def _failed(self, seeds: Sequence[int], lowest: int, failure: list[str]) -> None:
        self.failing_seeds = sorted([*self.failing_seeds, *seeds])
        if self.lowest_failing_seed is None or lowest < self.lowest_failing_seed:
            self.lowest_failing_seed = lowest
            self.lowest_failure = failure

    def _slow(self, seed: int | None, seconds: float) -> None:
        if seed is not None and seconds > self.slowest_s:
            self.slowest_seed, self.slowest_s = seed, seconds

    def summary(self, wall_s: float) -> dict[str, Any]:
        """What `phalanx sim sweep --json` prints."""
        simulated_s = self.simulated_ns / SECOND
        return {
            "kind": self.kind,
            "runs": self.runs,
            "failed_runs": self.failed_runs,
            "violations": self.violations,
            "stuck": self.stuck,
            "lowest_failing_seed": self.lowest_failing_seed,
            "lowest_failure": self.lowest_failure,
            "failing_seeds": self.failing_seeds[:100],
            "never_evaluated": self.never_evaluated,
            "never_happened": self.never_happened,
            "interrupted": self.interrupted,
            "faults": dict(sorted(self.faults.items())),
            "cases": dict(sorted(self.cases.items())),
            "properties": dict(sorted(self.properties.items())),
            "steps": self.steps,
            "simulated_seconds": round(simulated_s, 3),
            "wall_seconds": round(wall_s, 3),
            "seeds_per_second": round(self.runs / max(wall_s, 1e-9), 2),
            "simulated_seconds_per_second": round(simulated_s / max(wall_s, 1e-9), 2),
            "slowest_seed": self.slowest_seed,
            "slowest_seed_seconds": round(self.slowest_s, 3),
        }


def _add(into: dict[str, int], more: dict[str, int]) -> None:
    for key, value in more.items():
        into[key] = into.get(key, 0) + value


def broken_by(mutant: str | None) -> AbstractContextManager[object]:
    """Break one rule of the protocol inside the block; none if `mutant` is None."""
    if mutant is None:
        return nullcontext()
    from phalanx.sim import mutants  # only who asks for a mutant pays for it

    applied: AbstractContextManager[object] = mutants.apply(mutant)
    return applied


def run_seeds(seeds: Seeds, mutant: str | None = None, journals: Path | None = None) -> Tally:
    """The runs of some seeds, one after the other, in this process; their journals as Parquet, if
    a folder for them is given."""
    tally = Tally(kind=seeds.kind)
    with broken_by(mutant), ExitStack() as stack:
        export = None
        if journals is not None:
            name = f"{seeds.kind}-{seeds.lo}-{seeds.hi}-{seeds.first:010}-{seeds.end:010}"
            export = stack.enter_context(JournalExporter(journals, name))
        for seed in range(seeds.first, seeds.end):
            result = run(scenario_of(seed, seeds.lo, seeds.hi, seeds.kind))
            tally.add_run(result)
            if export is not None:
                export.add(result)
    return tally


def sweep(
    seeds: Seeds,
    jobs: int | None = None,
    mutant: str | None = None,
    until_failure: bool = False,
    progress: Callable[[Tally], None] | None = None,
    journals: Path | None = None,
) -> Tally:
    """All seeds on `jobs` processes, by default as many as there are cores. With `journals` they
    are written there, in the layout of `journal.parquet`.

    Parts are added up in the order of their seeds: with `until_failure` a sweep ends at the
    first part with a failure, and its `lowest_failing_seed` is the lowest there is.
    """
    total = Tally(kind=seeds.kind)
    chunk = CHUNK if journals is None else CHUNK_KEPT
    needed = -(-(seeds.end - seeds.first) // chunk)
    workers = max(1, min(jobs or os.cpu_count() or 1, needed))
    try:
        with closing(in_order(_work, _chunks(seeds, chunk, mutant, journals), workers)) as parts:
            for part in parts:
                total.add(part)
                if progress is not None:
                    progress(total)
                if until_failure and total.failed_runs:
                    break
    except KeyboardInterrupt:
        total.interrupted = True
    return total


_Chunk = tuple[Seeds, str | None, Path | None]


def _chunks(seeds: Seeds, size: int, mutant: str | None, journals: Path | None) -> Iterator[_Chunk]:
    for first in range(seeds.first, seeds.end, size):
        end = min(first + size, seeds.end)
        yield msgspec.structs.replace(seeds, first=first, end=end), mutant, journals


def _work(chunk: _Chunk) -> Tally:
    return run_seeds(*chunk)
