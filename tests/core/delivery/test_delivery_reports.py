"""When all members are known to have delivered own messages."""

from __future__ import annotations

from phalanx.core.broadcast.dag import Dag
from phalanx.core.delivery.delivery_reports import ENDED_MAX, DeliveryReports
from phalanx.core.effects import AllDelivered, Effect
from phalanx.core.ids import MemberId, ViewId

ADA, BEA, CYD = map(MemberId, ("ada", "bea", "cyd"))
ONE, TWO = ViewId(1, 0, bytes(8)), ViewId(2, 0, bytes(8))


def reported(
    reports: DeliveryReports, vectors: list[list[int]], settled: int, view: ViewId = ONE
) -> list[Effect]:
    """What is reported where the last frames of the members have these vectors, and all frames that
    they name are here."""
    dag = Dag(len(vectors))
    dag.latest = vectors
    dag.have = [max(column) for column in zip(*vectors, strict=True)]
    out: list[Effect] = []
    reports.advance(view, dag, settled, out)
    return out


def test_nothing_is_reported_that_was_not_asked_for() -> None:
    assert reported(DeliveryReports(), [[5, 5], [5, 5]], 3) == []


def test_all_must_follow_from_all_a_frame_that_follows_the_cut() -> None:
    """Rule D-15."""
    reports = DeliveryReports()
    reports.ask(1)
    alone = [[2, 0, 0], [2, 1, 0], [2, 0, 1]]
    assert reported(reports, alone, 0) == []  # not stable yet
    assert reported(reports, alone, 1) == []  # the cut is 2, 1, 1, and nobody follows it
    assert reported(reports, [[3, 1, 1], [2, 2, 1], [2, 1, 2]], 1) == []  # all do, and do not know
    assert reported(reports, [[4, 2, 2], [3, 3, 2], [2, 1, 2]], 1) == []  # cyd may not know
    known = [[4, 2, 2], [3, 3, 2], [3, 2, 3]]
    assert reported(reports, known, 1) == [AllDelivered(1, ONE)]
    assert reported(reports, known, 1) == []  # once


def test_a_member_alone_has_delivered_what_is_settled() -> None:
    reports = DeliveryReports()
    reports.ask(2)
    assert reported(reports, [[1]], 1) == []
    assert reported(reports, [[2]], 2) == [AllDelivered(2, ONE)]


def test_at_the_end_of_a_view_those_that_spoke_in_the_next_are_named() -> None:
    """Rule D-15."""
    reports = DeliveryReports()
    reports.ask(1)
    reports.close(ONE, 1, (ADA, BEA))
    assert reported(reports, [[9, 0], [9, 0]], 1, TWO) == []
    reports.all_spoke()
    assert reported(reports, [[9, 9], [9, 9]], 1, TWO) == [AllDelivered(1, ONE, (ADA, BEA))]


def test_a_member_that_never_spoke_again_is_not_named() -> None:
    reports = DeliveryReports()
    reports.close(ONE, 1, (ADA, BEA, CYD))
    reports.close(TWO, 1, (ADA, CYD))
    reports.all_spoke()
    reports.ask(1)
    assert reported(reports, [[9]], 1, TWO) == [AllDelivered(1, ONE, (ADA, CYD))]


def test_of_a_view_that_is_forgotten_nothing_is_known() -> None:
    reports = DeliveryReports()
    for number in range(1, ENDED_MAX + 2):
        reports.close(ONE, number, (ADA, BEA))
        reports.all_spoke()
    reports.ask(1)
    assert reported(reports, [[9]], 999, TWO) == [AllDelivered(1, TWO, ())]
