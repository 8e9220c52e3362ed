"""`phalanx ms example`: print the configuration of a hierarchy on one machine."""

from __future__ import annotations

import click

from phalanx.cli.options import WholeNumber
from phalanx.mserver.example_config import ExampleShape, example_config


@click.command("example")
@click.option("--levels", type=WholeNumber(1, 4), default=2, help="Levels of sets; default 2.")
@click.option("--top", type=WholeNumber(1, 8), default=2, help="Mservers of the top; default 2.")
@click.option(
    "--servers",
    type=WholeNumber(1, 8),
    default=2,
    help="Mservers of each other set, beside its link; default 2.",
)
@click.option(
    "--hosts",
    type=WholeNumber(0, 16),
    default=1,
    help="Interfaces of each mserver of level 1; default 1.",
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address of all mservers.")
@click.option("--port", type=WholeNumber(1, 65_000), default=7200, help="First port; default 7200.")
def example(levels: int, top: int, servers: int, hosts: int, host: str, port: int) -> None:
    """Print the configuration of a tree of mservers, for a first try.

    \b
    Example:
      phalanx ms example --levels 2 > service.toml
    """
    shape = ExampleShape(levels, top, servers, hosts, host, port)
    click.echo(example_config(shape), nl=False)
