"""`phalanx demo`: five real members, a crash, a partition, a merge; what their journals prove."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from phalanx.demo.play import NAMES, perform
from phalanx.journal import reader
from phalanx.journal.events import Event, Life
from phalanx.sim.evidence import judge
from phalanx.sim.show import bands, verdicts


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Keep the journals there.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
def demo(keep: str | None, as_json: bool) -> None:
    """Five real processes on this machine: traffic, kill -9, a partition, a merge, a restart.

    They use multicast on the loopback interface and need no rights. Afterwards the checkers read
    the journals and give each guarantee its verdict. Exit 1 if one is violated.

    \b
    Examples:
      phalanx demo
      phalanx demo --keep journals && phalanx check journals
    """
    folder = Path(keep) if keep else Path(tempfile.mkdtemp(prefix="phalanx-demo-"))
    try:
        play = perform(folder, f"demo-{os.getpid()}", lambda line: _say(line, as_json))
        (evidence,) = judge(reader.read_all([folder / "journals"]))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    rows, report = evidence.rows, evidence.report
    if as_json:
        facts = {
            "members": list(NAMES),
            "rows": len(rows),
            "seconds": play.timings,
            "properties": {
                name: {"verdict": found.verdict, "evaluated": found.evaluated}
                for name, found in report.properties.items()
            },
            "violations": len(report.violations),
        }
        click.echo(json.dumps(facts))
    else:
        click.echo("\nViews over time (not to scale):\n")
        click.echo("\n".join(bands(_side_by_side(rows, play.killed_ns))))
        click.echo(f"\nWhat {len(rows):,} rows of the journals prove:\n")
        click.echo("\n".join(verdicts(report)))
        for violation in report.violations:
            click.echo(f"violated: {violation}")
    sys.exit(1 if report.violations else 0)


def _side_by_side(rows: list[Event], killed_ns: int) -> list[Event]:
    """The rows on one clock: one machine has one that only grows. The killed one wrote no last row,
    and lost those of its last tenth of a second; we know when it was."""
    ends = {(row.node, row.inc) for row in rows if isinstance(row, Life) and row.op == "STOP"}
    last = {(row.node, row.inc): row for row in sorted(rows, key=lambda row: row.lseq)}
    killed: list[Event] = [
        Life(
            run=row.run,
            profile=row.profile,
            group=row.group,
            node=row.node,
            inc=row.inc,
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


def _say(line: str, quietly: bool) -> None:
    click.echo(line, err=quietly)
