"""Packets that are well-formed, with a true checksum, and nonsense: a peer gone mad.

They may confuse the group (this is no protocol for Byzantine faults), but must never raise,
never stop a member from serving, and never make it remember more than it received.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from phalanx.config import lan
from phalanx.core.broadcast.frame_store import FrameStore
from phalanx.core.effects import Datagrams, DeadlinePassed, Refused, Service, Submit, Transmit
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.wire.frame_codec import encode_frame
from phalanx.core.wire.frames import FrameKind, MessageRun
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import REASONS, Fragment, Nack, Want

MS = 1_000_000
CODEC = PacketCodec("phalanx", "g")
Build = Callable[..., Any]


def member(n: int, rank: int = 0, **settings: Any) -> Member:
    view = boot_view([MemberId(f"m{i:04}") for i in range(n)])
    made = Member(view.members[rank], view, "g", lan(**settings), rank)
    made.start(0)
    return made


def message(first: int, service: Service = Service.AGREED) -> tuple[MessageRun, list[bytes]]:
    return MessageRun(service, first, 1, None, 0, (1,)), [b"x"]


def forge(
    victim: Member,
    sender: int,
    number: int,
    acks: Sequence[tuple[int, int]] = (),
    runs: Sequence[tuple[MessageRun, list[bytes]]] = (),
    tag: bytes | None = None,
) -> bytes:
    kind = FrameKind.DATA if runs else FrameKind.ACK
    first = runs[0][0].first if runs else 1
    members, numbers = [q for q, _ in acks], [c for _, c in acks]
    payload = encode_frame(kind, 0, tag or victim._active.state.tag, members, numbers, first, runs)
    return victim._codec.encode_fragment(
        Fragment(payload, victim._active.state.table, sender, sender, number, 0, 1, 0)
    )


def refused(victim: Member, now: int, *packets: bytes) -> dict[str, int]:
    effects = victim.step(now, Datagrams(packets))
    return {e.reason: e.count for e in effects if isinstance(e, Refused)}


@pytest.mark.parametrize("order", ["all-ack", "toto"])
def test_vectors_that_are_not_transitive_do_not_raise(order: str) -> None:
    """2 follows 1, 3 follows 2 and not 1: 2's frame is stable while the order points at it
    (rule F-17)."""
    victim = member(4, order=order)
    steps = [
        [forge(victim, 1, 1, runs=[message(1)]), forge(victim, 1, 2, runs=[message(2)])],
        [forge(victim, 2, 1, [(1, 1)])],
        [],
        [forge(victim, 1, 3, [(2, 1)])],
        [forge(victim, 3, 1, [(2, 1)])],
        [forge(victim, 3, 2, [(1, 2)])],
        [forge(victim, 2, 2, [(1, 2)])],
    ]
    for k, packets in enumerate(steps):
        victim.step(k * 40 * MS, Datagrams(packets))
        victim.step(k * 40 * MS + MS, DeadlinePassed())
    assert victim.have[3] == 2


def test_an_acknowledgement_given_twice_is_refused() -> None:
    victim = member(3)
    victim.step(
        MS, Datagrams([forge(victim, 1, k, runs=[message(k, Service.SAFE)]) for k in (1, 2)])
    )
    assert refused(victim, 2 * MS, forge(victim, 2, 1, [(1, 2), (1, 1)])) == {"malformed": 1}
    assert victim.have[2] == 0


def test_a_fragment_count_is_not_believed() -> None:
    """Rule F-4."""
    victim = member(2)
    many = [
        CODEC.encode_fragment(Fragment(b"?", victim._active.state.table, 1, 1, k + 1, 0, 8192, 0))
        for k in range(2000)
    ]
    victim.step(MS, Datagrams(many))
    kept = victim._active.state.broadcast._reassembler
    assert kept.bytes == 2000
    assert sum(sys.getsizeof(p.pieces) for p in kept._partial.values()) < 2000 * 300
    huge = CODEC.encode_fragment(Fragment(b"?", victim._active.state.table, 1, 1, 9, 0, 65_535, 0))
    assert refused(victim, 2 * MS, huge) == {"malformed": 1}


def test_a_request_for_many_fragments_fits_a_datagram() -> None:
    victim = member(2, datagram_bytes_max=256)
    piece = CODEC.encode_fragment(Fragment(b"?", victim._active.state.table, 1, 1, 1, 0, 8192, 0))
    victim.step(MS, Datagrams([piece]))
    sent = victim.step(100 * MS, DeadlinePassed())
    packets = [p for e in sent if isinstance(e, Transmit) for p in e.packets]
    assert packets
    assert max(map(len, packets)) <= 256


def test_a_forged_fragment_does_not_keep_the_real_frame_out(mesh: Build) -> None:
    """Rule B-25."""
    group = mesh("ab")
    forged = CODEC.encode_fragment(
        Fragment(b"junk", group.members[0]._active.state.table, 1, 1, 1, 0, 3, 0)
    )
    group.members[0].step(0, Datagrams([forged]))
    group.submit(1, bytes(2000))
    group.pump(500)
    assert len(group.bodies(0)) == 1


def test_a_frame_of_another_view_does_not_hide_the_real_one(mesh: Build) -> None:
    group = mesh("ab")
    victim = group.members[0]
    assert refused(victim, 0, forge(victim, 1, 1, tag=b"v" * 16)) == {"view": 1}
    lose = True
    group.carry = lambda a, b, packet: [] if lose else [packet]
    group.submit(1, b"real")
    lose = False
    group.pump(600)
    assert group.bodies(0) == [b"real"]


@pytest.mark.parametrize("want", [Want(0, (1 << 63) - 1, 0), Want(0, 1, (1 << 63) - 1)])
def test_a_mad_request_made_again_and_again_does_not_move_the_window(want: Want) -> None:
    victim = member(3)
    for k in range(50):
        foreign = CODEC.encode(Nack(b"another!", 1, (Want(0, 1, (1 << 63) - 1),)))
        mad = CODEC.encode(Nack(victim._active.state.table, 1, (want,) * 20))
        victim.step(k * 10 * MS, Datagrams([mad, foreign]))
    assert victim._active.state.window.limit == lan().window_bytes_max
    assert sum(victim._active.state.window._lost) <= victim.have[0], "nobody loses a frame twice"


def test_a_request_costs_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule B-10."""
    victim = member(2)
    victim.step(0, Submit([b"x"]))
    victim.step(MS, Datagrams([forge(victim, 1, 1, [(0, 1)])]))
    visits = 0
    held = FrameStore.get

    def counting(self: FrameStore, place: tuple[int, int]) -> Any:
        nonlocal visits
        visits += 1
        return held(self, place)

    victim.step(2 * MS, Datagrams([forge(victim, 1, 4000)]))
    monkeypatch.setattr(FrameStore, "get", counting)
    wants = (Want(1, 1, 5000),) * 256 + (Want(0, 1, 1),) * 256
    effects = victim.step(
        3 * MS, Datagrams([CODEC.encode(Nack(victim._active.state.table, 1, wants))])
    )
    assert 0 < visits <= 2048
    assert not any(isinstance(e, Transmit) and len(e.packets) > 1 for e in effects)


def test_parts_that_never_end_are_not_kept() -> None:
    victim = member(2)
    for part in range(200):
        run = MessageRun(Service.AGREED, 1, 1, None, 0, (50_000,), part, 1 << 20, 1 << 20)
        packet = forge(victim, 1, part + 1, runs=[(run, [bytes(50_000)])])
        victim.step(part * MS, Datagrams([packet]))
    kept = victim._active.state.queue._assemblies[1]
    assert sum(map(len, kept._parts)) <= 1 << 20


def test_random_nonsense_never_raises_and_is_counted() -> None:
    """Frames with random senders, numbers, acknowledgements, services and receivers."""
    rng = random.Random(4)
    for n in (1, 2, 3, 5):
        victim = member(n, order=rng.choice(["toto", "all-ack"]))
        reasons: set[str] = set()
        for k in range(3000):
            acks = sorted({rng.randrange(n + 1): rng.randrange(8) for _ in range(3)}.items())
            service = rng.choice(list(Service))
            parts = rng.choice([1, 1, 3])
            run = MessageRun(
                service, rng.randrange(1, 9), 1, None, 0, (1,), rng.randrange(parts), parts, 3
            )
            packet = forge(
                victim,
                rng.randrange(n + 1),
                rng.choice([k // 50 + 1, rng.randrange(1, 90), 1 << 50]),
                acks[: rng.randrange(4)],
                [(run, [b"x"])] if rng.randrange(2) else [],
            )
            reasons |= set(refused(victim, k * MS, packet))
            victim.step(k * MS, DeadlinePassed())
        assert reasons <= set(REASONS)
        victim.step(4000 * MS, Submit([b"alive"]))
        assert victim.have[0] > 0
