"""Options and set-up shared by the commands that query journals with Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phalanx.cli.options import WholeNumber

if TYPE_CHECKING:
    from phalanx.pipeline.tables import Tables
    from phalanx.pipeline.task_runner import Progress

VERSION_MAX = 99_999_999
SMALL_BYTES = 2 << 20
"""Of journals up to this size, a session that starts sooner is done sooner: a million deliveries
are as much in Parquet."""

MASTER = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://HOST:PORT, or sc://HOST:PORT for Spark Connect. Here if not "
    "given.",
)
AT = click.option(
    "--at",
    type=WholeNumber(0, VERSION_MAX),
    metavar="VERSION",
    help="Read this version of a lake; default: the newest.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


@contextmanager
def asked(
    paths: Sequence[str],
    master: str | None,
    read: Progress | None = None,
    at: int | None = None,
) -> Iterator[Tables]:
    """The tables of what lies there, of a lake `at` a version. JournalError or PipelineError where
    that cannot be. A Spark session that this process had before is used, and stays."""
    from phalanx.pipeline.session import session

    mine = not _has_session()
    spark = session(master, quick=_size(paths) < SMALL_BYTES)
    from phalanx.pipeline.open_tables import open_tables
    from phalanx.pipeline.session_shutdown import stopped

    with (
        stopped(spark) if mine else nullcontext(),
        open_tables(spark, paths, at=at, progress=read) as tables,
    ):
        yield tables


def _size(paths: Sequence[str]) -> int:
    files = (
        file for path in map(Path, paths) for file in (path.rglob("*") if path.is_dir() else [path])
    )
    return sum(map(_bytes, files))


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # gone since: who reads it says so
        return 0


def _has_session() -> bool:
    try:
        from pyspark.sql import SparkSession
    except ImportError:  # `session` says what to do about it
        return False
    return SparkSession.getActiveSession() is not None
