"""Whom a member of a mesh calls, and when."""

from __future__ import annotations

from random import Random

import pytest

from phalanx.transport.addresses import SocketAddress
from phalanx.transport.peer_directory import (
    FORGOTTEN_NS,
    MS,
    RETRY_NS_MAX,
    SELF_NS,
    TABLE_MAX,
    UNPROVEN_NS,
    YIELD_NS,
    PeerDirectory,
    PeerKey,
)

A: SocketAddress = ("10.0.0.1", 7117)
B: SocketAddress = ("10.0.0.2", 7117)
C: SocketAddress = ("10.0.0.3", 7117)
ADA: PeerKey = ("ada", 1, b"a")
BEA: PeerKey = ("bea", 1, b"b")
CYD: PeerKey = ("cyd", 1, b"c")


@pytest.fixture
def bea() -> PeerDirectory:
    """The directory of bea."""
    return PeerDirectory(BEA, Random(1))


def test_seeds_are_called_at_once_and_once_at_a_time(bea: PeerDirectory) -> None:
    bea.seeds(0, [A, C])
    assert bea.due(0, (), 16) == [A, C]
    bea.called(0, A)
    assert bea.due(0, (), 16) == [C]
    assert bea.due(0, (), 0) == []


def test_calls_that_fail_are_repeated_ever_later_without_end(bea: PeerDirectory) -> None:
    bea.seeds(0, [A])
    now, pauses = 0, []
    for _ in range(30):
        assert bea.due(now, (), 16) == [A]
        bea.called(now, A)
        assert bea.deadline(()) is None
        bea.failed(now, A)
        due = bea.deadline(())
        assert due is not None
        pauses.append(due - now)
        now = due
    assert 37 * MS <= pauses[0] <= 63 * MS
    assert 75 * MS <= pauses[1] <= 125 * MS
    assert all(RETRY_NS_MAX * 3 // 4 <= pause <= RETRY_NS_MAX * 5 // 4 for pause in pauses[7:])
    assert len(set(pauses[7:])) > 15, "without jitter all members call at the same time"


def test_the_time_of_a_call_that_nobody_answered_counts_as_pause(bea: PeerDirectory) -> None:
    bea.seeds(0, [A])
    now, between = 0, []
    for _ in range(10):
        bea.called(now, A)
        bea.failed(now + 1000 * MS, A)
        due = bea.deadline(())
        assert due is not None
        between.append(due - now)
        now = due
    assert between[:4] == [1000 * MS] * 4, "at once"
    assert RETRY_NS_MAX * 3 // 4 <= between[-1] <= RETRY_NS_MAX * 5 // 4


def test_a_connected_peer_is_not_called_at_any_of_its_addresses(bea: PeerDirectory) -> None:
    bea.seeds(0, [A, C])
    bea.connected(0, A, ADA)
    bea.connected(0, C, ADA)  # C is another address of ada
    assert bea.due(0, {ADA}, 16) == []
    assert bea.deadline({ADA}) is None


def test_a_lost_peer_is_called_again_and_the_lower_name_calls_first(bea: PeerDirectory) -> None:
    bea.connected(0, A, ADA)
    bea.connected(0, C, CYD)
    bea.lost(0, A)
    bea.lost(0, C)
    assert bea.due(70 * MS, (), 16) == [C]
    assert sorted(bea.due(70 * MS + YIELD_NS, (), 16)) == [A, C]


def test_of_two_members_that_are_reported_to_each_other_the_lower_name_calls(
    bea: PeerDirectory,
) -> None:
    bea.told(0, "cyd", C)
    bea.told(0, "ada", A)
    assert bea.due(0, (), 16) == [C]
    assert bea.due(YIELD_NS, (), 16) == [C, A]


def test_a_namesake_is_called_at_once(bea: PeerDirectory) -> None:
    bea.told(0, "bea", C)
    assert bea.due(0, (), 16) == [C]


def test_its_own_address_is_not_called_for_a_while(bea: PeerDirectory) -> None:
    bea.seeds(0, [B])
    bea.called(0, B)
    bea.is_self(0, B)
    assert bea.due(SELF_NS - 1, (), 16) == []
    assert bea.due(SELF_NS, (), 16) == [B]


def test_reported_addresses_that_never_answer_are_forgotten_seeds_never(
    bea: PeerDirectory,
) -> None:
    bea.seeds(0, [A])
    bea.told(0, "cyd", C)
    bea.connected(0, B, ("dov", 1, b"d"))
    bea.due(UNPROVEN_NS + 1, (), 16)
    assert bea.addresses == [A, B]
    bea.due(FORGOTTEN_NS + 1, (), 16)
    assert bea.addresses == [A]


def test_an_address_that_the_name_service_drops_is_no_seed_any_more(bea: PeerDirectory) -> None:
    bea.seeds(0, [A, C])
    bea.seeds(0, [C])
    bea.due(UNPROVEN_NS + 1, (), 16)
    assert bea.addresses == [C]


def test_the_table_is_bounded(bea: PeerDirectory) -> None:
    for i in range(TABLE_MAX + 5):
        bea.told(0, "x", ("10.1.0.1", 1 + i))
    assert len(bea.addresses) == TABLE_MAX
    assert bea.counts["table-full"] == 5
    bea.connected(0, A, ADA)  # does not fit either, and raises nothing
    bea.failed(0, A)


def test_after_a_fault_has_ended_all_are_called_at_once(bea: PeerDirectory) -> None:
    bea.seeds(0, [A])
    for _ in range(9):
        bea.failed(0, A)
    assert bea.due(100 * MS, (), 16) == []
    bea.hurry(100 * MS)
    assert bea.due(100 * MS, (), 16) == [A]


def test_when_one_answers_again_all_others_are_called_soon(bea: PeerDirectory) -> None:
    """Else each waits for the end of its own pause, of up to 2 s."""
    bea.seeds(0, [A, C])
    for address in (A, C):
        for _ in range(9):
            bea.failed(0, address)
    assert bea.due(200 * MS, (), 16) == []
    bea.connected(100 * MS, A, ADA)
    assert bea.due(150 * MS, {ADA}, 16) == [C]
    bea.failed(150 * MS, C)
    assert bea.due(250 * MS, {ADA}, 16) == [C], "the pauses begin anew"


def test_an_address_that_answers_as_usual_is_no_sign(bea: PeerDirectory) -> None:
    """Else each channel that opens would call all that are down."""
    bea.seeds(0, [A, C])
    for _ in range(9):
        bea.failed(0, C)
    bea.failed(0, A)
    bea.connected(100 * MS, A, ADA)
    assert bea.due(200 * MS, {ADA}, 16) == []


def test_an_address_that_a_connected_member_is_connected_to_is_called_soon(
    bea: PeerDirectory,
) -> None:
    bea.told(0, "cyd", C)
    for _ in range(9):
        bea.failed(0, C)
    bea.told(100 * MS, "cyd", C)
    assert bea.due(150 * MS, (), 16) == [C]
    bea.failed(150 * MS, C)
    assert bea.due(1000 * MS, (), 16) == [], "once for each report"
