"""What Spark costs a campaign: the same seeds by `phalanx sim sweep` and by `phalanx campaign run`.

Both use all cores of this machine. What does not depend on the seeds is measured first, with runs
that do nothing: a wave, a task (time of one core), a row, and what the driver does for a task,
which bounds a large cluster. Then the campaign, on workers that have imported everything; its time
is without the start of Spark, and with it.

    python bench/bench_campaign.py [--seeds 0:300] [--kind membership] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from phalanx.journal.arrow_schema import arrow
from phalanx.pipeline.campaign.scheduler import TASK_S, WAVE_S, run_campaign
from phalanx.pipeline.campaign.seed_task import Campaign, play, schema
from phalanx.pipeline.campaign.summary import summary
from phalanx.pipeline.session import session
from phalanx.sim.generators import MEMBERS, Kind
from phalanx.sim.sweep import Seeds, sweep

ROWS, TASKS = 5_000, 60
CLUSTER_CORES = 100


def nothing(batches: Iterable[Any], row: dict[str, Any]) -> Iterator[Any]:
    """A task whose runs take no time."""
    pa = arrow()
    for batch in batches:
        rows = [row | {"seed": seed} for seed in batch["id"].to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema())


def idle(spark: SparkSession, row: dict[str, Any], rows: int, tasks: int) -> float:
    """Seconds of a wave that does nothing; the least of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work = spark.range(0, rows, 1, tasks).mapInArrow(
            lambda batches: nothing(batches, row), from_arrow_schema(schema())
        )
        assert work.toArrow().num_rows == rows
        times.append(time.perf_counter() - began)
    return min(times)


def scheduling(spark: SparkSession) -> float:
    """Seconds that Spark takes for a task without Python, all in all: what the driver does, and a
    little more."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        spark.range(0, TASKS, 1, TASKS).write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - began)
    return min(times) / TASKS


def measure(seeds: tuple[int, int], kind: Kind) -> dict[str, Any]:
    lo, hi = MEMBERS[kind]
    count = seeds[1] - seeds[0]
    cores = os.cpu_count() or 1
    began = time.perf_counter()
    tally = sweep(Seeds(*seeds, lo, hi, kind), jobs=cores)
    plain_s = time.perf_counter() - began

    chosen = Campaign(kind, lo, hi)
    began = time.perf_counter()
    spark = session()
    start_s = time.perf_counter() - began
    try:
        row = msgspec.to_builtins(play(chosen, "", seeds[0]))
        wave_s = idle(spark, row, 2, 2)
        task_s = (idle(spark, row, TASKS, TASKS) - wave_s) / TASKS * cores
        driver_s = scheduling(spark)
        row_s = (idle(spark, row, ROWS, 2) - wave_s) / ROWS
        with TemporaryDirectory() as folder:
            began = time.perf_counter()
            waves = run_campaign(spark, chosen, seeds, Path(folder))
            spark_s = time.perf_counter() - began
            found = summary(Path(folder), waves)
    finally:
        spark.stop()
    assert (found.steps, found.cases) == (tally.steps, dict(sorted(tally.cases.items())))
    seed_s = found.cpu_seconds / count
    # On a large cluster: a core plays but for what its tasks cost, and at the end of a wave waits
    # for the last of them and for the driver to take the rows. Tasks are handed out meanwhile.
    busy = TASK_S / (TASK_S + task_s)
    played = (WAVE_S - TASK_S / 2 - wave_s) * busy * CLUSTER_CORES / seed_s
    rate = played / (WAVE_S + played * row_s)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {cores} cores, Python {platform.python_version()}",
        "kind": kind,
        "seeds": count,
        "waves": len(waves),
        "sweep_seeds_per_second": round(count / plain_s, 2),
        "campaign_seeds_per_second": round(count / spark_s, 2),
        "campaign_with_start_seeds_per_second": round(count / (spark_s + start_s), 2),
        "overhead": round(spark_s / plain_s - 1, 3),
        "cpu_seconds_per_seed": round(seed_s, 4),
        "wave_seconds": round(wave_s, 3),
        "task_milliseconds": round(task_s * 1000, 2),
        "driver_milliseconds_per_task": round(driver_s * 1000, 2),
        "row_milliseconds": round(row_s * 1000, 3),
        "cluster_cores": CLUSTER_CORES,
        "cluster_seeds_per_second": round(rate, 1),
        "cluster_efficiency": round(rate * seed_s / CLUSTER_CORES, 3),
        "cluster_driver_busy": round(CLUSTER_CORES * busy / TASK_S * driver_s, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What Spark costs a campaign.")
    parser.add_argument("--seeds", default="0:300")
    parser.add_argument("--kind", default="membership", choices=list(MEMBERS))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    first, end = map(int, chosen.seeds.split(":"))
    facts = measure((first, end), chosen.kind)
    if chosen.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):40} {value}")


if __name__ == "__main__":
    main()
