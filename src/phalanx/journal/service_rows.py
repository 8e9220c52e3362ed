"""Numbers the rows of one life of a process of the membership service, and words what is in them.

A server is written `name.incarnation`, the id of a state or view `number:digest`. Rows between
`begin` and `end` are one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phalanx.journal import schema as ev
from phalanx.journal.service_schema import SERVICE_GROUP
from phalanx.service.values import Gid, Vid


class ServiceRows:
    """The rows of one journal, in their order."""

    def __init__(self, run: str, name: str, life: int) -> None:
        self.name = name
        self.life = life
        self._run = run
        self._lseq = 0
        self._step = 0
        self._time: tuple[int, int | None] = (0, None)
        self._out: list[ev.Event] = []

    def begin(self, now: int, sim_ns: int | None) -> None:
        """A step of which rows follow."""
        self._time = now, sim_ns
        self._out = []

    def end(self) -> list[ev.Event]:
        """The rows since `begin`. No rows, no step number."""
        if self._out:
            self._step += 1
        return self._out

    def row(self, table: Any, /, **columns: Any) -> None:
        """A row of a table, with these columns of its own."""
        self._lseq += 1
        now, sim_ns = self._time
        row = table(
            run=self._run,
            profile="S",
            group=SERVICE_GROUP,
            member=self.name,
            incarnation=self.life,
            lseq=self._lseq,
            step=self._step + 1,
            t_ns=now,
            sim_ns=sim_ns,
            **columns,
        )
        self._out.append(row)


def vid_text(vid: Vid) -> str:
    """The id of a state or view: `str(vid)` has only a part of the digest."""
    return f"{vid.number}:{vid.digest.hex()}"


def part_text(part: Vid | None) -> str:
    """The view that a member comes from; empty if it joins."""
    return vid_text(part) if part is not None else ""


def label(server: Gid | None) -> str | None:
    return str(server) if server is not None else None


def labels(servers: Iterable[Gid]) -> list[str]:
    return [str(server) for server in servers]
