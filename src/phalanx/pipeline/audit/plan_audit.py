"""Audit the groups of a plan: small groups as a whole, large ones in parts, here or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import msgspec

from phalanx.errors import JournalError
from phalanx.pipeline.audit.judge import judge_group, judge_large_group, summed
from phalanx.pipeline.audit.judge_views import judge_window, judge_window_of_files
from phalanx.pipeline.audit.large_group import PART_ROWS, RunTasks, encoded_task, run_large_task
from phalanx.pipeline.audit.part_reader import GroupFiles
from phalanx.pipeline.audit.service.judge_service import is_service
from phalanx.pipeline.audit.verdicts import Audit, RunVerdicts
from phalanx.pipeline.engine import Engine, Progress, choose, run_encoded, run_plan
from phalanx.pipeline.group_plan import GroupTask, by_group, joined, rows_max, rows_of
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.ingest_task import Taken, Task, can_refer, refer
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.scratch import scratch_folder
from phalanx.pipeline.segment_source import Offer
from phalanx.pipeline.segment_stats import journals_of
from phalanx.pipeline.time_window import TimeWindow

LARGE_ROWS = 2 * PART_ROWS
"""Groups of more rows than this are judged in parts."""
WRITE_BYTES = 16 << 20
"""Of raw journals that one task writes as Parquet."""
ALWAYS = TimeWindow()


def audit_plan(
    plan: GroupTask,
    names: Sequence[str],
    *,
    engine: Engine = "auto",
    master: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda line: None,
    window: TimeWindow = ALWAYS,
    large_rows: int = LARGE_ROWS,
    part_rows: int = PART_ROWS,
) -> Audit:
    """The verdicts on these properties of each group, and overall; with a window, on the views that
    overlap it. JournalError or PipelineError for what cannot be read."""
    kernel: Callable[[GroupTables], RunVerdicts | None]
    kernel = partial(_judged, names=names, window=window)
    small, large = _by_size(plan, large_rows)
    if not large:
        runs = run_plan(plan, kernel, engine=engine, master=master, progress=progress, tell=tell)
        return summed(_there(runs), names)
    chosen = choose(engine, master, plan.bytes)
    if engine == "auto" and master is None:
        tell(f"engine: {chosen}, {plan.bytes / 1e6:,.1f} MB to read, large groups: {len(large)}")
    run_tasks: RunTasks = partial(_on_spark, master=master) if chosen == "spark" else _here
    done = sum(task.bytes for task in small)

    def report(some: int, _: int) -> None:
        if progress is not None:
            progress(some, plan.bytes)

    with _one_session(chosen, master):
        found: list[RunVerdicts] = []
        if small:
            whole = joined(small)
            runs = run_plan(whole, kernel, engine=chosen, master=master, progress=report)
            found += _there(runs)
        for key, task in large.items():
            with _files(key, task, run_tasks) as files:
                if window:
                    found += _there([_in_window(files, names, window, run_tasks)])
                else:
                    found.append(judge_large_group(files, run_tasks, names, part_rows))
            done += task.bytes
            report(done, plan.bytes)
    return summed(found, names)


def _judged(tables: GroupTables, names: Sequence[str], window: TimeWindow) -> RunVerdicts | None:
    if window and not is_service(tables.key):
        return judge_window(tables, names, window)
    return judge_group(tables, names)


def _there(runs: Iterable[RunVerdicts | None]) -> list[RunVerdicts]:
    return [run for run in runs if run is not None]


class WindowTask(msgspec.Struct, frozen=True):
    """A large group of which a window is judged."""

    group: GroupFiles
    names: tuple[str, ...]
    window: TimeWindow


def _in_window(
    group: GroupFiles, names: Sequence[str], window: TimeWindow, run_tasks: RunTasks
) -> RunVerdicts | None:
    """One task: of a large group only the rows of the window are in memory together."""
    task = b"v" + msgspec.msgpack.encode(WindowTask(group, tuple(names), window))
    (found,) = run_tasks(b"", [task])
    return msgspec.msgpack.decode(found, type=RunVerdicts | None)


def run_task(shared: bytes, data: bytes) -> bytes:
    """What a worker does with one task of a large group."""
    if data[:1] != b"v":
        return run_large_task(shared, data)
    task = msgspec.msgpack.decode(data[1:], type=WindowTask)
    return msgspec.msgpack.encode(judge_window_of_files(task.group, task.names, task.window))


def _by_size(plan: GroupTask, large_rows: int) -> tuple[list[GroupTask], dict[GroupKey, GroupTask]]:
    """The groups to judge as a whole, and those to judge in parts; none of either if there is no
    large one. A service is always judged as a whole."""
    small: list[GroupTask] = []
    large: dict[GroupKey, GroupTask] = {}
    if rows_max(plan) > large_rows:
        for key, task in by_group(plan).items():
            large_one = rows_max(task) > large_rows and rows_of(task) > large_rows
            if large_one and not is_service(key):
                large[key] = task
            else:
                small.append(task)
    return small, large


def _here(shared: bytes, tasks: Sequence[bytes]) -> Iterator[bytes]:
    return (run_task(shared, task) for task in tasks)


def _on_spark(shared: bytes, tasks: Sequence[bytes], master: str | None) -> Iterator[bytes]:
    return run_encoded(tasks, run_task, shared, master)


def _one_session(chosen: str, master: str | None) -> AbstractContextManager[object]:
    """One session for all jobs."""
    if chosen != "spark":
        return nullcontext()
    from phalanx.pipeline.session_shutdown import one_session

    return one_session(master, quick=True)


@contextmanager
def _files(key: GroupKey, task: GroupTask, run_tasks: RunTasks) -> Iterator[GroupFiles]:
    """The Parquet files of a group. Raw journals are first written to a temporary folder, by
    tasks."""
    if task.files:
        yield GroupFiles(key, task.journals, task.files)
        return
    taken = list(refer(offer for offer in task.offers if can_refer(offer)))
    raw = [offer for offer in task.offers if not can_refer(offer)]
    with scratch_folder() if raw else nullcontext(Path()) as place:
        tasks = [encoded_task(one) for one in _write_tasks(raw, place.resolve())]
        taken += [
            _explained(msgspec.msgpack.decode(data, type=Taken)) for data in run_tasks(b"", tasks)
        ]
        files: dict[str, list[LakeFile]] = {}
        for some in taken:
            for table, listed in some.files.items():
                files.setdefault(table, []).extend(listed)
        journals = journals_of(segment for some in taken for segment in some.segments)
        yield GroupFiles(key, journals, files)


def _write_tasks(offers: Sequence[Offer], place: Path) -> Iterator[Task]:
    held: list[Offer] = []
    count = 0
    for i, offer in enumerate(offers):
        held.append(offer)
        full = sum(one.work for one in held) >= WRITE_BYTES
        if full or i == len(offers) - 1:
            yield Task(str(place), f"part-{count:05}", held, to_lake=False)
            held, count = [], count + 1


def _explained(taken: Taken) -> Taken:
    if taken.problem is not None:
        file, problem, remedy = taken.problem
        raise JournalError(file, None, problem, remedy)
    return taken
