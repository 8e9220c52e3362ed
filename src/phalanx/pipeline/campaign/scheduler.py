"""The scheduler of a campaign: waves of tasks until every seed has a row.

A wave is one job: `spark.range(first, end, 1, tasks).mapInArrow(...)`. A task takes a few seconds,
so that a worker that dies loses little and all cores finish a wave at about the same time. A wave
takes a minute or two, so that its fixed cost is small and a driver that dies loses little. The
scheduler measures the time per seed and the effective number of cores, and sizes the next wave
accordingly. None of this affects the rows.

The driver collects and writes the rows of a wave: executors and driver need no shared storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from phalanx.errors import PipelineError
from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.campaign import store
from phalanx.pipeline.campaign.code_version import code_version
from phalanx.pipeline.campaign.seed_task import Campaign, play, schema
from phalanx.pipeline.campaign.store import Wave
from phalanx.pipeline.spark_errors import last_words

TASK_S = 6.0
TASK_S_MIN = 1.0
"""Of work, since a task costs a tenth of a second by itself."""
SPREAD = 32
"""A wave is at least so many tasks, if there is the work: few seeds use all cores too."""
WAVE_S = 90.0
FIRST_SEEDS = 128
"""Of the first wave: how long a seed takes is not known yet."""
GROWTH_MAX = 4
SEED_S = 0.2
"""Until it was measured."""


class WaveSize(NamedTuple):
    """How large the next wave is, and its tasks."""

    seeds: int = FIRST_SEEDS
    seed_s: float = SEED_S
    """Processor time that one takes."""

    def tasks(self, seeds: int) -> int:
        work_s = seeds * self.seed_s
        few = min(seeds, SPREAD, round(work_s / TASK_S_MIN))
        return max(1, few, round(work_s / TASK_S))

    def after(self, seeds: int, cpu_s: float, wall_s: float) -> WaveSize:
        """What such a wave teaches."""
        wanted = int(seeds * WAVE_S / max(wall_s, 1e-3))
        return WaveSize(max(1, min(wanted, seeds * GROWTH_MAX)), max(cpu_s / seeds, 1e-4))


def run_campaign(
    spark: SparkSession,
    campaign: Campaign,
    seeds: tuple[int, int],
    folder: Path,
    wave: int | None = None,
    progress: Callable[[Any], None] | None = None,
) -> list[Wave]:
    """Plays what is not there yet: seeds first to end - 1. All waves of this campaign and this
    code, of any seeds. `wave`: seeds of each wave, instead of what fits. `progress` gets the
    rows of each wave once they are written. PipelineError if workers fail, or the folder cannot
    be written; what was written stays."""
    name, code = campaign.name, code_version()
    pace = WaveSize() if wave is None else WaveSize(wave)
    while todo := next(store.left(store.waves_of(folder, name, code), *seeds), None):
        first, end = todo[0], min(todo[1], todo[0] + pace.seeds)
        began = monotonic()
        rows = play_wave(spark, campaign, code, first, end, pace.tasks(end - first))
        wall_s = monotonic() - began
        made = Wave(name, code, first, end)
        store.publish(folder, made, rows, round(wall_s * 1000))
        if wave is None:
            cpu_s = sum(rows["cpu_ms"].to_pylist()) / 1000
            pace = pace.after(end - first, cpu_s, wall_s)
        if progress is not None:
            progress(rows)
    return store.waves_of(folder, name, code)


def play_wave(
    spark: SparkSession, campaign: Campaign, code: str, first: int, end: int, tasks: int
) -> Any:
    """The rows of these seeds as an Arrow table, in any order. PipelineError if workers fail."""
    work = partial(_work, campaign=msgspec.to_builtins(campaign), code=code)
    seeds = spark.range(first, end, 1, tasks)
    try:
        return seeds.mapInArrow(work, from_arrow_schema(schema())).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        problem = f"workers could not play them ({last_words(error)})"
        remedy = "give them this phalanx, msgspec, pyarrow and memory, and run it again"
        raise PipelineError(f"seeds {first}:{end}", problem, remedy) from error


def _work(batches: Iterable[Any], campaign: dict[str, Any], code: str) -> Iterator[Any]:
    """Runs on the executors."""
    pa = arrow()
    mine = code_version()
    assert mine == code, f"this executor has phalanx {mine}, the campaign is of {code}"
    chosen = msgspec.convert(campaign, Campaign)
    for batch in batches:
        rows = [msgspec.to_builtins(play(chosen, code, seed)) for seed in batch["id"].to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema())
