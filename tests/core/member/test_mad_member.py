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
from tests.core.forged_packets import body, forged, made_up

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    DeadlinePassed,
    Service,
    SuspectMember,
    ViewInstalled,
)
from phalanx.core.ids import MEMBERS_MAX, MemberId, ViewId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.member.view_change import ViewChange
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.wire.frame_codec import decode_frame, encode_frame
from phalanx.core.wire.frames import Announce, Frame, FrameKind, MessageRun, ProposalBody, Propose
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Hello, JoinAttempt

MS = 1_000_000
CODEC = PacketCodec("phalanx", "g")
Build = Callable[..., Any]
A, B, C = (MemberId(name) for name in "abc")
NOBODY_AT_ALL = MemberId("x")


# ---------------------------------------------------------------------------- garbling


class Garbler:
    """Changes a few fields of some of the packets that pass."""

    def __init__(self, rng: random.Random, one_in: int, codec: PacketCodec = CODEC) -> None:
        self.rng = rng
        self.codec = codec
        self.one_in = one_in
        self.garbled = 0

    def packet(self, packet: bytes) -> bytes:
        if self.rng.randrange(self.one_in):
            return packet
        self.garbled += 1
        rng, got = self.rng, self.codec.decode(packet)
        match got:
            case Fragment(count=1):
                return self.frame(got) or packet
            case JoinAttempt():
                joins = got.component.view.joins + rng.randrange(2)
                members = rng.choice([(B,), (B, C), (B, NOBODY_AT_ALL)])
                lie = made_up(members, joins, rng.randrange(2))
                return self.codec.encode(msgspec.structs.replace(got, component=lie))
            case Hello():
                view = ViewId(rng.randrange(4), 0, rng.randbytes(8))
                return self.codec.encode(msgspec.structs.replace(got, view=view))
        return packet

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
                    announce, kind = self.announce(announce, kind)
        members, numbers = [q for q, _ in acks], [n for _, n in acks]
        payload = encode_frame(
            kind, phase, frame.tag, members, numbers, frame.first, runs, announce
        )
        return self.codec.encode_fragment(msgspec.structs.replace(got, piece=payload))

    def announce(self, announce: Announce, kind: int) -> tuple[Announce, int]:
        rng = self.rng
        at = rng.randrange(len(announce.vector))
        match rng.randrange(7):
            case 0:
                return changed(announce, "vector", at, rng.choice([-3, -2, -1, 1])), kind
            case 1 if announce.closings:
                at = rng.randrange(len(announce.closings))
                return changed(announce, "closings", at, rng.choice([-3, -1, 1, 5])), kind
            case 2 if announce.openings:
                return changed(announce, "openings", at, rng.choice([-3, -1, 1, 5])), kind
            case 3:
                start = max(0, announce.start - rng.randrange(3))
                return msgspec.structs.replace(announce, start=start), kind
            case 4 if kind == FrameKind.PROPOSE:
                earlier = max(0, announce.issued - 1)
                return msgspec.structs.replace(announce, said=None, issued=earlier), FrameKind.ACK
        return msgspec.structs.replace(announce, proposal=self.proposal(announce.proposal)), kind

    def proposal(self, encoded: bytes) -> bytes:
        """Another proposal: with components that there are not, with others left out."""
        rng, told = self.rng, msgspec.msgpack.decode(encoded, type=ProposalBody)
        components = list(told.components)
        if rng.randrange(3) == 0:
            components.append(made_up(rng.choice([[NOBODY_AT_ALL], [C], [A, C]]), rng.randrange(4)))
        if rng.randrange(6) == 0:
            components.pop(rng.randrange(len(components)))
        components.sort(key=lambda c: c.view)
        out = [(i, k) for i, c in enumerate(components) for k, m in enumerate(c.members) if m != B]
        return body(components, sorted(rng.sample(out, rng.randrange(min(len(out), 3) + 1))))


def changed(announce: Announce, field: str, at: int, by: int) -> Announce:
    numbers = list(getattr(announce, field))
    numbers[at] = max(0, numbers[at] + by)
    return msgspec.structs.replace(announce, **{field: tuple(numbers)})


def cut_out(run: MessageRun, payload: bytes) -> tuple[MessageRun, list[bytes]]:
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
    garbler = Garbler(rng, rng.choice([2, 3, 8]), group.members[0]._codec)
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
            group.step(rng.randrange(3), SuspectMember(rng.choice([A, B, C])))
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


def test_a_frame_of_a_member_that_moved_on_does_not_hang_the_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """x issued the view that b is about to install, and then speaks from another one, of b and x,
    that b knows nothing of: b leaves x out. Then a speaks from the view, so b installs it."""
    x, z = MemberId("x"), MemberId("z")
    here, at_x, at_z = (component_of(boot_view(m)) for m in ([A, B], [x], [z]))
    three = proposal_of([here, at_x, at_z])
    given = 0
    give = ViewChange.give

    def counting(self: ViewChange, *args: Any) -> None:
        nonlocal given
        given += 1
        assert given < 1_000, "it hangs"
        give(self, *args)

    monkeypatch.setattr(ViewChange, "give", counting)
    member = Member(B, boot_view([A, B]), "g", lan(), 1)
    member.start(0)
    attempts = [JoinAttempt(x, 0, at_x, (B,)), JoinAttempt(z, 0, at_z, (B,))]
    member.step(MS, Datagrams([CODEC.encode(attempt) for attempt in attempts]))
    early = [
        *forged(CODEC, A, 1, here, three.encoded, Propose()),
        *forged(CODEC, x, 1, at_x, three.encoded, Propose()),
    ]
    member.step(2 * MS, Datagrams(early))
    assert member._protocol.current == three
    moved = forged(CODEC, x, 2, made_up((B, x), 4), proposal_of([made_up((B, x), 4)]).encoded,
                   phase=0, issued=0, start=0)  # fmt: skip
    joined = component_of(three.view)
    late = [
        *moved,
        *forged(CODEC, z, 1, at_z, three.encoded, Propose()),
        *forged(CODEC, A, 2, joined, proposal_of([joined]).encoded, phase=0, issued=0, start=0),
    ]
    member.step(3 * MS, Datagrams(late))
    assert member.view.members == (A, B, x, z)
    member.step(4 * MS, DeadlinePassed())
