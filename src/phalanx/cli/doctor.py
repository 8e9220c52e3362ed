"""`phalanx doctor`: diagnose this machine's network and suggest fixes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from phalanx.cli.doctor_checks import machine_findings
from phalanx.cli.member_options import tls_options, tls_settings
from phalanx.cli.options import WholeNumber
from phalanx.config import lan, mesh
from phalanx.text import one_line
from phalanx.transport.diagnostics import Diagnosis, network_findings
from phalanx.transport.mesh_diagnostics import mesh_findings
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
@click.option(
    "--profile",
    type=click.Choice(["lan", "mesh"]),
    default="lan",
    help="The network to check; default lan.",
)
@click.option("--address", default="", metavar="ADDRESS", help="With mesh, the address to bind.")
@click.option(
    "--peer", "peers", metavar="HOST:PORT", multiple=True, help="With mesh, a member; repeatable."
)
@click.option("--name", metavar="NAME", help="With mesh, the name of the member to be.")
@tls_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def doctor(
    interface: str,
    port: int,
    group: str | None,
    cluster: str,
    profile: str,
    address: str,
    peers: tuple[str, ...],
    name: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Diagnose this machine's network and suggest fixes.

    Prints one line for each check: ok, note, warning or problem, and how to fix it. Exit code 0
    without problems, 1 with a problem, 2 if the interface does not exist. With --group it listens
    for two seconds, by multicast, and reports whether the members of that group differ in settings
    that must agree.

    With --profile mesh it checks the certificate or key and how long it is valid, whether the port
    can be used, what the names of the peers resolve to, and whether each peer answers.

    \b
    Example:
      phalanx doctor --interface eth0
      phalanx doctor --group orders
      phalanx doctor --profile mesh --peer members.example:7117 --shared-key group.key
    """
    if profile == "mesh":
        if group is not None:
            raise click.UsageError("--group listens by multicast; leave it out with mesh")
        config = mesh(
            *peers,
            address=address,
            interface=interface,
            port=port,
            cluster=cluster,
            **tls_settings(given),
        )
        findings = mesh_findings(config, name) + machine_findings()
    else:
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
