"""`phalanx mserver`: one server of the wide-area membership service."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from phalanx.mserver.service_config import ServiceConfigError, read_service_config


@click.command("mserver")
@click.option(
    "--config",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hierarchy of sets, in TOML.",
)
@click.option("--check", required=True, is_flag=True, help="Only check the file.")
@click.option("--json", "as_json", is_flag=True, help="With --check, print one JSON object.")
def mserver(file: Path, check: bool, as_json: bool) -> None:
    """Check the configuration of a hierarchy of mservers.

    Prints every problem of the file with its key and the remedy. Exit code 0 without problems, 1
    with problems, 2 if the file cannot be read.

    \b
    Example:
      phalanx ms example --levels 2 > service.toml
      phalanx mserver --config service.toml --check
    """
    check_config(file, as_json)


def check_config(file: Path, as_json: bool) -> None:
    """Print the problems of a file, or what it holds."""
    try:
        config = read_service_config(file)
    except ServiceConfigError as error:
        if as_json:
            rows = [asdict(problem) for problem in error.problems]
            click.echo(json.dumps({"ok": False, "problems": rows}))
        else:
            for problem in error.problems:
                click.echo(f"{file}: {problem}")
        raise click.exceptions.Exit(1) from None
    counts = {
        "sets": len(config.sets),
        "mservers": len(config.servers),
        "interfaces": len(config.interfaces),
    }
    if as_json:
        click.echo(json.dumps({"ok": True, "cluster": config.cluster, **counts}))
    else:
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
        click.echo(f"{file}: ok; cluster {config.cluster}, {numbers}, top {config.top.name}")
