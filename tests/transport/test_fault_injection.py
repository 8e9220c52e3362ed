"""Fault injection, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.errors import ConfigurationError
from phalanx.transport import fault_injection as module
from phalanx.transport.fault_injection import FaultInjector

A, B = "10.0.0.1:7117", "10.0.0.2:7117"
MS = 1_000_000
MANY = [bytes([i]) for i in range(200)]


def test_without_faults_a_transport_need_not_ask() -> None:
    faults = FaultInjector()
    assert not faults.active
    faults.cut()
    assert not faults.active
    assert faults.admit(0, A, MANY) == MANY
    assert faults.deadline() is None


def test_a_cut_holds_both_ways_and_for_its_addresses_only() -> None:
    faults = FaultInjector()
    faults.cut(A)
    assert faults.active
    assert faults.admit(0, A, [b"x"]) == []
    assert faults.admit(0, B, [b"x"]) == [b"x"]
    assert not faults.reaches(A)
    assert not faults.hears(A)
    assert faults.reaches(B)
    assert faults.counts == {"cut": 1}


def test_a_cut_of_one_way_lets_packets_out() -> None:
    faults = FaultInjector()
    faults.cut_from(A)
    assert faults.admit(0, A, [b"x"]) == []
    assert faults.reaches(A)
    assert not faults.hears(A)


def test_healing_an_address_leaves_the_other_cut() -> None:
    faults = FaultInjector()
    faults.cut(A, B)
    faults.cut_from(A)
    faults.heal(A)
    assert faults.admit(0, A, [b"x"]) == [b"x"]
    assert faults.admit(0, B, [b"x"]) == []
    faults.heal(B)
    assert not faults.active


@pytest.mark.parametrize(
    "nonsense", ["nonsense", "ada", "", "10.0.0.1", "10.0.0.1:0", "host.example:7117", "fd00::1", 7]
)
@pytest.mark.parametrize("method", ["cut", "cut_from", "heal"])
def test_what_is_no_address_is_refused_by_name(method: str, nonsense: Any) -> None:
    faults = FaultInjector()
    faults.cut(A)
    with pytest.raises(ConfigurationError, match=r"addresses = .*IP:port"):
        getattr(faults, method)(A, nonsense)
    assert faults.plan.cut == {A}, "nothing changes"
    assert not faults.plan.cut_from


def test_an_address_matches_however_it_is_written() -> None:
    faults = FaultInjector()
    faults.cut("[FD00:0::1]:7117", "[fe80::1%eth0]:7117")
    assert not faults.hears("[fd00::1]:7117")
    assert not faults.hears("[fe80::1%eth0]:7117")


def test_losses_repeat_with_their_seed_and_keep_their_share() -> None:
    kept = []
    for seed in (1, 1, 2):
        faults = FaultInjector()
        faults.lose(0.3, seed=seed)
        kept.append([faults.admit(0, A, MANY) for _ in range(10)])
    assert kept[0] == kept[1] != kept[2]
    assert 1200 < sum(map(len, kept[0])) < 1600


@pytest.mark.parametrize(("share", "left"), [(0.0, MANY), (1.0, [])])
def test_nothing_and_everything_can_be_lost(share: float, left: list[bytes]) -> None:
    faults = FaultInjector()
    faults.lose(share)
    assert faults.admit(0, A, MANY) == left


def test_delayed_packets_come_when_they_are_due() -> None:
    faults = FaultInjector()
    faults.delay(5 * MS)
    assert faults.admit(0, A, [b"1"]) == []
    assert faults.admit(1 * MS, B, [b"2"]) == []
    assert faults.deadline() == 5 * MS
    assert faults.due(5 * MS - 1) == []
    assert faults.due(5 * MS) == [b"1"]
    assert faults.due(6 * MS) == [b"2"]
    assert faults.deadline() is None


def test_jitter_keeps_the_order_of_one_source_and_mixes_those_of_two() -> None:
    faults = FaultInjector()
    faults.delay(1 * MS, jitter_ns=50 * MS, seed=4)
    for i in range(20):
        faults.admit(i, A, [b"a%d" % i])
        faults.admit(i, B, [b"b%d" % i])
    out = faults.due(100 * MS)
    assert [p for p in out if p[:1] == b"a"] == [b"a%d" % i for i in range(20)]
    assert [p for p in out if p[:1] == b"b"] == [b"b%d" % i for i in range(20)]
    assert out != sorted(out, key=lambda p: int(p[1:]))


def test_after_healing_nothing_overtakes_what_still_waits() -> None:
    faults = FaultInjector()
    faults.delay(10 * MS)
    faults.admit(0, A, [b"1"])
    faults.heal()
    assert faults.active
    assert faults.admit(1 * MS, A, [b"2"]) == []
    assert faults.admit(1 * MS, B, [b"3"]) == [b"3"]
    assert faults.due(10 * MS) == [b"1", b"2"]
    assert not faults.active


def test_healing_in_the_middle_of_a_packet_leaves_nothing_behind() -> None:
    faults = FaultInjector()
    faults.delay(10 * MS, jitter_ns=5)
    dice = faults.plan.random
    draw = dice.randrange

    def healed_meanwhile(*bounds: int) -> int:
        faults.heal()  # as another thread may
        return draw(*bounds)

    dice.randrange = healed_meanwhile  # type: ignore[assignment, method-assign]
    faults.admit(0, A, [b"1"])
    assert faults.active
    assert faults.due(11 * MS) == [b"1"]
    assert not faults.active


def test_delays_do_not_eat_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 10)
    faults = FaultInjector()
    faults.delay(10 * MS)
    faults.admit(0, A, MANY)
    assert faults.due(10 * MS) == MANY[:10]
    assert faults.counts == {"delayed": 10, "lost": 190}


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_probability(share: float) -> None:
    with pytest.raises(ConfigurationError, match="share"):
        FaultInjector().lose(share)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ConfigurationError, match="delay"):
        FaultInjector().delay(-1)
