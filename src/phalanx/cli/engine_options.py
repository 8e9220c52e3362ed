"""Options of the commands that read groups from journals or a lake, and the engine they run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine
    from phalanx.pipeline.group_plan import GroupTask
    from phalanx.pipeline.group_tables import GroupTables
    from phalanx.pipeline.time_window import TimeWindow

Found = TypeVar("Found")

ENGINE = click.option(
    "--engine",
    type=click.Choice(("auto", "local", "spark")),
    default="auto",
    show_default=True,
    help="Where to compute: in this process, or on Spark. auto takes Spark for more than 32 MiB, "
    "and with --master.",
)
GROUP = click.option("--group", metavar="NAME", help="Only this group.")
SINCE = click.option(
    "--since",
    metavar="INSTANT",
    help="Only what happened from this instant on, by the wall clock of each member: "
    "2026-11-15T12:00:00Z, or seconds since 1970. Of a simulation 12.5s.",
)
UNTIL = click.option("--until", metavar="INSTANT", help="Only what happened before this instant.")


def window_of(since: str | None, until: str | None) -> TimeWindow:
    """PipelineError for text that is not an instant, and for a window in which no instant lies."""
    from phalanx.errors import PipelineError
    from phalanx.pipeline.history.instant import parse
    from phalanx.pipeline.time_window import TimeWindow

    window = TimeWindow(*(None if text is None else parse(text) for text in (since, until)))
    first, end = window.since, window.until
    if first is not None and end is not None:
        what = f"--since {since} --until {until}"
        if first.simulated != end.simulated:
            problem = "one is of a wall clock, the other is simulated"
            raise PipelineError(what, problem, "give both of the same clock")
        if end.ns <= first.ns:
            raise PipelineError(what, "the window is empty", "give an --until after --since")
    return window


def each_group(
    paths: Sequence[str],
    kernel: Callable[[GroupTables], Found],
    *,
    engine: Engine,
    master: str | None,
    at: int | None,
    group: str | None = None,
) -> Iterator[Found]:
    """What the kernel returns for each group; prints on stderr which engine `auto` took, and the
    progress of long work."""
    from phalanx.pipeline.group_plan import plan_groups

    yield from each_planned(plan_groups(paths, at=at, group=group), kernel, engine, master)


def each_planned(
    plan: GroupTask, kernel: Callable[[GroupTables], Found], engine: Engine, master: str | None
) -> Iterator[Found]:
    """The same for groups that were planned."""
    from phalanx.cli.ingest import progress
    from phalanx.pipeline.engine import run_plan

    with progress("read") as read:
        yield from run_plan(
            plan, kernel, engine=engine, master=master, progress=read, tell=tell_engine
        )


def tell_engine(line: str) -> None:
    """Prints on stderr which engine `auto` took."""
    click.echo(line, err=True)
