"""Audit the groups of a plan: small groups as a whole, large ones in parts, here or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from phalanx.pipeline.audit.group_part import GroupFiles
from phalanx.pipeline.audit.judge import judge_group, judge_large_group, summed
from phalanx.pipeline.audit.large_group import PART_ROWS, run_large_task
from phalanx.pipeline.audit.verdicts import Audit, RunVerdicts
from phalanx.pipeline.engine import Engine, Progress, choose, run_encoded, run_plan
from phalanx.pipeline.group_plan import GroupTask, by_group, joined
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.ingest import gather
from phalanx.pipeline.ingest_task import can_refer, refer
from phalanx.pipeline.lake.lake_file import LakeFile
from phalanx.pipeline.scratch import scratch_folder
from phalanx.pipeline.segment_stats import journals_of

LARGE_BYTES = 48 << 20
"""Groups of more than so many bytes may be large; their rows are counted then."""
LARGE_ROWS = 2 * PART_ROWS


def audit_plan(
    plan: GroupTask,
    names: Sequence[str],
    *,
    engine: Engine = "auto",
    master: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda line: None,
    large_rows: int = LARGE_ROWS,
    large_bytes: int = LARGE_BYTES,
) -> Audit:
    """The verdicts on these properties of each group, and overall. JournalError or PipelineError
    for what cannot be read."""
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
        kernel = partial(judge_group, names=names)
        chosen = choose(engine, master, plan.bytes)
        whole = joined(small) if large else plan
        runs = run_plan(whole, kernel, engine=engine, master=master, progress=progress, tell=tell)
        found = list(runs) if small or not large else []
        found += _in_parts(large, names, master, chosen == "spark")
        return summed(found, names)


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
