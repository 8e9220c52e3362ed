"""Instants as users write them. No Spark."""

from __future__ import annotations

import pytest

from phalanx.errors import PipelineError
from phalanx.pipeline.history.instant import Instant, parse

NOON = 1_794_744_000 * 10**9


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-11-15T12:00:00Z", NOON),
        ("2026-11-15 12:00:00", NOON),
        ("2026-11-15T14:00:00+02:00", NOON),
        ("2026-11-15T12:00:00.5Z", NOON + 500_000_000),
        ("2026-11-15T12:00:00.000000001+00:00", NOON + 1),
        ("20261115T120000.5Z", NOON + 500_000_000),
        ("1794744000", NOON),
        ("1794744000.000000001", NOON + 1),
        ("1969-12-31T23:59:59Z", -(10**9)),
    ],
)
def test_an_instant_of_the_wall_clock_is_read_to_the_nanosecond(text: str, ns: int) -> None:
    assert parse(text) == Instant(ns, simulated=False)


def test_simulated_time_is_told_by_its_unit() -> None:
    assert parse("12.5s") == Instant(12_500_000_000, simulated=True)


@pytest.mark.parametrize("text", ["", "noon", "12.5 s", "-1s", "1e3", "2026-13-01", "12h"])
def test_what_is_no_instant_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(PipelineError, match="not an instant; give 2026"):
        parse(text)


@pytest.mark.parametrize("text", ["2026-11-15T12.5", "2026-11-15T12:00.5"])
def test_a_fraction_of_an_hour_or_minute_is_not_taken_for_one_of_a_second(text: str) -> None:
    with pytest.raises(PipelineError, match="not an instant; give 2026"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["2300-01-01T00:00:00Z", "1600-01-01", "0001-01-01T00:00:00+14:00", "99999999999s"]
)
def test_an_instant_that_no_clock_shows_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="beyond what clocks show here; give 2026"):
        parse(text)


def test_an_instant_is_told_as_it_is_read() -> None:
    assert str(parse("2026-11-15T12:00:00.25Z")) == "2026-11-15T12:00:00.250000Z"
    assert str(parse("0.5s")) == "0.500000000s"
