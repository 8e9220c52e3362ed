"""Events on their way to a reader that may be slow."""

from __future__ import annotations

from phalanx.config import lan
from phalanx.core.effects import Deliver, Region, Service
from phalanx.core.ids import MemberId, ViewId
from phalanx.runtime.event_buffer import EventBuffer
from phalanx.runtime.events import Batch, EventsLost, Message, Messages, View

ADA = MemberId("ada")
VIEW = ViewId(1, 0, b"12345678")
LIMIT = 64 << 10


def messages(first: int, *bodies: bytes, pos: int | None = 0) -> Messages:
    payload = b"".join(bodies)
    lengths = [len(body) for body in bodies]
    return Messages(
        Deliver(
            ADA,
            first,
            first + len(bodies) - 1,
            Service.AGREED,
            None,
            VIEW,
            VIEW,
            0,
            Region.REGULAR,
            pos,
            0,
            1,
            payload,
            0,
            lengths,
        )
    )


def nobody() -> None:
    raise AssertionError("nobody asked to be told")


def test_events_come_out_in_order_and_once() -> None:
    buffer = EventBuffer(lan())
    one, two = messages(1, b"a"), messages(2, b"b")
    buffer.put(one, 1)
    buffer.put(two, 1)
    assert buffer.take() == [one, two]
    assert buffer.take() == []


def test_a_reader_that_waits_is_told_once() -> None:
    buffer = EventBuffer(lan())
    told: list[int] = []
    buffer.when_put(lambda: told.append(1))
    buffer.put(messages(1, b"a"), 1)
    buffer.wake()
    buffer.wake()
    assert told == [1]


def test_a_reader_that_comes_late_is_told_at_once() -> None:
    buffer = EventBuffer(lan())
    buffer.put(messages(1, b"a"), 1)
    told: list[int] = []
    buffer.when_put(lambda: told.append(1))
    assert told == [1]


def test_every_reader_that_waits_is_told_and_one_that_gave_up_is_not() -> None:
    buffer = EventBuffer(lan())
    told: list[str] = []
    calls = {name: (lambda name=name: told.append(name)) for name in "abc"}
    for call in calls.values():
        buffer.when_put(call)
    buffer.forget(calls["b"])
    buffer.forget(calls["b"])
    buffer.close()
    assert sorted(told) == ["a", "c"]


def test_the_end_wakes_a_reader() -> None:
    buffer = EventBuffer(lan())
    told: list[int] = []
    buffer.when_put(lambda: told.append(1))
    buffer.close()
    assert told == [1]


def test_the_level_rises_at_the_limit_and_falls_at_half_of_it() -> None:
    buffer = EventBuffer(lan(buffer_bytes_max=LIMIT))
    assert buffer.level(nobody) == 0
    told: list[int] = []
    for i in range(4):
        buffer.put(messages(i + 1, b"x"), LIMIT // 2)
    assert buffer.level(lambda: told.append(1)) == 2
    buffer._taken_bytes += LIMIT
    assert buffer.level(lambda: told.append(1)) == 2, "it stays until the reader has caught up"
    buffer.take()
    assert told == [1]
    assert buffer.level(nobody) == 0


def test_a_lossy_buffer_drops_messages_and_says_where_and_how_many() -> None:
    buffer = EventBuffer(lan(buffer_bytes_max=LIMIT, slow="lose"))
    first = messages(1, b"a")
    buffer.put(first, LIMIT)
    assert buffer.take() == []
    small = messages(2, b"b")
    buffer = EventBuffer(lan(buffer_bytes_max=LIMIT, slow="lose"))
    buffer.put(small, LIMIT - 1000)
    buffer.put(messages(3, b"c", b"d"), 2000)
    buffer.put(messages(5, b"e"), 2000)
    assert buffer.level(nobody) == 0, "the group never waits for it"
    assert buffer.take() == [small]
    late = messages(6, b"f")
    buffer.put(late, 1)
    assert buffer.take() == [EventsLost(3), late]
    assert buffer.dropped == 3


def test_a_lossy_buffer_keeps_views() -> None:
    buffer = EventBuffer(lan(buffer_bytes_max=LIMIT, slow="lose"))
    buffer.put(messages(1, b"a"), LIMIT - 1000)
    view = View(id=VIEW, members=(ADA,))
    buffer.put(view, 2000)
    assert view in buffer.take()


def test_what_was_lost_at_the_very_end_is_told_too() -> None:
    buffer = EventBuffer(lan(buffer_bytes_max=LIMIT, slow="lose"))
    buffer.put(messages(1, b"a"), LIMIT)
    buffer.close()
    assert buffer.take() == [EventsLost(1)]


def test_a_batch_is_a_sequence_of_single_events() -> None:
    view = View(id=VIEW, members=(ADA,))
    batch = Batch([view, messages(4, b"a", b"bc", pos=7), EventsLost(2)])
    assert len(batch) == 4
    assert batch[1] == Message(ADA, b"a", 4, Service.AGREED, VIEW, 7)
    assert batch[2] == Message(ADA, b"bc", 5, Service.AGREED, VIEW, 8)
    assert next(iter(batch)) is view
    assert batch[-1] == EventsLost(2)
    assert batch.bodies() == [b"a", b"bc"]


def test_a_batch_of_single_events_gives_bodies_too() -> None:
    one = Message(ADA, b"a", 4, Service.AGREED, VIEW)
    assert Batch([one]).bodies() == [b"a"]
