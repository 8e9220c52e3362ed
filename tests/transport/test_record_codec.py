"""Records in a byte stream."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.transport.record_codec import (
    BEAT,
    DATAGRAM_BYTES_MAX,
    GREETING_BYTES_MAX,
    HELLO,
    PEERS,
    RecordReader,
    encode_control,
    encode_datagrams,
)

Records = tuple[list[tuple[int, bytes]], list[bytes]]


def read(reader: RecordReader, *pieces: bytes) -> Records:
    controls: list[tuple[int, bytes]] = []
    packets: list[bytes] = []
    for piece in pieces:
        found, came = reader.feed(piece)
        controls += found
        packets += came
    return controls, packets


def test_records_are_kind_length_and_content() -> None:
    assert encode_control(HELLO, b"abc") == b"\x01\x00\x00\x03abc"
    assert encode_control(BEAT) == b"\x04\x00\x00\x00"
    assert encode_datagrams([b"x", b""]) == b"\x05\x00\x00\x01x\x05\x00\x00\x00"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([HELLO, PEERS, 5]), st.binary(max_size=300)), max_size=12),
    st.lists(st.integers(1, 200), min_size=1, max_size=30),
)
def test_records_come_out_as_they_went_in_however_the_stream_is_cut(
    records: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(
        encode_datagrams([body]) if kind == 5 else encode_control(kind, body)
        for kind, body in records
    )
    pieces, at, i = [], 0, 0
    while at < len(stream):
        step = cuts[i % len(cuts)]
        pieces.append(stream[at : at + step])
        at, i = at + step, i + 1
    reader = RecordReader()
    reader.admit()
    controls, packets = read(reader, *pieces)
    assert controls == [r for r in records if r[0] != 5]
    assert packets == [body for kind, body in records if kind == 5]
    assert reader.problem == ""
    assert reader.kept_bytes == 0


def test_an_unknown_kind_is_a_problem_and_what_came_before_it_counts() -> None:
    reader = RecordReader()
    reader.admit()
    assert read(reader, encode_datagrams([b"good"]) + b"GET / HTTP/1.1\r\n") == ([], [b"good"])
    assert reader.problem.startswith("record of kind 71")
    assert read(reader, encode_datagrams([b"more"])) == ([], [])
    assert reader.kept_bytes == 0


def test_before_the_peer_is_known_records_are_short() -> None:
    reader = RecordReader()
    long = encode_datagrams([b"x" * (GREETING_BYTES_MAX + 1)])
    assert read(reader, long[:4]) == ([], [])
    assert "16385 bytes" in reader.problem


def test_records_behind_the_first_wait_until_the_peer_is_known() -> None:
    """The answer to a hello may come in one piece with large packets."""
    reader = RecordReader()
    large = b"x" * 60_000
    stream = encode_control(HELLO, b"hi") + encode_datagrams([large, b"y"])
    assert read(reader, stream[:50_000]) == ([(HELLO, b"hi")], [])
    assert read(reader, stream[50_000:]) == ([], [])
    assert reader.problem == ""
    reader.admit()
    assert read(reader, b"") == ([], [large, b"y"])


def test_the_largest_datagram_passes_once_the_peer_is_known() -> None:
    reader = RecordReader()
    reader.admit()
    packet = b"x" * DATAGRAM_BYTES_MAX
    assert read(reader, encode_datagrams([packet])) == ([], [packet])
    read(reader, b"\x05\x01\x00\x00")
    assert "65536 bytes" in reader.problem
