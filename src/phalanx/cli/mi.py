"""`phalanx mi`: the interface of one host to the wide-area membership service."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import click

from phalanx.cli.ms_calls import TLS_OPTIONS, tls_of
from phalanx.mserver.host_interface import HostInterface, socket_path
from phalanx.mserver.interface_process import ClientPlaces
from phalanx.mserver.service_config import ServiceConfig, read_service_config


@click.command("mi")
@click.option(
    "--config",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hierarchy of sets, in TOML.",
)
@click.option("--name", required=True, metavar="NAME", help="Which interface of the file to run.")
@click.option(
    "--state",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory for what must survive a crash.",
)
@click.option(
    "--socket",
    "unix",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Unix socket for clients; default mi-NAME.sock in --state.",
)
@click.option("--listen", default="", metavar="HOST:PORT", help="TCP socket for clients as well.")
@click.option(
    "--journal",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write down what happens in this directory, for check, audit, history and report.",
)
@click.option("--insecure", is_flag=True, help="Allow TCP without TLS beyond the loopback.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one on each line.")
def mi(
    file: Path,
    name: str,
    state: Path,
    unix: Path | None,
    listen: str,
    insecure: bool,
    journal: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Run the interface of this host: clients connect to it, and it to the mservers.

    It runs until it gets SIGTERM or SIGINT. With the same --state it comes back with the members of
    its clients, which connect again by themselves. Only what is wrong with the file, the state or
    the sockets ends it with an error, in one line and with exit code 2.

    \b
    Example:
      phalanx mi --config service.toml --name s1-1-host-1 --state /var/lib/phalanx
      phalanx ms get_view orders --interface /var/lib/phalanx/mi-s1-1-host-1.sock
    """
    place = unix if unix is not None else socket_path(state, name)
    places = ClientPlaces(place, listen, tls_of(given), insecure)
    asyncio.run(run(read_service_config(file), name, state, places, as_json, journal))


for option in reversed(TLS_OPTIONS):
    mi = option(mi)


async def run(
    config: ServiceConfig,
    name: str,
    state: Path,
    places: ClientPlaces,
    as_json: bool,
    journal: Path | None = None,
) -> None:
    """One interface until a signal."""
    host = HostInterface(config, name, state, places, journal=journal)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def announce() -> None:
        if as_json:
            fields = {"event": "started", "name": name, "socket": str(places.unix)}
            click.echo(json.dumps(fields))
        else:
            click.echo(f"{name}: clients connect to {places.unix}")

    await host.run(stop, announce)
