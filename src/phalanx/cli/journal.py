"""`phalanx journal`: list, print and export journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from phalanx.cli.options import WholeNumber
from phalanx.errors import JournalError
from phalanx.journal import format_text as wording
from phalanx.journal import parquet_export as parquet
from phalanx.journal import reader, retention
from phalanx.journal.schema import TABLES
from phalanx.journal.segment import Segment
from phalanx.text import one_line

_PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path())
_LIMIT = WholeNumber(0, (1 << 63) - 1)


@click.group(invoke_without_command=True)
@click.pass_context
def journal(ctx: click.Context) -> None:
    """List, print and export journals: segments (*.phj) that members wrote.

    \b
    Example:
      phalanx journal ls journals/
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@journal.command("ls")
@_PATHS
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a segment.")
def ls_command(paths: tuple[str, ...], as_json: bool) -> None:
    """List the segments in PATHS, files or folders.

    Times are UTC. A segment is sealed, open (a process writes to it), or cut short (its writer was
    killed, or lost its disk). Exit 2 if one of them cannot be read; the others are listed.

    \b
    Example:
      phalanx journal ls journals/
    """
    failed = False
    if not as_json:
        click.echo(
            f"{'member':<16} {'group':<16} {'segment':>7} {'rows':>10}  {'numbers':<21} "
            f"{'from':<23} {'to':<23} {'state':<9} file"
        )
    for path in reader.find(paths):
        try:
            facts = _facts(reader.read(path, rows=False))
        except JournalError as error:
            failed = True
            facts = {"file": str(path), "error": str(error)}
        click.echo(json.dumps(facts) if as_json else one_line(_line(facts)))
    if failed:
        raise click.exceptions.Exit(2)


def _facts(segment: Segment) -> dict[str, Any]:
    header = segment.header
    state = "sealed" if segment.sealed else "cut short"
    if not segment.sealed and retention.is_open(segment.path):
        state = "open"
    some = segment.count > 0
    return {
        "file": str(segment.path),
        "journal": header.journal,
        "cluster": header.cluster,
        "group": header.group,
        "member": f"{header.member}.{header.incarnation}",
        "segment": header.number,
        "rows": segment.count,
        "first": segment.first if some else None,
        "last": segment.last if some else None,
        "from": wording.instant(header, segment.begin_ns) if some else None,
        "to": wording.instant(header, segment.end_ns) if some else None,
        "bytes": segment.size,
        "state": state,
        "problems": segment.problems,
    }


def _line(facts: dict[str, Any]) -> str:
    if "error" in facts:
        return f"cannot be read: {facts['error']}"
    numbers = "" if facts["first"] is None else f"{facts['first']}..{facts['last']}"
    trouble = "".join(f"  {what}!" for what in facts["problems"])
    return (
        f"{facts['member']:<16} {facts['group']:<16} {facts['segment']:>7} {facts['rows']:>10,}  "
        f"{numbers:<21} {facts['from'] or '':<23} {facts['to'] or '':<23} {facts['state']:<9} "
        f"{facts['file']}{trouble}"
    )


@journal.command("cat")
@_PATHS
@click.option("--table", type=click.Choice(list(TABLES)), help="Rows of this table only.")
@click.option("--limit", type=_LIMIT, help="Print at most this many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a row.")
def cat_command(
    paths: tuple[str, ...], table: str | None, limit: int | None, as_json: bool
) -> None:
    """Print the rows in PATHS, member by member, in the order in which they happened there.

    Each line: the row's number, the member's clock in seconds, the member, the table, its columns.
    Copies of a segment are read once.

    \b
    Examples:
      phalanx journal cat journals/ --table view_installed
      phalanx journal cat journals/ --json | jq .table
    """
    encode = msgspec.json.Encoder().encode
    left = limit
    for _, rows in reader.each(paths):
        for row in rows:
            if table is not None and row.__struct_config__.tag != table:
                continue
            if left is not None:
                if left == 0:
                    return
                left -= 1
            click.echo(encode(row) if as_json else one_line(wording.line(row)))


@journal.command("export")
@_PATHS
@click.option("--to", "folder", required=True, metavar="DIR", help="Where the files go.")
@click.option(
    "--cut-short",
    is_flag=True,
    help="Also segments that were never sealed and that no process on this machine writes.",
)
@click.option(
    "--mark",
    "reader_name",
    metavar="NAME",
    help="Mark what was exported as taken by this reader: retention waits for it from then on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export_command(
    paths: tuple[str, ...], folder: str, cut_short: bool, reader_name: str | None, as_json: bool
) -> None:
    """Write the sealed segments in PATHS as Parquet: DIR/TABLE/SEGMENT.parquet.

    What was exported before is not written again. Segments that are not sealed are left for
    later. Needs the extra: pip install 'phalanx[parquet]'.

    \b
    Example:
      phalanx journal export journals/ --to exported/
    """
    done = parquet.export(paths, Path(folder), cut_short=cut_short, marked_by=reader_name)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(done)))
        return
    click.echo(
        f"{done.segments:,} segments exported, {done.rows:,} rows in {done.files:,} files; "
        f"{done.before:,} were there before, {done.unsealed:,} are not sealed yet"
    )
