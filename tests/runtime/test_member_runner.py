"""A node with a link that is not there: what it makes of effects, and of our own bugs."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import phalanx
from phalanx.core import effects as fx
from phalanx.core.ids import MemberId
from phalanx.errors import EngineFailed, IncarnationUsed, MemberClosed, NameInUse, NotDelivered
from phalanx.runtime.identity import Identity
from phalanx.runtime.member_runner import LEAVES, MemberRunner
from phalanx.runtime.receipt_tracker import State
from phalanx.runtime.starvation_clock import ONE, STRETCH, WINDOW_NS, StretchedClock
from phalanx.transport.fault_injection import FaultInjector

ADA = MemberId("ada")
MS = 1_000_000


class Nowhere:
    """A link whose packets go nowhere and from which none come but those that are put in."""

    def __init__(self) -> None:
        self.address = "nowhere:0"
        self.receive_bytes = 1 << 20
        self.faults = FaultInjector()
        self.counts: Counter[str] = Counter()
        self.sent: list[bytes] = []
        self.waiting: list[bytes] = []
        self.closed = False

    def fileno(self) -> int:
        return -1

    def receive(self, now: int) -> list[bytes]:
        out, self.waiting = self.waiting, []
        return out

    def send(self, now: int, packets: list[bytes]) -> None:
        self.sent += packets

    def deadline(self) -> int | None:
        return None

    def expire(self, now: int) -> list[bytes]:
        return []

    def close(self) -> None:
        self.closed = True


def made() -> tuple[MemberRunner, Nowhere]:
    link = Nowhere()
    node = MemberRunner("g", Identity(ADA), phalanx.lan(), link, None, 7)
    node.start(time.monotonic_ns())
    return node, link


def named(node: MemberRunner) -> int:
    """Let it claim its name; when that is done."""
    while not node.member.named:
        node.expire()
    return time.monotonic_ns()


def test_a_member_alone_delivers_what_it_sends_and_gives_receipts() -> None:
    node, _ = made()
    now = named(node)
    ticket = node.submit([b"one", b"two"], phalanx.AGREED, None)
    node.push(now)
    assert ticket.state is State.STABLE
    assert (ticket.first, ticket.last) == (1, 2)
    runs = node.buffer.take()
    assert isinstance(runs[0], phalanx.View)
    assert phalanx.Batch(runs).bodies() == [b"one", b"two"]


def test_small_submissions_of_a_kind_share_a_step_and_keep_their_numbers() -> None:
    node, _ = made()
    now = named(node)
    tickets = [node.submit([b"%d" % i], phalanx.SAFE, None) for i in range(5)]
    other = node.submit([b"x", b"y"], phalanx.BASIC, None)
    last = node.submit([b"z"], phalanx.SAFE, None)
    node.push(now)
    assert [ticket.first for ticket in tickets] == [1, 2, 3, 4, 5]
    assert (other.first, other.last, last.first) == (6, 7, 8)


def test_receivers_that_all_left_in_between_fail_the_ticket_not_the_node() -> None:
    node, _ = made()
    now = named(node)
    ticket = node.submit([b"x"], phalanx.AGREED, [ADA])
    gone = MemberId("bob")
    node._queue.waiting[0] = node._queue.waiting[0]._replace(to=(gone,))
    node.push(now)
    assert isinstance(ticket.error, NotDelivered)
    assert ticket.error.missing == (gone,)
    again = node.submit([b"x"], phalanx.AGREED, None)
    node.push(now)
    assert again.state is State.STABLE


def test_a_receiver_that_left_in_between_costs_the_others_nothing() -> None:
    node, _ = made()
    now = named(node)
    ticket = node.submit([b"x"], phalanx.AGREED, [ADA])
    gone = MemberId("bob")
    node._queue.waiting[0] = node._queue.waiting[0]._replace(to=(ADA, gone))
    ticket.meant = ticket.to = (ADA, gone)
    node.push(now)
    assert ticket.error is None
    outcome = ticket.outcome(State.STABLE)
    assert (outcome.members, outcome.missing) == ((ADA,), (gone,))
    runs = node.buffer.take()
    assert phalanx.Batch(runs).bodies() == [b"x"]
    assert phalanx.NotSent(1, 1, (gone,), 1) in runs


def test_the_end_is_seen_wherever_it_stands_among_the_effects() -> None:
    node, link = made()
    node._perform(0, [fx.Stopped("left"), fx.Refused("short")])
    assert node.stopped
    assert link.closed
    assert node.error is None


def test_an_incarnation_that_was_used_ends_the_node_with_that_error() -> None:
    node, _ = made()
    node._perform(0, [fx.Stopped("incarnation-used")])
    assert isinstance(node.error, IncarnationUsed)
    assert node.error.incarnation == ADA.incarnation


def test_a_name_that_is_lost_ends_the_node_with_that_error() -> None:
    node, _ = made()
    waited: list[int] = []
    node.watch(lambda: False, lambda: waited.append(1))
    node._perform(0, [fx.Stopped("name-in-use")])
    assert isinstance(node.error, NameInUse)
    assert node.buffer.closed
    assert waited == [1], "whoever waits for something is told that it will not come"
    with pytest.raises(NameInUse):
        node.submit([b"x"], phalanx.AGREED, None)


def test_a_bug_ends_the_node_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    node, link = made()
    ticket = node.submit([b"x"], phalanx.AGREED, None)

    def broken(now: int, given: fx.Input) -> list[fx.Effect]:
        raise AssertionError("impossible")

    node.member.step = broken  # type: ignore[method-assign]
    link.waiting = [b"anything"]
    node.turn(0, ready=True)
    assert isinstance(node.error, EngineFailed)
    assert isinstance(ticket.error, EngineFailed)
    assert link.closed
    assert "impossible" in caplog.text


def test_nothing_can_be_sent_once_leaving_has_begun() -> None:
    node, _ = made()
    now = named(node)
    node.leave(now)
    with pytest.raises(MemberClosed):
        node.submit([b"x"], phalanx.AGREED, None)


def test_nonsense_is_counted_by_kind() -> None:
    node, link = made()
    link.waiting = [b"", b"nonsense" * 5, b"\xff" * 40]
    node.receive(0)
    assert sum(node.refused.values()) == 3


def test_what_was_accepted_before_leaving_is_sent_though_the_core_had_no_room() -> None:
    link = Nowhere()
    config = phalanx.lan(outbox_bytes_max=1000)
    node = MemberRunner("g", Identity(ADA), config, link, None, 7)
    now = time.monotonic_ns()
    node.start(now)
    tickets = [node.submit([bytes(40_000)], phalanx.AGREED, None) for _ in range(5)]
    node.turn(now, ready=False)
    node.leave(now)
    assert [ticket.state for ticket in tickets][-1] is State.WAITING, "its name is not yet its own"
    until = time.monotonic() + 10
    while not node.stopped and time.monotonic() < until:
        node.turn(time.monotonic_ns(), ready=False)
    assert node.stopped
    assert {ticket.state for ticket in tickets} == {State.STABLE}


def test_leaving_ends_in_time_though_the_clock_of_the_core_is_slow() -> None:
    node, _ = made()
    now = named(node)
    node.pace = StretchedClock(lambda: None, slow=True)
    node.submit([b"x"], phalanx.AGREED, None)
    node.member.step = lambda now, given: []  # type: ignore[method-assign] # it never gets ready
    node.leave(now)
    leave_ns = node.config.leave_ns
    node.turn(now + leave_ns, ready=False)
    node.turn(now + LEAVES * leave_ns - 1, ready=False)
    over = [node.stopped]
    assert node.deadline() <= now + LEAVES * leave_ns
    node.turn(now + LEAVES * leave_ns, ready=False)
    over.append(node.stopped)
    assert over == [False, True]
    assert node.error is None


def test_the_core_is_told_a_slow_time_and_the_engine_its_deadline_in_real_time() -> None:
    node, _ = made()
    now = named(node)
    before = node.deadline() - now
    kernel = iter([(0, 99 * ONE), (0, 99 * ONE), (250_000_000, 99 * ONE)])
    node.pace = StretchedClock(kernel.__next__)
    for back in (2, 1, 0):
        node.pace.look(now - back * WINDOW_NS)
    assert node.deadline() - now == pytest.approx(before * STRETCH, rel=0.01)


def test_a_submission_that_meets_the_end_fails_and_is_not_forgotten() -> None:
    node, _ = made()
    named(node)

    class Late(list[bytes]):
        """Bodies whose sender is held up after the check that the node lives."""

        def __iter__(self):  # type: ignore[no-untyped-def]
            node.end(0, None)
            return super().__iter__()

    ticket = node.submit(Late([b"x"]), phalanx.AGREED, None)
    assert isinstance(ticket.error, MemberClosed)
