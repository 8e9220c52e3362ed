"""An instant as a user writes it.

2026-11-15T12:00:00.5Z      the wall clock, ISO 8601; UTC where no zone is given
1794744000.5                the wall clock, seconds since 1970
12.5s                       simulated time
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from phalanx.errors import PipelineError

NS = 1_000_000_000
_SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?")
_SIMULATED = re.compile(r"([0-9]{1,11}(?:\.[0-9]{1,9})?)s")
_FRACTION = re.compile(r"(?:(?<=[0-9]{2}:[0-9]{2}:[0-9]{2})|(?<=[Tt ][0-9]{6}))[.,]([0-9]+)")
"""Of a second; Python would keep six digits."""
NS_MAX = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REMEDY = "give 2026-11-15T12:00:00Z, seconds since 1970, or simulated seconds as 12.5s"


class Instant(msgspec.Struct, frozen=True):
    """Nanoseconds: of simulated time, or since 1970."""

    ns: int
    simulated: bool

    def __str__(self) -> str:
        return simulated(self.ns) if self.simulated else wall(self.ns)


def parse(text: str) -> Instant:
    """PipelineError for what is none, or none that a clock in nanoseconds can show."""
    found = _parsed(text)
    if not -NS_MAX <= found.ns <= NS_MAX:
        raise PipelineError(f"INSTANT {text!r}", "beyond what clocks show here", REMEDY)
    return found


def _parsed(text: str) -> Instant:
    if _SECONDS.fullmatch(text):
        return Instant(int(Decimal(text) * NS), False)
    if found := _SIMULATED.fullmatch(text):
        return Instant(int(Decimal(found[1]) * NS), True)
    fraction = _FRACTION.search(text)
    plain = text if fraction is None else text[: fraction.start()] + text[fraction.end() :]
    try:
        if re.search("[.,]", plain):  # of an hour or a minute, which Python takes for a second's
            raise ValueError(plain)
        when = datetime.fromisoformat(plain)
    except ValueError as error:
        raise PipelineError(f"INSTANT {text!r}", "not an instant", REMEDY) from error
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    rest = 0 if fraction is None else int(fraction[1][:9].ljust(9, "0"))
    seconds = (when - _EPOCH) // timedelta(seconds=1)
    return Instant(seconds * NS + rest, False)


def wall(ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    return (_EPOCH + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def simulated(ns: int) -> str:
    return f"{ns // NS}.{ns % NS:09}s"
