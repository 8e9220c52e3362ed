"""A stand-in for the core's member, so that the world is tested without the protocol."""

from __future__ import annotations

from typing import ClassVar

import pytest

from phalanx.config import Config
from phalanx.core.effects import (
    Accepted,
    Datagrams,
    DeadlinePassed,
    Effect,
    Given,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId, View
from phalanx.errors import OutboxFull


class Parrot:
    """Repeats what it is given to the network, remembers what it was given and when.

    Its outbox takes one submission; a deadline 5 ms later empties it again.
    """

    made: ClassVar[list[Parrot]]
    outbox_max = 1

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self.view = view
        self.given: list[tuple[int, Given]] = []
        self.numbered = 0
        self.waiting = 0
        self.due: int | None = None
        self.have = [0] * len(view.members)
        type(self).made.append(self)

    def start(self, now: int) -> list[Effect]:
        return [ViewInstalled(self.view, None, (), "boot")]

    def step(self, now: int, given: Given) -> list[Effect]:
        if isinstance(given, Submit) and self.waiting >= self.outbox_max:
            raise OutboxFull(1, 1)
        self.given.append((now, given))
        match given:
            case Submit(bodies, service, to):
                first, self.numbered = self.numbered + 1, self.numbered + len(bodies)
                self.waiting += 1
                self.due = now + 5_000_000
                taken = Accepted(first, self.numbered, service, to, sum(map(len, bodies)))
                return [taken, Transmit(list(bodies)), WindowClosed(0, 0)]
            case DeadlinePassed():
                self.due, self.waiting = None, 0
                return [WindowOpened(0, 0)]
            case Datagrams(packets):
                self.have[0] += len(packets)
        return []

    def deadline(self) -> int | None:
        return self.due

    def story(self) -> list[str]:
        return [f"{self.me} was given {len(self.given)} inputs"]

    @property
    def settled(self) -> bool:
        return self.due is None

    @property
    def heard(self) -> list[tuple[int, int]]:
        """When packets came, and how many at once."""
        return [(now, len(g.packets)) for now, g in self.given if isinstance(g, Datagrams)]


@pytest.fixture
def parrot() -> type[Parrot]:
    """A fresh class, whose `made` lists the members that a world makes of it."""
    return type("FreshParrot", (Parrot,), {})
