"""Runs of many seeds of the simulated service on all cores, added up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from phalanx.sim.service.service_journals import ServiceJournals
from phalanx.sim.service.service_run import ServicePlan, ServiceRun, run_service
from phalanx.sim.worker_pool import in_order

CASES: dict[str, tuple[str, ...]] = {
    "servers crashed": ("fault crash", "snipe crash"),
    "whole sets crashed": ("fault set-crash",),
    "disks lost": ("fault wipe", "snipe wipe"),
    "servers restarted": ("fault restart",),
    "servers cut off after a decision": ("snipe cut",),
    "servers asked to leave": ("fault leave",),
    "servers out of all their sets": ("left",),
    "partitions": ("fault part",),
    "local networks cut off": ("fault lan-cut",),
    "ways cut in one direction": ("fault one-way",),
    "pauses": ("fault pause",),
    "false suspicions": ("fault suspect",),
    "changes of the loss rate": ("fault loss",),
    "messages lost": ("lost",),
    "interfaces crashed": ("fault interface-crash",),
    "changes decided": ("decided",),
    "forks": ("decided fork",),
    "unions": ("decided union",),
    "servers added": ("server added",),
    "components founded": ("founded",),
    "interfaces re-homed": ("re-homed",),
    "groups handed over": ("entry adopt", "entry take"),
    "groups claimed": ("entry claim",),
    "views installed": ("views",),
    "members joined": ("call join done",),
    "members excluded, live": ("excluded: live",),
    "members excluded, interface was down": ("excluded: interface was down",),
    "members whose group ended": ("excluded: group ended",),
    "members that asked to leave": ("excluded: asked to leave",),
}
"""What `phalanx sim service` reports of the counts of its runs."""

Task = tuple[int, ServicePlan, str | None, Path | None]


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

    def cases(self) -> dict[str, int]:
        """How often each case happened, also those that never did."""
        return {name: sum(self.counts[key] for key in keys) for name, keys in CASES.items()}

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
            "cases": self.cases(),
            "counts": dict(sorted(self.counts.items())),
        }


def sweep_service(
    seeds: tuple[int, int],
    plan: ServicePlan,
    mutant: str | None = None,
    jobs: int | None = None,
    progress: Callable[[ServiceTally], None] | None = None,
    journals: Path | None = None,
) -> ServiceTally:
    """Seeds from the first up to, not including, the second. With `journals`, each run leaves the
    journals of its processes in a folder below that one."""
    total = ServiceTally()
    workers = max(1, min(jobs or os.cpu_count() or 1, seeds[1] - seeds[0]))
    with closing(in_order(_work, _tasks(seeds, plan, mutant, journals), workers)) as runs:
        for run in runs:
            total.add(run)
            if progress is not None:
                progress(total)
    return total


def _tasks(
    seeds: tuple[int, int], plan: ServicePlan, mutant: str | None, journals: Path | None
) -> Iterator[Task]:
    for seed in range(*seeds):
        yield seed, plan, mutant, journals


def _work(task: Task) -> ServiceRun:
    seed, plan, mutant, folder = task
    if folder is None:
        return run_service(seed, plan, mutant)
    journals = ServiceJournals(f"service-{seed}")
    run = run_service(seed, plan, mutant, journals)
    journals.write(folder)
    return run
