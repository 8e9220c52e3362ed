"""Run the tasks of an ingest, in this process or on Spark's workers, and report progress.

Tasks and results are files in a folder that driver and workers share. So a plan of any size adds
nothing to the Spark job, progress is the number of results, and Spark Connect suffices. Spark is
imported only where it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.errors import PipelineError
from phalanx.pipeline.ingest_task import Taken, Task, take

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
"""Told how many bytes of how many have been taken."""
PROGRESS_SECONDS = 1.0
_RESULT = "task long"


def run(
    tasks: Sequence[Task],
    folder: Path,
    spark: SparkSession | None,
    progress: Progress | None = None,
) -> list[Taken]:
    """In the order of the tasks; `folder` is for notes. PipelineError if workers fail."""
    total = sum(task.work for task in tasks)
    if spark is None:
        return list(_here(tasks, total, progress))
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from phalanx.pipeline.spark_errors import last_words

    folder = folder.resolve()
    for i, task in enumerate(tasks):
        (folder / f"{i}.task").write_bytes(msgspec.json.encode(task))
    try:
        with _watched(folder, tasks, progress):
            job = spark.range(0, len(tasks), 1, len(tasks)).toDF("task")
            job.mapInArrow(_worker(str(folder)), _RESULT).count()
    except (PySparkException, Py4JJavaError) as error:
        problem = f"workers could not take the journals ({last_words(error)})"
        remedy = "they must see journals and lake under the same paths, and have room"
        raise PipelineError(str(folder.parent), problem, remedy) from error
    results = [folder / f"{i}.done" for i in range(len(tasks))]
    return [msgspec.json.decode(path.read_bytes(), type=Taken) for path in results]


def _here(tasks: Sequence[Task], total: int, progress: Progress | None) -> Iterator[Taken]:
    done = 0
    for task in tasks:
        yield take(task)
        done += task.work
        if progress is not None:
            progress(done, total)


def _worker(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                take_noted(Path(folder), number)
            yield batch

    return work


def take_noted(folder: Path, number: int) -> None:
    """The task of this number. Files appear under their last names; the result comes last."""
    task = msgspec.json.decode((folder / f"{number}.task").read_bytes(), type=Task)
    done = take(task)
    fresh = folder / f"{number}.{threading.get_ident()}.tmp"
    fresh.write_bytes(msgspec.json.encode(done))
    fresh.rename(folder / f"{number}.done")


@contextmanager
def _watched(folder: Path, tasks: Sequence[Task], progress: Progress | None) -> Iterator[None]:
    """Tells of progress until the work is over."""
    if progress is None:
        yield
        return
    over = threading.Event()
    total = sum(task.work for task in tasks)

    def watch(tell: Progress) -> None:
        while not over.wait(PROGRESS_SECONDS):
            tell(sum(tasks[int(path.stem)].work for path in folder.glob("*.done")), total)

    watcher = threading.Thread(target=watch, args=(progress,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(2 * PROGRESS_SECONDS)
    progress(total, total)
