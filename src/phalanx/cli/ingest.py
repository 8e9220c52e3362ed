"""`phalanx ingest`: take journals into a lake."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from phalanx.text import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from phalanx.pipeline.task_runner import Progress

QUIET_SECONDS = 2.0
"""Work that is done sooner prints no progress."""


class Since(click.ParamType[int | datetime]):
    """A version of a lake, or an instant; without a zone it is UTC."""

    name = "VERSION|INSTANT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | datetime:
        if isinstance(value, int | datetime):
            return value
        if re.fullmatch("[0-9]{1,18}", str(value)):
            return int(value)
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is neither a version nor an instant, for example 2026-01-31T12:00",
                param,
                ctx,
            )
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--into", "lake", required=True, metavar="LAKE", help="The lake; made if missing.")
@click.option(
    "--since",
    type=Since(),
    help="Skip segments that ended before this instant (UTC), or before this version of the "
    "lake was published, by the wall clock of the machine that wrote them.",
)
@click.option("--master", metavar="URL", help="Where Spark runs: spark://... or sc://...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def ingest(
    paths: tuple[str, ...],
    lake: str,
    since: int | datetime | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Take the journals in PATHS into a lake: Delta tables with one version number.

    PATHS are files and folders of journals (*.phj), or folders that `phalanx journal export`
    wrote, of any groups and clusters. What the lake has already is not taken again; of a segment
    that has grown only the new rows are. Any number of copies counts once. Interrupted at any
    moment the lake is as it was before; run it again. Exit 2 if something cannot be read or
    written.

    \b
    Example:
      phalanx ingest journals/ --into lake/
      phalanx ingest journals/ --into lake/ --since 2026-01-31T12:00
    """
    from phalanx.pipeline.ingest import ingest as take
    from phalanx.pipeline.lake.lake import since_ns

    with ExitStack() as stack:
        session = _sessions(stack, master)
        done = take(
            paths,
            lake,
            spark=session,
            since_ns=None if since is None else since_ns(lake, since),
            progress=stack.enter_context(progress("taken")),
        )
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(done)))
        return
    news = f"{done.segments:,} segments taken ({done.again:,} again), {done.rows:,} rows"
    if done.corrupt:
        news += f", {done.corrupt:,} stretches corrupt"
    known = f"{done.before:,} were there before"
    if done.passed:
        known += f", {done.passed:,} ended before {since}"
    click.echo(one_line(f"{news}; {known}; {lake} is at version {done.version}"))


def _sessions(stack: ExitStack, master: str | None) -> Any:
    """Starts Spark when it is first needed, and stops it at the end."""

    def start() -> SparkSession:
        from phalanx.pipeline.session import session
        from phalanx.pipeline.session_shutdown import stopped

        made = session(master)

        return stack.enter_context(stopped(made))

    return start


@contextmanager
def progress(word: str) -> Iterator[Progress]:
    """Prints the progress of long work on stderr: one line that is overwritten on a terminal, a
    line every ten seconds elsewhere."""
    began = time.monotonic()
    terminal = sys.stderr.isatty()
    printed = began - 10.0 + QUIET_SECONDS
    shown = False

    def tell(done: int, total: int) -> None:
        nonlocal printed, shown
        now = time.monotonic()
        if now - began < QUIET_SECONDS or (not terminal and now - printed < 10.0):
            return
        printed, shown = now, True
        line = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB {word}, {now - began:.0f} s"
        click.echo(f"\r{line}" if terminal else line, err=True, nl=not terminal)

    try:
        yield tell
    finally:
        if shown and terminal:
            click.echo(err=True)
