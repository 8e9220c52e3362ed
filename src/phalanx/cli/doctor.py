"""`phalanx doctor`: diagnose this machine's network and suggest fixes."""

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
@click.option(
    "--interface",
    default="",
    metavar="NAME",
    help="Name or address of the interface; default: the route's.",
)
@click.option("--port", type=WholeNumber(1, 65_535), default=7117, help="UDP port; default 7117.")
@click.option(
    "--group", metavar="NAME", help="Listen for members of this group and compare their settings."
)
@click.option(
    "--cluster",
    default="phalanx",
    metavar="NAME",
    help="The cluster of that group; default phalanx.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def doctor(interface: str, port: int, group: str | None, cluster: str, as_json: bool) -> None:
    """Diagnose this machine's network and suggest fixes.

    Prints one line for each check: ok, note, warning or problem, and how to fix it. Exit code 0
    without problems, 1 with a problem, 2 if the interface does not exist. With --group it listens
    for two seconds, by multicast, and reports whether the members of that group differ in settings
    that must agree.

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
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return one_line(f"{finding.verdict:<8} {finding.check:<15} {finding.text}{remedy}")
