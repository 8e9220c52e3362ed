"""Options shared by the commands that query journals."""

from __future__ import annotations

import click

from phalanx.cli.options import WholeNumber

VERSION_MAX = 99_999_999
MASTER = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: spark://HOST:PORT, or sc://HOST:PORT for Spark Connect. Here if not "
    "given.",
)
AT = click.option(
    "--at",
    type=WholeNumber(0, VERSION_MAX),
    metavar="VERSION",
    help="Read this version of a lake; default: the newest.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
