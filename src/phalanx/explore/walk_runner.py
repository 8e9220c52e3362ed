"""Guided walks on all cores, until a violation is found or the time or the seeds are used up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from time import perf_counter

import msgspec

from phalanx.explore.guided_walk import Walked, walks
from phalanx.explore.story import Story
from phalanx.sim.run import without_garbage_collection
from phalanx.sim.sweep import broken_by
from phalanx.sim.worker_pool import in_order

BLOCK = 50
"""Seeds in one task."""
EVERY_SECONDS = 10.0


class Totals(msgspec.Struct):
    """The summed results of walks."""

    walks: int = 0
    seeds: int = 0
    seconds: float = 0.0
    found: list[Walked] = []

    @property
    def checks(self) -> dict[str, int]:
        """How often each check failed."""
        return dict(Counter(w.finding.check for w in self.found if w.finding is not None))


Watch = Callable[[Totals], None]
_Task = tuple[range, int, int, Sequence[Story], str | None]


def run_walks(
    seeds: range,
    lo: int,
    hi: int,
    seconds: float = float("inf"),
    corpus: Sequence[Story] = (),
    jobs: int | None = None,
    mutant: str | None = None,
    watch: Watch | None = None,
) -> Totals:
    """Walk the seeds in order. Ends with the block of seeds in which something is found, or during
    which the time is over."""
    totals, started = Totals(), perf_counter()
    due = EVERY_SECONDS
    tasks = _tasks(seeds, lo, hi, corpus, mutant)
    with closing(in_order(_walk_block, tasks, jobs or os.cpu_count() or 1)) as blocks:
        for count, found in blocks:
            totals.walks += count
            totals.seeds = min(totals.seeds + BLOCK, len(seeds))
            totals.found += found
            totals.seconds = perf_counter() - started
            if watch is not None and totals.seconds >= due:
                due = totals.seconds + EVERY_SECONDS
                watch(totals)
            if totals.found or totals.seconds >= seconds:
                break
    return totals


def _tasks(
    seeds: range, lo: int, hi: int, corpus: Sequence[Story], mutant: str | None
) -> Iterator[_Task]:
    for at in range(0, len(seeds), BLOCK):
        yield seeds[at : at + BLOCK], lo, hi, corpus, mutant


def _walk_block(task: _Task) -> tuple[int, list[Walked]]:
    seeds, lo, hi, corpus, mutant = task
    count, found = 0, []
    with broken_by(mutant), without_garbage_collection():
        for walked in walks(seeds, lo, hi, corpus):
            count += 1
            if walked.finding is not None:
                found.append(walked)
                break
    return count, found
