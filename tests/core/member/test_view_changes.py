"""A few members in memory whose group changes: who is in which view, and what they deliver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phalanx.config import lan
from phalanx.core.effects import (
    Datagrams,
    Deliver,
    LeaveRequest,
    NotSent,
    Ordered,
    PeerSuspicion,
    Refused,
    Region,
    Sent,
    Service,
    Stable,
    Stopped,
    SuspectMember,
    Transitional,
    Transmit,
    ViewInstalled,
)
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.core.wire.packet_codec import PacketCodec
from phalanx.core.wire.packets import Fragment, Hello, IncarnationReused, JoinAttempt, NameClaimed

Build = Callable[..., Any]
CODEC = PacketCodec("phalanx", "g")
A, B, C = (MemberId(name) for name in "abc")


def last(group: Any, i: int, kind: type) -> Any:
    return [e for e in group.seen[i] if isinstance(e, kind)][-1]


def packets(group: Any, i: int) -> list[Any]:
    return [
        group.members[i]._codec.decode(packet)
        for effect in group.seen[i]
        if isinstance(effect, Transmit)
        for packet in effect.packets
    ]


# ---------------------------------------------------------------------------- alone


def test_a_member_alone_claims_its_name_before_it_says_anything_else(mesh: Build) -> None:
    """Rule L-16."""
    group = mesh("a", alone=True)
    group.submit(0, b"early")
    group.pump(89)
    assert {type(p) for p in packets(group, 0)} == {NameClaimed}
    assert group.bodies(0) == []
    group.pump(2)
    assert group.bodies(0) == [b"early"]
    assert Fragment in {type(p) for p in packets(group, 0)}


def test_members_that_start_alone_find_each_other(mesh: Build) -> None:
    group = mesh("abcde", alone=True)
    group.pump(1000)
    assert {group.views(i)[-1] for i in range(5)} == {"abcde"}
    group.submit(3, b"hello")
    group.pump(50)
    assert [group.bodies(i) for i in range(5)] == [[b"hello"]] * 5


def test_what_was_delivered_alone_is_not_delivered_to_those_who_join(mesh: Build) -> None:
    group = mesh("ab", alone=True)
    group.pump(95)
    group.submit(0, b"alone")
    group.pump(1000)
    assert (group.views(0)[-1], group.bodies(0), group.bodies(1)) == ("ab", [b"alone"], [])
    merged = last(group, 0, ViewInstalled).merged
    assert {m.members: m.delivered for m in merged} == {(A,): ((A, 1),), (B,): ()}


def test_a_link_that_is_dead_one_way_starts_no_join(mesh: Build) -> None:
    """Rule L-12."""
    group = mesh("ab", alone=True)
    group.carry = lambda a, b, packet: [] if a == 0 else [packet]
    group.pump(5000)
    assert group.views(0) == ["a"]
    assert group.views(1) == ["b"]
    assert JoinAttempt not in {type(p) for p in packets(group, 0) + packets(group, 1)}


def test_an_idle_group_searches_at_a_bounded_rate(mesh: Build) -> None:
    """About one HELLO a period, whoever says it (rule L-11)."""
    group = mesh("abcdefgh")
    group.pump(10_000)
    hellos = sum(isinstance(p, Hello) for i in range(8) for p in packets(group, i))
    assert 30 <= hellos <= 80


# ---------------------------------------------------------------------------- names


def test_a_second_process_with_a_name_in_use_gives_up(mesh: Build) -> None:
    """Rule L-16."""
    group = mesh("ab")
    group.pump(300)
    again = MemberId("a", 2)
    second = group.add(Member(again, boot_view([again]), "g", lan(), 9))
    group.pump(3000)
    assert last(group, second, Stopped) == Stopped("name-in-use")
    assert group.members[second].deadline() is None
    assert (group.views(0), group.views(second)) == (["ab"], ["a"])


def test_of_two_processes_that_start_with_one_name_at_once_one_stays(mesh: Build) -> None:
    """Rule L-16."""
    group = mesh("a", alone=True)
    twin = group.add(Member(MemberId("a", 2), boot_view([MemberId("a", 2)]), "g", lan(), 9))
    group.pump(1000)
    stopped = [any(isinstance(e, Stopped) for e in group.seen[i]) for i in (0, twin)]
    assert sorted(stopped) == [False, True]


def test_of_two_holders_that_meet_when_a_partition_heals_the_younger_leaves(mesh: Build) -> None:
    """Rule L-17."""
    group = mesh("ab", alone=True)
    group.cut({0, 1})
    group.pump(1000)
    later = MemberId("a", 2)
    twin = group.add(Member(later, boot_view([later]), "g", lan(), 9))
    group.cut({0, 1}, {twin})
    group.pump(1000)
    group.cut()
    group.pump(3000)
    assert last(group, twin, Stopped) == Stopped("name-in-use")
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"


def test_a_process_that_crashed_and_came_back_joins_under_its_name(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(300)
    group.crash(2)
    again = MemberId("c", 2)
    second = group.add(Member(again, boot_view([again]), "g", lan(), 9))
    group.pump(4000)
    assert group.members[0].view.members == (A, B, again)
    assert group.members[second].view == group.members[0].view


# ---------------------------------------------------------------------------- faults


def test_a_crash_is_noticed_and_the_rest_goes_on(mesh: Build) -> None:
    """Rule L-5."""
    group = mesh("abc")
    group.pump(300)
    group.crash(2)
    group.pump(1200)
    assert group.views(0) == group.views(1) == ["abc", "ab"]
    verdicts = [e for e in group.seen[0] + group.seen[1] if isinstance(e, PeerSuspicion)]
    assert C in {e.target for e in verdicts if e.state == "FAULTY"}
    installed = last(group, 0, ViewInstalled)
    assert (installed.cause, installed.left, installed.transitional) == ("removal", (C,), (A, B))
    group.submit(0, b"on we go", service=Service.SAFE)
    group.pump(50)
    assert group.bodies(1) == [b"on we go"]


def test_survivors_deliver_the_same_last_words_of_the_dead(mesh: Build) -> None:
    """c's last message reached b only: b has it under its closing frame, so a delivers it too
    (rule Cut)."""
    group = mesh("abc")
    group.pump(300)
    group.carry = lambda a, b, packet: [] if (a, b) == (2, 0) else [packet]
    group.submit(2, b"last words")
    group.pump()
    group.crash(2)
    group.pump(1500)
    assert group.views(0) == group.views(1) == ["abc", "ab"]
    assert group.bodies(0) == group.bodies(1) == [b"last words"]
    views = {e.view for i in (0, 1) for e in group.seen[i] if isinstance(e, Deliver)}
    assert views == {boot_view([A, B, C]).id}, "in the view that it was sent in"


def test_an_unstable_safe_message_is_delivered_behind_the_marker(mesh: Build) -> None:
    """Rule D-10."""
    group = mesh("abc")
    group.pump(300)
    group.crash(2)
    group.submit(0, b"safe", service=Service.SAFE)
    group.pump(1500)
    for i in (0, 1):
        told: list[Any] = [
            e for e in group.seen[i] if isinstance(e, Deliver | Transitional | ViewInstalled)
        ]
        boot, marker, delivery, installed = told
        assert marker == Transitional(boot.view.id, 0, (A, B))
        assert (delivery.region, delivery.view) == (Region.TRANSITIONAL, boot.view.id)
        assert installed.view.members == (A, B)


def test_everybody_falsely_accused_comes_back(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(300)
    group.step(0, SuspectMember(B))
    group.pump(3000)
    assert {group.views(i)[-1] for i in range(3)} == {"abc"}
    assert len(group.views(0)) >= 3


def test_a_removal_by_an_operator_is_reported_as_such(mesh: Build) -> None:
    """Rule L-10."""
    group = mesh("abc")
    group.pump(300)
    group.step(0, SuspectMember(B))
    judged = [effect for effect in group.seen[0] if isinstance(effect, PeerSuspicion)]
    assert [(j.target, j.state, j.evidence) for j in judged] == [(B, "FAULTY", "OPERATOR")]


def test_what_was_refused_before_an_install_is_reported_after_it(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(300)
    group.members[0]._active.state.broadcast.refused["malformed"] += 1
    group.step(0, SuspectMember(B))
    assert group.views(0)[-1] == "a"
    assert Refused("malformed", 1) in group.seen[0]


def test_a_view_that_ends_is_one_generation_of_what_is_kept(mesh: Build) -> None:
    """Rule B-14."""
    group = mesh("ab")
    group.pump(300)
    past_frames = group.members[0]._resources.past_frames
    before = len(past_frames._generations)
    group.step(0, SuspectMember(B))
    assert len(past_frames._generations) == before + 1


def test_where_only_one_link_is_cut_the_view_stays(mesh: Build) -> None:
    """a and c do not hear each other; b brings their frames (rules L-8 and L-9)."""
    group = mesh("abc")
    group.pump(300)
    group.carry = lambda a, b, packet: [] if {a, b} == {0, 2} else [packet]
    for k in range(40):
        group.submit(k % 3, b"%d" % k)
        group.pump(100)
    assert [group.views(i) for i in range(3)] == [["abc"]] * 3
    assert [len(group.bodies(i)) for i in range(3)] == [40] * 3
    assert group.bodies(0) == group.bodies(1) == group.bodies(2)
    semi = [e for e in group.seen[0] if isinstance(e, PeerSuspicion) and e.state == "SEMI"]
    assert [(e.target, e.relay) for e in semi] == [(C, B)]


# ---------------------------------------------------------------------------- partitions


def test_a_merge_delivers_no_message_twice_and_loses_none(mesh: Build) -> None:
    """Rule N.1."""
    group = mesh("abcd")
    group.pump(300)
    for k in range(60):
        if k == 10:
            group.cut({0, 1}, {2, 3})
        if k == 40:
            group.cut()
        for i in range(4):
            group.submit(i, b"%d-%d" % (i, k))
        group.pump(60)
    group.pump(3000)
    assert {group.views(i)[-1] for i in range(4)} == {"abcd"}
    for i in range(4):
        bodies = group.bodies(i)
        assert len(bodies) == len(set(bodies))
        own = [body for body in bodies if body.startswith(b"%d-" % i)]
        assert own == [b"%d-%d" % (i, k) for k in range(60)], "self delivery, in order"
    assert group.bodies(0) == group.bodies(1)
    assert group.bodies(2) == group.bodies(3)


def test_a_merged_view_tells_what_each_side_alone_has_delivered(mesh: Build) -> None:
    """Rule D-17."""
    group = mesh("ab")
    group.pump(300)
    group.submit(0, b"both")
    group.pump(50)
    group.cut({0}, {1})
    group.pump(1500)
    group.submit(0, b"alone")
    group.pump(50)
    group.cut()
    group.pump(2000)
    merged = last(group, 1, ViewInstalled).merged
    alone = {m.members: [(r.sender, r.first, r.last) for r in m.alone] for m in merged}
    assert alone == {(A,): [(A, 2, 2)], (B,): []}


@pytest.mark.parametrize("mode", ["hold", "flow"])
def test_members_that_move_together_deliver_the_same_messages(mesh: Build, mode: str) -> None:
    """From one view to the same next one. In mode hold each moreover in the view it was sent in
    (rule Cut)."""
    group = mesh("abcde", lan(mode=mode))
    group.pump(300)
    for k in range(80):
        if k == 20:
            group.crash(4)
        if k == 30:
            group.cut({0, 1, 2}, {3})
        if k == 55:
            group.cut()
        for i in range(4):
            group.submit(i, b"%d-%d" % (i, k), service=Service(k % 4))
        group.pump(40)
    group.pump(3000)
    assert {group.views(i)[-1] for i in range(4)} == {"abcd"}
    together: dict[Any, set[tuple[tuple[int | None, str, int], ...]]] = {}
    for i in range(4):
        told: list[tuple[int | None, str, int]] = []
        for e in group.seen[i]:
            if isinstance(e, Deliver) and e.service is not Service.BASIC:
                told += [(e.pos, e.sender.name, n) for n in range(e.first, e.last + 1)]
                assert mode == "flow" or (e.origin, e.phase) == (e.view, 0)
            elif isinstance(e, ViewInstalled):
                moved = (e.previous, e.view.id)
                together.setdefault(moved, set()).add(tuple(sorted(told, key=str)))
                told = []
    assert all(len(sets) == 1 for sets in together.values())
    late = [e for i in range(4) for e in group.seen[i] if isinstance(e, Sent) and e.phase]
    assert bool(late) == (mode == "flow")


def test_receipts_come_in_order_and_for_every_message_across_changes(mesh: Build) -> None:
    """Rule D-14."""
    group = mesh("abc", lan(mode="flow"))
    group.pump(300)
    for k in range(40):
        if k == 10:
            group.crash(2)
        group.submit(0, b"%d" % k, service=Service(k % 4))
        group.pump(50)
    group.pump(1000)
    for kind in (Ordered, Stable):
        upto = [e.upto for e in group.seen[0] if isinstance(e, kind)]
        assert upto == sorted(upto)
        assert upto[-1] == 40


@pytest.mark.parametrize("mode", ["hold", "flow"])
def test_a_large_message_in_the_middle_of_which_the_view_changes_arrives_once(
    mesh: Build, mode: str
) -> None:
    """Rule F-12."""
    config = lan(mode=mode, frame_bytes_max=1000, window_bytes_max=8000, window_bytes_min=4000)
    group = mesh("abc", config)
    group.pump(300)
    body = bytes(range(256)) * 200
    group.submit(0, body)
    group.pump(1)
    assert group.bodies(1) == []
    group.step(0, SuspectMember(C))
    group.crash(2)
    group.pump(2000)
    assert group.views(0) == group.views(1) == ["abc", "ab"]
    assert group.bodies(0) == group.bodies(1) == [body]
    assert group.members[0].settled


@pytest.mark.parametrize("mode", ["hold", "flow"])
def test_receivers_that_are_gone_before_a_message_is_sent_are_reported(
    mesh: Build, mode: str
) -> None:
    """Rule D-16."""
    group = mesh("abc", lan(mode=mode))
    group.pump(300)
    group.crash(2)
    group.step(0, SuspectMember(C))
    group.submit(0, b"for c", to=(C,))
    group.submit(0, b"for b and c", to=(B, C))
    group.pump(500)
    assert group.views(0) == ["abc", "ab"]
    assert [e for e in group.seen[0] if isinstance(e, NotSent)] == [
        NotSent(1, 1, (C,), sent=mode == "flow"),
        NotSent(2, 2, (C,), rest=1, sent=mode == "flow"),
    ]
    assert group.bodies(1) == [b"for b and c"]


# ---------------------------------------------------------------------------- leaving


def test_a_member_that_leaves_is_missed_by_nobody_for_long(mesh: Build) -> None:
    """Rule L-22."""
    group = mesh("abc")
    group.pump(300)
    group.submit(1, *[b"%d" % k for k in range(100)])
    group.step(1, LeaveRequest())
    group.pump(100)
    assert last(group, 1, Stopped) == Stopped("left")
    assert group.members[1].deadline() is None
    assert group.views(0) == group.views(2) == ["abc", "ac"]
    assert group.bodies(0) == group.bodies(2) == [b"%d" % k for k in range(100)]


@pytest.mark.parametrize("crashes", [False, True], ids=["leave", "crash"])
def test_members_may_come_and_leave_as_often_as_they_like(mesh: Build, crashes: bool) -> None:
    """Members that leave are no sign of a bad link, as members that fail are (rule L-13)."""
    group = mesh("ab")
    times = []
    for life in range(1, 9):
        guest, since = started(group, MemberId("c", life)), group.now
        while MemberId("c", life) not in group.members[0].view.members:
            assert group.now < since + 60_000_000_000
            group.pump(50)
        times.append((group.now - since) // 1_000_000)
        if crashes:
            group.crash(guest)
            group.pump(3000)
        else:
            group.step(guest, LeaveRequest())
            group.pump(100)
        assert group.members[0].view.members == (A, B)
    assert (max(times) > 3000) is crashes, times


@pytest.mark.parametrize("leavers", [2, 3, 4])
def test_members_that_leave_together_do_not_wait_for_each_other(mesh: Build, leavers: int) -> None:
    """Of four members; what they sent last is delivered by those that stay (rule LEAVE)."""
    group = mesh("abcd")
    group.pump(300)
    for rank in range(leavers):
        group.submit(rank, b"%d" % rank)
        group.step(rank, LeaveRequest())
    group.pump(50)
    for rank in range(leavers):
        assert group.members[rank].deadline() is None, f"{rank} still waits"
        assert last(group, rank, Stopped) == Stopped("left")
    for rank in range(leavers, 4):
        assert group.views(rank)[-1] == "abcd"[leavers:]
        assert sorted(group.bodies(rank)) == [b"%d" % sender for sender in range(leavers)]


def test_a_member_alone_leaves_at_once(mesh: Build) -> None:
    group = mesh("a", alone=True)
    group.pump(100)
    group.step(0, LeaveRequest())
    assert last(group, 0, Stopped) == Stopped("left")


def test_a_member_whose_others_are_all_gone_leaves_in_time(mesh: Build) -> None:
    """Rule L-22."""
    group = mesh("ab")
    group.pump(300)
    group.crash(1)
    group.step(0, LeaveRequest())
    group.pump(1100)
    assert last(group, 0, Stopped) == Stopped("left")


def test_a_stopped_member_does_nothing_more(mesh: Build) -> None:
    group = mesh("a", alone=True)
    group.pump(100)
    group.step(0, LeaveRequest())
    assert group.members[0].step(group.now, SuspectMember(B)) == []


# ---------------------------------------------------------------------------- in transit


def test_a_removal_that_closes_while_components_are_collected_stops_nobody(mesh: Build) -> None:
    """b's attempt to join, forgotten long since, reaches a between a's FA and b's."""
    group = mesh("abc")
    group.pump(300)
    late: list[bytes] = []

    def carry(a: int, b: int, packet: bytes) -> list[bytes]:
        if isinstance(CODEC.decode(packet), JoinAttempt):
            late.extend([packet] if b == 0 else [])
            return []
        return [packet]

    group.carry = carry
    stranger = MemberId("x")
    hello = CODEC.encode(Hello(stranger, 1, boot_view([stranger]).id, (B,)))
    group.inboxes[1].append(hello)
    group.pump(100)
    assert len(late) == 1
    group.carry = lambda a, b, packet: [packet]
    group.crash(2)
    group.step(0, SuspectMember(C))
    group.inboxes[0] += late
    group.pump(3000)
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"
    group.submit(0, b"fine")
    group.pump(100)
    assert group.bodies(1) == [b"fine"]


# ---------------------------------------------------------------------------- incarnations


def started(group: Any, me: MemberId, entropy: int = 9) -> int:
    """A process that starts alone, now."""
    return int(group.add(Member(me, boot_view([me]), "g", lan(), entropy)))


def reasons(group: Any, i: int) -> list[str]:
    return [effect.reason for effect in group.seen[i] if isinstance(effect, Stopped)]


@pytest.mark.parametrize("alone", [True, False], ids=["joined", "booted together"])
@pytest.mark.parametrize("after_ms", [0, 400, 5000], ids=["at once", "suspected", "removed"])
def test_a_process_with_an_incarnation_that_others_met_stops_and_says_so(
    mesh: Build, alone: bool, after_ms: int
) -> None:
    """It was ignored for ever before: its view had been merged (rules N.1 and L-20)."""
    group = mesh("abc", alone=alone)
    group.pump(2000)
    assert group.members[0].view.members == (A, B, C)
    group.crash(2)
    group.pump(after_ms)
    again = started(group, C)
    group.pump(100)
    assert reasons(group, again) == ["incarnation-used"]
    assert not group.members[again].named
    later = started(group, MemberId("c", 2), 10)
    group.pump(5000)
    assert group.members[later].view.members == (A, B, MemberId("c", 2))
    assert group.members[0].view == group.members[1].view == group.members[later].view


def test_a_process_whose_claim_nobody_heard_is_told_when_it_is_met(mesh: Build) -> None:
    group = mesh("abc", alone=True)
    group.pump(2000)
    group.crash(2)
    group.pump(3000)
    again = started(group, C)
    group.cut({0, 1}, {again})
    group.pump(1000)
    assert group.members[again].named
    group.cut()
    group.pump(1000)
    assert reasons(group, again) == ["incarnation-used"]
    assert group.views(0)[-1] == group.views(1)[-1] == "ab"


@pytest.mark.parametrize("after_ms", [0, 400, 5000], ids=["at once", "suspected", "removed"])
def test_a_process_with_an_earlier_incarnation_that_nobody_met_joins(
    mesh: Build, after_ms: int
) -> None:
    """A clock was set back, or that of another machine is behind: the incarnation is lower, and
    new. Only when the later one is removed: of two the later stays (rule N.3)."""
    group = mesh("ab", alone=True)
    late, early = MemberId("c", 7), MemberId("c", 3)
    first = started(group, late)
    group.pump(2000)
    assert group.members[0].view.members == (A, B, late)
    group.crash(first)
    group.pump(after_ms)
    second = started(group, early, 10)
    group.pump(6000)
    assert reasons(group, second) == []
    assert group.members[second].view == group.members[0].view
    assert group.members[0].view.members == (A, B, early)


@pytest.mark.parametrize("alone", [True, False])
def test_late_claims_and_hellos_of_a_member_stop_nobody(mesh: Build, alone: bool) -> None:
    """What a member said in its first view comes again, long after it has joined others."""
    group = mesh("abc", alone=alone)
    early: list[tuple[int, bytes]] = []

    def carry(i: int, j: int, packet: bytes) -> list[bytes]:
        said = CODEC.decode(packet)
        if isinstance(said, NameClaimed | Hello):
            early.append((j, packet))
        return [packet]

    group.carry = carry
    group.pump(1500)
    for _ in range(3):
        for j, packet in early[:60]:
            group.inboxes[j].append(packet)
        group.pump(700)
    group.cut({0}, {1, 2})
    group.pump(3000)
    group.cut()
    for j, packet in early[:60]:
        group.inboxes[j].append(packet)
    group.pump(4000)
    assert [reasons(group, i) for i in range(3)] == [[], [], []]
    assert group.views(0)[-1] == group.views(1)[-1] == group.views(2)[-1] == "abc"


def test_no_single_packet_tells_a_member_that_its_incarnation_was_used(mesh: Build) -> None:
    group = mesh("a", alone=True)
    group.step(0, Datagrams([CODEC.encode(IncarnationReused(A, nonce)) for nonce in (0, 1, 7)]))
    group.pump(500)
    assert reasons(group, 0) == []
    group.step(0, Datagrams([CODEC.encode(IncarnationReused(A, 0))]))
    claims = [said.nonce for said in packets(group, 0) if isinstance(said, NameClaimed)]
    assert len(set(claims)) == 2, "it asks, with a new draw"
    group.pump(2000)
    assert reasons(group, 0) == []


def test_a_member_that_is_or_was_with_others_heeds_no_word_about_its_incarnation(
    mesh: Build,
) -> None:
    group = mesh("ab", alone=True)
    group.pump(2000)

    def tell() -> None:
        group.step(0, Datagrams([CODEC.encode(IncarnationReused(A, 0))]))
        nonces = [said.nonce for said in packets(group, 0) if isinstance(said, NameClaimed)]
        group.step(0, Datagrams([CODEC.encode(IncarnationReused(A, nonce)) for nonce in nonces]))

    tell()
    group.crash(1)
    group.pump(4000)
    assert group.views(0)[-1] == "a"
    tell()
    group.pump(500)
    assert reasons(group, 0) == []
