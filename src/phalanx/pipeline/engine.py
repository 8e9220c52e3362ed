"""Run a function on every group in journals or a lake: in this process, or on Spark.

A kernel is an importable function of one `GroupTables`. Its result can be encoded by msgspec; the
annotation of its return value is the type of the results. Kernels import neither Spark nor pandas,
and the same kernel runs in both engines:

    local   reads the groups in this process
    spark   one job of one stage. A task reads its files, runs the kernel on each of its groups and
            returns the encoded results. Tasks are pure functions of files and nothing is kept on
            executors, so Spark repeats the tasks of a lost executor. Executors must see the files
            under the same paths.
    auto    spark if a master is given or there is more than LOCAL_BYTES to read, else local

A JournalError or PipelineError, of a file that cannot be read or raised by the kernel, is returned
by the task like a result and is raised here, once: Spark does not repeat such a task.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from phalanx.errors import JournalError, PipelineError
from phalanx.pipeline.group_plan import GroupTask, plan_groups, read_task, split
from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.without_pandas import without_pandas

Engine = Literal["auto", "local", "spark"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
LOCAL_BYTES = 32 << 20
"""Up to so much is read in this process: starting Spark would take longer."""
Progress = Callable[[int, int], None]
"""Receives how many bytes of how many are done."""
PROGRESS_SECONDS = 1.0
Found = TypeVar("Found")
_RESULT = "task long, nth long, found binary, problem binary"


class TaskProblem(msgspec.Struct, frozen=True):
    """A JournalError or PipelineError that a task raised."""

    journal: bool
    what: str
    problem: str
    remedy: str

    def error(self) -> JournalError | PipelineError:
        if self.journal:
            return JournalError(self.what, None, self.problem, self.remedy)
        return PipelineError(self.what, self.problem, self.remedy)


def run_groups(
    paths: Sequence[str | Path],
    kernel: Callable[[GroupTables], Found],
    *,
    engine: Engine = "auto",
    master: str | None = None,
    at: int | None = None,
    group: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[Found]:
    """What the kernel returns for each group, in the order of their keys. `at` is a version of a
    lake, `group` the name of the only groups to read. `tell` receives a line that names the engine
    if `auto` chose it. JournalError or PipelineError for input that cannot be read, before the
    first result or among them."""
    plan = plan_groups(paths, at=at, group=group)
    return run_plan(plan, kernel, engine=engine, master=master, progress=progress, tell=tell)


def run_plan(
    plan: GroupTask,
    kernel: Callable[[GroupTables], Found],
    *,
    engine: Engine = "auto",
    master: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[Found]:
    """The same for groups that were planned."""
    chosen = choose(engine, master, plan.bytes)
    if engine == "auto" and master is None:
        tell(f"engine: {chosen}, {_size(plan.bytes)} to read")
    if chosen == "spark":
        return _on_spark(split(plan), kernel, master, progress)
    tasks = [plan] if plan.bytes <= LOCAL_BYTES else split(plan)
    return _here(tasks, kernel, progress)


def choose(engine: Engine, master: str | None, size: int) -> Literal["local", "spark"]:
    """The engine for so many bytes. PipelineError if `local` is given together with a master."""
    if engine == "local" and master is not None:
        problem = "the engine `local` has no master"
        raise PipelineError(f"--master {master}", problem, "leave out one of the two")
    if engine != "auto":
        return engine
    return "spark" if master is not None or size > LOCAL_BYTES else "local"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"


def _here(
    tasks: Sequence[GroupTask],
    kernel: Callable[[GroupTables], Found],
    progress: Progress | None,
) -> Iterator[Found]:
    total, done = sum(task.bytes for task in tasks), 0
    for task in tasks:
        for group in read_task(task):
            yield kernel(group)
        done += task.bytes
        if progress is not None:
            progress(done, total)


# ---------------------------------------------------------------------- Spark


def _on_spark(
    tasks: Sequence[GroupTask],
    kernel: Callable[[GroupTables], Found],
    master: str | None,
    progress: Progress | None,
) -> Iterator[Found]:
    from phalanx.pipeline.session_shutdown import one_session
    from phalanx.pipeline.spark_errors import failed_tasks

    if not tasks:
        return
    plans = [msgspec.msgpack.encode(task) for task in tasks]
    # The JVM only starts tasks and passes bytes on: what it would compile runs once.
    with one_session(master, quick=True) as spark, failed_tasks(), _watched(spark, tasks, progress):
        job = spark.range(0, len(plans), 1, len(plans)).mapInArrow(
            kernel_worker(plans, kernel), _RESULT
        )
        rows = job.collect()
    decoder = msgspec.msgpack.Decoder(_result_type(kernel))
    for row in sorted(rows, key=lambda row: (row.task, row.nth)):
        if row.problem is not None:
            raise msgspec.msgpack.decode(bytes(row.problem), type=TaskProblem).error()
        yield decoder.decode(bytes(row.found))


@contextmanager
def _watched(spark: Any, tasks: Sequence[GroupTask], progress: Progress | None) -> Iterator[None]:
    """Reports progress by the number of tasks that have ended, once a second. Spark Connect does
    not tell how many that are, so nothing is reported through it."""
    if progress is None or not hasattr(spark, "_jsparkSession"):
        yield
        return
    total = sum(task.bytes for task in tasks)
    over = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(PROGRESS_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            progress(total * min(done, len(tasks)) // len(tasks), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(2 * PROGRESS_SECONDS)


def run_encoded(
    tasks: Sequence[bytes],
    work: Callable[[bytes, bytes], bytes],
    shared: bytes,
    master: str | None = None,
) -> Iterator[bytes]:
    """The results of encoded tasks on Spark, in the order of the tasks: one job. A task is a row of
    the plan; `shared` goes to each worker once. `work(shared, task)` is importable; a JournalError
    or PipelineError that it raises is raised here."""
    from phalanx.pipeline.session_shutdown import one_session
    from phalanx.pipeline.spark_errors import failed_tasks

    if not tasks:
        return
    with one_session(master, quick=True) as spark, failed_tasks():
        plan = spark.createDataFrame(list(enumerate(tasks)), "task long, plan binary")
        alone = plan.coalesce(1).repartition(len(tasks))
        rows = alone.mapInArrow(encoded_worker(work, shared), _RESULT).collect()
    for row in sorted(rows, key=lambda row: row.task):
        if row.problem is not None:
            raise msgspec.msgpack.decode(bytes(row.problem), type=TaskProblem).error()
        yield bytes(row.found)


def encoded_worker(
    work: Callable[[bytes, bytes], bytes], shared: bytes
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a worker does with batches of encoded tasks."""

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        without_pandas()
        for batch in batches:
            numbers, plans = (batch.column(i).to_pylist() for i in range(2))
            for number, task in zip(numbers, plans, strict=True):
                try:
                    yield _batch(number, 0, work(shared, task), None)
                except (JournalError, PipelineError) as error:
                    yield _batch(number, -1, None, msgspec.msgpack.encode(_problem(error)))

    return each


def _problem(error: JournalError | PipelineError) -> TaskProblem:
    if isinstance(error, JournalError):
        return TaskProblem(True, error.file, error.problem, error.remedy)
    return TaskProblem(False, error.what, error.problem, error.remedy)


def _result_type(kernel: Callable[..., Any]) -> Any:
    while isinstance(kernel, functools.partial):
        kernel = kernel.func
    return get_type_hints(kernel).get("return", Any)


def kernel_worker(
    plans: Sequence[bytes], kernel: Callable[[GroupTables], Any]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        without_pandas()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from task_results(number, plans[number], kernel)

    return work


def task_results(number: int, plan: bytes, kernel: Callable[[GroupTables], Any]) -> Iterator[Any]:
    """One batch for each result of a task, and one for the error that ended it."""
    try:
        for nth, group in enumerate(read_task(msgspec.msgpack.decode(plan, type=GroupTask))):
            yield _batch(number, nth, msgspec.msgpack.encode(kernel(group)), None)
    except (JournalError, PipelineError) as error:
        yield _batch(number, -1, None, msgspec.msgpack.encode(_problem(error)))


def _batch(number: int, nth: int, found: bytes | None, problem: bytes | None) -> Any:
    from phalanx.journal.arrow_schema import arrow

    pa = arrow()
    names = ("task", "nth", "found", "problem")
    types = (pa.int64(), pa.int64(), pa.binary(), pa.binary())
    values = (number, nth, found, problem)
    arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.record_batch(arrays, names=names)
