"""Runs of many seeds of the simulated service on all cores, added up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec

from phalanx.sim.service.service_run import ServicePlan, ServiceRun, run_service
from phalanx.sim.worker_pool import in_order

Task = tuple[int, ServicePlan, str | None]


class ServiceTally(msgspec.Struct):
    """The summed results of runs."""

    runs: int = 0
    failing_seeds: list[int] = []
    properties: Counter[str] = msgspec.field(default_factory=Counter)
    first_failure: str = ""
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    slowest_rest_s: float = 0.0

    def add(self, run: ServiceRun) -> None:
        """Count one run; they come in the order of their seeds."""
        self.runs += 1
        self.counts.update(run.counts)
        self.slowest_rest_s = max(self.slowest_rest_s, run.rest_s)
        if run.violations:
            name, text = run.violations[0]
            self.first_failure = self.first_failure or f"seed {run.seed}: {name}: {text}"
            self.failing_seeds = [*self.failing_seeds, run.seed]
            self.properties.update({name for name, _ in run.violations})

    def summary(self) -> dict[str, Any]:
        """What `phalanx sim service --json` prints."""
        return {
            "runs": self.runs,
            "failed_runs": len(self.failing_seeds),
            "lowest_failing_seed": min(self.failing_seeds, default=None),
            "failing_seeds": self.failing_seeds[:100],
            "first_failure": self.first_failure or None,
            "properties": dict(sorted(self.properties.items())),
            "slowest_rest_seconds": self.slowest_rest_s,
            "counts": dict(sorted(self.counts.items())),
        }


def sweep_service(
    seeds: tuple[int, int],
    plan: ServicePlan,
    mutant: str | None = None,
    jobs: int | None = None,
    progress: Callable[[ServiceTally], None] | None = None,
) -> ServiceTally:
    """Seeds from the first up to, not including, the second."""
    total = ServiceTally()
    workers = max(1, min(jobs or os.cpu_count() or 1, seeds[1] - seeds[0]))
    with closing(in_order(_work, _tasks(seeds, plan, mutant), workers)) as runs:
        for run in runs:
            total.add(run)
            if progress is not None:
                progress(total)
    return total


def _tasks(seeds: tuple[int, int], plan: ServicePlan, mutant: str | None) -> Iterator[Task]:
    for seed in range(*seeds):
        yield seed, plan, mutant


def _work(task: Task) -> ServiceRun:
    return run_service(*task)
