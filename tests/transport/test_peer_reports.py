"""Each member is told of each other one once, and again now and then."""

from __future__ import annotations

from random import Random

from phalanx.transport.channel_hello import PEERS_MAX
from phalanx.transport.peer_directory import PeerKey
from phalanx.transport.peer_reports import (
    REFRESHED_MAX,
    REPORT_NS,
    REPORT_SOON_NS,
    SMALL,
    PeerReports,
)


def key(i: int) -> PeerKey:
    return f"m{i:03}", 1, b"n"


def opened(reports: PeerReports, i: int, now: int = 0, host: str = "10.0.0") -> None:
    reports.opened(now, key(i), (f"{host}.{i}", 7117))


def names(reports: PeerReports, i: int) -> list[str]:
    return sorted(peer.name for peer in reports.for_peer(key(i)))


def test_a_new_peer_is_told_of_all_others_and_they_of_it() -> None:
    reports = PeerReports(0, Random(1))
    opened(reports, 1)
    opened(reports, 2)
    assert names(reports, 2) == ["m001"]
    assert reports.due_ns == REPORT_SOON_NS
    assert reports.due(REPORT_SOON_NS - 1) == []
    ((to, told),) = reports.due(REPORT_SOON_NS)
    assert to == key(1)
    assert [(peer.name, peer.host, peer.port) for peer in told] == [("m002", "10.0.0.2", 7117)]
    assert reports.due_ns == REPORT_NS
    assert reports.due(REPORT_NS - 1) == []


def test_while_a_mesh_forms_each_peer_is_told_of_each_other_one_once() -> None:
    reports, told = PeerReports(0, Random(1)), 0
    n = 60
    for i in range(n):
        now = i * REPORT_SOON_NS
        opened(reports, i, now)
        told += len(reports.for_peer(key(i)))
        told += sum(len(news) for _, news in reports.due(now))
    told += sum(len(news) for _, news in reports.due(REPORT_NS - 1))
    assert told == n * (n - 1)


def test_reports_of_a_large_mesh_are_further_apart() -> None:
    reports = PeerReports(0, Random(1))
    for i in range(4 * SMALL):
        opened(reports, i)
    reports.due(REPORT_SOON_NS)
    opened(reports, 200, REPORT_SOON_NS)
    assert reports.due_ns == REPORT_SOON_NS + (4 * SMALL + 1) * REPORT_SOON_NS // SMALL


def test_some_peers_are_told_again_and_in_time_all() -> None:
    reports = PeerReports(0, Random(1))
    for i in range(40):
        opened(reports, i)
    reports.due(REPORT_SOON_NS * 10)
    told: set[str] = set()
    for period in range(1, 30):
        for to, news in reports.due(period * REPORT_NS):
            assert len(news) <= REFRESHED_MAX
            assert to[0] not in {peer.name for peer in news}
            told |= {peer.name for peer in news}
    assert len(told) == 40


def test_a_peer_that_is_gone_is_not_told_and_learns_everything_when_it_is_back() -> None:
    reports = PeerReports(0, Random(1))
    for i in (1, 2, 3):
        opened(reports, i)
    reports.due(REPORT_SOON_NS)
    reports.closed(key(2))
    assert names(reports, 3) == []
    opened(reports, 2)
    assert names(reports, 2) == ["m001", "m003"]
    assert names(reports, 1) == ["m002"]


def test_addresses_that_are_of_no_use_elsewhere_are_not_told_there() -> None:
    reports = PeerReports(0, Random(1))
    opened(reports, 1, host="127.0.0")
    opened(reports, 2)
    opened(reports, 3, host="127.0.0")
    reports.opened(0, key(4), ("fe80::1%eth0", 7117, 0, 2))
    assert names(reports, 1) == ["m002", "m003"]
    assert names(reports, 2) == []


def test_a_report_is_bounded() -> None:
    reports = PeerReports(0, Random(1))
    for i in range(PEERS_MAX + 20):
        reports.opened(0, key(i), (f"10.0.{i // 200}.{i % 200 + 1}", 7117))
    assert all(len(news) <= PEERS_MAX for _, news in reports.due(REPORT_NS))
