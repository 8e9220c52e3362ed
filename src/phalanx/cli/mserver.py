"""`phalanx mserver`: one server of the wide-area membership service."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import asdict
from pathlib import Path

import click

from phalanx.mserver.mserver_process import MserverProcess
from phalanx.mserver.service_config import (
    ServiceConfig,
    ServiceConfigError,
    read_service_config,
)


@click.command("mserver")
@click.option(
    "--config",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hierarchy of sets, in TOML.",
)
@click.option("--name", metavar="NAME", help="Which mserver of the file to run.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory for what must survive a crash.",
)
@click.option(
    "--journal",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write down what happens in this directory, for check, audit, history and report.",
)
@click.option("--check", is_flag=True, help="Only check the file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one on each line.")
def mserver(
    file: Path,
    name: str | None,
    state: Path | None,
    journal: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Run one mserver of a hierarchy, or check the configuration with --check.

    The mserver runs until it gets SIGTERM or SIGINT. With the same --state it comes back as itself;
    without what was there it is a new incarnation and joins its sets. Only what is wrong with the
    file, the state or the sockets ends it with an error, in one line and with exit code 2.

    --check prints every problem of the file with its key and the remedy. Exit code 0 without
    problems, 1 with problems, 2 if the file cannot be read.

    \b
    Example:
      phalanx ms example --levels 2 > service.toml
      phalanx mserver --config service.toml --check
      phalanx mserver --config service.toml --name top-1 --state /var/lib/phalanx
    """
    if check:
        check_config(file, as_json)
        return
    if name is None or state is None:
        raise click.UsageError("give --name and --state, or --check")
    asyncio.run(run(read_service_config(file), name, state, as_json, journal))


async def run(
    config: ServiceConfig, name: str, state: Path, as_json: bool, journal: Path | None = None
) -> None:
    """One mserver until a signal."""
    process = MserverProcess(config, name, state, journal=journal)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def announce() -> None:
        status = process.status()
        if as_json:
            fields = {
                "event": "started",
                **{k: status[k] for k in ("name", "incarnation", "address")},
            }
            click.echo(json.dumps(fields))
        else:
            sets = ", ".join(each.name for each in config.sets_of(name))
            click.echo(f"{process.me} at {status['address']}, configured for {sets}")

    await process.run(stop, announce)


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
