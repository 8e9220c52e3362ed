"""Periodic look-up of host names in a thread of its own, so that the event loop does not wait.

A name service may return several addresses for a name, and different ones every minute (a headless
service of Kubernetes does both). One thread asks; the transport reads the last result. A name whose
look-up fails keeps its addresses.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import cast

from phalanx.transport.addresses import SocketAddress

Lookup = Callable[[str, int], list[SocketAddress]]
"""Returns all addresses of host and port; raises OSError for an unknown name."""

AGAIN_SECONDS = 10.0
SOON_SECONDS = 1.0
"""The pause after a failure; it doubles up to AGAIN_SECONDS."""
START_SECONDS = 3.0


def look_up(host: str, port: int) -> list[SocketAddress]:
    """Look up a host with the system's resolver. Raises OSError for an unknown name."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a name") from error
    return [cast(SocketAddress, answer[4]) for answer in answers]


def literal(host: str) -> bool:
    """Whether the host is an IP address, which needs no look-up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Resolver:
    """The addresses of some names as of the last look-up."""

    def __init__(self, names: Iterable[tuple[str, int]], lookup: Lookup = look_up) -> None:
        self.found: tuple[SocketAddress, ...] = ()
        """All addresses of all names. The thread replaces the tuple."""
        self.failures = 0
        self._names = tuple(names)
        self._lookup = lookup
        self._known: dict[tuple[str, int], list[SocketAddress]] = {}
        self._all_asked = Event()
        self._closed = Event()
        self._soon = SOON_SECONDS
        if self._names:
            Thread(target=self._run, name="phalanx-names", daemon=True).start()
        else:
            self._all_asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait until every name was looked up once, at most this long. Returns whether it was."""
        return self._all_asked.wait(seconds)

    def close(self) -> None:
        """End the thread after its present look-up."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            failed = self._ask()
            self._all_asked.set()
            pause = self._soon if failed else AGAIN_SECONDS
            self._soon = min(2 * self._soon, AGAIN_SECONDS) if failed else SOON_SECONDS
            self._closed.wait(pause)

    def _ask(self) -> bool:
        """Look up all names. Returns whether one of them failed."""
        failed = False
        for name in self._names:
            if self._closed.is_set():
                break
            try:
                self._known[name] = list(self._lookup(*name))
            except OSError:
                self.failures += 1
                failed = True
            # Publish the result at once: the next name may take long.
            known = [a for addresses in self._known.values() for a in addresses]
            self.found = tuple(dict.fromkeys(known))
        return failed
