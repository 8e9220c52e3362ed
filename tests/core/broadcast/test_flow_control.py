from __future__ import annotations

from phalanx.config import lan
from phalanx.core.broadcast.flow_control import FlowControlWindow

LIMIT = 1 << 20
MS = 1_000_000


def window(n: int = 4) -> FlowControlWindow:
    return FlowControlWindow(lan(window_bytes_max=LIMIT, window_bytes_min=LIMIT // 8), n)


def test_a_full_window_stops_who_has_its_share_and_nobody_else() -> None:
    """Rules W-2 and W-3."""
    w = window()
    assert w.is_open(LIMIT - 1, LIMIT // 4 - 1)
    assert not w.is_open(LIMIT, LIMIT // 4)
    assert w.is_open(2 * LIMIT, LIMIT // 4 - 1)


def test_nobody_fills_the_window_alone() -> None:
    """Rule W-4."""
    assert not window(8).is_open(LIMIT // 4, LIMIT // 4)
    assert window(2).is_open(LIMIT // 4, LIMIT // 4), "its share is a half"


def test_the_delay_grows_from_nothing_to_its_most() -> None:
    """Rule W-5."""
    w = window()
    delays = [w.delay(fill * LIMIT // 8) for fill in range(10)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[8] == delays[9] == lan().pace_ns_max


def test_a_little_random_loss_at_every_one_of_many_members_does_not_shrink_it() -> None:
    """Rule W-6."""
    w = window(64)
    for k in range(20_000):
        w.passed(1)
        if k % 100 == 0:
            for member in range(64):
                w.lost(k * MS, member, 1)
    assert w.limit == LIMIT


def test_heavy_loss_at_one_member_shrinks_it_and_progress_restores_it() -> None:
    """Rules W-6 and W-7."""
    w = window(64)
    for k in range(4_000):
        w.passed(1)
        if k % 10 == 0:
            w.lost(k * MS, 7, 1)
    assert w.limit < LIMIT // 2
    for k in range(4_000, 12_000):
        w.passed(1)
        w.progressed(k * MS)
    assert w.limit == LIMIT


def test_it_never_shrinks_below_its_least() -> None:
    """Rule W-6."""
    w = window()
    for k in range(1000):
        w.lost(k * 100 * MS, 1, 1000)
    assert w.limit == LIMIT // 8
