"""Stand-ins for the core's member, so that the world is tested without the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
import pytest

from phalanx.config import Config
from phalanx.core.effects import (
    Accepted,
    Datagrams,
    DeadlinePassed,
    Effect,
    Input,
    LeaveRequest,
    LinkStats,
    Stopped,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId, View, boot_view
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
        self.given: list[tuple[int, Input]] = []
        self.numbered = 0
        self.waiting = 0
        self.due: int | None = None
        self.have = [0] * len(view.members)
        type(self).made.append(self)

    def start(self, now: int) -> list[Effect]:
        return [ViewInstalled(self.view, None, (), "boot")]

    def step(self, now: int, given: Input) -> list[Effect]:
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

    def links(self) -> list[LinkStats]:
        return []

    @property
    def situations(self) -> dict[str, int]:
        return {}

    def validate(self, deep: bool) -> None:
        pass

    def story(self) -> list[str]:
        return [f"{self.me} was given {len(self.given)} inputs"]

    @property
    def settled(self) -> bool:
        return self.due is None

    @property
    def role_is_set(self) -> bool:
        return True

    @property
    def heard(self) -> list[tuple[int, int]]:
        """When packets came, and how many at once."""
        return [(now, len(g.packets)) for now, g in self.given if isinstance(g, Datagrams)]


class Gossip:
    """A toy membership: says hello every 20 ms, holds everybody for a member whom it heard less
    than 70 ms ago, and stops when it hears its own name from an older life.

    Two that hear each other agree at once; it promises nothing else.
    """

    made: ClassVar[list[Gossip]]
    hello_ns = 20_000_000
    fail_ns = 70_000_000

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self, me: MemberId, view: View, group: str, config: Config, entropy: int) -> None:
        self.me = me
        self.view = view
        self.given: list[tuple[int, Input]] = []
        self.heard: dict[MemberId, int] = {}
        self.frames: dict[MemberId, int] = {}
        self.due: int | None = None
        self.leaving = False
        self.numbered = 0
        type(self).made.append(self)

    @property
    def have(self) -> Sequence[int]:
        return [self.frames.get(member, 0) for member in self.view.members]

    @property
    def settled(self) -> bool:
        return True

    @property
    def role_is_set(self) -> bool:
        return True

    def deadline(self) -> int | None:
        return self.due

    def links(self) -> list[LinkStats]:
        return []

    @property
    def situations(self) -> dict[str, int]:
        return {}

    def validate(self, deep: bool) -> None:
        pass

    def story(self) -> list[str]:
        return [f"{self.me} hears {len(self.heard)}"]

    def start(self, now: int) -> list[Effect]:
        self.heard = dict.fromkeys(self.view.members, now)
        return [ViewInstalled(self.view, None, (), "boot"), *self.hello(now)]

    def hello(self, now: int) -> list[Effect]:
        self.due = now + self.hello_ns
        return [Transmit([msgspec.msgpack.encode(self.me)])]

    def step(self, now: int, given: Input) -> list[Effect]:
        assert self.due is not None, "nothing is given to who has stopped"
        self.given.append((now, given))
        out: list[Effect] = []
        match given:
            case Datagrams(packets):
                for packet in packets:
                    self.hear(now, packet)
            case DeadlinePassed():
                if self.leaving:
                    self.due = None
                    return [Stopped("left")]
                out += self.hello(now)
            case Submit(bodies, service, to):
                first, self.numbered = self.numbered + 1, self.numbered + len(bodies)
                out.append(Accepted(first, self.numbered, service, to, sum(map(len, bodies))))
            case LeaveRequest():
                self.leaving, self.due = True, now + self.hello_ns
            case _:
                pass
        if any(m.name == self.me.name and m < self.me for m in self.heard):
            self.due = None
            return [*out, Stopped("name-in-use")]
        return out + self.look(now)

    def hear(self, now: int, packet: bytes) -> None:
        try:
            sender = msgspec.msgpack.decode(packet, type=MemberId)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        self.heard[sender] = now
        self.frames[sender] = self.frames.get(sender, 0) + 1

    def look(self, now: int) -> list[Effect]:
        self.heard[self.me] = now
        alive = sorted(m for m, at in self.heard.items() if now - at < self.fail_ns)
        first = [m for i, m in enumerate(alive) if m.name not in [o.name for o in alive[:i]]]
        view, before = boot_view(first), self.view
        if view.id == before.id:
            return []
        self.view = view
        joined = tuple(m for m in view.members if m not in before.members)
        left = tuple(m for m in before.members if m not in view.members)
        cause: Literal["join", "removal"] = "join" if joined else "removal"
        return [ViewInstalled(view, before.id, (), cause, joined, left)]


@pytest.fixture
def parrot() -> type[Parrot]:
    """A fresh class, whose `made` lists the members that a world makes of it."""
    return type("FreshParrot", (Parrot,), {})


@pytest.fixture
def gossip() -> type[Gossip]:
    """A fresh class, whose `made` lists the processes that a world makes of it."""
    return type("FreshGossip", (Gossip,), {})
