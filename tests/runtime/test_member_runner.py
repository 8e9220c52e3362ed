"""A member runner on a transport that leads nowhere: effects, receipts, leaving, our own bugs."""

from __future__ import annotations

import time

import pytest
from tests.runtime.idle_transport import IdleTransport

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId
from phalanx.errors import EngineFailed, IncarnationUsed, MemberClosed, NameInUse, NotDelivered
from phalanx.runtime.departure import LEAVE_STAGES
from phalanx.runtime.identity import Identity
from phalanx.runtime.member_runner import MemberRunner
from phalanx.runtime.receipt_tracker import State
from phalanx.runtime.starvation_clock import ONE, STRETCH, WINDOW_NS, StretchedClock

ADA = MemberId("ada")
MS = 1_000_000


def made() -> tuple[MemberRunner, IdleTransport]:
    transport = IdleTransport()
    runner = MemberRunner("g", Identity(ADA), phalanx.lan(), transport, None, 7)
    runner.start(time.monotonic_ns())
    return runner, transport


def named(runner: MemberRunner) -> int:
    """Let it claim its name; when that is done."""
    while not runner.member.named:
        runner.expire()
    return time.monotonic_ns()


def test_a_member_alone_delivers_what_it_sends_and_gives_receipts() -> None:
    runner, _ = made()
    now = named(runner)
    receipt = runner.submit([b"one", b"two"], phalanx.AGREED, None)
    runner.push(now)
    assert receipt.state is State.STABLE
    assert (receipt.first, receipt.last) == (1, 2)
    runs = runner.buffer.take()
    assert isinstance(runs[0], phalanx.View)
    assert phalanx.Batch(runs).bodies() == [b"one", b"two"]


def test_small_submissions_of_a_kind_share_a_step_and_keep_their_numbers() -> None:
    runner, _ = made()
    now = named(runner)
    receipts = [runner.submit([b"%d" % i], phalanx.SAFE, None) for i in range(5)]
    other = runner.submit([b"x", b"y"], phalanx.BASIC, None)
    last = runner.submit([b"z"], phalanx.SAFE, None)
    runner.push(now)
    assert [receipt.first for receipt in receipts] == [1, 2, 3, 4, 5]
    assert (other.first, other.last, last.first) == (6, 7, 8)


def test_receivers_that_all_left_in_between_fail_the_receipt_not_the_runner() -> None:
    runner, _ = made()
    now = named(runner)
    receipt = runner.submit([b"x"], phalanx.AGREED, [ADA])
    gone = MemberId("bob")
    waiting = runner._submitter._queue.waiting
    waiting[0] = waiting[0]._replace(to=(gone,))
    runner.push(now)
    assert isinstance(receipt.error, NotDelivered)
    assert receipt.error.missing == (gone,)
    again = runner.submit([b"x"], phalanx.AGREED, None)
    runner.push(now)
    assert again.state is State.STABLE


def test_a_receiver_that_left_in_between_costs_the_others_nothing() -> None:
    runner, _ = made()
    now = named(runner)
    receipt = runner.submit([b"x"], phalanx.AGREED, [ADA])
    gone = MemberId("bob")
    waiting = runner._submitter._queue.waiting
    waiting[0] = waiting[0]._replace(to=(ADA, gone))
    receipt.meant = receipt.to = (ADA, gone)
    runner.push(now)
    assert receipt.error is None
    outcome = receipt.outcome(State.STABLE)
    assert (outcome.members, outcome.missing) == ((ADA,), (gone,))
    runs = runner.buffer.take()
    assert phalanx.Batch(runs).bodies() == [b"x"]
    assert phalanx.NotSent(1, 1, (gone,), 1) in runs


def test_the_end_is_seen_wherever_it_stands_among_the_effects() -> None:
    runner, transport = made()
    runner._perform(0, [fx.Stopped("left"), fx.Refused("short")])
    assert runner.stopped
    assert transport.closed
    assert runner.error is None


def test_an_incarnation_that_was_used_ends_the_node_with_that_error() -> None:
    runner, _ = made()
    runner._perform(0, [fx.Stopped("incarnation-used")])
    assert isinstance(runner.error, IncarnationUsed)
    assert runner.error.incarnation == ADA.incarnation


def test_a_name_that_is_lost_ends_the_node_with_that_error() -> None:
    runner, _ = made()
    waited: list[int] = []
    runner.watchers.add(lambda: False, lambda: waited.append(1))
    runner._perform(0, [fx.Stopped("name-in-use")])
    assert isinstance(runner.error, NameInUse)
    assert runner.buffer.closed
    assert waited == [1], "callers that wait are called back"
    with pytest.raises(NameInUse):
        runner.submit([b"x"], phalanx.AGREED, None)


def test_a_bug_ends_the_node_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    runner, transport = made()
    receipt = runner.submit([b"x"], phalanx.AGREED, None)

    def broken(now: int, given: fx.Input) -> list[fx.Effect]:
        raise AssertionError("impossible")

    runner.member.step = broken  # type: ignore[method-assign]
    transport.waiting = [b"anything"]
    runner.turn(0, ready=True)
    assert isinstance(runner.error, EngineFailed)
    assert isinstance(receipt.error, EngineFailed)
    assert transport.closed
    assert "impossible" in caplog.text


def test_nothing_can_be_sent_once_leaving_has_begun() -> None:
    runner, _ = made()
    now = named(runner)
    runner.leave(now)
    with pytest.raises(MemberClosed):
        runner.submit([b"x"], phalanx.AGREED, None)


def test_nonsense_is_counted_by_kind() -> None:
    runner, transport = made()
    transport.waiting = [b"", b"nonsense" * 5, b"\xff" * 40]
    runner.receive(0)
    assert sum(runner.refused.values()) == 3


def test_what_was_accepted_before_leaving_is_sent_though_the_core_had_no_room() -> None:
    transport = IdleTransport()
    config = phalanx.lan(outbox_bytes_max=1000)
    runner = MemberRunner("g", Identity(ADA), config, transport, None, 7)
    now = time.monotonic_ns()
    runner.start(now)
    receipts = [runner.submit([bytes(40_000)], phalanx.AGREED, None) for _ in range(5)]
    runner.turn(now, ready=False)
    runner.leave(now)
    assert receipts[-1].state is State.WAITING, "its name is not yet its own"
    until = time.monotonic() + 10
    while not runner.stopped and time.monotonic() < until:
        runner.turn(time.monotonic_ns(), ready=False)
    assert runner.stopped
    assert {receipt.state for receipt in receipts} == {State.STABLE}


def test_leaving_ends_in_time_though_the_clock_of_the_core_is_slow() -> None:
    runner, _ = made()
    now = named(runner)
    runner.clock = StretchedClock(lambda: None, starved=True)
    runner.submit([b"x"], phalanx.AGREED, None)
    runner.member.step = lambda now, given: []  # type: ignore[method-assign] # it never gets ready
    runner.leave(now)
    leave_ns = runner.config.leave_ns
    runner.turn(now + leave_ns, ready=False)
    runner.turn(now + LEAVE_STAGES * leave_ns - 1, ready=False)
    over = [runner.stopped]
    assert runner.deadline() <= now + LEAVE_STAGES * leave_ns
    runner.turn(now + LEAVE_STAGES * leave_ns, ready=False)
    over.append(runner.stopped)
    assert over == [False, True]
    assert runner.error is None


def test_the_core_gets_stretched_time_and_the_event_loop_real_deadlines() -> None:
    runner, _ = made()
    now = named(runner)
    before = runner.deadline() - now
    kernel = iter([(0, 99 * ONE), (0, 99 * ONE), (250_000_000, 99 * ONE)])
    runner.clock = StretchedClock(kernel.__next__)
    for back in (2, 1, 0):
        runner.clock.update(now - back * WINDOW_NS)
    assert runner.deadline() - now == pytest.approx(before * STRETCH, rel=0.01)


def test_a_submission_that_meets_the_end_fails_and_is_not_forgotten() -> None:
    runner, _ = made()
    named(runner)

    class Late(list[bytes]):
        """Bodies whose sender is held up after the check that the runner lives."""

        def __iter__(self):  # type: ignore[no-untyped-def]
            runner.end(0, None)
            return super().__iter__()

    receipt = runner.submit(Late([b"x"]), phalanx.AGREED, None)
    assert isinstance(receipt.error, MemberClosed)
