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
from phalanx.core.wire.frames import Frame, FrameKind, MessageRun, Propose
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import CompleteFrame, Fragment, Nack, Want

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


def take(frames: ReliableBroadcast, whole: CompleteFrame, now: int = 0) -> list[tuple[int, int]]:
    frame = frames.whole(now, whole)
    if frame is None:
        return []
    return [(f.sender, f.number) for f in frames.enter(now, frame)]


def test_frames_enter_in_causal_order_whatever_order_they_come_in() -> None:
    frames = broadcast()
    assert take(frames, ack_frame(2, 2, m1=1)) == []
    assert take(frames, ack_frame(2, 1)) == [(2, 1)]
    assert take(frames, ack_frame(1, 1)) == [(1, 1), (2, 2)]


def test_a_skipped_number_and_an_unknown_acknowledgement_are_missing() -> None:
    frames = broadcast()
    take(frames, ack_frame(1, 3, m2=2))
    assert sorted(frames.retransmission.missing) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    take(frames, ack_frame(1, 1))
    assert (1, 1) not in frames.retransmission.missing


def test_a_frame_enters_once() -> None:
    frames = broadcast()
    assert take(frames, ack_frame(1, 1)) == [(1, 1)]
    assert take(frames, ack_frame(1, 1)) == []
    assert frames.duplicates == 1
    assert not frames.refused


def test_only_stable_frames_are_dropped() -> None:
    frames = broadcast(2)
    for number in (1, 2):
        frames.insert(own_frame(2, number, RUNS))
    take(frames, ack_frame(1, 1, 2, m0=1))
    before = frames.store.bytes
    frames.store.drop_stable()
    assert sorted(frames.dag.frames[0]) == [2]
    assert frames.store.dropped == [1, 0]
    assert frames.store.bytes < before
    assert frames.store.own_bytes == len(frames.dag.frames[0][2].payload)


def test_a_request_for_what_is_stable_is_not_answered() -> None:
    """Its asker has acknowledged the frame: the request is late, or forged."""
    frames = broadcast(2)
    frames.insert(own_frame(2))
    take(frames, ack_frame(1, 1, 2, m0=1))
    frames.store.drop_stable()
    assert frames.answer(0, Nack(table(2), 1, (Want(0, 1, 1),))) == (0, [])


def test_the_sender_answers_at_once_and_not_twice_in_a_moment() -> None:
    frames = broadcast(2)
    frames.insert(own_frame(2))
    want = Nack(table(2), 1, (Want(0, 1, 1),))
    assert len(frames.answer(0, want)[1]) == 1
    assert frames.answer(10, want)[1] == []
    assert len(frames.answer(lan().nack_ns_min + 10, want)[1]) == 1


def test_a_member_that_hears_its_own_request_from_another_waits() -> None:
    frames = broadcast()
    take(frames, ack_frame(1, 2))
    due = frames.retransmission.deadline()
    assert due is not None
    frames.answer(0, Nack(table(), 2, (Want(1, 1, 1),)))
    assert frames.due(due) == (0, []), "woken too early, and nothing to do"
    later = frames.retransmission.deadline()
    assert later is not None
    assert later > lan().nack_ns_max


@pytest.mark.parametrize(("number", "asked"), [(3, 2), (5000, AHEAD_ASKED_MAX)])
def test_a_number_far_ahead_makes_a_member_ask_for_few_frames(number: int, asked: int) -> None:
    frames = broadcast()
    take(frames, ack_frame(1, number))
    assert len(frames.retransmission.missing) == asked


def test_a_frame_with_the_tag_of_another_view_is_refused_and_asked_for_again() -> None:
    frames = broadcast()
    payload = encode_frame(FrameKind.ACK, 0, b"v" * 16, [], [], 1, [])
    assert take(frames, CompleteFrame(payload, 0, table(), 1, 1, 1, 0)) == []
    assert frames.refused == {"view": 1}
    assert (1, 1) in frames.retransmission.missing


def test_a_frame_of_a_change_waits_to_be_pulled() -> None:
    frames = broadcast()
    assert take(frames, proposal_frame(1, 1)) == []
    assert frames.has_deferred
    frame = frames.next_admissible()
    assert frame is not None
    assert (frame.sender, frame.number, frame.phase) == (1, 1, 1)
    frames.admit_without_vote(0, frame)
    assert frames.dag.have == [0, 1, 0]
    assert frames.next_admissible() is None


def test_a_frame_of_a_change_follows_what_its_announcement_says() -> None:
    frames = broadcast()
    take(frames, proposal_frame(1, 1, vector=(0, 1, 2)))
    assert frames.next_admissible() is None
    assert sorted(frames.retransmission.missing) == [(2, 1), (2, 2)]
    unread = frames.unread()
    assert unread is not None
    assert (unread.sender, unread.number) == (1, 1), "but its announcement can be read"
    assert frames.unread() is None, "once"


def test_a_frame_of_a_change_whose_announcement_contradicts_it_is_refused() -> None:
    frames = broadcast()
    take(frames, proposal_frame(1, 1, vector=(0, 7, 0)))
    assert frames.refused == {"impossible": 1}
    assert frames.next_admissible() is None


def test_frames_wait_to_be_pulled_while_a_change_is_under_way() -> None:
    frames = broadcast()
    frames.steady = False
    assert take(frames, ack_frame(1, 1)) == []
    assert frames.next_admissible() is not None


def test_a_member_has_spoken_once_a_frame_of_it_is_here_or_waits() -> None:
    frames = broadcast()
    take(frames, ack_frame(1, 1))
    take(frames, ack_frame(2, 2))
    assert [frames.spoke(sender) for sender in range(3)] == [False, True, True]


def test_requests_name_members_in_a_young_view_and_during_a_change() -> None:
    """Others may be in another view by then."""
    for awaiting_first_frames, steady in ((True, True), (False, False)):
        frames = broadcast()
        frames.awaiting_first_frames, frames.steady = awaiting_first_frames, steady
        take(frames, ack_frame(1, 2))
        due = frames.retransmission.deadline()
        assert due is not None
        (packet,) = frames.due(due)[1]
        nack = CODEC.decode(packet)
        assert isinstance(nack, Nack)
        assert nack.names == (view(3).members[0], view(3).members[1])
        assert (nack.asker, nack.wants) == (0, (Want(1, 1, 1),))


def test_a_gap_of_many_frames_is_asked_for_in_one_packet() -> None:
    frames = broadcast()
    take(frames, ack_frame(1, 501))
    packets: list[bytes] = []
    while (due := frames.retransmission.deadline()) is not None and due < lan().nack_retry_ns:
        packets += frames.due(due)[1]
    (packet,) = packets
    nack = CODEC.decode(packet)
    assert isinstance(nack, Nack)
    assert nack.wants == (Want(1, 1, 500),)


def test_different_fragments_asked_for_in_a_moment_are_all_repeated() -> None:
    frames = broadcast(20)
    frames.insert(own_frame(20, more=10_000))
    asked = [Nack(table(20), k + 1, (Want(0, 1, 1, 1, bytes([1 << k])),)) for k in range(8)]
    assert [len(frames.answer(k, nack)[1]) for k, nack in enumerate(asked)] == [1] * 8
    assert [len(frames.answer(9, nack)[1]) for nack in asked] == [0] * 8


def test_holders_answer_within_a_budget() -> None:
    frames = broadcast(64, lan(window_bytes_min=20_000))
    payload = encode_frame(FrameKind.ACK, 0, tag(64), [], [], 1, [])
    for number in range(1, 41):
        body = payload + bytes(2000)
        frames.dag.insert(
            Frame(1, number, 2, 0, table(64), tag(64), (), (), 1, [], None, body, 0, False)
        )
    frames.heard[1] = 40
    frames.answer(0, Nack(table(64), 2, (Want(1, 1, 40),)))
    assert 0 < sum(map(len, frames.due(lan().answer_ns_max)[1])) < 25_000


def test_a_partial_frame_is_not_asked_for_while_its_fragments_keep_coming() -> None:
    frames = broadcast()
    step = lan().nack_ns_max - 1
    for index in range(10):
        now = index * step
        frames.fragment(now, Fragment(bytes(10), table(), 1, 1, 1, index, 12, 0))
        frames.overdue(now)
        due = frames.retransmission.deadline()
        assert due is not None
        assert frames.due(now) == (0, [])
    later = 20 * step
    assert frames.due(later)[0] == 2


def test_ack_only_frames_do_not_fill_the_window() -> None:
    frames = broadcast()
    take(frames, ack_frame(1, 1))
    assert frames.store.bytes == 0


def test_frames_that_wait_hold_a_bounded_number_of_bytes() -> None:
    frames = broadcast()
    for number in range(2, 400):
        frames.fragment(0, Fragment(bytes(60_000), table(), 1, 1, number, 0, 2, 0))
    assert frames._reassembler.bytes <= POOL_BYTES + 60_000
    assert frames.refused["ahead"] > 50
    frames.fragment(0, Fragment(bytes(60_000), table(), 1, 1, 1, 0, 2, 0))
    assert (1, 1) in frames._reassembler, "the next one may always come in"


def test_a_member_far_behind_goes_on_asking_as_it_catches_up() -> None:
    frames = broadcast(3, lan(ahead_frames_max=4))
    take(frames, ack_frame(1, 100))
    for number in range(1, 100):
        assert (1, number) in frames.retransmission.missing
        take(frames, ack_frame(1, number))
    assert (1, 100) in frames.retransmission.missing
