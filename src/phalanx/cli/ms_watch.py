"""`phalanx ms watch`: print each new view of a group."""

from __future__ import annotations

import time
from typing import Any

import click

from phalanx.cli.ms_calls import client_of, interface_option, show
from phalanx.cli.options import WholeNumber
from phalanx.service.calls.call_errors import Unavailable

VIEWS_MAX = 1_000_000


@click.command("watch")
@click.argument("group")
@interface_option
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600.0),
    default=1.0,
    metavar="SECONDS",
    help="Time between two questions; default 1.",
)
@click.option("--count", type=WholeNumber(1, VIEWS_MAX), help="End after this number of views.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one on each line.")
def watch_group(
    group: str, interface: str, every: float, count: int | None, as_json: bool, **given: Any
) -> None:
    """Print each new view of GROUP, without being a member.

    It asks the interface repeatedly, so that views which are followed at once by others may be
    left out. A member gets all of its views; see `phalanx ms join_group`. While nobody answers,
    nothing is printed.

    \b
    Example:
      phalanx ms watch --interface mi.sock orders
    """
    last = ""
    shown = 0
    with client_of(interface, 10.0, given) as client:
        while True:
            try:
                view = client.call("get_view", {"group": group}, 10.0)
            except Unavailable:
                view = None
            if view is not None and view["vid"] != last:
                last = view["vid"]
                show(view, as_json)
                shown += 1
                if shown == count:
                    return
            time.sleep(every)
