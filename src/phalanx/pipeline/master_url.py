"""Check of the address of a cluster or Connect server before Spark tries to connect.

Spark itself retries for minutes; a wrong address should cost seconds and one line.
"""

from __future__ import annotations

import re
import socket

from phalanx.errors import PipelineError

SECONDS = 5.0
_PORTS = {"sc": 15002, "spark": 7077}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_KNOWN = "give local[*], spark://HOST:PORT or sc://HOST:PORT"


def is_near(master: str) -> bool:
    """All of it runs on this machine."""
    return master.startswith("local") or all(host in _LOOPBACK for host, _ in _places(master))


def reach(master: str) -> None:
    """PipelineError if nobody answers there. Addresses of other kinds are left to Spark."""
    places = _places(master)
    if "://" not in master and not re.fullmatch(r"local(\[.*\]|-cluster\[.*\])?|yarn", master):
        raise PipelineError(master, "not the URL of a master", _KNOWN)
    why: str | None = None
    for place in places:
        try:
            socket.create_connection(place, SECONDS).close()
        except OSError as error:
            why = error.strerror or str(error)
        except UnicodeError:  # Python's of names that no host can have
            why = "not the name of a host"
        else:
            return
    if why is not None:
        problem = f"nobody answers ({why})"
        raise PipelineError(master, problem, "check the address, and that it is running")


def _places(master: str) -> list[tuple[str, int]]:
    kind, _, rest = master.partition("://")
    if kind not in _PORTS:
        return []
    found = []
    for place in rest.partition("/")[0].split(","):
        parts = re.fullmatch(r"(\[[^]]+\]|[^]:[]+)(?::([0-9]{1,5}))?", place)
        port = int(parts[2] or _PORTS[kind]) if parts else 0
        if parts is None or not 0 < port < 65536:
            raise PipelineError(master, f"{place!r} is not HOST:PORT", _KNOWN)
        found.append((parts[1].strip("[]"), port))
    return found
