"""`phalanx node` and `phalanx chat`: a member of a group at a terminal or in a pipe."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import click

from phalanx import blocking
from phalanx.cli.joining import SERVICES, as_row, as_text, config_of, joining_options
from phalanx.core.effects import Service
from phalanx.engine.events import Event, Message, View
from phalanx.errors import PhalanxError
from phalanx.sim.spelling import one_line


@click.command("node")
@click.argument("group")
@joining_options
@click.option(
    "--service", type=click.Choice(SERVICES), default="agreed", help="For the lines; agreed."
)
@click.option("--until-eof", is_flag=True, help="Leave when the input has ended.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def node(group: str, service: str, until_eof: bool, as_json: bool, **given: Any) -> None:
    """Join GROUP, print what happens in it, and send each line of the input as a message.

    Leaves at Ctrl-C or SIGTERM; with --until-eof when the input ends, once all it sent is at every
    member.

    \b
    Examples:
      phalanx node orders --name ada
      seq 1000 | phalanx node orders --service safe --until-eof --json
    """

    def show(event: Event) -> None:
        click.echo(json.dumps(as_row(event)) if as_json else one_line(as_text(event)))

    _take_part(group, given, service, until_eof, show)


@click.command("chat")
@click.argument("group")
@joining_options
def chat(group: str, **given: Any) -> None:
    """Talk with everybody in GROUP, in one order for all. Ctrl-D or Ctrl-C ends it.

    \b
    Example:
      phalanx chat lunch --name ada
    """

    def show(event: Event) -> None:
        match event:
            case Message():
                text = event.body.decode("utf-8", "backslashreplace")
                click.echo(one_line(f"{event.sender.name}: {text}"))
            case View():
                here = ", ".join(member.name for member in event.members)
                click.echo(f"* here now: {here}")

    _take_part(group, given, "agreed", True, show)


def _take_part(
    group: str, given: dict[str, Any], service: str, until_eof: bool, show: Callable[[Event], None]
) -> None:
    config = config_of(given)
    with blocking.join(group, config=config, **given) as member:
        failed: list[PhalanxError] = []
        speaker = threading.Thread(
            target=_speak,
            args=(member, Service[service.upper()], until_eof, failed),
            daemon=True,
        )
        speaker.start()
        for event in member:
            show(event)
            if not until_eof:
                sys.stdout.flush()
        if failed:
            raise failed[0]


def _speak(
    member: blocking.Group, service: Service, until_eof: bool, failed: list[PhalanxError]
) -> None:
    """Send the lines of the input; leave at its end if that was asked for."""
    receipt = None
    try:
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                receipt = member.send(line.rstrip("\n").encode(), service)
        if until_eof and receipt is not None:
            receipt.stable(60)
    except PhalanxError as error:
        failed.append(error)
        until_eof = True
    if until_eof:
        member.leave()
