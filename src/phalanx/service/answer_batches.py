"""Answers of interfaces on their way up (`Tell`), collected for a few milliseconds, so that a set
above gets a few messages for each question and not one for each interface."""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.core.deadline import NEVER
from phalanx.service.group_messages import Served, Tell

WAIT_NS = 5_000_000
SERVED_AT_ONCE = 64
"""Interfaces in one message."""

Key = tuple[str, bytes, int, str]


class AnswerBatches:
    """Of one server, for all sets that it reports to. Of two answers of one interface to one
    question the later one goes."""

    def __init__(self) -> None:
        self._waiting: dict[Key, dict[str, Served]] = {}
        self._at = NEVER

    def add(self, now: int, tell: Tell) -> None:
        """An answer that carries interfaces and nothing else."""
        key = (tell.set, tell.lineage, tell.asked, tell.child)
        batch = self._waiting.setdefault(key, {})
        for served in tell.served:
            batch[served.interface] = served
        self._at = min(self._at, now + WAIT_NS)

    def due(self, now: int) -> list[Tell]:
        """What is to be sent now."""
        return self.all() if self._at <= now else []

    def all(self) -> list[Tell]:
        """All answers that wait; none waits then."""
        out: list[Tell] = []
        for (name, lineage, asked, child), batch in self._waiting.items():
            tell = Tell(name, lineage, asked, child)
            all_served = tuple(batch.values())
            steps = range(0, len(all_served), SERVED_AT_ONCE)
            out += [replace(tell, served=all_served[at : at + SERVED_AT_ONCE]) for at in steps]
        self._waiting = {}
        self._at = NEVER
        return out

    def deadline(self) -> int:
        return self._at
