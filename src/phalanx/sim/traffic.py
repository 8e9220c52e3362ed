"""Traffic of simulated applications: the planned submissions and the bodies of messages.

A body is a function of its sender, its number and its length, so the bodies of any range of
messages can be made again and compared with what was delivered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from zlib import crc32

import msgspec

from phalanx.core.effects import Accepted, Effect, Service
from phalanx.core.ids import MemberId
from phalanx.sim.scenario.model import SERVICES, Scenario, Traffic

_ANY = tuple(Service)
_NOISE = 8192


class PlannedSubmission(msgspec.Struct, frozen=True):
    """Messages to be handed over together, before they have numbers."""

    at_ns: int
    sizes: tuple[int, ...]
    service: Service
    to: tuple[str, ...] | None
    """Names: which processes have them is known when it is submitted."""


def plan(scenario: Scenario, index: int) -> Iterator[PlannedSubmission]:
    """The submissions of one [[traffic]] table, in time order, from a random generator of its own.

    Its seed depends on what the table says, not on where it stands, so that dropping another
    table leaves these submissions as they are.
    """
    traffic = scenario.traffic[index]
    twins = sum(other == traffic for other in scenario.traffic[:index])
    rng = Random(f"{scenario.seed} traffic {twins} {traffic.from_} {traffic.at_ns} {traffic.size}")
    at = traffic.at_ns
    for _ in range(traffic.count):
        yield PlannedSubmission(
            at,
            tuple(_size(traffic, rng) for _ in range(traffic.batch)),
            _service(traffic, rng),
            _receivers(scenario, traffic, rng),
        )
        at += traffic.every_ns
        if traffic.jitter_ns:
            at += rng.randrange(traffic.jitter_ns + 1)


def _size(traffic: Traffic, rng: Random) -> int:
    if traffic.size_max is None:
        return traffic.size
    return rng.randrange(traffic.size, traffic.size_max + 1)


def _service(traffic: Traffic, rng: Random) -> Service:
    if traffic.service == "any":
        return _ANY[rng.randrange(len(_ANY))]
    return SERVICES[traffic.service]


def _receivers(scenario: Scenario, traffic: Traffic, rng: Random) -> tuple[str, ...] | None:
    match traffic.to:
        case "all":
            return None
        case "some":
            count = rng.randrange(1, len(scenario.members) + 1)
            names = rng.sample(scenario.members, count)
        case named:
            names = list(named)
    return tuple(sorted(names))


class Library:
    """Every body that was submitted, made again on demand. A sender is one life of a process."""

    def __init__(self, members: tuple[str, ...]) -> None:
        self._rank = {name: rank for rank, name in enumerate(members)}
        self._sizes: dict[MemberId, list[int]] = {}
        self._noise = Random("bodies").randbytes(_NOISE) * 2
        self._known: dict[tuple[MemberId, int, int], int] = {}

    def next_number(self, sender: MemberId) -> int:
        """The number that the sender's next message will have."""
        return len(self._sizes.get(sender, ())) + 1

    def write(self, sender: MemberId, sizes: tuple[int, ...]) -> list[bytes]:
        """Bodies for the sender's next messages; `keep` them once they were accepted."""
        first = self.next_number(sender)
        return [self._body(sender, first + i, size) for i, size in enumerate(sizes)]

    def keep(self, sender: MemberId, sizes: tuple[int, ...], effects: Sequence[Effect]) -> None:
        """These messages were accepted, and must have got the numbers that come next."""
        first = self.next_number(sender)
        taken = [(e.first, e.last) for e in effects if isinstance(e, Accepted)]
        expected = [(first, first + len(sizes) - 1)]
        assert taken == expected, f"{sender}: accepted as {taken}, expected {expected}"
        self._sizes.setdefault(sender, []).extend(sizes)

    def checksum(self, sender: str, incarnation: int, first: int, last: int) -> int:
        """CRC-32 of the bodies first..last put together; -1 if they never were submitted."""
        member = MemberId(sender, incarnation)
        known = self._known.get((member, first, last))
        if known is None:
            sizes = self._sizes.get(member, [])
            if not 0 < first <= last <= len(sizes):
                return -1
            known = 0
            for number in range(first, last + 1):
                known = crc32(self._body(member, number, sizes[number - 1]), known)
            self._known[member, first, last] = known
        return known

    def _body(self, sender: MemberId, number: int, size: int) -> bytes:
        mark = self._rank[sender.name] + (sender.incarnation - 1) * 97
        head = (number * 251 + mark).to_bytes(8, "little")
        turn = (number * 53 + mark * 11) % _NOISE
        if size <= _NOISE:
            return head[:size] + self._noise[turn : turn + size - 8] if size > 8 else head[:size]
        return (head + self._noise[turn:] + self._noise * (size // _NOISE))[:size]
