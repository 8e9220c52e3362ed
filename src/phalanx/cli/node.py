"""`phalanx node` and `phalanx chat`: a member of a group at a terminal or in a pipe."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click

from phalanx import blocking
from phalanx.cli.member_options import (
    SERVICES,
    as_row,
    as_text,
    config_of,
    joining_options,
    waiting_options,
)
from phalanx.core.effects import Service
from phalanx.errors import FileError
from phalanx.runtime.events import Event, Message, View
from phalanx.text import one_line

STABLE_SECONDS = 60.0
"""How long --until-eof waits for the last message to be at every member."""


@click.command("node")
@click.argument("group")
@joining_options
@waiting_options
@click.option(
    "--service", type=click.Choice(SERVICES), default="agreed", help="For the lines; agreed."
)
@click.option("--until-eof", is_flag=True, help="Leave when the input has ended.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def node(group: str, service: str, until_eof: bool, as_json: bool, **given: Any) -> None:
    """Join GROUP, print what happens in it, and send each line of the input as a message.

    A message holds the bytes of its line, of any encoding, without the end of the line. Lines from
    a file or a pipe wait until the membership has settled, about a second, so that the members that
    are there get them; with --members, until so many are in the view. At a terminal lines are sent
    at once. Exit 2 if the members do not come in --timeout seconds; then nothing was sent.

    Leaves at Ctrl-C or SIGTERM; with --until-eof when the input ends, once all it sent is at every
    member.

    \b
    Examples:
      phalanx node orders --name ada
      seq 1000 | phalanx node orders --service safe --until-eof --json
      phalanx node orders --members 3 --timeout 10 --until-eof < lines.txt
    """

    def show(event: Event) -> None:
        click.echo(json.dumps(as_row(event)) if as_json else one_line(as_text(event)))

    _take_part(group, given, service, until_eof, show)


@click.command("chat")
@click.argument("group")
@joining_options
@waiting_options
def chat(group: str, **given: Any) -> None:
    """Talk with everybody in GROUP, in one order for all. Ctrl-D or Ctrl-C ends it.

    Lines from a file or a pipe wait for the others as with `phalanx node`.

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
    members, timeout = given.pop("members"), given.pop("timeout")
    with blocking.join(group, config=config, **given) as member:
        failed: list[Exception] = []

        def speak() -> None:
            """Send the lines of the input; leave at its end if that was asked for. Whatever goes
            wrong ends the membership, so that the reader of events does not wait in vain."""
            try:
                _wait_for_others(member, members, timeout)
                _send_lines(member, Service[service.upper()], until_eof)
            except Exception as error:
                failed.append(error)
            if failed or until_eof:
                member.leave()

        threading.Thread(target=speak, daemon=True).start()
        for event in member:
            show(event)
            if not until_eof:
                sys.stdout.flush()
        if failed:
            raise failed[0]


def _wait_for_others(member: blocking.Group, members: int | None, timeout: float) -> None:
    """A member starts alone. What a program sends at once must not go to this member only; a person
    sees in the views who is there."""
    if members is not None:
        member.wait_for(members, timeout)
    elif sys.stdin is not None and not sys.stdin.isatty():
        member.settled(timeout)


def _send_lines(member: blocking.Group, service: Service, until_eof: bool) -> None:
    """Each line as a message, in its bytes without the end of the line; then, if asked for, wait
    until all are stable."""
    receipt = None
    for line in _lines():
        receipt = member.send(line.removesuffix(b"\n").removesuffix(b"\r"), service)
    if until_eof and receipt is not None:
        receipt.stable(STABLE_SECONDS)


def _lines() -> Iterator[bytes]:
    if sys.stdin is None:  # it was closed when the command began
        return
    try:
        yield from sys.stdin.buffer
    except OSError as error:
        remedy = "give a file or a pipe, or /dev/null for none"
        raise FileError("standard input", None, error.strerror or str(error), remedy) from None
