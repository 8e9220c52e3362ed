"""`phalanx node` and `phalanx chat`: a member of a group at a terminal or in a pipe."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click

from phalanx import blocking
from phalanx.api.arguments import checked_operations
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
"""How long --until-eof waits until every member has the last message."""


@click.command("node")
@click.argument("group")
@joining_options
@waiting_options
@click.option(
    "--service",
    type=click.Choice(SERVICES),
    default="agreed",
    help="The service of the messages; default agreed.",
)
@click.option(
    "--operation",
    "operations",
    metavar="NAME",
    multiple=True,
    help="An operation that this member offers: its role; may be repeated.",
)
@click.option("--until-eof", is_flag=True, help="Leave at the end of the input.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def node(
    group: str,
    service: str,
    operations: tuple[str, ...],
    until_eof: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Join GROUP, print its events, and send each line of the input as a message.

    A message holds the bytes of its line, in any encoding, without the line end. Lines from a file
    or a pipe wait until the membership has settled, about a second, so that the present members
    receive them; with --members, until the view has that many. At a terminal, lines are sent at
    once. Exit 2 if the members do not appear within --timeout seconds; then nothing was sent.

    Leaves on Ctrl-C or SIGTERM; with --until-eof at the end of the input, once every member has all
    messages.

    \b
    Examples:
      phalanx node orders --name ada
      seq 1000 | phalanx node orders --service safe --until-eof --json
      phalanx node orders --members 3 --timeout 10 --until-eof < lines.txt
      phalanx node orders --profile mesh --peer 10.0.0.1:7117 --shared-key group.key
    """

    def show(event: Event) -> None:
        click.echo(json.dumps(as_row(event)) if as_json else one_line(as_text(event)))

    _run_member(group, given, service, until_eof, show, operations)


@click.command("chat")
@click.argument("group")
@joining_options
@waiting_options
def chat(group: str, **given: Any) -> None:
    """Chat with all members of GROUP, in the same order for all. Ctrl-D or Ctrl-C ends it.

    Lines from a file or a pipe wait for other members as with `phalanx node`.

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

    _run_member(group, given, "agreed", True, show)


def _run_member(
    group: str,
    given: dict[str, Any],
    service: str,
    until_eof: bool,
    show: Callable[[Event], None],
    operations: tuple[str, ...] = (),
) -> None:
    config, role = config_of(given), checked_operations(operations)
    members, timeout = given.pop("members"), given.pop("timeout")
    with blocking.join(group, config=config, **given) as member:
        failed: list[Exception] = []

        def send() -> None:
            """Send the lines of the input, and leave at its end with `until_eof`. Any error ends
            the membership, so that the reader of events does not wait in vain."""
            try:
                if role:
                    member.set_role(role, timeout)
                _wait_for_others(member, members, timeout)
                _send_lines(member, Service[service.upper()], until_eof)
            except Exception as error:
                failed.append(error)
            if failed or until_eof:
                member.leave()

        threading.Thread(target=send, daemon=True).start()
        for event in member:
            show(event)
            if not until_eof:
                sys.stdout.flush()
        if failed:
            raise failed[0]


def _wait_for_others(member: blocking.Group, members: int | None, timeout: float) -> None:
    """Wait before the first message: a member starts alone, and messages from a program would go to
    this member only. A person at a terminal sees in the views who is present."""
    if members is not None:
        member.wait_for(members, timeout)
    elif sys.stdin is not None and not sys.stdin.isatty():
        member.settled(timeout)


def _send_lines(member: blocking.Group, service: Service, until_eof: bool) -> None:
    """Send the bytes of each line without the line end; with `until_eof`, then wait until all
    messages are stable."""
    receipt = None
    for line in _lines():
        receipt = member.send(line.removesuffix(b"\n").removesuffix(b"\r"), service)
    if until_eof and receipt is not None:
        receipt.stable(STABLE_SECONDS)


def _lines() -> Iterator[bytes]:
    if sys.stdin is None:  # it was closed when the command started
        return
    try:
        yield from sys.stdin.buffer
    except OSError as error:
        remedy = "give a file or a pipe, or /dev/null for none"
        raise FileError("standard input", None, error.strerror or str(error), remedy) from None
