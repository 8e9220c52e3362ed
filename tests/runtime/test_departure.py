"""The deadlines of leaving, and the errors for the core's reasons to stop."""

from __future__ import annotations

from phalanx.core.deadline import NEVER
from phalanx.core.ids import MemberId
from phalanx.errors import IncarnationUsed, NameInUse
from phalanx.runtime.departure import LEAVE_STAGES, Departure, error_of

ADA = MemberId("ada", 7)


def test_before_leaving_nothing_is_due() -> None:
    departure = Departure(100)
    assert departure.deadline() == NEVER
    assert not departure.takes_request(10**9, queue_is_empty=True)
    assert not departure.is_overdue(10**9)


def test_the_core_is_asked_once_when_the_queue_is_empty() -> None:
    departure = Departure(100)
    departure.begin(1000)
    assert not departure.takes_request(1001, queue_is_empty=False)
    assert departure.takes_request(1002, queue_is_empty=True)
    assert not departure.takes_request(1003, queue_is_empty=True)


def test_the_core_is_asked_after_leave_ns_even_if_messages_wait() -> None:
    departure = Departure(100)
    departure.begin(1000)
    assert departure.deadline() == 1100
    assert departure.takes_request(1100, queue_is_empty=False)


def test_the_member_stops_after_the_last_stage_in_any_case() -> None:
    departure = Departure(100)
    departure.begin(1000)
    departure.takes_request(1000, queue_is_empty=True)
    end = 1000 + LEAVE_STAGES * 100
    assert departure.deadline() == end
    assert not departure.is_overdue(end - 1)
    assert departure.is_overdue(end)


def test_a_lost_name_is_an_error_and_a_requested_end_is_none() -> None:
    assert isinstance(error_of("name-in-use", ADA, "g"), NameInUse)
    used = error_of("incarnation-used", ADA, "g")
    assert isinstance(used, IncarnationUsed)
    assert used.incarnation == 7
    assert error_of("left", ADA, "g") is None
