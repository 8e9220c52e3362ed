"""A member whose application is behind with reading holds the others up, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.core.effects import PeerSuspicion, ReaderLag, Service

Build = Callable[..., Any]


def test_others_wait_for_a_member_that_is_full_and_go_on_when_it_has_read(mesh: Build) -> None:
    """Rule W-10."""
    group = mesh("abc")
    group.pump(100)
    group.step(2, ReaderLag(1))
    group.pump(1)
    group.submit(0, b"later")
    group.pump(5_000)
    assert [group.bodies(i) for i in range(3)] == [[], [], []]
    group.step(2, ReaderLag(0))
    group.pump(10)
    assert [group.bodies(i) for i in range(3)] == [[b"later"]] * 3


def test_waiting_for_a_reader_is_no_reason_to_suspect_it(mesh: Build) -> None:
    group = mesh("abc")
    group.submit(0, b"before")
    group.step(2, ReaderLag(1))
    group.submit(1, b"later", service=Service.SAFE)
    group.pump(60_000)
    assert group.views(0) == ["abc"]
    assert not [e for i in range(3) for e in group.seen[i] if isinstance(e, PeerSuspicion)]


def test_the_word_that_a_member_has_read_is_not_lost_with_a_packet(mesh: Build) -> None:
    group = mesh("ab")
    group.pump(100)
    group.step(1, ReaderLag(1))
    group.pump(1)
    group.submit(0, b"later")
    group.carry = lambda a, b, packet: []
    group.step(1, ReaderLag(0))
    group.carry = lambda a, b, packet: [packet]
    group.pump(1_000)
    assert group.bodies(1) == [b"later"]


def test_a_full_member_may_send_so_that_two_that_send_before_they_read_go_on(mesh: Build) -> None:
    """Rule W-10."""
    group = mesh("ab")
    group.pump(100)
    for i in range(2):
        group.step(i, ReaderLag(1))
    group.pump(1)
    group.submit(0, b"reply")
    group.pump(10)
    assert group.bodies(1) == [b"reply"]


def test_an_over_full_member_sends_nothing(mesh: Build) -> None:
    """Rule W-10."""
    group = mesh("ab")
    group.pump(100)
    group.step(0, ReaderLag(2))
    group.submit(0, b"reply")
    group.pump(1_000)
    assert group.bodies(1) == []
    group.step(0, ReaderLag(0))
    group.pump(10)
    assert group.bodies(1) == [b"reply"]


def test_those_that_remain_do_not_wait_for_a_full_member_that_crashed(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    group.step(2, ReaderLag(1))
    group.pump(1)
    group.submit(0, b"later")
    group.crash(2)
    group.pump(3_000)
    assert group.views(0)[-1] == "ab"
    assert group.bodies(1) == [b"later"]


def test_a_member_that_is_still_full_says_so_in_the_next_view(mesh: Build) -> None:
    group = mesh("abc")
    group.pump(100)
    group.step(1, ReaderLag(1))
    group.crash(2)
    group.pump(3_000)
    assert group.views(0)[-1] == "ab"
    group.submit(0, b"later")
    group.pump(1_000)
    assert group.bodies(1) == []
    group.step(1, ReaderLag(0))
    group.pump(10)
    assert group.bodies(1) == [b"later"]
