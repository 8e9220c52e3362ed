"""Reliable broadcast by itself: what is kept, what is asked for, what is dropped."""

from __future__ import annotations

from functools import lru_cache

import pytest

from phalanx.config import Config, lan
from phalanx.core.broadcast.frame_store import PastFrames
from phalanx.core.broadcast.reliable import AHEAD_ASKED_MAX, POOL_BYTES, ReliableBroadcast
from phalanx.core.effects import Service
from phalanx.core.ids import MemberId, View, boot_view
from phalanx.core.membership.announcement import announce
from phalanx.core.membership.proposals import component_of, proposal_of
from phalanx.core.prng import Prng
from phalanx.core.wire.frame_codec import encode_frame, encode_tag
from phalanx.core.wire.frames import (
    CompleteFrame,
    Fragment,
    Frame,
    FrameKind,
    MessageRun,
    Nack,
    Propose,
    Want,
)
from phalanx.core.wire.packet_codec import PacketCodec

RUNS = [MessageRun(Service.AGREED, 1, 1, None, 0, (0,))]
CODEC = PacketCodec("phalanx", "g")


@lru_cache
def view(n: int) -> View:
    return boot_view([MemberId(f"m{i:02}") for i in range(n)])


def table(n: int = 3) -> bytes:
    return view(n).id.digest


def tag(n: int = 3) -> bytes:
    return encode_tag(view(n).id)


def broadcast(n: int = 3, config: Config | None = None) -> ReliableBroadcast:
    return ReliableBroadcast(0, view(n), None, PastFrames(), CODEC, config or lan(), Prng(1))


def ack_frame(sender: int, number: int, n: int = 3, **acks: int) -> CompleteFrame:
    """An ack-only frame in a view of n; `m2=5` acknowledges frame 5 of member 2."""
    members = [int(key[1:]) for key in acks]
    payload = encode_frame(FrameKind.ACK, 0, tag(n), members, list(acks.values()), 1, [])
    return CompleteFrame(payload, 0, table(n), sender, sender, number, 0)


def proposal_frame(sender: int, number: int, **more: tuple[int, ...]) -> CompleteFrame:
    """A frame of a view of three that proposes to go on without member 2."""
    here = view(3)
    proposal = proposal_of([component_of(here)], [(here.members[2], here.id)])
    vector = more.get("vector", tuple(number if rank == sender else 0 for rank in range(3)))
    said = announce(proposal, vector, number, number, (), (), Propose())
    payload = encode_frame(FrameKind.PROPOSE, 1, tag(), [], [], 1, [], said)
    return CompleteFrame(payload, 0, table(), sender, sender, number, 0)


def own_frame(
    n: int, number: int = 1, runs: list[MessageRun] | None = None, more: int = 0
) -> Frame:
    """A frame of member 0, with so many bytes more."""
    payload = encode_frame(FrameKind.ACK, 0, tag(n), [], [], 1, []) + bytes(more)
    piece = 1000 if more else 0
    return Frame(
        0, number, 2, 0, table(n), tag(n), (), (), 1, runs or [], None, payload, piece, False
    )


def take(domain: ReliableBroadcast, whole: CompleteFrame, now: int = 0) -> list[tuple[int, int]]:
    frame = domain.whole(now, whole)
    if frame is None:
        return []
    return [(f.sender, f.number) for f in domain.enter(now, frame)]


def test_frames_enter_in_causal_order_whatever_order_they_come_in() -> None:
    domain = broadcast()
    assert take(domain, ack_frame(2, 2, m1=1)) == []
    assert take(domain, ack_frame(2, 1)) == [(2, 1)]
    assert take(domain, ack_frame(1, 1)) == [(1, 1), (2, 2)]


def test_a_skipped_number_and_an_unknown_acknowledgement_are_missing() -> None:
    domain = broadcast()
    take(domain, ack_frame(1, 3, m2=2))
    assert sorted(domain.retransmission.missing) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    take(domain, ack_frame(1, 1))
    assert (1, 1) not in domain.retransmission.missing


def test_a_frame_enters_once() -> None:
    domain = broadcast()
    assert take(domain, ack_frame(1, 1)) == [(1, 1)]
    assert take(domain, ack_frame(1, 1)) == []
    assert domain.duplicates == 1
    assert not domain.refused


def test_only_stable_frames_are_dropped() -> None:
    domain = broadcast(2)
    for number in (1, 2):
        domain.insert(own_frame(2, number, RUNS))
    take(domain, ack_frame(1, 1, 2, m0=1))
    before = domain.bytes
    domain.drop_stable()
    assert sorted(domain.dag.frames[0]) == [2]
    assert domain.dropped == [1, 0]
    assert domain.bytes < before
    assert domain.own_bytes == len(domain.dag.frames[0][2].payload)


def test_a_request_for_what_is_stable_is_not_answered() -> None:
    """Its asker has acknowledged the frame: the request is late, or forged."""
    domain = broadcast(2)
    domain.insert(own_frame(2))
    take(domain, ack_frame(1, 1, 2, m0=1))
    domain.drop_stable()
    assert domain.nack(0, Nack(table(2), 1, (Want(0, 1, 1),))) == (0, [])


def test_the_sender_answers_at_once_and_not_twice_in_a_moment() -> None:
    domain = broadcast(2)
    domain.insert(own_frame(2))
    want = Nack(table(2), 1, (Want(0, 1, 1),))
    assert len(domain.nack(0, want)[1]) == 1
    assert domain.nack(10, want)[1] == []
    assert len(domain.nack(lan().nack_ns_min + 10, want)[1]) == 1


def test_a_member_that_hears_its_own_request_from_another_waits() -> None:
    domain = broadcast()
    take(domain, ack_frame(1, 2))
    due = domain.retransmission.deadline()
    assert due is not None
    domain.nack(0, Nack(table(), 2, (Want(1, 1, 1),)))
    assert domain.due(due) == (0, []), "woken too early, and nothing to do"
    later = domain.retransmission.deadline()
    assert later is not None
    assert later > lan().nack_ns_max


@pytest.mark.parametrize(("number", "asked"), [(3, 2), (5000, AHEAD_ASKED_MAX)])
def test_a_number_far_ahead_makes_a_member_ask_for_few_frames(number: int, asked: int) -> None:
    domain = broadcast()
    take(domain, ack_frame(1, number))
    assert len(domain.retransmission.missing) == asked


def test_a_frame_with_the_tag_of_another_view_is_refused_and_asked_for_again() -> None:
    domain = broadcast()
    payload = encode_frame(FrameKind.ACK, 0, b"v" * 16, [], [], 1, [])
    assert take(domain, CompleteFrame(payload, 0, table(), 1, 1, 1, 0)) == []
    assert domain.refused == {"view": 1}
    assert (1, 1) in domain.retransmission.missing


def test_a_frame_of_a_change_waits_to_be_pulled() -> None:
    domain = broadcast()
    assert take(domain, proposal_frame(1, 1)) == []
    assert domain.has_deferred
    frame = domain.pull()
    assert frame is not None
    assert (frame.sender, frame.number, frame.phase) == (1, 1, 1)
    domain.admit_without_vote(0, frame)
    assert domain.dag.have == [0, 1, 0]
    assert domain.pull() is None


def test_a_frame_of_a_change_follows_what_its_announcement_says() -> None:
    domain = broadcast()
    take(domain, proposal_frame(1, 1, vector=(0, 1, 2)))
    assert domain.pull() is None
    assert sorted(domain.retransmission.missing) == [(2, 1), (2, 2)]
    unread = domain.unread()
    assert unread is not None
    assert (unread.sender, unread.number) == (1, 1), "but its announcement can be read"
    assert domain.unread() is None, "once"


def test_a_frame_of_a_change_whose_announcement_contradicts_it_is_refused() -> None:
    domain = broadcast()
    take(domain, proposal_frame(1, 1, vector=(0, 7, 0)))
    assert domain.refused == {"impossible": 1}
    assert domain.pull() is None


def test_frames_wait_to_be_pulled_while_a_change_is_under_way() -> None:
    domain = broadcast()
    domain.steady = False
    assert take(domain, ack_frame(1, 1)) == []
    assert domain.pull() is not None


def test_a_member_has_spoken_once_a_frame_of_it_is_here_or_waits() -> None:
    domain = broadcast()
    take(domain, ack_frame(1, 1))
    take(domain, ack_frame(2, 2))
    assert [domain.spoke(sender) for sender in range(3)] == [False, True, True]


def test_requests_name_members_in_a_young_view_and_during_a_change() -> None:
    """Others may be in another view by then."""
    for awaiting_first_frames, steady in ((True, True), (False, False)):
        domain = broadcast()
        domain.awaiting_first_frames, domain.steady = awaiting_first_frames, steady
        take(domain, ack_frame(1, 2))
        due = domain.retransmission.deadline()
        assert due is not None
        (packet,) = domain.due(due)[1]
        nack = CODEC.decode(packet)
        assert isinstance(nack, Nack)
        assert nack.names == (view(3).members[0], view(3).members[1])
        assert (nack.asker, nack.wants) == (0, (Want(1, 1, 1),))


def test_a_gap_of_many_frames_is_asked_for_in_one_packet() -> None:
    domain = broadcast()
    take(domain, ack_frame(1, 501))
    packets: list[bytes] = []
    while (due := domain.retransmission.deadline()) is not None and due < lan().nack_retry_ns:
        packets += domain.due(due)[1]
    (packet,) = packets
    nack = CODEC.decode(packet)
    assert isinstance(nack, Nack)
    assert nack.wants == (Want(1, 1, 500),)


def test_different_fragments_asked_for_in_a_moment_are_all_repeated() -> None:
    domain = broadcast(20)
    domain.insert(own_frame(20, more=10_000))
    asked = [Nack(table(20), k + 1, (Want(0, 1, 1, 1, bytes([1 << k])),)) for k in range(8)]
    assert [len(domain.nack(k, nack)[1]) for k, nack in enumerate(asked)] == [1] * 8
    assert [len(domain.nack(9, nack)[1]) for nack in asked] == [0] * 8


def test_holders_answer_within_a_budget() -> None:
    domain = broadcast(64, lan(window_bytes_min=20_000))
    payload = encode_frame(FrameKind.ACK, 0, tag(64), [], [], 1, [])
    for number in range(1, 41):
        body = payload + bytes(2000)
        domain.dag.insert(
            Frame(1, number, 2, 0, table(64), tag(64), (), (), 1, [], None, body, 0, False)
        )
    domain.heard[1] = 40
    domain.nack(0, Nack(table(64), 2, (Want(1, 1, 40),)))
    assert 0 < sum(map(len, domain.due(lan().answer_ns_max)[1])) < 25_000


def test_a_partial_frame_is_not_asked_for_while_its_fragments_keep_coming() -> None:
    domain = broadcast()
    step = lan().nack_ns_max - 1
    for index in range(10):
        now = index * step
        domain.fragment(now, Fragment(bytes(10), table(), 1, 1, 1, index, 12, 0))
        domain.overdue(now)
        due = domain.retransmission.deadline()
        assert due is not None
        assert domain.due(now) == (0, [])
    later = 20 * step
    assert domain.due(later)[0] == 2


def test_ack_only_frames_do_not_fill_the_window() -> None:
    domain = broadcast()
    take(domain, ack_frame(1, 1))
    assert domain.bytes == 0


def test_frames_that_wait_hold_a_bounded_number_of_bytes() -> None:
    domain = broadcast()
    for number in range(2, 400):
        domain.fragment(0, Fragment(bytes(60_000), table(), 1, 1, number, 0, 2, 0))
    assert domain._reassembler.bytes <= POOL_BYTES + 60_000
    assert domain.refused["ahead"] > 50
    domain.fragment(0, Fragment(bytes(60_000), table(), 1, 1, 1, 0, 2, 0))
    assert (1, 1) in domain._reassembler, "the next one may always come in"


def test_a_member_far_behind_goes_on_asking_as_it_catches_up() -> None:
    domain = broadcast(3, lan(ahead_frames_max=4))
    take(domain, ack_frame(1, 100))
    for number in range(1, 100):
        assert (1, number) in domain.retransmission.missing
        take(domain, ack_frame(1, number))
    assert (1, 100) in domain.retransmission.missing
