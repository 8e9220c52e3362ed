"""Peers by name: looked up again and again, where no engine has to wait for it.

A name service may give several addresses for a name, and others every minute (a headless service of
Kubernetes does both). One small thread asks; the link reads what was found last. A name that
fails keeps the addresses it had.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import cast

from phalanx.transport.addresses import SocketAddress

Lookup = Callable[[str, int], list[SocketAddress]]
"""All addresses of host and port; OSError if the name is not known."""

AGAIN_SECONDS = 10.0
SOON_SECONDS = 1.0
"""After a failure; doubled up to AGAIN_SECONDS."""
START_SECONDS = 3.0


def look_up(host: str, port: int) -> list[SocketAddress]:
    """What the system says. OSError if the name is not known."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a name") from error
    return [cast(SocketAddress, answer[4]) for answer in answers]


def literal(host: str) -> bool:
    """Whether the host is an address, so that there is nothing to look up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Resolver:
    """The addresses of some names, as they were last found."""

    def __init__(self, names: Iterable[tuple[str, int]], lookup: Lookup = look_up) -> None:
        self.found: tuple[SocketAddress, ...] = ()
        """All addresses of all names. Replaced, never changed, by the thread."""
        self.failures = 0
        self._names = tuple(names)
        self._lookup = lookup
        self._known: dict[tuple[str, int], list[SocketAddress]] = {}
        self._asked_once = Event()
        self._closed = Event()
        self._soon = SOON_SECONDS
        if self._names:
            Thread(target=self._run, name="phalanx-names", daemon=True).start()
        else:
            self._asked_once.set()

    def wait(self, seconds: float) -> bool:
        """Whether every name was asked for at least once; waits for it, but not for long."""
        return self._asked_once.wait(seconds)

    def close(self) -> None:
        """The thread ends after the lookup it is at."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            failed = self._ask()
            self._asked_once.set()
            pause = self._soon if failed else AGAIN_SECONDS
            self._soon = min(2 * self._soon, AGAIN_SECONDS) if failed else SOON_SECONDS
            self._closed.wait(pause)

    def _ask(self) -> bool:
        """True if one of them failed."""
        failed = False
        for name in self._names:
            if self._closed.is_set():
                break
            try:
                self._known[name] = list(self._lookup(*name))
            except OSError:
                self.failures += 1
                failed = True
            # What is known by now is told at once: the next name may take long.
            told = [a for addresses in self._known.values() for a in addresses]
            self.found = tuple(dict.fromkeys(told))
        return failed
