"""Audit the groups of a plan: small groups as a whole, large ones in parts, here or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from phalanx.pipeline.audit.group_part import GroupFiles
from phalanx.pipeline.audit.judge import judge_group, judge_large_group, summed
from phalanx.pipeline.audit.judge_views import judge_window, judge_window_of_files
from phalanx.pipeline.audit.large_group import PART_ROWS, run_large_task
from phalanx.pipeline.audit.verdicts import Audit, RunVerdicts
from phalanx.pipeline.engine import Engine, Progress, choose, run_encoded, run_plan
from phalanx.pipeline.group_plan import GroupTask, by_group, joined
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.ingest import gather
from phalanx.pipeline.ingest_task import can_refer, refer
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.scratch import scratch_folder
from phalanx.pipeline.segment_stats import journals_of
from phalanx.pipeline.time_window import TimeWindow

LARGE_BYTES = 48 << 20
"""Groups of more than so many bytes may be large; their rows are counted then."""
LARGE_ROWS = 2 * PART_ROWS
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
    large_bytes: int = LARGE_BYTES,
) -> Audit:
    """The verdicts on these properties of each group, and overall; with a window, on the views that
    overlap it. JournalError or PipelineError for what cannot be read."""
    with ExitStack() as stack:
        small, large = [], []
        for key, task in by_group(plan).items() if plan.bytes > large_bytes else ():
            files = None
            if task.bytes > large_bytes:
                files = stack.enter_context(_files(key, task))
                if sum(journal.rows for journal in files.journals) <= large_rows:
                    files = None
            if files is None:
                small.append(task)
            else:
                large.append(files)
        kernel: Callable[[GroupTables], RunVerdicts | None]
        kernel = partial(_judged, names=names, window=window)
        chosen = choose(engine, master, plan.bytes)
        whole = joined(small) if large else plan
        runs = run_plan(whole, kernel, engine=engine, master=master, progress=progress, tell=tell)
        found = [run for run in runs if run is not None] if small or not large else []
        if window:
            found += _windows(large, names, window, master, chosen == "spark")
        else:
            found += _in_parts(large, names, master, chosen == "spark")
        return summed(found, names)


def _judged(tables: GroupTables, names: Sequence[str], window: TimeWindow) -> RunVerdicts | None:
    return judge_window(tables, names, window) if window else judge_group(tables, names)


class WindowTask(msgspec.Struct, frozen=True):
    """A large group of which a window is judged."""

    group: GroupFiles
    names: tuple[str, ...]
    window: TimeWindow


def run_window_task(data: bytes) -> bytes:
    """What a worker does with one such group."""
    task = msgspec.msgpack.decode(data, type=WindowTask)
    return msgspec.msgpack.encode(judge_window_of_files(task.group, task.names, task.window))


def _windows(
    groups: Sequence[GroupFiles],
    names: Sequence[str],
    window: TimeWindow,
    master: str | None,
    on_spark: bool,
) -> Iterator[RunVerdicts]:
    tasks = [msgspec.msgpack.encode(WindowTask(group, tuple(names), window)) for group in groups]
    results = (
        run_encoded(tasks, run_window_task, master) if on_spark else map(run_window_task, tasks)
    )
    for data in results:
        found = msgspec.msgpack.decode(data, type=RunVerdicts | None)
        if found is not None:
            yield found


def _in_parts(
    groups: Sequence[GroupFiles], names: Sequence[str], master: str | None, on_spark: bool
) -> Iterator[RunVerdicts]:
    def here(tasks: Sequence[bytes]) -> Iterator[bytes]:
        return map(run_large_task, tasks)

    def there(tasks: Sequence[bytes]) -> Iterator[bytes]:
        return run_encoded(tasks, run_large_task, master)

    with _session(master) if on_spark else ExitStack():
        for group in groups:
            yield judge_large_group(group, there if on_spark else here, names)


@contextmanager
def _session(master: str | None) -> Iterator[None]:
    """One session for all jobs."""
    from phalanx.pipeline.session_shutdown import one_session

    with one_session(master, quick=True):
        yield


@contextmanager
def _files(key: GroupKey, task: GroupTask) -> Iterator[GroupFiles]:
    """The Parquet files of a group. Raw journals are first written to a temporary folder."""
    if task.files:
        yield GroupFiles(key, task.journals, task.files)
    elif all(map(can_refer, task.offers)):
        segments, files = [], dict[str, list[LakeFile]]()
        for taken in refer(task.offers):
            segments += taken.segments
            for table, some in taken.files.items():
                files.setdefault(table, []).extend(some)
        yield GroupFiles(key, journals_of(segments), files)
    else:
        paths = [Path(copy.path) for offer in task.offers for copy in offer.copies]
        notes = {Path(offer.note).parent.parent for offer in task.offers if offer.note}
        with scratch_folder() as place:
            found = gather([*paths, *notes], place)
            journals = [j for j in found.journals if (j.cluster, j.run, j.group) == key]
            yield GroupFiles(key, journals, found.files)
