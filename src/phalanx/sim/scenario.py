"""A scenario: who takes part, what the network does to them, and what they say.

Values only, frozen; `scenariofile` reads and writes them as TOML, `generate` draws them at
random, `shrink` makes them smaller, `world` plays them. Every number is an integer, times in
nanoseconds of the simulated clock, chances in parts per million, so that a scenario and its
seed are one execution, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from phalanx.config import Config, lan
from phalanx.core.effects import Service
from phalanx.core.ids import NAME_LENGTH_MAX, Name
from phalanx.errors import ConfigurationError
from phalanx.sim.spelling import quoted, shown

MS = 1_000_000
SECOND = 1_000_000_000

Span = Annotated[int, msgspec.Meta(ge=0, le=10_000 * SECOND)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Ppm = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=16 << 20)]
Spoken = Literal["basic", "causal", "agreed", "safe", "any"]
Nonsense = Literal["random", "truncated", "flipped", "foreign", "stale"]

HORIZON_NS_MAX = 1 << 60
"""Clocks start at 1 << 60 at most and go on for so long at most: with an hour's timers on top
they stay below 1 << 62, which the core takes for never."""
SUBMISSION_BYTES_MAX = 64 << 20
"""A submission is made and handed over whole, so it must fit in memory several times."""
STEPS_MAX = 1_000_000_000

SERVICES: dict[str, Service] = {service.name.lower(): service for service in Service}


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all tables share: frozen, strict, and silent about defaults when written."""


class Network(_Table, frozen=True, kw_only=True):
    """What happens to a packet on its way, unless a link says otherwise."""

    delay_ns: Span = 100_000
    jitter_ns: Span = 0
    """Up to this much more delay; packets of one link keep their order."""
    loss_ppm: Ppm = 0
    duplicate_ppm: Ppm = 0
    reorder_ppm: Ppm = 0
    """So many packets are overtaken by later ones."""
    late_ns: Span = 2 * MS
    """How late at most an overtaken packet or a second copy arrives."""
    spacing_ns: Span = 0
    """Packets of one transmission arrive this far apart; at 0 they arrive together."""
    loopback: bool = False
    """Whether a member receives its own packets, as some sockets do."""


class Link(_Table, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Exceptions for some links: senders `from`, receivers `to`; all where not given."""

    from_: tuple[Name, ...] | None = None
    to: tuple[Name, ...] | None = None
    delay_ns: Span | None = None
    jitter_ns: Span | None = None
    loss_ppm: Ppm | None = None
    duplicate_ppm: Ppm | None = None
    reorder_ppm: Ppm | None = None
    late_ns: Span | None = None
    spacing_ns: Span | None = None


class Peculiarity(_Table, frozen=True, kw_only=True):
    """What is special about one member."""

    name: Name
    cpu_ns: Span = 0
    """Each step takes this long; what arrives meanwhile waits."""
    inbox_packets: Count = 1024
    """So many packets wait at most, as in a socket buffer; the rest is lost."""
    clock_ns: Offset = 0
    """What its own clock shows when the simulation starts."""
    config: dict[str, Any] = {}


class Pause(_Table, frozen=True, kw_only=True):
    """The member does nothing from `at_ns` for `for_ns`; packets and timers wait."""

    member: Name
    at_ns: Span
    for_ns: Span


class Burst(_Table, frozen=True, kw_only=True, rename={"from_": "from"}):
    """For a while, more packets are lost on some links: all of them unless told."""

    at_ns: Span
    for_ns: Span
    from_: tuple[Name, ...] | None = None
    to: tuple[Name, ...] | None = None
    loss_ppm: Ppm = 1_000_000


class Garbage(_Table, frozen=True, kw_only=True):
    """Datagrams that no member sent: noise, damaged or foreign or stale packets."""

    to: Name
    at_ns: Span
    count: Count = 1
    every_ns: Span = MS
    kind: Nonsense = "random"


class Traffic(_Table, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Submissions of one member: `count` of them, each of `batch` messages."""

    from_: Name
    at_ns: Span = 0
    count: Count = 1
    every_ns: Span = MS
    jitter_ns: Span = 0
    """Up to this much is added to each gap."""
    batch: Count = 1
    size: Bytes = 64
    size_max: Bytes | None = None
    """Sizes are drawn between `size` and this."""
    service: Spoken = "agreed"
    """One service, or `any`: drawn for each submission."""
    to: tuple[Name, ...] | Literal["all", "some"] = "all"
    """The whole view, some members drawn for each submission, or the ones named."""


class Scenario(_Table, frozen=True, kw_only=True):
    """Everything a run depends on."""

    name: str = "scenario"
    about: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0
    members: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=64)]
    patience_ns: Span = 60 * SECOND
    """The run is stuck if it has not settled this long after the last thing planned."""
    steps_max: Annotated[int, msgspec.Meta(ge=1, le=STEPS_MAX)] = 3_000_000
    config: dict[str, Any] = {}
    network: Network = Network()
    member: tuple[Peculiarity, ...] = ()
    link: tuple[Link, ...] = ()
    pause: tuple[Pause, ...] = ()
    burst: tuple[Burst, ...] = ()
    garbage: tuple[Garbage, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    def config_of(self, name: str) -> Config:
        """The settings of one member: the common ones with its own laid over them."""
        own: dict[str, Any] = {}
        for peculiarity in self.member:
            if peculiarity.name == name:
                own.update(peculiarity.config)
        return lan(**{**self.config, **own})

    def horizon_ns(self) -> int:
        """When the last planned thing happens, at the latest."""
        return max((end for _, end in self.ends_ns()), default=0)

    def ends_ns(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Each planned thing, by table and row, with the time of its end at the latest."""
        for i, t in enumerate(self.traffic):
            yield ("traffic", i), t.at_ns + (t.count - 1) * (t.every_ns + t.jitter_ns)
        for i, g in enumerate(self.garbage):
            yield ("garbage", i), g.at_ns + (g.count - 1) * g.every_ns
        for i, p in enumerate(self.pause):
            yield ("pause", i), p.at_ns + p.for_ns
        for i, b in enumerate(self.burst):
            yield ("burst", i), b.at_ns + b.for_ns


Path = tuple[str | int, ...]


class Flaw(msgspec.Struct, frozen=True):
    """Something a scenario says that cannot be played, and where it says it."""

    path: Path
    problem: str
    remedy: str


_GROUP_WIDE = ("order", "early", "message_bytes_max", "cluster")


def flaw_of(scenario: Scenario) -> Flaw | None:
    """The first thing that does not fit together, None if the scenario can be played."""
    return (
        _bad_names(scenario)
        or _unknown_member(scenario)
        or _bad_config(scenario)
        or _bad_traffic(scenario)
        or _too_long(scenario)
    )


def _bad_names(scenario: Scenario) -> Flaw | None:
    known = scenario.members
    for i, name in enumerate(known):
        if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
            remedy = f"a name is 1 to {NAME_LENGTH_MAX} printable characters"
            return Flaw(("members", i), f"a member cannot be called {quoted(name)}", remedy)
        if name in known[:i]:
            remedy = "name each member once"
            return Flaw(("members", i), f"member {quoted(name)} is named twice", remedy)
    return None


def _unknown_member(scenario: Scenario) -> Flaw | None:
    known = scenario.members
    named: list[tuple[Path, tuple[str, ...] | str]] = []
    named += [(("member", i, "name"), m.name) for i, m in enumerate(scenario.member)]
    named += [(("pause", i, "member"), p.member) for i, p in enumerate(scenario.pause)]
    named += [(("garbage", i, "to"), g.to) for i, g in enumerate(scenario.garbage)]
    for table, rows in (("link", scenario.link), ("burst", scenario.burst)):
        for i, row in enumerate(rows):
            assert isinstance(row, Link | Burst)
            named += [((table, i, "from"), row.from_ or ()), ((table, i, "to"), row.to or ())]
    for i, t in enumerate(scenario.traffic):
        named.append((("traffic", i, "from"), t.from_))
        if isinstance(t.to, tuple):
            named.append((("traffic", i, "to"), t.to))
    for path, names in named:
        places: list[tuple[Path, str]] = (
            [(path, names)]
            if isinstance(names, str)
            else [((*path, i), name) for i, name in enumerate(names)]
        )
        for place, name in places:
            if name not in known:
                remedy = f"choose among {', '.join(known)}"
                return Flaw(place, f"unknown member {quoted(name)}", remedy)
    return None


def _bad_config(scenario: Scenario) -> Flaw | None:
    try:
        lan(**scenario.config)
    except ConfigurationError as error:
        return _config_flaw(("config",), scenario.config, {}, error)
    seen: list[str] = []
    for i, own in enumerate(scenario.member):
        if own.name in seen:
            remedy = "put everything about it in one [[member]]"
            problem = f"{quoted(own.name)} has two [[member]] tables"
            return Flaw(("member", i, "name"), problem, remedy)
        seen.append(own.name)
        path = ("member", i, "config")
        for key in own.config:
            if key in _GROUP_WIDE:
                remedy = "set it in [config]"
                return Flaw((*path, key), f"{key} is the same at every member", remedy)
        try:
            lan(**{**scenario.config, **own.config})
        except ConfigurationError as error:
            return _config_flaw(path, own.config, scenario.config, error)
    return None


def _config_flaw(
    path: Path, written: dict[str, Any], common: dict[str, Any], error: ConfigurationError
) -> Flaw:
    """What is wrong, told at a key that this table holds.

    Two settings may not go together; then the error names one of them and its remedy the
    other, and the one that it names may be a default that nobody wrote.
    """
    field, value = error.field, shown(error.value)
    partners = [word for word in re.findall(r"\w+", error.remedy) if word in written]
    if field in written or not partners:
        label = field if field.isidentifier() else quoted(field)
        return Flaw((*path, field), f"{label} = {value}", error.remedy)
    mine = partners[0]
    whence = "as [config] says" if field in common else "the default"
    problem = f"{mine} = {shown(written[mine])} does not go with {field} = {value}, {whence}"
    remedy = f"{field} {error.remedy}: change {mine}, or set {field} too"
    return Flaw((*path, mine), problem, remedy)


def _bad_traffic(scenario: Scenario) -> Flaw | None:
    limit = lan(**scenario.config).message_bytes_max
    for i, t in enumerate(scenario.traffic):
        largest = t.size if t.size_max is None else t.size_max
        if largest < t.size:
            remedy = f"make it {t.size} or more"
            return Flaw(("traffic", i, "size_max"), f"size_max = {largest} is below size", remedy)
        key = "size" if t.size_max is None else "size_max"
        if largest > limit:
            remedy = "send less, or raise message_bytes_max in [config]"
            problem = f"{key} = {largest} is over message_bytes_max = {limit}"
            return Flaw(("traffic", i, key), problem, remedy)
        if t.batch * largest > SUBMISSION_BYTES_MAX:
            remedy = f"let batch times {key} be {SUBMISSION_BYTES_MAX} at most"
            problem = f"one submission of {t.batch} x {largest} bytes is too large"
            return Flaw(("traffic", i, "batch"), problem, remedy)
        if isinstance(t.to, tuple) and (not t.to or len(set(t.to)) != len(t.to)):
            remedy = 'name one or more members once each, or say to = "all"'
            return Flaw(("traffic", i, "to"), "to is empty or names a member twice", remedy)
    return None


def _too_long(scenario: Scenario) -> Flaw | None:
    for path, end in scenario.ends_ns():
        if end > HORIZON_NS_MAX:
            remedy = f"let it end by {HORIZON_NS_MAX} ns: lower count, every_ns or jitter_ns"
            return Flaw(path, f"[[{path[0]}]] goes on until {end} ns", remedy)
    return None
