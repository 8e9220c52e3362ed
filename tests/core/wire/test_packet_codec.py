"""Round trips for every kind, and bytes of every kind that decode to a frame or a refusal."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.core.effects import Service
from phalanx.core.ids import MEMBERS_MAX, NUMBER_MAX, MemberId, ViewId
from phalanx.core.wire.frame_codec import decode_frame, decode_tag, encode_frame, encode_tag
from phalanx.core.wire.frames import (
    KIND_OF,
    PROPOSAL_BYTES_MAX,
    Announce,
    Component,
    Control,
    ControlMessage,
    DeliveredVector,
    Frame,
    FrameKind,
    LeaveAnnounced,
    MessageRun,
    Propose,
)
from phalanx.core.wire.packet_codec import FRAGMENT_HEADER_BYTES, VERSION, PacketCodec
from phalanx.core.wire.packets import (
    REASONS,
    Alive,
    ControlFragment,
    ControlPacket,
    Fragment,
    Hello,
    IncarnationReused,
    JoinAttempt,
    Nack,
    NameClaimed,
    NameHeld,
    Probe,
    Refusal,
    Relay,
    Want,
)

CODEC = PacketCodec("cluster", "group")
TABLE = b"table678"
VIEW = ViewId(3, 1, b"digest78")
ADA, BOB, CAL = MemberId("ada", 1), MemberId("bob", 7), MemberId("cal", 1 << 62)
COMPONENT = Component(VIEW, (ADA, BOB))

PACKETS: list[ControlPacket] = [
    Nack(TABLE, 1, (Want(0, 3, 9), Want(2, 4, 4, 3, b"\x05"))),
    Nack(TABLE, 1, (Want(0, 3, 9),), (ADA, BOB)),
    Hello(ADA, 4, VIEW, (BOB,)),
    JoinAttempt(ADA, 4, COMPONENT, (CAL,)),
    NameClaimed(ADA, 2),
    NameHeld(ADA, 1),
    IncarnationReused(ADA, 1),
    Probe(ADA, BOB, 99),
    Probe(ADA, BOB, 99, CAL, CAL),
    Alive(BOB, ADA, 99, VIEW),
    Alive(BOB, ADA, 99, VIEW, CAL, CAL),
    Relay(ADA, BOB, CAL),
    ControlFragment(b"12345678", 1, 2, b"piece"),
]


def announce(said: ControlMessage | None) -> Announce:
    return Announce(b"a proposal", (1, 1 << 40), 5, 4, (7, 0, 1 << 40), (3, 2), said)


CONTROLS: list[tuple[FrameKind, Control]] = [
    (FrameKind.ACK, announce(None)),
    (FrameKind.PROPOSE, announce(Propose(DeliveredVector((ADA, BOB), (5, 6))))),
    (FrameKind.LEAVE, announce(LeaveAnnounced())),
]


@pytest.mark.parametrize("packet", PACKETS, ids=lambda p: type(p).__name__)
def test_plain_packets_round_trip(packet: ControlPacket) -> None:
    assert CODEC.decode(CODEC.encode(packet)) == packet


def test_every_kind_of_packet_and_frame_has_a_round_trip_here() -> None:
    assert {type(packet) for packet in PACKETS} == set(get_args(ControlPacket))
    assert {kind for kind, _ in CONTROLS} | {FrameKind.DATA} == set(FrameKind)
    assert {type(control.said) for _, control in CONTROLS} == {
        *get_args(ControlMessage),
        type(None),
    }
    assert set(KIND_OF) == set(get_args(ControlMessage))


@pytest.mark.parametrize(("kind", "control"), CONTROLS, ids=lambda x: getattr(x, "name", ""))
def test_control_frames_round_trip(kind: FrameKind, control: Control) -> None:
    payload = encode_frame(kind, 1, encode_tag(VIEW), [0, 3], [7, 1 << 33], 12, [], control)
    frame = decode_frame(2, 5, payload, 0, TABLE, 8)
    assert isinstance(frame, Frame)
    assert (frame.kind, frame.phase, decode_tag(frame.tag), frame.control) == (
        kind,
        1,
        VIEW,
        control,
    )
    assert (frame.ack_members, frame.ack_numbers) == ((0, 3), (7, 1 << 33))


@pytest.mark.parametrize("kind", FrameKind)
def test_a_frame_whose_kind_is_not_that_of_what_it_says_is_malformed(kind: FrameKind) -> None:
    for true, control in CONTROLS:
        payload = encode_frame(kind, 1, encode_tag(VIEW), [], [], 1, [], control)
        got = decode_frame(2, 5, payload, 0, TABLE, 8)
        assert isinstance(got, Frame) == (kind == true)


def test_a_control_frame_without_an_announcement_is_malformed() -> None:
    for kind in (FrameKind.PROPOSE, FrameKind.LEAVE):
        payload = encode_frame(kind, 1, encode_tag(VIEW), [], [], 1, [])
        assert decode_frame(2, 5, payload, 0, TABLE, 8) == Refusal("malformed")


CROWD = tuple(MemberId(f"m{i:04}") for i in range(MEMBERS_MAX + 1))


@pytest.mark.parametrize(
    "control",
    [
        Announce(bytes(PROPOSAL_BYTES_MAX + 1), (1, 1)),
        Announce(b"", (1,) * len(CROWD)),
        Announce(b"", (-1, 1)),
        Announce(b"", (NUMBER_MAX + 1, 1)),
        Announce(b"", (1, 1), issued=-1),
        Announce(b"", (1, 1), start=NUMBER_MAX + 1),
        Announce(b"", (1, 1), closings=(1,) * len(CROWD)),
        Announce(b"", (1, 1), closings=(-1, 1)),
        Announce(b"", (1, 1), openings=(1,) * len(CROWD)),
    ],
    ids=[
        "proposal",
        "vector",
        "negative",
        "beyond all numbers",
        "negative issue",
        "start beyond all numbers",
        "closings",
        "negative closing",
        "openings",
    ],
)
def test_lists_and_numbers_beyond_their_limits_are_malformed(control: Announce) -> None:
    payload = encode_frame(FrameKind.ACK, 1, encode_tag(VIEW), [], [], 1, [], control)
    assert decode_frame(0, 5, payload, 0, TABLE, 8) == Refusal("malformed")


@pytest.mark.parametrize(
    "delivered",
    [
        DeliveredVector(CROWD, ()),
        DeliveredVector((), (1,) * len(CROWD)),
        DeliveredVector((ADA,), (-1,)),
    ],
    ids=["members", "numbers", "negative"],
)
def test_a_proposal_that_lists_too_much_delivered_is_malformed(delivered: DeliveredVector) -> None:
    control = announce(Propose(delivered))
    payload = encode_frame(FrameKind.PROPOSE, 1, encode_tag(VIEW), [], [], 1, [], control)
    assert decode_frame(0, 5, payload, 0, TABLE, 8) == Refusal("malformed")


@pytest.mark.parametrize(
    "packet",
    [
        Hello(ADA, 1, VIEW, CROWD),
        JoinAttempt(ADA, 1, Component(VIEW, CROWD), ()),
        JoinAttempt(ADA, 1, COMPONENT, CROWD),
        JoinAttempt(ADA, 1, Component(ViewId(1 << 32, 0, b"digest78"), (ADA,)), ()),
        JoinAttempt(ADA, 1, Component(ViewId(1, -1, b"digest78"), (ADA,)), ()),
        JoinAttempt(ADA, 1, Component(ViewId(1, 0, b"digest78+"), (ADA,)), ()),
        JoinAttempt(ADA, 1, Component(VIEW, (ADA,), b"context"), ()),
        Nack(TABLE, 0, (), CROWD),
        Hello(ADA, -1, VIEW, ()),
        NameHeld(ADA, 1 << 63),
    ],
    ids=[
        "heard",
        "component",
        "attempt heard",
        "epoch beyond 32 bits",
        "negative epoch",
        "long digest",
        "short context",
        "names",
        "negative",
        "beyond 63 bits",
    ],
)
def test_packets_with_lists_or_numbers_beyond_their_limits_are_malformed(
    packet: ControlPacket,
) -> None:
    assert CODEC.decode(CODEC.encode(packet)) == Refusal("malformed")


bodies_of = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
runs_of = st.lists(
    st.tuples(
        st.sampled_from(Service),
        st.none() | st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),
        bodies_of,
    ),
    min_size=1,
    max_size=4,
)


@given(runs_of, st.integers(1, 1 << 50), st.integers(60, 300))
def test_data_frames_round_trip_through_fragments(
    content: list[tuple[Service, list[int] | None, list[bytes]]], first: int, piece: int
) -> None:
    runs = []
    number = first
    for service, to, bodies in content:
        lengths = tuple(map(len, bodies))
        run = MessageRun(
            service, number, len(bodies), tuple(sorted(to)) if to else None, 0, lengths
        )
        runs.append((run, bodies))
        number += len(bodies)
    payload = encode_frame(FrameKind.DATA, 0, encode_tag(VIEW), [1], [9], first, runs)
    sent = decode_frame(0, 3, payload, piece if len(payload) > piece else 0, TABLE, 8)
    assert isinstance(sent, Frame)
    packets = [CODEC.decode(p) for p in CODEC.fragments(sent, 0, repeat=0)]
    pieces = [p.piece for p in packets if isinstance(p, Fragment)]
    assert len(pieces) == len(packets) == -(-len(payload) // piece)
    frame = decode_frame(0, 3, b"".join(pieces), sent.piece, TABLE, 8)
    assert isinstance(frame, Frame)
    assert frame == sent
    assert frame.last == number - 1
    assert frame.ordered == any(service >= Service.AGREED for service, _, _ in content)
    for run, (made, bodies) in zip(frame.runs, runs, strict=True):
        assert (run.service, run.first, run.to) == (made.service, made.first, made.to)
        at, out = run.offset, []
        for length in run.lengths:
            out.append(frame.payload[at : at + length])
            at += length
        assert out == bodies
        assert (made.offset, list(made.lengths)) == (run.offset, list(run.lengths))


def test_long_bodies_take_wide_lengths() -> None:
    run = MessageRun(Service.BASIC, 1, 2, None, 0, (70_000, 1))
    bodies = [b"x" * 70_000, b"y"]
    payload = encode_frame(FrameKind.DATA, 0, bytes(16), [], [], 1, [(run, bodies)])
    frame = decode_frame(0, 1, payload, 0, TABLE, 8)
    assert isinstance(frame, Frame)
    assert list(frame.runs[0].lengths) == [70_000, 1]


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_a_packet_or_a_reason(data: bytes) -> None:
    packet = CODEC.decode(data)
    assert not isinstance(packet, Refusal) or packet.reason in REASONS


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes_behind_a_true_header_decode_to_a_packet_or_a_reason(data: bytes) -> None:
    """The checksum guards against damage, not against a peer that speaks nonsense."""
    sound = CODEC.encode_fragment(Fragment(data, TABLE, 0, 0, 1, 0, 1, 0))
    assert isinstance(CODEC.decode(sound), Fragment)
    frame = decode_frame(0, 1, data, 0, TABLE, 8)
    assert isinstance(frame, Frame) or frame.reason in REASONS


def test_damaged_frames_behind_a_true_checksum_never_raise() -> None:
    """Bit flips and cuts inside a frame whose checksum was made after the damage."""
    rng = random.Random(5)
    whole = [encode_frame(k, 0, bytes(16), [0, 1], [3, 4], 1, [], c) for k, c in CONTROLS]
    run = MessageRun(Service.SAFE, 1, 3, (0, 2), 0, (1, 0, 3))
    whole.append(
        encode_frame(FrameKind.DATA, 0, bytes(16), [1], [1], 1, [(run, [b"a", b"", b"ccc"])])
    )
    outcomes = {"frame": 0, "refusal": 0}
    for _ in range(20_000):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.randrange(3) == 0:
            del data[rng.randrange(len(data)) :]
        got = decode_frame(2, 1, bytes(data), 0, TABLE, 8)
        outcomes["refusal" if isinstance(got, Refusal) else "frame"] += 1
    assert outcomes["refusal"] > 1000
    assert outcomes["frame"] > 1000


def test_every_damaged_packet_is_refused() -> None:
    """Any one or two flipped bits are found by the checksum or the header."""
    rng = random.Random(6)
    run = MessageRun(Service.AGREED, 1, 1, None, 0, (36,))
    payload = encode_frame(FrameKind.DATA, 0, bytes(16), [1], [1], 1, [(run, [b"body" * 9])])
    frame = decode_frame(0, 1, payload, 0, TABLE, 8)
    assert isinstance(frame, Frame)
    packets = CODEC.fragments(frame, 0, repeat=0) + [CODEC.encode(p) for p in PACKETS]
    for packet in packets:
        for bit in range(len(packet) * 8):
            data = bytearray(packet)
            data[bit // 8] ^= 1 << bit % 8
            if rng.randrange(2):
                data[rng.randrange(len(data))] ^= 0x10
            if bytes(data) != packet:
                assert isinstance(CODEC.decode(bytes(data)), Refusal)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "short"),
        (CODEC.encode(PACKETS[0])[:10], "short"),
        (CODEC.encode_fragment(Fragment(b"", TABLE, 0, 0, 1, 0, 1, 0))[:20], "short"),
        (b"\x09" + CODEC.encode(PACKETS[0])[1:], "version"),
        (PacketCodec("other", "group").encode(PACKETS[0]), "cluster"),
        (PacketCodec("cluster", "other").encode(PACKETS[0]), "group"),
        (bytes([VERSION, 0x7F]) + CODEC.encode(PACKETS[0])[2:], "kind"),
        (CODEC.encode(PACKETS[0])[:-1] + b"\xff", "checksum"),
        (CODEC.encode_fragment(Fragment(b"", TABLE, 0, 0, 1, 4, 1, 0)), "malformed"),
        (CODEC.encode_fragment(Fragment(b"", TABLE, 0, 0, 0, 0, 1, 0)), "malformed"),
    ],
)
def test_each_refusal_names_its_reason(data: bytes, reason: str) -> None:
    assert CODEC.decode(data) == Refusal(reason)


def test_a_fragment_costs_its_header_and_its_piece() -> None:
    packet = CODEC.encode_fragment(Fragment(b"piece", TABLE, 0, 0, 1, 0, 1, 0))
    assert len(packet) == FRAGMENT_HEADER_BYTES + 5
