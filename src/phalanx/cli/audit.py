"""`phalanx audit`: judge every guarantee on the journals of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from phalanx.cli.engine_options import ENGINE, GROUP, SINCE, UNTIL, tell_engine, window_of
from phalanx.cli.ingest import progress
from phalanx.cli.settings_lines import settings_lines
from phalanx.cli.spark_options import AS_JSON, AT, MASTER
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.runtime.short_names import ShortNames, of_labels
from phalanx.text import one_line
from phalanx.verify.render.verdict_table import VERDICTS_HEAD, verdict_line
from phalanx.verify.service.service_properties import SERVICE_BY_NAME

if TYPE_CHECKING:
    from phalanx.pipeline.audit import Audit, Result, RunVerdicts
    from phalanx.pipeline.engine import Engine

RUNS_SHOWN = 20


@click.command("audit")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@ENGINE
@MASTER
@AT
@GROUP
@SINCE
@UNTIL
@click.option(
    "--property", "properties", multiple=True, metavar="NAME", help="Judge only this; repeatable."
)
@AS_JSON
def audit(
    paths: tuple[str, ...],
    engine: Engine,
    master: str | None,
    at: int | None,
    group: str | None,
    since: str | None,
    until: str | None,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Judge the guarantees of groups on the journals in PATHS, of any number of runs.

    PATHS are files and folders of journals (*.phj), folders that `phalanx journal export` wrote,
    or a lake. Each group of each run is judged by itself, with the verdicts of `phalanx check`.
    Settings that must agree and differ are printed first. A property that needs a missing journal
    is unverifiable, which is not the same as violated.

    With --since and --until the views are judged that some member was in during that time, by its
    own wall clock; liveness is not. Exit 0 if nothing is violated, 1 if
    something is, 2 if the journals cannot be read, 3 if the audit itself failed.

    \b
    Example:
      phalanx audit journals/
      phalanx audit lake/ --property virtual-synchrony --property causal --json
      phalanx audit lake/ --group demo --since 2026-11-15T12:00:00Z
    """
    from phalanx.pipeline.audit import audit_plan, wanted
    from phalanx.pipeline.group_plan import plan_groups

    names, window = wanted(properties or None), window_of(since, until)
    plan = plan_groups(paths, at=at, group=group)
    with progress("read") as read:
        found = audit_plan(
            plan,
            names,
            engine=engine,
            master=master,
            progress=read,
            tell=tell_engine,
            window=window,
        )
    if as_json:
        click.echo(found.to_json())
    else:
        for line in lines(found, bool(window)):
            click.echo(one_line(line))
    if found.violated:
        raise click.exceptions.Exit(1)


# ---------------------------------------------------------------------------- for people


def lines(found: Audit, window: bool = False) -> Iterator[str]:
    """The result of an audit as lines for people."""
    if not found.runs:
        why = "nobody was in a view in this time" if window else "the journals are empty"
        yield f"{why}: nothing to audit"
        return
    differing = [run for run in found.runs if run.settings]
    for run in differing[:RUNS_SHOWN]:
        where = f"group {run.group} of {run.cluster}, run {run.run}"
        yield from settings_lines(where, run.settings, run.mixed)
    if len(differing) > RUNS_SHOWN:
        yield f"settings differ in {len(differing) - RUNS_SHOWN:,} more runs"
    jumps = [jump for run in found.runs for jump in run.clocks]
    yield from jumps[:RUNS_SHOWN]
    names = {(run.cluster, run.run, run.group): _names(run) for run in found.runs}
    for run in found.runs if len(found.runs) <= RUNS_SHOWN else ():
        yield from map(_names(run).in_text, _run(run))
    if len(found.runs) > RUNS_SHOWN:
        broken = [run for run in found.runs if run.violated]
        yield f"{len(found.runs):,} runs, of which {len(broken):,} violate something"
        for run in broken[:RUNS_SHOWN]:
            yield f"  {run.run} ({run.group} of {run.cluster}): {', '.join(run.violated)}"
    yield VERDICTS_HEAD
    for name, result in found.properties.items():
        yield _line(name, result)
    for result in found.properties.values():
        for violation in result.counterexamples:
            short = names[violation.cluster, violation.run, violation.group].in_text
            yield ""
            yield short(f"{violation.property}: {violation.text}")
            yield f"  in group {violation.group} of {violation.cluster}, run {violation.run}"
            for row in violation.rows:
                yield short(f"  row {row.lseq} of {row.member}.{row.incarnation}")


def _names(run: RunVerdicts) -> ShortNames:
    return of_labels([*run.members, *run.absent])


def _run(run: RunVerdicts) -> Iterator[str]:
    what = "service" if run.group == SERVICE_GROUP else f"group {run.group}"
    yield f"{what} of {run.cluster}, run {run.run}: {', '.join(run.members)}"
    if run.absent:
        yield f"  no journal of {', '.join(run.absent)}"
    if run.torn:
        yield f"  rows missing of {', '.join(run.torn)}"
    if run.unended and not run.settled:
        who = ", ".join(run.unended)
        yield f"  ended without a stop, the last rows may be missing: {who}"


def _line(name: str, result: Result) -> str:
    about = SERVICE_BY_NAME.get(name)
    shown = result.why or (about.meaning if about is not None else "")
    return verdict_line(result.verdict, result.violations, result.checked, name, shown)
