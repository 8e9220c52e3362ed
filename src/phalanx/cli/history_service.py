"""`phalanx history service`: views, moves and exclusions of groups of the membership service."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from phalanx.cli.engine_options import ENGINE, each_group
from phalanx.cli.spark_options import AS_JSON, AT, MASTER
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine
    from phalanx.pipeline.history.service_history import ServiceEvent

NAMES_SHOWN = 8


@click.command("service")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--group", "wanted", metavar="NAME", help="Only this group, by its name or uid.")
@click.option("--run", metavar="RUN", help="Only this run; default all runs.")
@AS_JSON
@ENGINE
@MASTER
@AT
def service_command(
    paths: tuple[str, ...],
    wanted: str | None,
    run: str | None,
    as_json: bool,
    engine: Engine,
    master: str | None,
    at: int | None,
) -> None:
    """Print what happened to groups of a membership service: their views, and who joined and was
    removed by which rule or call; moves between sets; members that were notified of the end of
    their membership.

    PATHS are journals of `phalanx mserver --journal` and `phalanx mi --journal`, exports or a lake.
    An instant is by the wall clock of the machine that recorded it first, or simulated.

    \b
    Example:
      phalanx history service journals/
      phalanx history service lake/ --group orders --json
    """
    from phalanx.pipeline.history.service_history import service_history

    kernel = partial(service_history, wanted)
    found = [
        event
        for events in each_group(
            paths, kernel, engine=engine, master=master, at=at, group=SERVICE_GROUP
        )
        for event in events
        if run is None or event.run == run
    ]
    if as_json:
        import msgspec

        click.echo(json.dumps({"events": msgspec.to_builtins(found)}))
        return
    if not found:
        click.echo("no group of a service here")
    runs = {(event.cluster, event.run) for event in found}
    before = None
    for event in found:
        where = (event.cluster, event.run)
        if len(runs) > 1 and where != before:
            click.echo(one_line(f"service of {event.cluster}, run {event.run}"))
        before = where
        click.echo(one_line(event_line(event)))


def event_line(event: ServiceEvent) -> str:
    """One event for people."""
    from phalanx.pipeline.lake.lake_schema import instant_of

    when = f"{event.at_ns / 1e9:10.3f}s"
    if not event.simulated:
        instant = instant_of(event.at_ns)
        when = f"{event.at_ns}" if instant is None else f"{instant:%Y-%m-%dT%H:%M:%S.%f}Z"
    head = f"{when}  {event.name or event.uid}"
    match event.kind:
        case "VIEW":
            changes = [f"+{m}" for m in event.joined] + [f"-{m}" for m in event.removed]
            shown = " ".join(changes[:NAMES_SHOWN])
            more = f" and {len(changes) - NAMES_SHOWN} more" if len(changes) > NAMES_SHOWN else ""
            view = f"view {event.vid} in {event.set}: {len(event.members)} members"
            return f"{head}  {view} ({event.cause}) {shown}{more}"
        case "MOVE":
            return f"{head}  {event.set}: {event.cause}"
        case _:
            who = ", ".join(event.removed[:NAMES_SHOWN])
            return f"{head}  {event.kind.lower()}: {who}, last view {event.vid or 'none'}"
