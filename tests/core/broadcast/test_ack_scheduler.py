"""Who acknowledges when: the chosen at once, the reserves if those are silent, the rest lazily."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import pytest

from phalanx.config import MS, US, Config, lan
from phalanx.core.broadcast.ack_scheduler import AckScheduler, Awaited
from phalanx.core.deadline import NEVER
from phalanx.core.effects import Service, Transmit
from phalanx.core.wire.frame_codec import decode_frame
from phalanx.core.wire.frames import Frame, FrameKind, MessageRun
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment

Build = Callable[..., Any]

NAMES = "abcdefghijklmnopqrstuvwxyzABCDEF"
LATE = 10_000 * MS
"""Long after a pulse was made: it may acknowledge at once."""


def frame(sender: int, service: Service = Service.AGREED, size: int = 10) -> Frame:
    runs = [MessageRun(service, 1, 1, None, 0, (size,))]
    ordered = service >= Service.AGREED
    return Frame(
        sender, 1, FrameKind.DATA, 0, b"", b"", (), (), 1, runs, None, bytes(size), 0, ordered
    )


def delay(
    n: int, rank: int, given: Frame, config: Config | None = None, awaited: int = Awaited.CHOSEN
) -> int:
    """How long after a frame came a member that was idle acknowledges it."""
    ack_scheduler = AckScheduler(config or lan(), n, rank, 0)
    ack_scheduler.spoke(0, messages=False)
    ack_scheduler.awaits(LATE, Awaited(awaited), progress=False)
    ack_scheduler.received(LATE, given)
    ack_scheduler._sent_ns = LATE  # no keep-alive
    return ack_scheduler.deadline(settled=False) - LATE


# ---------------------------------------------------------------------------- the rule alone


@pytest.mark.parametrize("n", [2, 3, 4])
def test_in_small_groups_everybody_acknowledges_at_once(n: int) -> None:
    """Rule B-18."""
    assert [delay(n, rank, frame(0)) for rank in range(1, n)] == [0] * (n - 1)


@pytest.mark.parametrize("n", [5, 6, 7, 8, 16, 31, 32, 33, 64])
@pytest.mark.parametrize("sender", [0, 2, -1])
def test_as_many_as_a_majority_needs_acknowledge_at_once(n: int, sender: int) -> None:
    """Rule B-18."""
    sender %= n
    others = [rank for rank in range(n) if rank != sender]
    prompt = [rank for rank in others if delay(n, rank, frame(sender)) == 0]
    assert 2 * (len(prompt) + 1) > n
    assert 2 * len(prompt) <= n
    assert prompt == others[: len(prompt)], "the same for all senders, as far as can be"


@pytest.mark.parametrize("n", [5, 8, 32, 64])
def test_reserves_step_in_one_part_after_the_other(n: int) -> None:
    """Rule B-19."""
    delays = [delay(n, rank, frame(0)) for rank in range(1 + n // 2, n)]
    assert delays == sorted(delays)
    assert 4 * 300 * US <= delays[0] <= 5 * 300 * US
    assert delays[-1] <= 10 * 300 * US
    assert max(map(delays.count, delays)) <= max(1, n // 8)


def test_reserves_step_in_sooner_when_a_majority_did_not_decide() -> None:
    split = [delay(32, rank, frame(0), awaited=Awaited.EVERYBODY) for rank in range(17, 32)]
    assert split[0] == 300 * US
    assert split[-1] <= 4 * 300 * US


def test_nobody_hurries_for_what_has_been_delivered_here() -> None:
    delays = [delay(32, rank, frame(0), awaited=Awaited.NOBODY) for rank in range(1, 32)]
    assert delays == sorted(set(delays)), "no two at the same time"
    assert delays[0] >= 10 * MS
    assert delays[-1] <= 50 * MS


def test_safe_messages_and_all_ack_need_everybody_at_once() -> None:
    safe = [delay(32, rank, frame(0, Service.SAFE)) for rank in range(1, 32)]
    all_ack = [delay(32, rank, frame(0), lan(order="all-ack")) for rank in range(1, 32)]
    assert safe == all_ack == [0] * 31


def test_post_confirm_needs_one_member_at_once() -> None:
    config = lan(post_confirm=True)
    delays = [delay(32, rank, frame(0, Service.CAUSAL), config) for rank in range(1, 32)]
    assert delays[0] == 0
    assert min(delays[1:]) >= 4 * 300 * US
    assert min(delay(32, rank, frame(0, Service.CAUSAL)) for rank in range(1, 32)) >= 10 * MS


def test_a_safe_message_makes_a_reserve_hurry() -> None:
    ack_scheduler = AckScheduler(lan(), 32, 31, 0)
    ack_scheduler.received(LATE, frame(0))
    assert ack_scheduler.deadline(settled=False) <= LATE
    ack_scheduler = AckScheduler(lan(), 32, 31, 0)
    ack_scheduler.spoke(LATE - 50 * MS, messages=False)
    ack_scheduler.awaits(LATE, Awaited.CHOSEN, progress=False)
    ack_scheduler.received(LATE, frame(0))
    assert ack_scheduler.deadline(settled=True) > LATE
    ack_scheduler.received(LATE + 1, frame(1, Service.SAFE))
    assert ack_scheduler.deadline(settled=True) <= LATE + 1


def test_prompt_acks_of_a_busy_member_are_far_apart_and_those_of_an_idle_one_are_not() -> None:
    """Half of 32 members, each every 16 times 300 us: the group sends one in 300 us."""
    ack_scheduler = AckScheduler(lan(), 32, 0, 0)
    ack_scheduler.awaits(0, Awaited.CHOSEN, progress=False)
    sent = []
    for now in range(LATE, LATE + 100 * MS, 100 * US):
        ack_scheduler.received(now, frame(1))
        if ack_scheduler.due(now, settled=False):
            sent.append(now)
            ack_scheduler.spoke(now, messages=False)
    saved, steady = sent[:5], sent[5:]
    assert saved == [LATE + k * 100 * US for k in range(5)], "what it saved up"
    assert [b - a for a, b in pairwise(steady)] == [4_800 * US] * 19


def test_a_member_that_sends_often_sends_no_ack_only_frames() -> None:
    for n in (4, 32):
        ack_scheduler = AckScheduler(lan(), n, 0, 0)
        ack_scheduler.awaits(0, Awaited.CHOSEN, progress=False)
        ack_scheduler.spoke(LATE - 200 * US, messages=True)
        ack_scheduler.spoke(LATE - 100 * US, messages=True)
        for now in range(LATE, LATE + 100 * MS, 100 * US):
            ack_scheduler.received(now, frame(1))
            assert not ack_scheduler.due(now, settled=False)
            ack_scheduler.spoke(now, messages=True)


def test_reserves_wait_while_the_order_makes_progress() -> None:
    ack_scheduler = AckScheduler(lan(), 32, 31, 0)
    ack_scheduler.spoke(LATE, messages=False)
    ack_scheduler.awaits(LATE, Awaited.NOBODY, progress=True)
    now = LATE
    for _ in range(8):
        now += 4 * MS
        ack_scheduler.received(now, frame(1))
        ack_scheduler.awaits(now, Awaited.CHOSEN, progress=True)
        assert not ack_scheduler.due(now + 3_999 * US, settled=False)
    due = ack_scheduler.deadline(settled=False)
    assert now + 4_800 * US < due < now + 10 * MS


def test_a_member_whose_frames_wait_keeps_others_awake_quickly_and_others_do_not() -> None:
    """A keep-alive that only stability waits for comes after the lazy acks (rule B-21)."""
    for n, rank in ((8, 0), (32, 0), (64, 63)):
        ack_scheduler = AckScheduler(lan(), n, rank, 0)
        ack_scheduler.awaits(0, Awaited.NOBODY, progress=True)
        ack_scheduler.spoke(LATE, messages=False)
        ack_scheduler._level = 0
        slow = ack_scheduler.deadline(settled=False) - LATE
        assert slow > 10 * MS + 10 * MS * (n - 1) // 8
        ack_scheduler.awaits(LATE, Awaited.CHOSEN, progress=False)
        assert ack_scheduler.deadline(settled=False) == LATE + 15 * MS
        ack_scheduler.awaits(LATE, Awaited.NOBODY, progress=True)
        ack_scheduler.spoke(LATE, messages=True)
        assert ack_scheduler.deadline(settled=False) == LATE + 15 * MS
        assert ack_scheduler.deadline(settled=True) == LATE + 250 * MS


def test_much_that_only_stability_waits_for_is_acknowledged_soon() -> None:
    """Rule B-20."""
    ack_scheduler = AckScheduler(lan(), 32, 31, 0)
    ack_scheduler.awaits(0, Awaited.NOBODY, progress=True)
    ack_scheduler.spoke(LATE, messages=False)
    ack_scheduler.received(LATE, frame(0, Service.BASIC, 1000))
    assert ack_scheduler.deadline(settled=True) > LATE + 10 * MS
    ack_scheduler.received(LATE, frame(0, Service.BASIC, 40_000))
    assert ack_scheduler.deadline(settled=True) == LATE + 8 * 300 * US


def test_nothing_is_owed_to_begin_with() -> None:
    """Rule B-17."""
    ack_scheduler = AckScheduler(lan(), 8, 3, 0)
    assert ack_scheduler._due_ns == ack_scheduler._turn == NEVER
    assert ack_scheduler.deadline(settled=True) == 250 * MS


# ---------------------------------------------------------------------------- in groups


def acks_of(group: Any, i: int, since: int = 0) -> int:
    """Ack-only frames that a member sent, but for its first `since` effects."""
    return sum(not decoded.runs for decoded in frames_of(group, i, since))


def frames_of(group: Any, i: int, since: int = 0) -> list[Frame]:
    codec = PacketCodec("phalanx", "g")
    view_state = group.members[i]._active.state
    sent = [e.packets for e in group.seen[i][since:] if isinstance(e, Transmit)]
    out = []
    for packet in map(codec.decode, chain.from_iterable(sent)):
        if isinstance(packet, Fragment) and not packet.repeat and packet.count == 1:
            decoded = decode_frame(
                packet.sender, packet.number, packet.piece, 0, view_state.table, len(group.members)
            )
            assert isinstance(decoded, Frame)
            out.append(decoded)
    return out


def idle(mesh: Build, n: int, config: Config | None = None) -> Any:
    """A group in which all have spoken, all is stable, and nobody has sent for a while."""
    group = mesh(NAMES[:n], config)
    group.pump(1100)
    assert all(member.settled for member in group.members)
    return group


def until(group: Any, i: int, count: int, ns_max: int) -> int:
    """Let time pass, timer by timer, until a member has delivered so many messages."""
    began = group.now
    group.pump()
    while len(group.bodies(i)) < count:
        group.now = max(group.now, min(member.deadline() for member in group.members))
        assert group.now - began <= ns_max, "not delivered in time"
        group.pump()
    return int(group.now - began)


@pytest.mark.parametrize("service", [Service.AGREED, Service.SAFE])
@pytest.mark.parametrize("n", [2, 3, 4, 8, 32])
def test_on_an_idle_network_nothing_waits(mesh: Build, n: int, service: Service) -> None:
    group = idle(mesh, n)
    group.submit(n // 2, b"x", service=service)
    group.pump()
    assert [group.bodies(i) for i in range(n)] == [[b"x"]] * n


def test_an_agreed_message_costs_a_majority_of_acks_and_a_safe_one_all(mesh: Build) -> None:
    for service, expected in ((Service.AGREED, 16), (Service.SAFE, 31)):
        group = idle(mesh, 32)
        before = [len(seen) for seen in group.seen]
        group.submit(5, b"x", service=service)
        group.pump()
        assert sum(acks_of(group, i, before[i]) for i in range(32)) == expected
        group.pump(200)
        assert all(member.settled for member in group.members)
        assert sum(acks_of(group, i, before[i]) for i in range(32)) <= 31 + 3


@pytest.mark.parametrize("service", [Service.AGREED, Service.SAFE])
@pytest.mark.parametrize("n", [8, 16, 32])
def test_acks_per_message_are_bounded_however_many_members(
    mesh: Build, n: int, service: Service
) -> None:
    """Eight senders, one message every 1.25 ms: at most about one prompt ack in 300 us for agreed
    messages, two for safe ones, and the lazy ones."""
    group = idle(mesh, n)
    before = [len(seen) for seen in group.seen]
    messages = 160
    for k in range(messages):
        group.submit(k % 8 * n // 8, b"x", service=service)
        group.pump(1)
        group.now += 250 * US
    acks = sum(acks_of(group, i, before[i]) for i in range(n))
    assert acks / messages <= (6 if service is Service.AGREED else 11)
    group.pump(500)
    assert all(len(group.bodies(i)) == messages for i in range(n))


@pytest.mark.parametrize("silent", [{0}, {1, 2}, {0, 1, 2, 3}])
def test_reserves_step_in_for_the_chosen_that_are_silent(mesh: Build, silent: set[int]) -> None:
    """The chosen of eight are a to d, but for the sender h; what these send is lost."""
    group = idle(mesh, 8)
    group.carry = lambda a, b, packet: [] if a in silent else [packet]
    group.submit(7, b"x")
    if len(silent) < 4:
        assert until(group, 7, 1, 10 * 300 * US) >= 4 * 300 * US
    else:
        group.pump(10)
        assert group.bodies(7) == [], "four of eight are no majority"
        group.carry = lambda a, b, packet: [packet]
        group.pump(100)
    assert group.bodies(7) == [b"x"]


def test_reserves_step_in_for_one_that_is_cut_off_from_the_start_of_many_messages(
    mesh: Build,
) -> None:
    group = idle(mesh, 8)
    group.carry = lambda a, b, packet: [] if a == 0 else [packet]
    for k in range(20):
        group.submit(7, b"%d" % k)
        group.pump(4)
        assert group.bodies(6) == [b"%d" % j for j in range(k + 1)]
        group.now += 6 * MS


def test_a_lost_ack_of_a_chosen_member_delays_one_receiver_by_one_request(mesh: Build) -> None:
    """Acks that follow it show that it is missing: no need to wait for the lazy ones."""
    group = idle(mesh, 8)
    lost: list[bytes] = []

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        if (a, b) != (0, 6) or lost:
            return [packet]
        lost.append(packet)
        return []

    group.carry = carry
    group.submit(7, b"x")
    until(group, 5, 1, 0)
    until(group, 6, 1, lan().nack_ns_max)
    assert group.bodies(6) == [b"x"]


def test_all_ack_waits_for_everybody_and_gets_it_at_once(mesh: Build) -> None:
    group = idle(mesh, 8, lan(order="all-ack"))
    group.submit(3, b"x")
    group.pump()
    assert [group.bodies(i) for i in range(8)] == [[b"x"]] * 8


def test_post_confirm_costs_one_prompt_ack_and_others_step_in(mesh: Build) -> None:
    config = lan(post_confirm=True)
    group = idle(mesh, 8, config)
    before = [len(seen) for seen in group.seen]
    group.submit(3, b"x", service=Service.CAUSAL)
    group.pump()
    assert group.bodies(3) == [b"x"]
    assert [acks_of(group, i, before[i]) for i in range(8)] == [1, 0, 0, 0, 0, 0, 0, 0]
    group = idle(mesh, 8, config)
    group.carry = lambda a, b, packet: [] if a == 0 else [packet]
    group.submit(3, b"x", service=Service.CAUSAL)
    until(group, 3, 1, 10 * 300 * US)
    assert group.bodies(3) == [b"x"]


def test_stability_comes_without_anybody_asking(mesh: Build) -> None:
    """Basic messages wait for nobody, and are forgotten all the same (rule B-21)."""
    group = idle(mesh, 32)
    for k in range(10):
        group.submit(k, bytes(100), service=Service.BASIC)
        group.pump(3)
    group.pump(60)
    assert all(member.settled for member in group.members)
    assert all(member._active.state.broadcast.store.bytes == 0 for member in group.members)
