"""`phalanx ms CALL`: the calls of the membership service, made from their table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
import msgspec

from phalanx.config import Certificates, SharedKey, Tls
from phalanx.mserver.blocking_client import BlockingServiceClient, connect_blocking
from phalanx.service.calls.call_errors import ServiceError
from phalanx.service.calls.call_table import CALLS, CallArgument, CallSpec
from phalanx.text import one_line

TLS_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option("--certificate", metavar="FILE", help="TLS over TCP: own certificate, PEM."),
    click.option("--private-key", metavar="FILE", help="TLS: the private key, PEM."),
    click.option("--authority", metavar="FILE", help="TLS: the certificate of the authority."),
    click.option("--shared-key", metavar="FILE", help="TLS over TCP: a key that all have."),
)
INTERFACE = "PHALANX_INTERFACE"
Command = TypeVar("Command", bound=Callable[..., Any])


def interface_option(command: Command) -> Command:
    """The options that name the interface, and how to encrypt the way to it."""
    for option in reversed(TLS_OPTIONS):
        command = option(command)
    return click.option(
        "--interface",
        metavar="PLACE",
        envvar=INTERFACE,
        required=True,
        help=f"Unix socket of the interface, or host:port; default ${INTERFACE}.",
    )(command)


def tls_of(given: dict[str, Any]) -> Tls | None:
    """The certificates or the key for TLS_OPTIONS, which are removed from `given`."""
    files = [given.pop(name) for name in ("certificate", "private_key", "authority")]
    key = given.pop("shared_key")
    if any(files) and not all(files):
        raise click.UsageError("give all of --certificate, --private-key and --authority")
    if any(files) and key:
        raise click.UsageError("give either a certificate or --shared-key")
    if all(files):
        return Certificates(*files)
    return SharedKey(key) if key else None


@contextlib.contextmanager
def client_of(
    interface: str, timeout: float, given: dict[str, Any]
) -> Iterator[BlockingServiceClient]:
    """A client that is closed at the end. Takes the options of `interface_option` from `given`."""
    client = connect_blocking(interface, tls=tls_of(given), timeout=timeout)
    try:
        yield client
    finally:
        client.close()


def call_command(spec: CallSpec) -> click.Command:
    """The command of one call: required arguments by position, others as options."""

    def run(interface: str, timeout: float, as_json: bool, **given: Any) -> None:
        arguments = {a.name: value(a, given[a.name]) for a in spec.arguments}
        arguments = {name: each for name, each in arguments.items() if each is not None}
        try:
            with client_of(interface, timeout, given) as client:
                result = client.call(spec.name, arguments, timeout)
                show(result, as_json)
                if spec.name == "join_group":
                    follow(client, as_json)
        except ServiceError as error:
            if not as_json:
                raise
            fields = {"ok": False, "error": error.code, "detail": error.detail}
            click.echo(json.dumps(fields))
            raise click.exceptions.Exit(2) from None

    parameters: list[click.Parameter] = [parameter(a) for a in spec.arguments]
    command = click.Command(
        spec.name, callback=run, params=parameters, help=help_of(spec), short_help=spec.meaning
    )
    seconds = click.FloatRange(0.001, 3600.0)
    command.params += [
        click.Option(["--timeout"], type=seconds, default=10.0, help="Seconds; default 10."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON objects, one a line."),
    ]
    return interface_option(command)


def help_of(spec: CallSpec) -> str:
    """The help of a call, from its row in the table."""
    lines = [spec.meaning, ""]
    if spec.name == "join_group":
        lines += [
            "Prints the notices of the member until it is interrupted, and then leaves the group.",
            "",
        ]
    if any(a.type.endswith("properties") for a in spec.arguments):
        lines += [
            "--properties KEY=VALUE sets an attribute; the value is a whole number, true, false,",
            "or else a string. KEY= removes the attribute. Repeatable.",
            "",
        ]
    right = ", ".join(part for part in (spec.right or "", spec.right_note) if part) or "none"
    lines += [f"Right: {right}. Result: {', '.join(spec.result)}.", ""]
    return "\n".join([*lines, "\b", "Example:", f"  phalanx ms {spec.name} {example_of(spec)}"])


def example_of(spec: CallSpec) -> str:
    words = {"level": "1", "body": "hello", "groups": "orders bills", "member": "host-1/1"}
    needed = [a for a in spec.arguments if a.required and not a.type.endswith("properties")]
    parts = [words.get(a.type, a.name if a.type == "name" else "orders") for a in needed]
    if any(a.type.endswith("properties") for a in spec.arguments):
        parts.append("--properties tier=1")
    return " ".join(["--interface mi.sock", *parts])


def parameter(argument: CallArgument) -> click.Parameter:
    """The argument or option of the command for an argument of the call."""
    flag = f"--{argument.name.replace('_', '-')}"
    if argument.type.endswith("properties"):
        return click.Option(
            [flag, argument.name], multiple=True, metavar="KEY=VALUE", help="Attributes."
        )
    if argument.type == "flag":
        off = flag.replace("--", "--no-", 1)
        return click.Option(
            [f"{flag}/{off}", argument.name], default=argument.default, help=argument.meaning
        )
    kind: Any = int if argument.type == "level" else str
    if argument.required:
        count = -1 if argument.type == "groups" else 1
        return click.Argument([argument.name], required=True, type=kind, nargs=count)
    return click.Option([flag, argument.name], type=kind, help=argument.meaning)


def value(argument: CallArgument, given: Any) -> Any:
    """The value of an argument from the command line."""
    if argument.type.endswith("properties"):
        return properties_of(given)
    if argument.type == "body":
        return given.encode()
    return list(given) if isinstance(given, tuple) else given


def properties_of(given: tuple[str, ...]) -> dict[str, str | int | bool | None] | None:
    """Attributes from KEY=VALUE."""
    out: dict[str, str | int | bool | None] = {}
    for text in given:
        key, equals, shown = text.partition("=")
        if not equals:
            raise click.UsageError(f"{text!r} is not KEY=VALUE")
        digits = shown.removeprefix("-")
        if shown in ("true", "false"):
            out[key] = shown == "true"
        elif digits.isascii() and digits.isdigit() and len(digits) <= 19:
            out[key] = int(shown)
        else:
            out[key] = shown or None
    return out or None


def show(fields: dict[str, Any], as_json: bool) -> None:
    """One result or notice."""
    if as_json:
        click.echo(json.dumps(fields, ensure_ascii=False))
        return
    for name, each in fields.items():
        text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
        click.echo(f"{name:<10} {one_line(text)}")


def follow(client: BlockingServiceClient, as_json: bool) -> None:
    """Print notices until the end of the membership."""
    for notice in client.notices():
        fields = msgspec.structs.asdict(notice)
        if as_json:
            fields["body"] = notice.body.decode(errors="replace")
            show(fields, True)
        else:
            members = ", ".join(notice.members)
            click.echo(one_line(f"{notice.kind:<10} {notice.vid} {notice.cause} [{members}]"))
        if notice.kind in ("excluded", "ended"):
            return


COMMANDS = [call_command(spec) for spec in CALLS.values()]
