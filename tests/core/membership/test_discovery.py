"""How components find each other, at a bounded rate."""

from __future__ import annotations

from phalanx.config import lan
from phalanx.core.ids import MemberId, ViewId
from phalanx.core.membership.discovery import (
    CALM_PERIODS,
    FLAP_PERIODS,
    FLAPS_FREE,
    LISTED_MAX,
    STRANGERS_MAX,
    Discovery,
)
from phalanx.core.prng import Prng
from phalanx.core.wire.frames import Component
from phalanx.core.wire.packets import Hello, JoinAttempt

ME, MATE, FAR = MemberId("me"), MemberId("mate"), MemberId("far")
HERE, THERE = ViewId(1, 0, b"here5678"), ViewId(2, 0, b"there678")
HELLO_NS = lan().hello_ns
SOON_NS = HELLO_NS // 16


def discovery(entropy: int = 1) -> Discovery:
    made = Discovery(ME, lan(), Prng(entropy))
    made.start(0)
    return made


def quiet(at_ns: int = 0) -> Discovery:
    """One that has just spoken."""
    made = discovery()
    made.spoke(at_ns)
    return made


def hello(number: int, *heard: MemberId, sender: MemberId = FAR) -> Hello:
    return Hello(sender, number, THERE, heard)


def comes(made: Discovery, now: int, said: Hello | JoinAttempt) -> bool:
    """A stranger's word, and whether it is time to join."""
    return made.heard(now, said, THERE, ours=False)


# ---------------------------------------------------------------------------- when to speak


def test_the_first_hello_comes_within_an_eighth_of_a_period() -> None:
    dues = {discovery(entropy).deadline() for entropy in range(20)}
    assert all(0 <= due <= HELLO_NS // 8 for due in dues)
    assert len(dues) > 10, "members that start together do not speak together"


def test_the_next_hello_comes_a_period_later_give_or_take_a_quarter() -> None:
    made = quiet(1_000)
    assert HELLO_NS * 3 // 4 <= made.deadline() - 1_000 <= HELLO_NS * 5 // 4
    assert not made.due(made.deadline() - 1)
    assert made.due(made.deadline())


def test_who_hears_a_member_of_its_own_view_waits_a_period_more() -> None:
    made = quiet()
    now = made.deadline() - 1
    assert not made.heard(now, hello(1, ME, sender=MATE), HERE, ours=True)
    assert made.deadline() >= now + HELLO_NS * 3 // 4


def test_an_attempt_of_a_member_of_its_own_view_puts_nothing_off() -> None:
    made = quiet()
    due = made.deadline()
    attempt = JoinAttempt(MATE, 1, Component(HERE, (ME, MATE)), (ME,))
    assert not made.heard(due - 1, attempt, HERE, ours=True)
    assert made.deadline() == due


def test_the_view_is_announced_at_a_bounded_rate_and_then_by_the_next_hello() -> None:
    made = quiet()
    assert made.may_announce(1_000)
    assert not made.may_announce(1_000 + SOON_NS - 1)
    assert made.deadline() <= 1_000 + 2 * SOON_NS
    assert made.may_announce(1_000 + SOON_NS)


def test_a_stranger_that_is_news_is_answered_soon() -> None:
    made = quiet()
    comes(made, 1_000, hello(1))
    assert made.deadline() <= 1_000 + SOON_NS


def test_a_stranger_that_is_known_and_hears_us_is_not_answered() -> None:
    made = quiet()
    comes(made, 1_000, hello(1, ME))
    made.spoke(2_000)
    due = made.deadline()
    comes(made, 3_000, hello(2, ME))
    assert made.deadline() == due


def test_a_stranger_that_does_not_hear_us_is_answered_each_time() -> None:
    made = quiet()
    comes(made, 1_000, hello(1))
    made.spoke(2_000)
    comes(made, 3_000, hello(2))
    assert made.deadline() <= 3_000 + SOON_NS


def test_a_stranger_that_was_silent_for_long_is_news_again() -> None:
    made = quiet()
    comes(made, 0, hello(1, ME))
    made.spoke(0)
    later = 4 * HELLO_NS + 1
    made.spoke(later)
    comes(made, later, hello(2, ME))
    assert made.deadline() <= later + SOON_NS


# ---------------------------------------------------------------------------- when to join


def test_a_join_starts_only_between_members_that_hear_each_other() -> None:
    made = discovery()
    assert not comes(made, 0, hello(1))
    assert not comes(made, 0, hello(2, MATE))
    assert comes(made, 0, hello(3, MATE, ME))


def test_an_attempt_is_heard_as_a_hello_is() -> None:
    made = discovery()
    assert comes(made, 0, JoinAttempt(FAR, 1, Component(THERE, (FAR,)), (ME,)))
    assert made.lately(0) == (FAR,)


def test_a_word_that_was_overtaken_on_the_way_is_of_no_use() -> None:
    made = discovery()
    comes(made, 0, hello(5))
    assert not comes(made, 1, hello(4, ME))
    assert comes(made, 2, hello(5, ME))


# ---------------------------------------------------------------------------- whom to list


def test_strangers_heard_lately_are_listed_in_order() -> None:
    made = discovery()
    for name in ("zoe", "amy", "moe"):
        comes(made, 0, hello(1, sender=MemberId(name)))
    assert made.lately(0) == (MemberId("amy"), MemberId("moe"), MemberId("zoe"))


def test_a_stranger_is_forgotten_after_four_periods() -> None:
    made = discovery()
    comes(made, 0, hello(1))
    assert made.lately(4 * HELLO_NS) == (FAR,)
    assert made.lately(4 * HELLO_NS + 1) == ()


def test_of_many_strangers_the_latest_are_listed() -> None:
    made = discovery()
    for k in range(LISTED_MAX + 10):
        comes(made, k, hello(1, sender=MemberId(f"m{k:03}")))
    listed = made.lately(LISTED_MAX + 10)
    assert listed == tuple(MemberId(f"m{k:03}") for k in range(10, LISTED_MAX + 10))


def test_who_has_become_a_member_is_no_stranger() -> None:
    made = discovery()
    comes(made, 0, hello(1))
    made.settled_with((ME, FAR))
    assert made.lately(0) == ()


def test_strangers_do_not_fill_the_memory() -> None:
    made = discovery()
    for k in range(3 * STRANGERS_MAX):
        comes(made, k, hello(1, sender=MemberId(f"m{k}")))
    assert len(made._strangers) == STRANGERS_MAX


# ---------------------------------------------------------------------------- flapping


def flap(made: Discovery, now: int) -> None:
    """A join, and a loss soon after it."""
    made.installed(now, joined=True, lost=False)
    made.installed(now + 1, joined=False, lost=True)


def patience(made: Discovery, now: int) -> int:
    """For how many periods from now strangers are ignored."""
    for periods in range(1_000):
        if comes(made, now + periods * HELLO_NS, hello(periods, ME)):
            return periods
    raise AssertionError("strangers are ignored for ever")


def test_the_first_losses_after_a_join_make_nobody_impatient() -> None:
    made = discovery()
    for k in range(FLAPS_FREE):
        flap(made, k)
    assert patience(made, FLAPS_FREE) == 0


def test_from_the_third_loss_on_strangers_are_ignored_twice_as_long_each_time() -> None:
    waits = []
    for flaps in range(FLAPS_FREE + 1, FLAPS_FREE + 5):
        made = discovery()
        for k in range(flaps):
            flap(made, k)
        waits.append(patience(made, flaps))
    assert waits == [2, 4, 8, 16]


def test_the_wait_has_a_limit() -> None:
    made = discovery()
    for k in range(100):
        flap(made, k)
    assert patience(made, 100) == 64


def test_a_loss_long_after_the_join_is_no_flapping() -> None:
    made = discovery()
    for k in range(10):
        now = k * 3 * FLAP_PERIODS * HELLO_NS
        made.installed(now, joined=True, lost=False)
        made.installed(now + FLAP_PERIODS * HELLO_NS, joined=False, lost=True)
    assert patience(made, now + FLAP_PERIODS * HELLO_NS) == 0


def test_a_view_that_joins_and_loses_at_once_is_no_flapping() -> None:
    made = discovery()
    for k in range(10):
        made.installed(k, joined=True, lost=True)
    assert patience(made, 10) == 0


def test_a_quiet_time_wipes_the_flapping_out() -> None:
    made = discovery()
    for k in range(10):
        flap(made, k)
    later = 10 + (CALM_PERIODS + 1) * HELLO_NS
    flap(made, later)
    assert patience(made, later + 1) == 0
