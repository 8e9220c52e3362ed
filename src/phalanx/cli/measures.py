"""`phalanx measures`: latency, throughput, detector quality, links, changes, partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from phalanx.cli.engine_options import ENGINE, GROUP, SINCE, UNTIL, each_group, window_of
from phalanx.cli.options import WholeNumber
from phalanx.cli.spark_options import AS_JSON, AT, MASTER
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine

NAMES = ("detector", "suspicions", "latency", "throughput", "links", "changes", "partitions")
SHOWN = 40
_LONGEST = 60
_TIME = re.compile("_ns(_max)?$")


@click.command("measures")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "-m",
    "--measure",
    "names",
    multiple=True,
    type=click.Choice(NAMES),
    help="Only this measure; may be repeated. Default: all.",
)
@click.option(
    "--rows",
    type=WholeNumber(1, 1_000_000),
    default=SHOWN,
    show_default=True,
    help="Print at most this many rows of each; JSON has all.",
)
@GROUP
@SINCE
@UNTIL
@AS_JSON
@ENGINE
@MASTER
@AT
def measures(
    paths: tuple[str, ...],
    names: tuple[str, ...],
    rows: int,
    group: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
    engine: Engine,
    master: str | None,
    at: int | None,
) -> None:
    """Measure what the journals in PATHS show: detectors, messages, links, changes, partitions.

    Clocks of two machines are never compared: results that need it are left out, or marked.
    Times are printed in milliseconds; JSON has nanoseconds.

    With --since and --until the group is measured as if its journals began and ended there: a
    view in use at --since counts as installed then. links counts from the beginning of a view.

    \b
    Examples:
      phalanx measures journals/
      phalanx measures -m latency -m changes --json journals/
      phalanx measures lake/ --group demo --since 2026-11-15T12:00:00Z --engine spark
    """
    from phalanx.pipeline.measures.registry import joined, measure

    wanted = names or NAMES
    kernel = partial(measure, wanted, window_of(since, until))
    results = each_group(paths, kernel, engine=engine, master=master, at=at, group=group)
    measured = joined(results, wanted)
    if as_json:
        click.echo(json.dumps({"measures": measured}))
        return
    for nth, (name, some) in enumerate(measured.items()):
        if nth:
            click.echo()
        for line in _table(name, some, rows):
            click.echo(one_line(line))


def _table(name: str, rows: Sequence[dict[str, Any]], most: int) -> list[str]:
    if not rows:
        return [f"{name}: nothing to measure"]
    hidden = [c for c in ("cluster", "run", "group") if len({row[c] for row in rows}) == 1]
    columns = [column for column in rows[0] if column not in hidden]
    where = ", ".join(f"{column} {rows[0][column]}" for column in hidden)
    head = [_headed(column) for column in columns]
    cells = [[_cell(column, row[column]) for column in columns] for row in rows[:most]]
    wide = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [f"{name} ({where})" if where else name]
    for line in [head, *cells]:
        parts = [
            cell.ljust(n) if _is_text(rows[0][column]) else cell.rjust(n)
            for cell, n, column in zip(line, wide, columns, strict=True)
        ]
        lines.append(("  " + "  ".join(parts)).rstrip())
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most} rows more: --rows, or --json for all")
    return lines


def _headed(column: str) -> str:
    return _TIME.sub(r"\1 ms", column)


def _is_text(value: object) -> bool:
    return isinstance(value, str | list)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if _TIME.search(column):
        return f"{value / 1e6:,.3f}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        text = " | ".join(
            " ".join(one["members"]) if isinstance(one, dict) else str(one) for one in value
        )
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return (
        f"{value:,}"
        if isinstance(value, int) and column in ("count", "messages", "bytes")
        else str(value)
    )
