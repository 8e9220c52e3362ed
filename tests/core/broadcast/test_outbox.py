"""What a frame takes from the outbox, and what the outbox keeps."""

from __future__ import annotations

from phalanx.core.broadcast.outbox import MessageReassembler, Outbox
from phalanx.core.effects import Service
from phalanx.core.wire.frame_codec import encode_frame
from phalanx.core.wire.frames import FrameKind, MessageRun


def put(box: Outbox, bodies: list[bytes], to: tuple[int, ...] | None = None) -> None:
    box.put(bodies, list(map(len, bodies)), Service.AGREED, to)


def test_a_frame_takes_what_fits_and_numbers_go_on() -> None:
    box = Outbox(1000)
    put(box, [bytes(96)] * 25)
    taken = [box.take() for _ in range(3)]
    assert [[(run.first, run.count) for run, _ in frame] for frame in taken] == [
        [(1, 10)],
        [(11, 10)],
        [(21, 5)],
    ]
    assert (box.bytes, box.messages, box.following) == (0, 0, 26)


def test_different_receivers_make_different_runs_of_one_frame() -> None:
    box = Outbox(1000)
    put(box, [b"a"], (0, 1))
    put(box, [b"b"], (0, 1))
    put(box, [b"c"])
    assert [(run.to, run.count) for run, _ in box.take()] == [((0, 1), 2), (None, 1)]


def test_run_headers_count_in_the_size_of_a_frame() -> None:
    """Many empty messages to alternating receivers: a frame is mostly headers, and still small."""
    box = Outbox(4000)
    crowd = [tuple(range(0, 200, 2)), tuple(range(1, 200, 2))]
    for k in range(500):
        put(box, [b""], crowd[k % 2])
    frames = 0
    while box.messages:
        content = box.take()
        payload = encode_frame(FrameKind.DATA, 0, bytes(16), [], [], content[0][0].first, content)
        assert len(payload) < 4600
        frames += 1
    assert frames > 20


def test_the_outbox_keeps_no_body_that_has_left() -> None:
    """Something always waits, so the chunk never empties; what left must go all the same."""
    box = Outbox(1000)
    put(box, [bytes(400)])
    for _ in range(200):
        put(box, [bytes(400)] * 2)
        box.take()
    kept = sum(len(body) for chunk in box._chunks for body in chunk.bodies)
    assert kept == sum(chunk.ends[-1] - chunk.done for chunk in box._chunks)
    assert kept <= box.bytes


def test_a_large_message_leaves_in_parts_of_a_frame_each() -> None:
    box = Outbox(100)
    put(box, [b"x", bytes(250), b"y"])
    frames = [box.take() for _ in range(5)]
    assert [[(r.first, r.part, r.parts, len(b[0])) for r, b in frame] for frame in frames] == [
        [(1, 0, 1, 1)],
        [(2, 0, 3, 100)],
        [(2, 1, 3, 100)],
        [(2, 2, 3, 50)],
        [(3, 0, 1, 1)],
    ]
    assert box.bytes == 0


def test_parts_make_a_message_again_only_if_they_are_all_there() -> None:
    def part(index: int, total: int = 6) -> MessageRun:
        return MessageRun(Service.AGREED, 1, 1, None, 0, (2,), index, 3, total)

    assembly = MessageReassembler()
    assert [assembly.add(part(i), b"ab") for i in range(3)] == [None, None, b"ababab"]
    assert [assembly.add(part(i), b"ab") for i in (0, 2)] == [None, None]
    assert [assembly.add(part(i, total=5), b"ab") for i in range(3)] == [None, None, None]
    assert [assembly.add(part(i, total=7), b"ab") for i in range(3)] == [None, None, None]


# ---------------------------------------------------------------------------- a change of view


def test_a_large_message_that_left_in_part_is_sent_anew() -> None:
    box = Outbox(100)
    put(box, [b"x", bytes(250), b"y"])
    before = box.bytes
    box.take()
    after_first = box.bytes
    box.take()
    box.take()
    box.again()
    assert box.bytes == after_first < before
    frames = [box.take() for _ in range(4)]
    assert [[(r.first, r.part, r.parts) for r, _ in frame] for frame in frames] == [
        [(2, 0, 3)],
        [(2, 1, 3)],
        [(2, 2, 3)],
        [(3, 0, 1)],
    ]
    assert (box.bytes, box.messages) == (0, 0)


def test_nothing_is_sent_anew_that_left_whole_or_not_at_all() -> None:
    box = Outbox(100)
    put(box, [b"x" * 96, b"y"])
    box.take()
    waiting = box.bytes
    box.again()
    assert box.bytes == waiting
    assert [(r.first, r.part) for r, _ in box.take()] == [(2, 0)]


def test_a_message_in_front_is_large_if_no_frame_holds_it() -> None:
    box = Outbox(100)
    assert not box.is_large
    put(box, [bytes(96)])
    assert not box.is_large
    put(box, [bytes(97)])
    box.take()
    assert box.is_large


def test_receivers_get_their_new_ranks_and_who_is_gone_gets_none() -> None:
    box = Outbox(1000)
    put(box, [b"a"], (0, 2))
    put(box, [b"b"], (1,))
    put(box, [b"c"])
    box.readdress({0: 1, 2: 0})
    assert [(run.to, bodies) for run, bodies in box.take()] == [
        ((0, 1), [b"a"]),
        ((), [b"b"]),
        (None, [b"c"]),
    ]
