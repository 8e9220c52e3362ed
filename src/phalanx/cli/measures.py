"""`phalanx measures`: latency, throughput, detector quality, links, changes, partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import click

from phalanx.cli.options import WholeNumber
from phalanx.cli.spark_options import AS_JSON, AT, MASTER, asked
from phalanx.text import one_line

NAMES = ("detector", "suspicions", "latency", "throughput", "links", "changes", "partitions")
SHOWN = 40
COUNTED = 10_000
"""Rows that are not printed are counted up to here."""
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
@AS_JSON
@MASTER
@AT
def measures(
    paths: tuple[str, ...],
    names: tuple[str, ...],
    rows: int,
    as_json: bool,
    master: str | None,
    at: int | None,
) -> None:
    """Measure what the journals in PATHS show: detectors, messages, links, changes, partitions.

    Clocks of two machines are never compared: results that need it are left out, or marked.
    Times are printed in milliseconds; JSON has nanoseconds.

    \b
    Examples:
      phalanx measures journals/
      phalanx measures -m latency -m changes --json journals/
    """
    from phalanx.pipeline.measures.registry import MEASURES, ORDER

    wanted = names or NAMES
    with asked(paths, master, at=at) as tables:
        frames = {
            name: MEASURES[name](tables).orderBy("cluster", "run", "group", *ORDER[name])
            for name in wanted
        }
        found = {
            name: (frame if as_json else frame.limit(max(rows, COUNTED) + 1)).collect()
            for name, frame in frames.items()
        }
    measured = {name: [row.asDict(recursive=True) for row in some] for name, some in found.items()}
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
        least = "at least " if len(rows) > max(most, COUNTED) else ""
        lines.append(f"  and {least}{len(rows) - most} rows more: --rows, or --json for all")
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
