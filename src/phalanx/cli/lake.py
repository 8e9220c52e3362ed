"""`phalanx lake`: describe a lake, derive tables, compact files, remove old versions and rows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from phalanx.cli.engine_options import ENGINE, GROUP, SINCE, UNTIL, tell_engine, window_of
from phalanx.cli.ingest import progress
from phalanx.cli.options import WholeNumber
from phalanx.cli.spark_options import AS_JSON, MASTER, VERSION_MAX
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine

DERIVED_NAMES = (
    *("view_intervals", "memberships", "changes", "removals", "removal_evidence"),
    *("suspicions", "detector", "latency", "throughput", "links", "verdicts", "findings"),
)
_LAKE = click.argument("lake", type=click.Path())
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_COUNT_MAX = 99_999
_BUCKET_MAX = 86_400


class Age(click.ParamType[timedelta]):
    """A number of hours, days or weeks."""

    name = "AGE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch("([0-9]{1,5})([hdw])", str(value))
        if found is None:
            wanted = f"a number up to {_COUNT_MAX} and h, d or w, for example 30d"
            self.fail(f"{value!r} is not {wanted}", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


@click.group("lake", invoke_without_command=True)
@click.pass_context
def lake_group(ctx: click.Context) -> None:
    """Maintain a lake that `phalanx ingest` wrote: Delta tables with one version number.

    \b
    Example:
      phalanx lake info lake/
      phalanx lake derive lake/
      phalanx lake compact lake/
      phalanx lake vacuum lake/ --keep 7d
      phalanx lake retain 30d lake/
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@lake_group.command("info")
@_LAKE
@click.option(
    "--at",
    type=WholeNumber(0, VERSION_MAX),
    metavar="VERSION",
    help="Describe this version; default: the newest.",
)
@AS_JSON
def info_command(lake: str, at: int | None, as_json: bool) -> None:
    """Print the tables of LAKE with rows, files and bytes, and which versions can be read.

    \b
    Example:
      phalanx lake info lake/
    """
    from phalanx.pipeline.lake.lake import Lake
    from phalanx.pipeline.lake.lake_maintenance import info

    found = info(Lake(lake), at)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found)))
        return
    known = f"{found.versions[0]} to {found.versions[-1]}" if found.versions else "none"
    when = f", {found.what} at {found.committed:%Y-%m-%d %H:%M:%S}" if found.committed else ""
    click.echo(f"version {found.version}{when}; versions that can be read: {known}")
    days = f", days {found.days[0]} to {found.days[1]}" if found.days else ""
    counts = f"{found.journals:,} journals in {found.segments:,} segments"
    click.echo(f"{counts}, {len(found.groups):,} groups, {len(found.clusters):,} clusters{days}")
    click.echo(f"{found.bytes / 1e6:,.1f} MB with logs and old versions")
    journalled = [name for name in found.tables if name not in found.derived]
    for title, names in (("table", journalled), ("derived table", found.derived)):
        if names:
            click.echo(f"{title:<24} {'rows':>14} {'files':>8} {'bytes':>14}")
        for name in names:
            table = found.tables[name]
            line = f"{name:<24} {table.rows:>14,} {table.files:>8,} {table.bytes:>14,}"
            click.echo(one_line(line))


@lake_group.command("derive")
@_LAKE
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice(DERIVED_NAMES),
    help="Only this table; may be repeated. Default: all.",
)
@GROUP
@SINCE
@UNTIL
@click.option(
    "--bucket",
    type=WholeNumber(1, _BUCKET_MAX),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Length of the buckets of time of latency and throughput.",
)
@ENGINE
@MASTER
@AS_JSON
def derive_command(
    lake: str,
    names: tuple[str, ...],
    group: str | None,
    since: str | None,
    until: str | None,
    bucket: int,
    engine: Engine,
    master: str | None,
    as_json: bool,
) -> None:
    """Fill the derived tables of LAKE: intervals, changes, removals, measures, verdicts.

    The rows are computed from the newest version and replace those of the same groups; of a table
    that is right already nothing is written. All tables are published in one version. Queries for
    them are in docs/queries.md.

    With --since and --until only rows are replaced whose time overlaps with that between these
    instants, or lies in it. They are computed from all journals in the lake all the same, so that
    intervals have their true beginnings and ends. The table detector, whose rows have no time, is
    always replaced. verdicts and findings are filled together. Exit 0 whatever the verdicts are:
    `phalanx audit` and `phalanx watch` exit with 1.

    \b
    Example:
      phalanx lake derive lake/
      phalanx lake derive lake/ --group demo --since 2026-11-15T00:00:00Z
      phalanx lake derive lake/ --only latency --only links --bucket 10
    """
    from phalanx.pipeline.derived.derive import derive
    from phalanx.pipeline.lake.lake import Lake

    window = window_of(since, until)
    with progress("read") as read:
        done = derive(
            Lake(lake),
            names=names or DERIVED_NAMES,
            group=group,
            window=window,
            bucket_ns=bucket * 1_000_000_000,
            engine=engine,
            master=master,
            progress=read,
            tell=tell_engine,
        )
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(done)))
        return
    click.echo(f"{'derived table':<24} {'rows':>14} {'replaced':>10}")
    for name, table in done.tables.items():
        click.echo(f"{name:<24} {table.rows:>14,} {table.replaced:>10,}")
    found = f", {done.violated:,} views violate something" if done.violated else ""
    click.echo(one_line(f"{done.groups:,} groups{found}; {lake} is at version {done.version}"))


@lake_group.command("compact")
@_LAKE
@AS_JSON
def compact_command(lake: str, as_json: bool) -> None:
    """Join the small files of LAKE: one or a few for each table, group and day.

    The rows stay the same. The former files belong to earlier versions until `phalanx lake vacuum`
    removes them.

    \b
    Example:
      phalanx lake compact lake/
    """
    from phalanx.pipeline.lake.lake import Lake
    from phalanx.pipeline.lake.lake_maintenance import compact

    done = compact(Lake(lake))
    news = f"{done.files_before:,} files became {done.files:,}"
    _print(done, f"{news}; {lake} is at version {done.version}", as_json)


@lake_group.command("vacuum")
@_LAKE
@click.option(
    "--keep",
    type=Age(),
    default="7d",
    show_default=True,
    help="Keep versions that were the newest within this time: hours (h), days (d) or weeks (w).",
)
@AS_JSON
def vacuum_command(lake: str, keep: timedelta, as_json: bool) -> None:
    """Remove old versions of LAKE, and all files and log entries that no other version needs.

    The newest version always stays. Whoever still reads a removed version fails.

    \b
    Example:
      phalanx lake vacuum lake/ --keep 24h
    """
    from phalanx.pipeline.lake.lake import Lake
    from phalanx.pipeline.lake.lake_maintenance import vacuum

    done = vacuum(Lake(lake), keep)
    news = f"{done.versions:,} versions and {done.files:,} files removed"
    news += f", {done.bytes / 1e6:,.1f} MB"
    _print(done, f"{news}; {lake} is at version {done.version}", as_json)


@lake_group.command("retain")
@click.argument("age", type=Age())
@_LAKE
@AS_JSON
def retain_command(age: timedelta, lake: str, as_json: bool) -> None:
    """Delete the rows of LAKE that are older than AGE: hours (h), days (d) or weeks (w).

    Segments are deleted whole, by group and by the day they began at, once the last row of all of
    them is older, by the wall clock of the machine that wrote it. Rows that were deleted are
    missing evidence for an audit, never a violation. An ingest does not take them again. Their
    files stay with earlier versions until `phalanx lake vacuum` removes them.

    \b
    Example:
      phalanx lake retain 30d lake/
    """
    from phalanx.pipeline.lake.lake import Lake
    from phalanx.pipeline.lake.lake_maintenance import retain

    done = retain(Lake(lake), datetime.now(UTC) - age)
    news = (
        f"{done.segments:,} segments deleted, {done.rows:,} rows; {done.journals:,} journals left"
    )
    _print(done, f"{news}; {lake} is at version {done.version}", as_json)


def _print(done: msgspec.Struct, line: str, as_json: bool) -> None:
    click.echo(json.dumps(msgspec.to_builtins(done)) if as_json else one_line(line))
