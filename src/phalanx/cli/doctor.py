"""`phalanx doctor`: what on this machine will hold a group back, and how to mend it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from phalanx.cli.doctor_checks import machine_findings
from phalanx.cli.options import WholeNumber
from phalanx.config import lan
from phalanx.text import one_line
from phalanx.transport.diagnostics import Diagnosis, network_findings
from phalanx.transport.settings_probe import group_settings


@click.command("doctor")
@click.option("--interface", default="", metavar="NAME", help="Name or address; as by default.")
@click.option("--port", type=WholeNumber(1, 65_535), default=7117, help="UDP port; 7117.")
@click.option("--group", metavar="NAME", help="Listen for its members, and compare settings.")
@click.option("--cluster", default="phalanx", metavar="NAME", help="Of that group; phalanx.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def doctor(interface: str, port: int, group: str | None, cluster: str, as_json: bool) -> None:
    """Check that this machine can carry a group.

    Prints a line for each check: ok, note, warning or problem, and how to mend it. Exit code 0
    without problems, 1 with one, 2 if there is no such interface. With --group it listens for two
    seconds, by multicast, and tells whether the settings of that group's members differ where they
    must agree.

    \b
    Example:
      phalanx doctor --interface eth0
      phalanx doctor --group orders
    """
    config = lan(interface=interface, port=port, cluster=cluster)
    findings = network_findings(config) + machine_findings()
    if group is not None:
        findings.append(group_settings(config, group))
    sound = all(finding.verdict != "problem" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": sound, "checks": [asdict(f) for f in findings]}))
    else:
        for finding in findings:
            click.echo(line_of(finding))
    if not sound:
        raise click.exceptions.Exit(1)


def line_of(finding: Diagnosis) -> str:
    mend = f"; {finding.remedy}" if finding.remedy else ""
    return one_line(f"{finding.verdict:<8} {finding.check:<15} {finding.told}{mend}")
