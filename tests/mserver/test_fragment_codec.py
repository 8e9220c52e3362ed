"""Fragments: every message comes back, in any order, and nothing grows without bound."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.mserver import fragment_codec as codec
from phalanx.mserver.datagram_link import DatagramLink
from phalanx.mserver.fragment_codec import FRAGMENT_BYTES_MAX, Reassembly, fragments_of


@pytest.mark.parametrize("size", [0, 1, 1199, 1200, 1201, 5000, 200_000])
def test_a_message_comes_back_from_its_fragments_in_any_order(size: int) -> None:
    message = random.Random(size).randbytes(size)
    packets = fragments_of(message, 7)
    assert all(len(packet) <= FRAGMENT_BYTES_MAX + 20 for packet in packets)
    random.Random(1).shuffle(packets)
    taker = Reassembly()
    found = [taker.take(0, "a", packet) for packet in packets + packets[:1]]
    assert found[len(packets) - 1] == message
    assert found.count(None) == len(found) - (1 if size > FRAGMENT_BYTES_MAX else 2)
    assert taker.incomplete == (1 if size > FRAGMENT_BYTES_MAX else 0)


def test_messages_of_two_senders_with_one_number_do_not_mix() -> None:
    taker = Reassembly()
    first, second = (fragments_of(body * 2000, 3) for body in (b"a", b"b"))
    assert taker.take(0, "a", first[0]) is None
    assert taker.take(0, "b", second[1]) is None
    assert taker.take(0, "a", first[1]) == b"a" * 2000
    assert taker.take(0, "b", second[0]) == b"b" * 2000


def test_an_incomplete_message_is_given_up() -> None:
    taker = Reassembly()
    lost = fragments_of(b"a" * 3000, 1)
    assert taker.take(0, "a", lost[0]) is None
    assert taker.take(codec.PARTIAL_NS, "a", fragments_of(b"b" * 3000, 2)[0]) is None
    assert taker.refused == {"incomplete": 1}
    assert taker.take(codec.PARTIAL_NS, "a", lost[1]) is None
    assert taker.take(codec.PARTIAL_NS, "a", lost[2]) is None
    assert taker.incomplete == 2


def test_a_sender_has_room_for_a_few_incomplete_messages_only() -> None:
    taker = Reassembly()
    for number in range(100):
        taker.take(0, "a", fragments_of(b"a" * 3000, number)[0])
    assert taker.incomplete == codec.PARTIAL_MESSAGES_MAX
    assert taker.refused["crowded"] == 100 - codec.PARTIAL_MESSAGES_MAX
    packets = fragments_of(b"b" * 3000, 1)
    assert [taker.take(0, "b", packet) for packet in packets][-1] == b"b" * 3000


def test_bytes_of_incomplete_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PARTIAL_BYTES_MAX", 10_000)
    taker = Reassembly()
    for number in range(10):
        for packet in fragments_of(b"a" * 3600, number)[:2]:
            taker.take(0, "a", packet)
    assert taker._bytes <= 10_000
    assert taker.refused["crowded"] == 20 - 8


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "foreign"),
        (b"XX" + bytes(40), "foreign"),
        (b"PM\x02" + bytes(40), "malformed"),
        (codec._HEADER.pack(b"PM", 1, 1, 2, 2) + b"x", "malformed"),
        (codec._HEADER.pack(b"PM", 1, 1, 0, 0) + b"x", "malformed"),
        (codec._HEADER.pack(b"PM", 1, 1, 0, 60_000) + bytes(1200), "malformed"),
        (codec._HEADER.pack(b"PM", 1, 1, 0, 2) + b"short", "malformed"),
        (codec._HEADER.pack(b"PM", 1, 1, 0, 1) + bytes(1201), "malformed"),
    ],
)
def test_a_bad_packet_is_counted(packet: bytes, reason: str) -> None:
    taker = Reassembly()
    assert taker.take(0, "a", packet) is None
    assert taker.refused == {reason: 1}


def test_fragments_that_contradict_each_other_are_counted() -> None:
    taker = Reassembly()
    taker.take(0, "a", fragments_of(b"a" * 3000, 1)[0])
    taker.take(0, "a", fragments_of(b"a" * 2000, 1)[1])
    assert taker.refused == {"contradictory": 1}


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.binary(max_size=40).map(lambda b: b"PM\x01" + b)))
def test_no_packet_raises(packets: list[bytes]) -> None:
    taker = Reassembly()
    for packet in packets:
        taker.take(0, "a", packet)
    assert taker.incomplete <= codec.PARTIAL_MESSAGES_MAX


def test_a_large_message_passes_between_two_sockets() -> None:
    one, two = DatagramLink("127.0.0.1:0"), DatagramLink("127.0.0.1:0")
    try:
        message = random.Random(2).randbytes(60_000)
        one.send(message, two.local)
        got: list[bytes] = []
        for _ in range(1000):
            one.flush()
            got += [body for source, body in two.receive(0) if source == one.local]
            if got:
                break
        assert got == [message]
        assert not one.has_waiting
        assert one.resolved("127.0.0.1:9") == ("127.0.0.1", 9)
    finally:
        one.close()
        two.close()
