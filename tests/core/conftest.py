"""What the tests of the core share: DAGs as frames, and groups in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from phalanx.config import Config, lan
from phalanx.core.broadcast.dag import Dag
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Deliver,
    Effect,
    Input,
    Service,
    Submit,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.wire.frames import Frame, FrameKind, MessageRun

MS = 1_000_000


@dataclass(frozen=True)
class Node:
    """A frame of a random DAG: who sent it, its number, its vector, whether it is ordered."""

    sender: int
    number: int
    vector: tuple[int, ...]
    ordered: bool


def random_nodes(rng: random.Random, n: int, count: int) -> list[Node]:
    """An execution: members send and receive at random, slow and chatty ones among them."""
    know = [[0] * n for _ in range(n)]
    out: list[Node] = []
    p_ordered = rng.choice([30, 60, 100])
    p_send = rng.choice([15, 30, 50, 80])
    slow = [rng.choice([1, 1, 1, 4, 12]) for _ in range(n)]
    while len(out) < count:
        if not out or rng.randrange(100) < p_send:
            s = rng.randrange(n)
            know[s][s] += 1
            out.append(Node(s, know[s][s], tuple(know[s]), rng.randrange(100) < p_ordered))
        else:
            r = rng.randrange(n)
            if rng.randrange(slow[r]):
                continue
            can = [m for m in out if m.number > know[r][m.sender] and enters(m, know[r])]
            if can:
                m = rng.choice(can)
                know[r][m.sender] = m.number
    return out


def enters(node: Node, have: list[int]) -> bool:
    return all(
        v <= h or (q == node.sender and v == h + 1)
        for q, (v, h) in enumerate(zip(node.vector, have, strict=True))
    )


def random_extension(rng: random.Random, nodes: list[Node], n: int) -> list[Node]:
    """One order in which a member may see the DAG, often one sender at a time."""
    have = [0] * n
    left = list(nodes)
    out = []
    favour, biased = rng.randrange(n), rng.randrange(2)
    while left:
        can = [m for m in left if m.number == have[m.sender] + 1 and enters(m, have)]
        if rng.randrange(4) == 0:
            favour = rng.randrange(n)
        liked = [m for m in can if m.sender == favour] if biased else []
        m = rng.choice(liked or can)
        left.remove(m)
        have[m.sender] = m.number
        out.append(m)
    return out


def frame_of(node: Node, before: Iterable[int]) -> Frame:
    """The frame that says what the node says, its acknowledgements against `before`."""
    changed = [
        (q, v)
        for q, (v, b) in enumerate(zip(node.vector, before, strict=True))
        if v != b and q != node.sender
    ]
    runs = [MessageRun(Service.AGREED, node.number, 1, None, 0, (0,))] if node.ordered else []
    return Frame(
        node.sender,
        node.number,
        FrameKind.DATA if node.ordered else FrameKind.ACK,
        0,
        b"",
        b"",
        tuple(q for q, _ in changed),
        tuple(v for _, v in changed),
        node.number,
        runs,
        None,
        b"",
        0,
        node.ordered,
    )


def due_of(member: Member, otherwise: int) -> int:
    due = member.deadline()
    return otherwise if due is None else due


@dataclass
class Mesh:
    """Members in memory; packets travel at once unless `carry` drops or delays them."""

    members: list[Member]
    now: int = 0
    inboxes: list[list[bytes]] = field(default_factory=list)
    seen: list[list[Effect]] = field(default_factory=list)
    carry: Callable[[int, int, bytes], list[bytes]] = lambda a, b, packet: [packet]
    dead: set[int] = field(default_factory=set)
    sides: list[set[int]] = field(default_factory=list)
    """Who hears whom, if not everybody does."""

    def give(self, i: int, effects: list[Effect]) -> None:
        self.seen[i] += effects
        self.members[i].validate()
        for effect in effects:
            if isinstance(effect, Transmit):
                for j in range(len(self.members)):
                    if j != i and self.hears(i, j):
                        for packet in effect.packets:
                            self.inboxes[j] += self.carry(i, j, packet)

    def hears(self, i: int, j: int) -> bool:
        if self.dead & {i, j}:
            return False
        return not self.sides or any({i, j} <= side for side in self.sides)

    def cut(self, *sides: set[int]) -> None:
        """Members hear only those of their own side; no sides: everybody."""
        self.sides = list(sides)

    def crash(self, i: int) -> None:
        self.dead.add(i)
        self.inboxes[i].clear()

    def step(self, i: int, given: Input) -> None:
        self.give(i, self.members[i].step(self.now, given))

    def add(self, member: Member) -> int:
        """One more process, started now."""
        self.members.append(member)
        self.inboxes.append([])
        self.seen.append([])
        self.give(len(self.members) - 1, member.start(self.now))
        return len(self.members) - 1

    def submit(
        self,
        i: int,
        *bodies: bytes,
        service: Service = Service.AGREED,
        to: tuple[MemberId, ...] | None = None,
    ) -> None:
        self.give(i, self.members[i].step(self.now, Submit(list(bodies), service, to)))

    def pump(self, ms: int = 0) -> None:
        """Carry packets until all is quiet, then let `ms` milliseconds of timers pass."""
        end = self.now + ms * MS
        while True:
            while any(self.inboxes):
                for i, member in enumerate(self.members):
                    packets, self.inboxes[i] = self.inboxes[i], []
                    if packets and i not in self.dead:
                        self.give(i, member.step(self.now, Datagrams(packets)))
            alive = [(m, i) for i, m in enumerate(self.members) if i not in self.dead]
            due, i = min((due_of(m, end + 1), i) for m, i in alive)
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            self.give(i, self.members[i].step(self.now, DeadlinePassed()))

    def delivered(self, i: int) -> list[tuple[str, int, bytes]]:
        """Sender, number and body of every message that member i delivered, in order."""
        return [
            (effect.sender.name, effect.first + k, body)
            for effect in self.seen[i]
            if isinstance(effect, Deliver)
            for k, body in enumerate(effect.bodies())
        ]

    def bodies(self, i: int) -> list[bytes]:
        return [body for _, _, body in self.delivered(i)]

    def views(self, i: int) -> list[str]:
        """The names of the members of every view that member i was in."""
        return [
            "".join(m.name for m in effect.view.members)
            for effect in self.seen[i]
            if isinstance(effect, ViewInstalled)
        ]


@pytest.fixture
def mesh() -> Callable[..., Mesh]:
    def build(
        names: str, config: Config | None = None, group: str = "g", alone: bool = False
    ) -> Mesh:
        """Members that boot in one view of all, or each in one of its own."""
        everybody = boot_view([MemberId(name) for name in names])
        members = [
            Member(m, boot_view([m]) if alone else everybody, group, config or lan(), i)
            for i, m in enumerate(everybody.members)
        ]
        made = Mesh(members)
        made.inboxes = [[] for _ in members]
        made.seen = [[] for _ in members]
        for i, member in enumerate(members):
            made.give(i, member.start(0))
        return made

    return build


class Fixtures:
    """Handed to tests that need the functions above: tests do not import each other."""

    random_nodes = staticmethod(random_nodes)
    random_extension = staticmethod(random_extension)
    frame_of = staticmethod(frame_of)
    node = Node
    dag = Dag


@pytest.fixture(scope="session")
def dags() -> type[Fixtures]:
    return Fixtures
