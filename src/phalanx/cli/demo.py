"""`phalanx demo`: run five real members through a crash, a partition and a merge; check them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from phalanx.cli.audit import lines
from phalanx.cli.options import check_places, own_version, write_or_explain
from phalanx.cli.report import write_page
from phalanx.harness.demo_script import NAMES, DemoScript, perform
from phalanx.journal import reader
from phalanx.journal.schema import Event, Life
from phalanx.verify.evidence import JournalEvidence, judge
from phalanx.verify.render.timeline import bands
from phalanx.verify.render.verdict_table import verdicts


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Keep the journals in this directory.")
@click.option("--report", metavar="FILE", help="Audit them too; write this page.")
@click.option("--spark", is_flag=True, help="With --report: repeat the audit on Spark.")
@click.option(
    "--profile",
    type=click.Choice(["local", "mesh"]),
    default="local",
    help="Multicast, or TCP channels with TLS; default local.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def demo(keep: str | None, report: str | None, spark: bool, profile: str, as_json: bool) -> None:
    """Run five real members through a kill -9, a partition, a merge and a restart.

    They use multicast on the loopback interface, or with --profile mesh TCP channels and a shared
    key made for the run, and need no privileges. Afterwards the checkers read the journals and
    print a verdict for each guarantee; with --report the audit does so too, and a page about the
    run is written. Exit 1 if a guarantee is violated.

    \b
    Examples:
      phalanx demo
      phalanx demo --keep journals && phalanx check journals
      phalanx demo --report demo.html --spark
      phalanx demo --profile mesh
    """
    if spark and report is None:
        raise click.UsageError("--spark needs --report")
    if report is not None:
        check_places(report)
    folder = Path(keep) if keep else Path(tempfile.mkdtemp(prefix="phalanx-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        script = perform(folder, f"demo-{os.getpid()}", lambda line: _print(line, as_json), profile)
        (evidence,) = judge(reader.read_all([script.journals]))
        facts = _results(evidence, script, as_json)
        violated = len(evidence.report.violations)
        if report is not None:
            audited = _audit(str(script.journals), report, spark, as_json)
            facts["audit"] = audited
            violated += len(audited["violated"])
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        click.echo(json.dumps(facts))
    sys.exit(1 if violated else 0)


def _results(evidence: JournalEvidence, script: DemoScript, as_json: bool) -> dict[str, Any]:
    """The verdicts of the checkers as a dictionary; prints them unless `as_json`."""
    rows, found = evidence.rows, evidence.report
    if not as_json:
        click.echo("\nViews over time (not to scale):\n")
        click.echo("\n".join(bands(_side_by_side(rows, script.killed_ns))))
        click.echo(f"\nWhat {len(rows):,} rows of the journals prove:\n")
        click.echo("\n".join(verdicts(found)))
        for violation in found.violations:
            click.echo(f"violated: {violation}")
    return {
        "members": list(NAMES),
        "rows": len(rows),
        "seconds": script.timings,
        "properties": {
            name: {
                "verdict": result.verdict,
                "violations": result.found,
                "checked": result.evaluated,
            }
            for name, result in found.properties.items()
        },
        "violations": len(found.violations),
    }


def _audit(journals: str, out: str, spark: bool, as_json: bool) -> dict[str, Any]:
    """Audit the journals in this process, write the page, and audit them again on Spark."""
    from phalanx.pipeline.audit import Audit, audit_groups, audit_plan, wanted
    from phalanx.pipeline.group_plan import plan_groups
    from phalanx.pipeline.group_tables import read_groups
    from phalanx.pipeline.report.collect import collect
    from phalanx.pipeline.report.html import assemble
    from phalanx.pipeline.report.verdicts import findings_of

    def show(found: Audit, where: str, seconds: float) -> None:
        tally = Counter(result.verdict for result in found.properties.values())
        _print(
            f"  audit {where}: {tally['holds']} guarantees hold, {tally['violated']} violated, "
            f"{tally['unverifiable']} not verified ({seconds:.1f} s)",
            as_json,
        )
        for line in lines(found) if found.violated else ():
            _print(line, as_json)

    _print("\nThe same journals, judged by the audit:\n", as_json)
    began = time.monotonic()
    groups = read_groups([journals])
    found = audit_groups(groups)
    show(found, "in this process", time.monotonic() - began)
    text = assemble(collect(groups, findings_of(found), version=own_version()))
    write_or_explain(out, lambda: write_page(Path(out), text))
    _print(f"  report: {out}, {len(text.encode()) // 1024} kB; open it in a browser", as_json)
    violated = {*found.violated}
    if spark:
        began = time.monotonic()
        again = audit_plan(plan_groups([journals]), wanted(None), engine="spark")
        show(again, "on Spark", time.monotonic() - began)
        violated |= {*again.violated}
    verdicts = Counter(result.verdict for result in found.properties.values())
    return {"verdicts": dict(verdicts), "violated": sorted(violated), "report": out}


def _side_by_side(rows: list[Event], killed_ns: int) -> list[Event]:
    """The rows with times since the first: the members share the clock of one machine. The killed
    member wrote no last row and lost those of its last tenth of a second; a row is added for it."""
    ends = {
        (row.member, row.incarnation) for row in rows if isinstance(row, Life) and row.op == "STOP"
    }
    last = {(row.member, row.incarnation): row for row in sorted(rows, key=lambda row: row.lseq)}
    killed: list[Event] = [
        Life(
            run=row.run,
            profile=row.profile,
            group=row.group,
            member=row.member,
            incarnation=row.incarnation,
            lseq=row.lseq + 1,
            step=row.step + 1,
            t_ns=killed_ns,
            op="CRASH",
        )
        for life, row in last.items()
        if life not in ends
    ]
    first = min(row.t_ns for row in rows)
    return [msgspec.structs.replace(row, sim_ns=row.t_ns - first) for row in [*rows, *killed]]


def _print(line: str, as_json: bool) -> None:
    click.echo(line, err=as_json)
