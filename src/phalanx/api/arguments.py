"""Checks of the arguments of API calls.

Every argument is checked in the caller's thread, before anything is queued: a mistake raises a
`PhalanxError` that names the argument and the remedy, and never reaches the event loop's thread.
Iterables are read once, so that generators work, and mutable arguments (lists, bytearrays) are
copied. Whether messages can be sent in the present view is checked by `core/submission.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from phalanx.core.effects import Service
from phalanx.core.ids import MemberId
from phalanx.core.roles import problem_with
from phalanx.errors import ConfigurationError, InvalidSubmission, NoReceiver, NotBytes
from phalanx.journal.settings import JournalSettings
from phalanx.journal.settings import checked as checked_settings

Body = bytes | bytearray | memoryview
Receivers = str | MemberId | Iterable[str | MemberId]

GROUP_LENGTH_MAX = 128
_PLAIN = frozenset({bytes})
_SERVICES = {service.name: service for service in Service}

# ---------------------------------------------------------------------------- joining


def checked_group(group: object) -> str:
    """The name of a group as a plain str."""
    if not isinstance(group, str) or not 0 < len(group) <= GROUP_LENGTH_MAX:
        remedy = f"must be a str of 1 to {GROUP_LENGTH_MAX} characters"
        raise ConfigurationError("group", group, remedy)
    if not group.isprintable():
        raise ConfigurationError("group", group, "must hold printable characters only")
    return str.__str__(group)


def checked_name(name: object) -> str | None:
    """A member's name as a plain str. `runtime/identity.py` checks its characters."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ConfigurationError("name", name, "must be a str, or None for host and process id")
    return str.__str__(name)


def checked_folder(field: str, folder: object) -> Path | None:
    """A directory, as a str, bytes or path."""
    if folder is None:
        return None
    try:
        path = os.fsdecode(folder)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigurationError(field, folder, "must be the path of a directory") from None
    if not path or "\0" in path:
        raise ConfigurationError(field, folder, "must be the path of a directory, '.' for this one")
    return Path(path)


def checked_journal_settings(settings: object) -> JournalSettings:
    if settings is None:
        return JournalSettings()
    if not isinstance(settings, JournalSettings):
        remedy = "make one with phalanx.JournalSettings(...)"
        raise ConfigurationError("journal_settings", settings, remedy)
    return checked_settings(settings)


# ---------------------------------------------------------------------------- sending


def checked_bodies(bodies: object) -> tuple[bytes, ...]:
    """Messages to send, copied if the caller could change them."""
    if isinstance(bodies, bytes | bytearray | memoryview | str):
        kind = type(bodies).__name__
        raise InvalidSubmission("bodies", kind, "give an iterable of messages; send() takes one")
    if not isinstance(bodies, Iterable):
        raise InvalidSubmission("bodies", bodies, "give an iterable of messages")
    out = tuple(bodies)
    if _PLAIN.issuperset(map(type, out)):
        return out
    return tuple(map(_checked_body, out))


def _checked_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise NotBytes(type(body).__name__)
    try:
        return bytes(body)
    except ValueError as error:  # a memoryview that was released
        raise InvalidSubmission("body", body, str(error)) from None


def checked_service(service: object) -> Service:
    """A service, given as such or by its name in any case."""
    if isinstance(service, Service):
        return service
    found = _SERVICES.get(service.upper()) if isinstance(service, str) else None
    if found is None:
        names = ", ".join(name.lower() for name in _SERVICES)
        raise InvalidSubmission("service", service, f"give one of {names}, or phalanx.Service")
    return found


def checked_receivers(to: object) -> tuple[str | MemberId, ...] | None:
    """Names and ids of receivers; None for the whole view."""
    if to is None:
        return None
    if isinstance(to, str | MemberId):
        return (to,)
    remedy = "give a member's name or MemberId, or an iterable of them"
    if not isinstance(to, Iterable) or isinstance(to, bytes | bytearray | memoryview):
        raise InvalidSubmission("to", to, remedy)
    out = tuple(to)
    for member in out:
        if not isinstance(member, str | MemberId):
            raise InvalidSubmission("to", member, remedy)
    if not out:
        raise NoReceiver
    return out


# ---------------------------------------------------------------------------- roles


def checked_operations(operations: object) -> tuple[str, ...]:
    """The operations of a role, sorted, each once."""
    remedy = "give an iterable of names"
    if isinstance(operations, str) or not isinstance(operations, Iterable):
        raise ConfigurationError("operations", operations, remedy)
    names = tuple(operations)
    if not all(isinstance(name, str) for name in names):
        raise ConfigurationError("operations", names, remedy)
    found = tuple(sorted({str.__str__(name) for name in names}))
    problem = problem_with(found)
    if problem is not None:
        raise ConfigurationError("operations", found, problem)
    return found


# ---------------------------------------------------------------------------- waiting


def checked_timeout(timeout: object) -> float | None:
    """Seconds to wait, or None for no limit, also for infinity and times a lock cannot wait for."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        remedy = "must be a number of seconds, or None for no limit"
        raise ConfigurationError("timeout", timeout, remedy)
    if not timeout >= 0:  # also for NaN
        raise ConfigurationError("timeout", timeout, "must be 0 or more, or None for no limit")
    return None if timeout >= threading.TIMEOUT_MAX else float(timeout)
