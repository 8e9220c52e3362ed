"""Open raw journals, exported Parquet or a lake as a set of tables.

All commands use `open_tables`, so that each accepts the same paths. Raw journals are first
converted to Parquet in a temporary folder, which is removed afterwards; exported files are read in
place. Workers on other machines must be able to read that folder: PHALANX_SCRATCH sets another
place than the system's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from phalanx.errors import PipelineError
from phalanx.pipeline.ingest import gather, ingest
from phalanx.pipeline.spark_errors import explained
from phalanx.pipeline.store import Store, is_lake
from phalanx.pipeline.tables import Tables
from phalanx.pipeline.task_runner import Progress

SCRATCH = "PHALANX_SCRATCH"


@contextmanager
def open_tables(
    spark: SparkSession,
    paths: Sequence[str | Path],
    lake: Path | None = None,
    *,
    at: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Tables]:
    """The tables of all journals in these files and folders, or of a lake, as it was `at` a
    version. With `lake` journals are ingested into that one first, and the tables are its. The
    frames can be used until the end of the block. JournalError for what cannot be read,
    PipelineError for what does not go together."""
    lakes = [Path(path) for path in paths if is_lake(Path(path))]
    if lakes and len(paths) > 1:
        remedy = "give the lake alone, or ingest the rest into it"
        raise PipelineError(str(lakes[0]), "a lake among other paths", remedy)
    if at is not None and not lakes:
        problem = "only a lake has versions"
        raise PipelineError(str(paths[0]), problem, "leave out the version, or give a lake")
    with explained():
        if lakes:
            yield Store(lakes[0]).at(at).tables(spark)
        elif lake is not None:
            ingest(paths, lake, spark=lambda: spark, progress=progress)
            yield Store(lake).at().tables(spark)
        else:
            with _scratch() as place:
                store = gather(paths, place, lambda: spark, progress)
                yield store.at().tables(spark)


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = os.environ.get(SCRATCH)
    try:
        made = tempfile.TemporaryDirectory(
            prefix="phalanx-", dir=folder, ignore_cleanup_errors=True
        )
    except OSError as error:
        what = folder or tempfile.gettempdir()
        problem = f"cannot be written ({error.strerror or error})"
        raise PipelineError(what, problem, f"set {SCRATCH} to a place that can be") from error
    with made as name:
        yield Path(name)
