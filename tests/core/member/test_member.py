"""A few members in memory: what each service promises, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import lan
from phalanx.core.effects import (
    Accepted,
    Close,
    Datagrams,
    Deliver,
    Ordered,
    Refused,
    Sent,
    Service,
    Stable,
    Submit,
    Transmit,
    ViewInstalled,
    WindowClosed,
    WindowOpened,
)
from phalanx.core.ids import MemberId
from phalanx.core.member.member import Member
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Nack, NameClaimed, Want
from phalanx.errors import (
    MemberClosed,
    MessageTooLarge,
    NoReceiver,
    NotBytes,
    OutboxFull,
    SubmissionError,
    UnknownMember,
)

Build = Callable[..., Any]
ADA, BOB, EVE = MemberId("a"), MemberId("b"), MemberId("e")


def test_a_member_starts_by_telling_its_view(mesh: Build) -> None:
    group = mesh("ab")
    (installed,) = group.seen[0]
    assert isinstance(installed, ViewInstalled)
    assert [m.name for m in installed.view.members] == ["a", "b"]


@pytest.mark.parametrize("service", Service)
def test_every_service_delivers_everywhere_once(mesh: Build, service: Service) -> None:
    group = mesh("abc")
    group.submit(0, b"one", b"two", service=service)
    group.pump(100)
    for i in range(3):
        assert group.delivered(i) == [("a", 1, b"one"), ("a", 2, b"two")]


def test_a_member_alone_delivers_at_once(mesh: Build) -> None:
    group = mesh("a", lan(post_confirm=True))
    group.pump(100)  # its name is its own by then
    for service in Service:
        group.submit(0, service.name.encode(), service=service)
    assert group.bodies(0) == [b"BASIC", b"CAUSAL", b"AGREED", b"SAFE"]


def test_agreed_messages_of_several_senders_leave_in_one_order(mesh: Build) -> None:
    """Rule D-4."""
    group = mesh("abcd")
    for k in range(20):
        for i in range(4):
            group.submit(i, b"%d-%d" % (i, k))
        if k % 3 == 0:
            group.pump()
    group.pump(200)
    assert len(group.bodies(0)) == 80
    assert group.bodies(0) == group.bodies(1) == group.bodies(2) == group.bodies(3)


def test_a_safe_message_waits_until_everybody_has_it(mesh: Build) -> None:
    """Rule D-5."""
    group = mesh("abc")
    group.pump(300)  # all have spoken: nobody is missed before the detector says so
    deaf = True
    group.carry = lambda a, b, packet: [] if deaf and b == 2 else [packet]
    group.submit(0, b"agreed", service=Service.AGREED)
    group.submit(0, b"safe", service=Service.SAFE)
    group.pump(300)
    assert group.bodies(0) == group.bodies(1) == [b"agreed"]
    deaf = False
    group.pump(600)
    assert group.bodies(0) == group.bodies(1) == group.bodies(2) == [b"agreed", b"safe"]


def test_a_causal_message_waits_behind_an_undelivered_safe_one(mesh: Build) -> None:
    """Rule D-1."""
    group = mesh("abc")
    deaf = True
    group.carry = lambda a, b, packet: [] if deaf and b == 2 else [packet]
    group.submit(0, b"safe", service=Service.SAFE)
    group.submit(0, b"causal", service=Service.CAUSAL)
    group.submit(0, b"basic", service=Service.BASIC)
    group.pump(100)
    assert group.bodies(1) == [b"basic"]
    deaf = False
    group.pump(600)
    assert group.bodies(1) == [b"basic", b"safe", b"causal"]


def test_an_answer_is_never_delivered_before_its_question(mesh: Build) -> None:
    """c hears b at once and a late: the answer must wait for the question (rule D-3)."""
    group = mesh("abc")
    held: list[bytes] = []

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        if (a, b) == (0, 2):
            held.append(packet)
            return []
        return [packet]

    group.carry = carry
    group.submit(0, b"question", service=Service.CAUSAL)
    group.pump()
    group.submit(1, b"answer", service=Service.CAUSAL)
    group.pump()
    assert group.bodies(2) == []
    group.carry = lambda a, b, packet: [packet]
    group.inboxes[2] += held
    group.pump()
    assert group.bodies(2) == [b"question", b"answer"]


def test_with_post_confirm_an_own_causal_message_waits_for_a_foreign_ack(mesh: Build) -> None:
    """Rule D-6."""
    group = mesh("ab", lan(post_confirm=True))
    group.submit(0, b"mine", service=Service.CAUSAL)
    assert group.bodies(0) == []
    group.pump(50)
    assert group.bodies(0) == group.bodies(1) == [b"mine"]


def test_a_subset_message_is_shown_to_its_receivers_only(mesh: Build) -> None:
    """Rule D-7."""
    group = mesh("abc")
    for service in Service:
        group.submit(0, service.name.encode(), service=service, to=(BOB, ADA))
    group.submit(0, b"all")
    group.pump(200)
    assert group.bodies(2) == [b"all"]
    assert sorted(group.bodies(1)) == sorted(group.bodies(0))
    assert len(group.bodies(1)) == 5
    positions = [e.pos for e in group.seen[2] if isinstance(e, Deliver)]
    assert positions == [2], "what was not addressed here still counts"
    told = [e for e in group.seen[1] if isinstance(e, Deliver) and e.to is not None]
    assert {e.to for e in told} == {(ADA, BOB)}


def test_a_sender_outside_the_subset_does_not_deliver(mesh: Build) -> None:
    """Rule D-7."""
    group = mesh("ab")
    group.submit(0, b"for b", to=(BOB,))
    group.pump(100)
    assert (group.bodies(0), group.bodies(1)) == ([], [b"for b"])


@pytest.mark.parametrize("service", Service)
def test_a_large_message_arrives_whole_through_losses(mesh: Build, service: Service) -> None:
    """Rule D-8."""
    group = mesh("abc", lan(frame_bytes_max=4000))
    body = bytes(range(256)) * 1000
    count = 0

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        nonlocal count
        count += 1
        return [] if count % 7 == 0 else [packet]

    group.carry = carry
    group.submit(0, b"before", body, b"after", service=service)
    group.pump(1500)
    for i in range(3):
        assert group.bodies(i) == [b"before", body, b"after"]
    sent = [e for e in group.seen[0] if isinstance(e, Sent)]
    assert [(e.first, e.last) for e in sent] == [(1, 1), (2, 2), (3, 3)]


def test_a_message_of_the_limit_arrives_and_one_byte_more_is_refused(mesh: Build) -> None:
    group = mesh("ab")
    body = bytes(16 << 20)
    with pytest.raises(MessageTooLarge, match="16777217 bytes"):
        group.submit(0, body + b"x")
    group.submit(0, body)
    group.pump(3000)
    assert [len(b) for b in group.bodies(1)] == [16 << 20]


def test_lost_packets_are_recovered_from_any_holder(mesh: Build) -> None:
    """a's packets never reach c directly: b, which holds them, answers for a (rule B-9)."""
    group = mesh("abc")
    codec = PacketCodec("phalanx", "g")

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        return [] if (a, b) == (0, 2) else [packet]

    group.carry = carry
    for k in range(10):
        group.submit(0, b"%d" % k)
        group.pump(30)
    group.pump(500)
    assert group.bodies(2) == [b"%d" % k for k in range(10)]
    answers = [
        packet
        for effect in group.seen[1]
        if isinstance(effect, Transmit)
        for packet in map(codec.decode, effect.packets)
        if isinstance(packet, Fragment) and packet.repeat and packet.sender == 0
    ]
    assert {packet.via for packet in answers} == {1}


def test_only_the_missing_fragments_are_repeated(mesh: Build) -> None:
    """Rule B-7."""
    group = mesh("ab")
    codec = PacketCodec("phalanx", "g")
    lost = []

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        piece = codec.decode(packet)
        if isinstance(piece, Fragment) and piece.index == 3 and not piece.repeat:
            lost.append(packet)
            return []
        return [packet]

    group.carry = carry
    group.submit(0, bytes(12_000))
    group.pump(100)
    assert len(group.bodies(1)) == 1
    assert len(lost) == 1
    repeats = [
        piece.index
        for effect in group.seen[0]
        if isinstance(effect, Transmit)
        for piece in map(codec.decode, effect.packets)
        if isinstance(piece, Fragment) and piece.repeat
    ]
    assert repeats == [3]


def test_buffers_are_empty_when_all_is_stable(mesh: Build) -> None:
    """Rule B-13."""
    group = mesh("abcd")
    for k in range(50):
        for i in range(4):
            group.submit(i, bytes(500), service=Service(k % 4))
        group.pump(2)
    group.pump(2000)
    for member in group.members:
        assert member.settled
        assert len(member._active.state.dag.frames[0]) <= 3, "only the latest keep-alives are kept"
        assert member._active.state.broadcast.store.bytes < 2000


def test_receipts_come_in_order_and_for_every_message(mesh: Build) -> None:
    """Rules D-12 and D-13."""
    group = mesh("abc")
    for k, service in enumerate([*Service, *Service]):
        group.submit(0, b"%d" % k, b"%d'" % k, service=service)
        group.pump(1)
    group.pump(200)
    accepted = [e for e in group.seen[0] if isinstance(e, Accepted)]
    assert [(e.first, e.last) for e in accepted] == [(2 * k + 1, 2 * k + 2) for k in range(8)]
    for kind in (Ordered, Stable):
        upto = [e.upto for e in group.seen[0] if isinstance(e, kind)]
        assert upto == sorted(upto)
        assert upto[-1] == 16


def test_ordered_comes_before_stable_when_a_member_is_deaf(mesh: Build) -> None:
    group = mesh("abc")
    group.carry = lambda a, b, packet: [] if b == 2 else [packet]
    group.submit(0, b"x")
    group.pump(100)
    assert [e for e in group.seen[0] if isinstance(e, Ordered)] == [
        Ordered(1, group.members[0].view.id)
    ]
    assert not [e for e in group.seen[0] if isinstance(e, Stable)]


def test_the_window_closes_on_a_deaf_member_and_opens_again(mesh: Build) -> None:
    """Rule W-11."""
    config = lan(window_bytes_max=20_000, window_bytes_min=10_000, outbox_bytes_max=30_000)
    group = mesh("ab", config)
    deaf = True
    group.carry = lambda a, b, packet: [] if deaf and b == 1 else [packet]
    submitted = 0
    while group.members[0].room > 0:
        group.submit(0, bytes(1000))
        group.pump(1)
        submitted += 1
    with pytest.raises(OutboxFull):
        group.submit(0, bytes(1000))
    assert [type(e) for e in group.seen[0] if isinstance(e, WindowClosed | WindowOpened)] == [
        WindowClosed
    ]
    in_flight = group.members[0]._active.state.broadcast.store.bytes
    assert in_flight < 2 * 20_000
    deaf = False
    group.pump(3000)
    assert len(group.bodies(1)) == submitted
    assert [type(e) for e in group.seen[0] if isinstance(e, WindowClosed | WindowOpened)] == [
        WindowClosed,
        WindowOpened,
    ]


def test_a_closed_window_blocks_no_acknowledgement(mesh: Build) -> None:
    """Both windows are full of undelivered frames; acks alone must open them (rule W-8)."""
    config = lan(window_bytes_max=5000, window_bytes_min=4000, outbox_bytes_max=200_000)
    group = mesh("abc", config)
    for i in range(3):
        group.submit(i, *[bytes(1000) for _ in range(60)])
    group.pump(3000)
    assert len(group.bodies(0)) == 180
    assert group.bodies(0) == group.bodies(1) == group.bodies(2)


def test_what_waits_is_packed_into_full_frames(mesh: Build) -> None:
    """Rule F-10."""
    group = mesh("ab", lan(frame_bytes_max=2000))
    group.submit(0, *[bytes(96) for _ in range(100)])
    group.pump(100)
    frames = {e.frame: e.last - e.first + 1 for e in group.seen[0] if isinstance(e, Sent)}
    assert sorted(frames.values(), reverse=True) == [20] * 5
    assert len(group.bodies(1)) == 100


@pytest.mark.parametrize(
    ("bodies", "to", "error"),
    [
        ([b"x" * 101], None, MessageTooLarge),
        ([b"ok", b"x" * 101], None, MessageTooLarge),
        ([b"x"], (EVE,), UnknownMember),
        ([b"x"], (ADA, EVE), UnknownMember),
        ([b"x"], (MemberId("b", 2),), UnknownMember),
        ([b"x"], (), NoReceiver),
    ],
)
def test_a_refused_submission_sends_nothing(
    mesh: Build, bodies: list[bytes], to: Any, error: type[SubmissionError]
) -> None:
    """Rule D-9."""
    group = mesh("ab", lan(message_bytes_max=100))
    with pytest.raises(error):
        group.submit(0, *bodies, to=to)
    group.submit(0, b"fine")
    group.pump(50)
    assert group.delivered(1) == [("a", 1, b"fine")]


def test_a_closed_member_refuses_messages_and_still_serves(mesh: Build) -> None:
    group = mesh("ab")
    group.submit(0, b"last")
    group.give(0, group.members[0].step(group.now, Close()))
    with pytest.raises(MemberClosed, match=r"a\.1 is closed"):
        group.submit(0, b"too late")
    group.submit(1, b"reply")
    group.pump(100)
    assert group.bodies(0) == group.bodies(1) == [b"last", b"reply"]


def test_nothing_submitted_is_nothing_sent(mesh: Build) -> None:
    group = mesh("ab")
    assert group.members[0].step(0, Submit([])) == []


def test_garbage_is_counted_by_reason_and_changes_nothing(mesh: Build) -> None:
    """Rule F-16."""
    group = mesh("ab")
    codec = PacketCodec("phalanx", "g")
    table = group.members[0]._active.state.table
    stranger = codec.encode_fragment(Fragment(b"?", b"unknown!", 1, 1, 1, 0, 1, 0))
    mine = codec.encode_fragment(Fragment(b"?", table, 0, 1, 9, 0, 1, 0))
    outside = codec.encode_fragment(Fragment(b"?", table, 7, 7, 1, 0, 1, 0))
    far = codec.encode_fragment(Fragment(b"?", table, 1, 1, 1 << 40, 0, 1, 0))
    hollow = codec.encode_fragment(Fragment(b"?", table, 1, 1, 1, 0, 1, 0))
    packets = [b"", b"junk" * 20, stranger, mine, outside, far, hollow]
    packets.append(PacketCodec("other", "g").encode(NameClaimed(EVE, 1)))
    packets.append(codec.encode(Nack(b"unknown!", 1, (Want(0, 1, 1),))))
    effects = group.members[0].step(0, Datagrams(packets))
    assert {e.reason: e.count for e in effects if isinstance(e, Refused)} == {
        "short": 1,
        "version": 1,
        "table": 1,
        "sender": 2,
        "ahead": 1,
        "malformed": 2,
        "cluster": 1,
    }
    group.submit(1, b"still fine")
    group.pump(100)
    assert group.bodies(0) == [b"still fine"]


def test_a_frame_that_claims_an_ack_for_what_was_never_sent_is_refused(mesh: Build) -> None:
    """Rule B-26."""
    group = mesh("ab")
    other = mesh("ab")
    for _ in range(3):
        other.submit(0, b"x")
        other.pump(10)
    packets = [
        p for e in other.seen[1] if isinstance(e, Transmit) for p in e.packets
    ]  # b acknowledges frames of a that this a never sent
    effects = group.members[0].step(0, Datagrams(packets))
    assert "vector" in {e.reason for e in effects if isinstance(e, Refused)}
    assert group.members[0].have == [0, 0]


def test_a_story_tells_what_is_missing(mesh: Build) -> None:
    group = mesh("ab")
    drop = True
    group.carry = lambda a, b, packet: [] if drop else [packet]
    group.submit(0, b"lost")
    group.pump()
    drop = False
    group.submit(0, b"kept")
    group.pump()
    text = "\n".join(group.members[1].story())
    assert "missing 1: a.1/1" in text


def test_the_same_inputs_give_the_same_effects(mesh: Build) -> None:
    def run() -> list[Any]:
        group = mesh("abc")
        count = 0

        def carry(a: int, b: int, packet: bytes) -> list[bytes]:
            nonlocal count
            count += 1
            return [] if count % 5 == 0 else [packet, packet] if count % 11 == 0 else [packet]

        group.carry = carry
        for k in range(30):
            group.submit(k % 3, b"%d" % k, service=Service(k % 4))
            group.pump(3)
        group.pump(500)
        return [group.seen[i] for i in range(3)]

    assert run() == run()


def test_a_member_not_in_the_view_cannot_be_made(mesh: Build) -> None:
    group = mesh("ab")
    with pytest.raises(ValueError, match="not in tuple"):
        Member(EVE, group.members[0].view, "g", lan(), 0)


def test_one_lost_acknowledgement_holds_up_a_safe_message_only_for_a_moment(mesh: Build) -> None:
    """Rule B-22."""
    group = mesh("ab")
    lost = 0

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        nonlocal lost
        if (a, b) == (1, 0) and not lost:
            lost += 1
            return []
        return [packet]

    group.carry = carry
    group.submit(0, b"safe", service=Service.SAFE)
    group.pump(40)
    assert lost == 1
    assert group.bodies(0) == [b"safe"]


def test_an_idle_group_of_many_can_still_send(mesh: Build) -> None:
    """Rule W-8."""
    names = [chr(0x100 + k) for k in range(80)]
    config = lan(window_bytes_max=20_000, window_bytes_min=20_000)
    group = mesh("".join(names), config)
    group.pump(600)
    group.submit(0, b"hi", service=Service.CAUSAL)
    group.pump(1)
    assert group.bodies(79) == [b"hi"]


def test_a_body_that_is_not_bytes_is_refused_before_anything_happens(mesh: Build) -> None:
    group = mesh("ab")
    with pytest.raises(NotBytes, match="str"):
        group.submit(0, b"fine", "text")
    group.submit(0, b"next")
    group.pump(50)
    assert group.delivered(1) == [("a", 1, b"next")]


def test_receivers_named_twice_are_told_once(mesh: Build) -> None:
    group = mesh("ab")
    group.submit(0, b"x", to=(BOB, ADA, BOB))
    (accepted,) = [e for e in group.seen[0] if isinstance(e, Accepted)]
    (sent,) = [e for e in group.seen[0] if isinstance(e, Sent)]
    assert accepted.to == sent.to == (ADA, BOB)


def test_a_large_message_gives_one_receipt_of_each_kind(mesh: Build) -> None:
    group = mesh("ab", lan(frame_bytes_max=1000))
    group.submit(0, bytes(20_000))
    group.pump(300)
    receipts = [e for e in group.seen[0] if isinstance(e, Ordered | Stable)]
    assert sorted(receipts, key=repr) == [
        Ordered(1, group.members[0].view.id),
        Stable(1, group.members[0].view.id),
    ]


def test_what_is_owed_goes_with_messages_that_wait(mesh: Build) -> None:
    """An ack falls due while messages wait for the pace: one frame says both."""
    config = lan(pace_ns_max=50_000_000, window_bytes_max=4000, window_bytes_min=4000)
    group = mesh("ab", config)
    deaf = True
    group.carry = lambda a, b, packet: [] if deaf and b == 1 else [packet]
    group.submit(0, bytes(1500), service=Service.CAUSAL)
    group.submit(0, b"waits", service=Service.CAUSAL)
    assert len([e for e in group.seen[0] if isinstance(e, Sent)]) == 1
    group.submit(1, b"ack me", service=Service.AGREED)
    group.pump(2)
    assert [e.frame for e in group.seen[0] if isinstance(e, Sent)] == [1, 2]
    assert group.members[0].have[0] == 2, "no ack-only frame in between"
    deaf = False
