"""`phalanx report`: render the journals of a group as one HTML page."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from phalanx.cli.engine_options import ENGINE, GROUP, SINCE, UNTIL, each_planned, window_of
from phalanx.cli.options import check_places, own_version, write_or_explain
from phalanx.cli.spark_options import AS_JSON, AT, MASTER
from phalanx.errors import PipelineError
from phalanx.text import one_line

if TYPE_CHECKING:
    from phalanx.pipeline.engine import Engine
    from phalanx.pipeline.report.model import Page, RunModel

_GIVE = "name a run, a group and instants that are there, or leave the options out"


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--out", metavar="FILE", default="report.html", show_default=True, help="The page.")
@GROUP
@click.option("--run", metavar="NAME", help="Only this run.")
@SINCE
@UNTIL
@ENGINE
@MASTER
@AT
@AS_JSON
def report(
    paths: tuple[str, ...],
    out: str,
    group: str | None,
    run: str | None,
    since: str | None,
    until: str | None,
    engine: Engine,
    master: str | None,
    at: int | None,
    as_json: bool,
) -> None:
    """Make one HTML page of the journals in PATHS: views over time, messages, verdicts, removals.

    The page needs nothing but a browser: no network, no server, no other file. It stays small
    however large the journals are; where it shows a sample it says so. Exit 1 if the journals
    violate a guarantee; the page is written all the same. --since and --until cut what is drawn;
    the verdicts are on all rows.

    \b
    Examples:
      phalanx report journals/ --out report.html
      phalanx report lake/ --group demo --master spark://host:7077
    """
    check_places(out)
    from phalanx.pipeline.group_plan import by_group, plan_groups
    from phalanx.pipeline.report.collect import largest, page_of, report_group
    from phalanx.pipeline.report.html import assemble
    from phalanx.pipeline.report.model import Caps
    from phalanx.pipeline.report.verdicts import judge_group

    caps, window = Caps(), window_of(since, until)
    plan = plan_groups(paths, at=at, group=group)
    sizes = [(key, task.bytes) for key, task in by_group(plan).items() if run in (None, key.run)]
    shown = largest(sizes, caps.runs)
    kernel = partial(report_group, shown, run, caps.of_one(len(shown)), window, judge_group)
    reports = list(each_planned(plan, kernel, engine, master))
    runs = [one.model for one in reports if one.model is not None]
    if not runs:
        given = {"group": group, "run": run, "since": since, "until": until}
        what = " ".join(f"{name} {value!r}" for name, value in given.items() if value)
        raise PipelineError(what or "the journals", "there is nothing to show", _GIVE)
    page = page_of(runs, own_version(), len(sizes) - len(runs))
    hidden = sum(one.violated for one in reports if one.model is None)
    text = assemble(page)
    write_or_explain(out, lambda: write_page(Path(out), text))
    if as_json:
        click.echo(json.dumps(_facts(page, out, text) | {"violated_left_out": hidden}))
    else:
        for line in _lines(page, out, text):
            click.echo(one_line(line))
        if hidden:
            click.echo(f"  {hidden:,} of those not shown violate a guarantee: phalanx audit")
    if any(one.violated for one in reports):
        raise click.exceptions.Exit(1)


def write_page(path: Path, text: str) -> None:
    """Whole or not at all; links are followed, and what is no file, as a pipe, is written to."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    fresh = path.with_name(f".{path.name}.tmp")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _tally(run: RunModel) -> dict[str, int]:
    kinds = ("holds", "violated", "unverifiable")
    return {kind: sum(f.verdict == kind for f in run.findings) for kind in kinds}


def _facts(page: Page, out: str, text: str) -> dict[str, Any]:
    return {
        "file": out,
        "bytes": len(text.encode()),
        "runs_left_out": page.runs_left_out,
        "runs": [
            {
                "cluster": run.cluster,
                "run": run.run,
                "group": run.group,
                "members": run.lanes,
                "span_us": run.span,
                "clock": run.clock,
                "views": len(run.views),
                "sent": run.sent,
                "delivered": run.delivered,
                "removals": run.removals_total,
                "verdicts": _tally(run),
                "violated": [f.name for f in run.findings if f.verdict == "violated"],
            }
            for run in page.runs
        ],
    }


def _lines(page: Page, out: str, text: str) -> list[str]:
    lines = [f"{out}: {len(text.encode()) / 1024:,.0f} kB; open it in a browser"]
    for run in page.runs:
        tally = _tally(run)
        members = f"{len(run.lanes)} member{'' if len(run.lanes) == 1 else 's'}"
        lines.append(
            f"  group {run.group} of {run.cluster}, run {run.run}: {members}, "
            f"{run.span / 1e6:,.2f} s, {run.delivered:,} deliveries; "
            f"{tally['holds']} hold, {tally['violated']} violated, "
            f"{tally['unverifiable']} not verified"
        )
    if page.runs_left_out:
        lines.append(f"  {page.runs_left_out:,} smaller runs are not shown; choose with --run")
    return lines
