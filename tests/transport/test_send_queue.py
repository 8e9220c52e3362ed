"""The bounded queue of one channel."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.transport.send_queue import JOIN_BYTES, SendQueue


def test_pieces_beyond_the_bound_are_dropped_whole() -> None:
    queue = SendQueue(10)
    assert queue.put(b"12345678")
    assert not queue.put(b"abc")
    assert queue.put(b"ab")
    assert queue.size == 10
    assert bytes(queue.head()) == b"12345678ab"


def test_an_empty_queue_takes_a_piece_of_any_size_and_control_records_always_fit() -> None:
    queue = SendQueue(10)
    assert queue.put(b"x" * 50)
    assert not queue.put(b"y")
    assert queue.put(b"beat", always=True)
    assert queue.size == 54


def test_a_write_that_did_not_finish_is_repeated_with_the_same_bytes() -> None:
    queue = SendQueue(100)
    queue.put(b"abcdef")
    first = bytes(queue.head())
    queue.put(b"ghi")
    assert bytes(queue.head()).startswith(first)
    queue.wrote(2)
    queue.put(b"jkl")
    assert bytes(queue.head()) == b"cdefghijkl"


def test_large_pieces_are_not_joined() -> None:
    queue = SendQueue(10 * JOIN_BYTES)
    queue.put(b"a" * JOIN_BYTES)
    queue.put(b"b")
    assert len(queue.head()) == JOIN_BYTES


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=40), st.integers(1, 60)), max_size=40))
def test_the_socket_gets_every_accepted_byte_once_and_in_order(
    steps: list[bytes | int],
) -> None:
    queue, accepted, written = SendQueue(64), b"", b""
    for step in steps:
        if isinstance(step, bytes):
            if queue.put(step):
                accepted += step
        elif queue:
            taken = bytes(queue.head()[:step])
            queue.wrote(len(taken))
            written += taken
        assert queue.size == len(accepted) - len(written)
    while queue:
        taken = bytes(queue.head())
        queue.wrote(len(taken))
        written += taken
    assert written == accepted
