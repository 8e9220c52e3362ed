"""A member that takes part in the protocol and garbles what it says, with true checksums.

The others may lose time and views over it. None of them may raise, hang, be in a view with
somebody who does not exist, or fail to come together when it stops.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.core.lies import made_up, part

from phalanx.config import lan
from phalanx.core.codec import Codec
from phalanx.core.effects import (
    Break,
    Datagrams,
    DeadlinePassed,
    Service,
    ViewInstalled,
)
from phalanx.core.frames import (
    KIND_OF,
    Announce,
    Attempt,
    Component,
    Context,
    Fault,
    Fragment,
    Frame,
    FrameKind,
    Hello,
    Join,
    Run,
    Said,
)
from phalanx.core.framing import decode_frame, encode_frame, encode_tag
from phalanx.core.ids import (
    MEMBERS_MAX,
    MemberId,
    ViewId,
    boot_view,
    table_digest,
)
from phalanx.core.member import Member
from phalanx.core.membership.contexts import context_digest, join_view, ranked, united

MS = 1_000_000
CODEC = Codec("phalanx", "g")
Build = Callable[..., Any]
A, B, C = (MemberId(name) for name in "abc")
NOBODY_AT_ALL = MemberId("x")


# ---------------------------------------------------------------------------- garbling


class Garbler:
    """Changes a few fields of some of the packets that pass."""

    def __init__(self, rng: random.Random, one_in: int) -> None:
        self.rng = rng
        self.one_in = one_in
        self.garbled = 0

    def packet(self, packet: bytes) -> bytes:
        if self.rng.randrange(self.one_in):
            return packet
        self.garbled += 1
        rng, got = self.rng, CODEC.decode(packet)
        match got:
            case Fragment(count=1):
                return self.frame(got) or packet
            case Attempt():
                joins = got.component.view.joins + rng.randrange(2)
                members = rng.choice([(B,), (B, C), (B, NOBODY_AT_ALL)])
                lie = made_up(members, joins, rng.randrange(2))
                return CODEC.encode(msgspec.structs.replace(got, component=lie))
            case Hello():
                view = ViewId(rng.randrange(4), 0, rng.randbytes(8))
                return CODEC.encode(msgspec.structs.replace(got, view=view))
        return packet

    def some(self) -> tuple[MemberId, ...]:
        return ranked(self.rng.sample([A, B, C, NOBODY_AT_ALL], self.rng.randrange(3)))

    def frame(self, got: Fragment) -> bytes | None:
        frame = decode_frame(got.sender, got.number, got.piece, 0, got.table, MEMBERS_MAX)
        assert isinstance(frame, Frame)
        rng, phase, announce, kind = self.rng, frame.phase, frame.control, frame.kind
        acks = list(zip(frame.ack_members, frame.ack_numbers, strict=True))
        runs = [cut_out(run, frame.payload) for run in frame.runs]
        for _ in range(rng.randrange(1, 3)):
            match rng.randrange(5):
                case 0:
                    phase ^= 1
                case 1:
                    acks = [(q, max(0, n + rng.choice([-2, -1, 0, 1]))) for q, n in acks]
                case 2:
                    acks = acks[:-1]
                case 3 if runs:
                    runs[0][0].service = rng.choice(list(Service))
                case _ if announce is not None:
                    announce, kind = self.announce(announce, kind, phase)
        members, numbers = [q for q, _ in acks], [n for _, n in acks]
        payload = encode_frame(
            kind, phase, frame.tag, members, numbers, frame.first, runs, announce
        )
        return CODEC.encode_fragment(msgspec.structs.replace(got, piece=payload))

    def announce(self, announce: Announce, kind: int, phase: int) -> tuple[Announce, int]:
        rng, said = self.rng, announce.said
        at = rng.randrange(len(announce.vector))
        match rng.randrange(4):
            case 0:
                return changed(announce, "vector", at, rng.choice([-3, -2, -1, 1])), kind
            case 1:
                return changed(announce, "floors", at, rng.choice([-3, -1, 1, 5])), kind
            case 2 if said is not None and kind != FrameKind.LEAVE:
                return msgspec.structs.replace(announce, said=None), FrameKind.ACK
        others = tuple(m for m in self.some() if m != B)
        lie: Said = Join(others)
        if rng.randrange(2):
            named, new = self.some() or (C,), self.some()
            context = rng.choice([announce.context, b"whatever"])
            lie = Fault(context, named, new, bool(rng.randrange(2)))
        if kind == FrameKind.DATA or not phase:
            return announce, kind
        return msgspec.structs.replace(announce, said=lie), KIND_OF[type(lie)]


def changed(announce: Announce, field: str, at: int, by: int) -> Announce:
    numbers = list(getattr(announce, field))
    numbers[at] = max(0, numbers[at] + by)
    return msgspec.structs.replace(announce, **{field: tuple(numbers)})


def cut_out(run: Run, payload: bytes) -> tuple[Run, list[bytes]]:
    at, bodies = run.offset, []
    for length in run.lengths:
        bodies.append(payload[at : at + length])
        at += length
    return msgspec.structs.replace(run, lengths=tuple(run.lengths)), bodies


@pytest.mark.parametrize("seed", range(12))
def test_a_member_that_garbles_what_it_says_stops_nobody(mesh: Build, seed: int) -> None:
    rng = random.Random(seed)
    config = lan(mode=rng.choice(["hold", "flow"]), order=rng.choice(["toto", "all-ack"]))
    group = mesh("abc", config, alone=bool(rng.randrange(2)))
    group.pump(800)
    garbler = Garbler(rng, rng.choice([2, 3, 8]))
    loss = rng.choice([0, 0, 5, 12])

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        if rng.randrange(100) < loss:
            return []
        return [garbler.packet(packet) if a == 1 else packet]

    group.carry = carry
    for k in range(120):
        sides: list[set[int]] = rng.choice([[], [], [{0, 1}, {2}], [{0}, {1, 2}], [{0}, {1}, {2}]])
        if rng.randrange(8) == 0:
            group.cut(*sides)
        if rng.randrange(30) == 0:
            group.step(rng.randrange(3), Break(rng.choice([A, B, C])))
        if rng.randrange(2):
            group.submit(rng.randrange(3), b"%d" % k, service=rng.choice(list(Service)))
        group.pump(rng.choice([0, 0, 1, 10, 60, 300]))
    assert garbler.garbled > 5
    group.cut()
    group.carry = lambda a, b, packet: [packet]
    group.pump(30_000)
    for i in range(3):
        views = [e.view for e in group.seen[i] if isinstance(e, ViewInstalled)]
        assert {m for view in views for m in view.members} <= {A, B, C}
        assert views[-1].members == (A, B, C)
    group.submit(0, b"after all", service=Service.SAFE)
    group.pump(1_000)
    assert [group.bodies(i)[-1] for i in range(3)] == [b"after all"] * 3


# ---------------------------------------------------------------------------- by design


def pieces(
    sender: MemberId, number: int, where: Component, *others: Component, **more: Any
) -> list[bytes]:
    """A frame of a change; `follows` are the frames of others that it has seen."""
    components = tuple(sorted((where, *others), key=lambda c: c.view))
    table = ranked(united(components))
    follows = {sender: number, **more.get("follows", {})}
    vector = tuple(follows.get(m, 0) for m in table)
    phase = more.get("phase", 1)
    floors = tuple(0 if phase else n for n in vector)
    said = more.get("said")
    announce = Announce(components, where.context, vector, floors, said)
    kind = KIND_OF[type(said)] if said is not None else FrameKind.ACK
    payload = encode_frame(kind, phase, encode_tag(where.view), [], [], 1, [], announce)
    index = table.index(sender)
    return [CODEC.encode_fragment(Fragment(payload, table_digest(table), index, index, number,
                                           0, 1, 0))]  # fmt: skip


def test_a_frame_of_a_member_that_moved_on_does_not_hang_the_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """x proposed the view that b is about to install, and then speaks from another one, of b and x,
    that b knows nothing of. A frame of a, whose slot is lower, waits to be pulled meanwhile."""
    x, z = MemberId("x"), MemberId("z")
    home, at_x, at_z = boot_view([A, B]), part(boot_view([x])), part(boot_view([z]))
    here = part(home)
    three = tuple(sorted((here, at_x, at_z), key=lambda c: c.view))
    joint = context_digest(Context(components=three))
    joined = part(join_view(three, joint, frozenset({A, B, x, z})))
    considered = 0
    consider = Member._consider

    def counting(self: Member, now: int, frame: Frame, out: list[Any]) -> None:
        nonlocal considered
        considered += 1
        assert considered < 1_000, "it hangs"
        consider(self, now, frame, out)

    monkeypatch.setattr(Member, "_consider", counting)
    member = Member(B, home, "g", lan(), 1)
    member.start(0)
    attempts = [Attempt(x, 0, at_x, (B,)), Attempt(z, 0, at_z, (B,))]
    member.step(MS, Datagrams([CODEC.encode(attempt) for attempt in attempts]))
    elsewhere = made_up((B, x), 4)
    proposal: dict[str, Any] = {"said": Join(())}
    early = [
        *pieces(A, 1, here, at_x, at_z, **proposal),
        *pieces(x, 1, at_x, here, at_z, **proposal),
    ]
    member.step(2 * MS, Datagrams(early))
    now = 2 * MS
    while now < 80 * MS:
        now = max(now + MS, member.deadline() or 0)
        member.step(now, DeadlinePassed())
    assert member._kernel.stage == "COMMIT"
    late = [
        *pieces(x, 2, elsewhere),
        *pieces(z, 1, at_z, here, at_x, **proposal),
        *pieces(A, 2, joined, follows={z: 1, x: 1}, phase=0),
    ]
    member.step(now, Datagrams(late))
    assert member.view.members == (A, B, x, z)
