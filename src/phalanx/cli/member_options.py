"""Options of the commands that join a group, and the format of the events they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from phalanx.config import CROWDED, LOCAL, MESH, Certificates, Config, SharedKey, lan
from phalanx.core.effects import Service
from phalanx.core.ids import MEMBERS_MAX
from phalanx.core.roles import Role
from phalanx.runtime.events import (
    Event,
    EventsLost,
    Merged,
    Message,
    NotSent,
    Transitional,
    View,
)
from phalanx.runtime.short_names import ShortNames

WAIT_SECONDS = 60.0
SERVICES = [service.name.lower() for service in Service]

PROFILES: dict[str, dict[str, Any]] = {"lan": {}, "local": LOCAL, "mesh": MESH}
"""Names of `--profile`, and their settings."""

TLS_OPTIONS = (
    click.option(
        "--certificate", metavar="FILE", help="With mesh, this member's certificate (PEM)."
    ),
    click.option("--private-key", metavar="FILE", help="With mesh, the key of the certificate."),
    click.option("--authority", metavar="FILE", help="With mesh, the certificates to trust."),
    click.option("--shared-key", metavar="FILE", help="With mesh, a key that all members have."),
    click.option("--insecure", is_flag=True, help="With mesh, allow plain TCP."),
)

_OPTIONS = (
    click.option(
        "--name", metavar="NAME", help="This member's name; default: host and process id."
    ),
    click.option(
        "--cluster", metavar="NAME", help="Ignore members of other clusters; default phalanx."
    ),
    click.option(
        "--profile",
        type=click.Choice(list(PROFILES)),
        help="Settings to start from; mesh: TCP channels. Default lan.",
    ),
    click.option(
        "--network",
        type=click.Choice(["multicast", "broadcast", "fanout"]),
        help="How packets are sent; default multicast.",
    ),
    click.option(
        "--address", metavar="ADDRESS", help="The group's address; default: derived from its name."
    ),
    click.option(
        "--port", type=click.IntRange(0, 65_535), help="The UDP port, or TCP port; default 7117."
    ),
    click.option("--interface", metavar="NAME", help="Network interface, by name or address."),
    click.option(
        "--peer",
        "peers",
        metavar="HOST:PORT",
        multiple=True,
        help="With fanout and mesh, the address of a member; may be repeated.",
    ),
    *TLS_OPTIONS,
    click.option("--local", is_flag=True, help="Only members on this machine."),
    click.option(
        "--crowded", is_flag=True, help="Longer time-outs, for many processes on few cores."
    ),
    click.option(
        "--state", metavar="DIR", help="Store this member's incarnation in this directory."
    ),
    click.option("--journal", metavar="DIR", help="Write this member's journal to this directory."),
)

_WAITING = (
    click.option(
        "--members",
        metavar="N",
        type=click.IntRange(1, MEMBERS_MAX),
        help="Send nothing before the view has this many members.",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(0, min_open=True),
        default=WAIT_SECONDS,
        help=f"How long to wait for members before the first line; default {WAIT_SECONDS:g}.",
    ),
)


def joining_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a command that joins a group."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options for the encryption of a mesh."""
    for option in reversed(TLS_OPTIONS):
        command = option(command)
    return command


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a command that waits for members before it sends."""
    for option in reversed(_WAITING):
        command = option(command)
    return command


def config_of(given: dict[str, Any]) -> Config:
    """The settings for the options, which are removed from `given`."""
    settings = dict(PROFILES[given.pop("profile") or "lan"])
    if given.pop("crowded"):
        settings |= CROWDED
    if given.pop("local"):
        settings |= LOCAL
    for field in ("cluster", "network", "address", "port", "interface"):
        value = given.pop(field)
        if value is not None:
            settings[field] = value
    peers = given.pop("peers")
    if peers:
        settings |= {"network": settings.get("network", "fanout"), "peers": peers}
    return lan(**settings | tls_settings(given))


def tls_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The settings for TLS_OPTIONS, which are removed from `given`."""
    files = [given.pop(name) for name in ("certificate", "private_key", "authority")]
    key, insecure = given.pop("shared_key"), given.pop("insecure")
    if any(files) and not all(files):
        raise click.UsageError("give all of --certificate, --private-key and --authority")
    if any(files) and key:
        raise click.UsageError("give either a certificate or --shared-key")
    if all(files):
        return {"tls": Certificates(*files), "insecure": insecure}
    return {"tls": SharedKey(key) if key else None, "insecure": insecure}


_NAMES = ShortNames()
"""Distinguishes the incarnations of a member in this process's output."""


def as_text(event: Event) -> str:
    """The event as one line of text."""
    match event:
        case View():
            parts = [f"view {event.id}:", *map(_NAMES.of, event.members)]
            if event.joined:
                parts.append(f"(joined: {_names(event.joined)})")
            if event.left:
                parts.append(f"(left: {_names(event.left)})")
            if event.roles_set:
                roles = (f"{_NAMES.of(r.member)}={_listed(r)}" for r in event.roles_set)
                parts.append(f"(roles: {' '.join(roles)})")
            return " ".join(parts)
        case Message():
            text = event.body.decode("utf-8", "backslashreplace")
            late = "!" if event.transitional else ""
            sender, service = _NAMES.of(event.sender), event.service.name.lower()
            return f"{sender}#{event.number}{late} {service}: {text}"
        case Transitional():
            return f"view {event.view} is ending; {_names(event.members)} continue"
        case NotSent(first, last, members, rest, sent):
            who = _names(members) if rest else f"anybody: {_names(members)} left the view"
            verb = "may not have reached" if sent else "do not go to"
            return f"messages {first} to {last} {verb} {who}"
        case EventsLost(count):
            return f"{count} messages lost: they were not read in time"


def as_row(event: Event) -> dict[str, Any]:
    """The event as a JSON object."""
    match event:
        case View():
            row: dict[str, Any] = {
                "event": "merged" if isinstance(event, Merged) else "view",
                "id": str(event.id),
                "members": [str(m) for m in event.members],
                "joined": [str(m) for m in event.joined],
                "left": [str(m) for m in event.left],
                "transitional": [str(m) for m in event.transitional],
                "previous": None if event.previous is None else str(event.previous),
                "cause": event.cause,
            }
            if event.roles_set:
                row["roles"] = {str(r.member): list(r.operations) for r in event.roles_set}
            if isinstance(event, Merged):
                row["sides"] = [
                    {
                        "view": str(side.view),
                        "members": [str(m) for m in side.members],
                        "delivered": {str(m): upto for m, upto in side.delivered},
                        "alone": [[str(r.sender), r.first, r.last] for r in side.alone],
                    }
                    for side in event.sides
                ]
            return row
        case Message():
            return {
                "event": "message",
                "sender": str(event.sender),
                "number": event.number,
                "service": event.service.name.lower(),
                "view": str(event.view),
                "position": event.position,
                "transitional": event.transitional,
                "body": event.body.decode("utf-8", "backslashreplace"),
            }
        case Transitional():
            members = [str(m) for m in event.members]
            return {"event": "transitional", "view": str(event.view), "members": members}
        case NotSent(first, last, members, rest, sent):
            gone = [str(m) for m in members]
            return {
                "event": "not_sent",
                "first": first,
                "last": last,
                "members": gone,
                "rest": rest,
                "sent": sent,
            }
        case EventsLost(count):
            return {"event": "events_lost", "count": count}


def _names(members: tuple[Any, ...]) -> str:
    return _NAMES.listed(members)


def _listed(role: Role) -> str:
    return ",".join(role.operations) or "none"
