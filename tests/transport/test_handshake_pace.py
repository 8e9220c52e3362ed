"""The pace of handshakes follows what they take."""

from __future__ import annotations

from phalanx.transport.handshake_pace import (
    CALLS_MAX,
    CALLS_MIN,
    LIMIT_NS_MAX,
    LIMIT_NS_MIN,
    LIMIT_TIMES,
    SECOND,
    YIELD_NS_MAX,
    HandshakePace,
)
from phalanx.transport.peer_directory import YIELD_NS


def test_quick_handshakes_change_nothing() -> None:
    pace = HandshakePace()
    for _ in range(10):
        pace.opened(SECOND // 100)
    assert (pace.limit_ns, pace.calls_max, pace.yield_ns) == (LIMIT_NS_MIN, CALLS_MAX, YIELD_NS)


def test_a_slow_handshake_gives_the_next_ones_more_time_and_fewer_begin_at_once() -> None:
    pace = HandshakePace()
    pace.opened(2 * SECOND)
    assert pace.limit_ns == LIMIT_TIMES * 2 * SECOND
    assert pace.calls_max == CALLS_MAX // 2
    assert pace.yield_ns == 4 * SECOND


def test_a_miss_doubles_the_limit_up_to_a_bound() -> None:
    pace = HandshakePace()
    pace.missed()
    assert pace.limit_ns == 2 * LIMIT_NS_MIN
    for _ in range(20):
        pace.missed()
    assert pace.limit_ns == LIMIT_NS_MAX
    assert pace.calls_max == CALLS_MIN


def test_the_pace_recovers_when_handshakes_are_quick_again() -> None:
    pace = HandshakePace()
    for _ in range(5):
        pace.missed()
    pace.opened(30 * SECOND)
    assert pace.yield_ns == YIELD_NS_MAX
    for _ in range(80):
        pace.opened(SECOND // 100)
    assert (pace.limit_ns, pace.calls_max, pace.yield_ns) == (LIMIT_NS_MIN, CALLS_MAX, YIELD_NS)
