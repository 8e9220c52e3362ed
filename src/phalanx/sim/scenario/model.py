"""The scenario model: members, network, faults and traffic as frozen values.

`toml_file` reads and writes scenarios as TOML, the generators draw them at random, `shrink` makes
them smaller, `world` runs them, and `validation` rejects those that cannot run. Every number is an
integer, times in nanoseconds of the simulated clock, chances in parts per million, so that a
scenario and its seed are one execution, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from phalanx.config import Config, lan
from phalanx.core.effects import Service
from phalanx.core.ids import Name
from phalanx.core.roles import Operations

MS = 1_000_000
SECOND = 1_000_000_000

Span = Annotated[int, msgspec.Meta(ge=0, le=10_000 * SECOND)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Ppm = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=16 << 20)]
Spoken = Literal["basic", "causal", "agreed", "safe", "any"]
Nonsense = Literal["random", "truncated", "flipped", "foreign", "stale", "replayed", "forged"]
Start = Literal["together", "alone"]

HORIZON_NS_MAX = 1 << 60
"""Clocks start at 1 << 60 at most and go on for so long at most: with an hour's timers on top
they stay below 1 << 62, which the core takes for never."""
SUBMISSION_BYTES_MAX = 64 << 20
"""A submission is made and handed over whole, so it must fit in memory several times."""
STEPS_MAX = 1_000_000_000

CUTS = ("heal", "partition", "cut")
LIVES = ("crash", "leave", "restart")
CHANGES = (*CUTS, *LIVES, "imposter", "break_", "clock", "busy", "role")
"""Tables of what may change views. Of one instant, things happen in this order."""

IMPOSTERS_FROM = 100_000
"""An imposter's incarnation is at least so much higher than that of whose name it took, unless the
scenario gives one: below this."""

SERVICES: dict[str, Service] = {service.name.lower(): service for service in Service}


class _TomlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all tables share: frozen, strict, and silent about defaults when written."""


class Network(_TomlTable, frozen=True, kw_only=True):
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
    channels: bool = False
    """Links are connections, as of TCP: a cut or partition breaks them, and what was sent last and
    is under way is lost, too."""


class LinkSettings(_TomlTable, frozen=True, kw_only=True, rename={"from_": "from"}):
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


class Peculiarity(_TomlTable, frozen=True, kw_only=True):
    """What is special about one member."""

    name: Name
    cpu_ns: Span = 0
    """Each step takes this long; what arrives meanwhile waits."""
    inbox_packets: Count = 1024
    """So many packets wait at most, as in a socket buffer; the rest is lost."""
    clock_ns: Offset = 0
    """What its own clock shows when the simulation starts."""
    config: dict[str, Any] = {}


class Pause(_TomlTable, frozen=True, kw_only=True):
    """The member does nothing from `at_ns` for `for_ns`; packets and timers wait."""

    member: Name
    at_ns: Span
    for_ns: Span


class Burst(_TomlTable, frozen=True, kw_only=True, rename={"from_": "from"}):
    """For a while, more packets are lost on some links: all of them by default."""

    at_ns: Span
    for_ns: Span
    from_: tuple[Name, ...] | None = None
    to: tuple[Name, ...] | None = None
    loss_ppm: Ppm = 1_000_000


class Reader(_TomlTable, frozen=True, kw_only=True):
    """For a while the member's application is behind with reading, so far: see `Backlog`."""

    member: Name
    at_ns: Span
    for_ns: Span
    level: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1


class Partition(_TomlTable, frozen=True, kw_only=True):
    """From now on only members of one group hear each other. Members that are not named are in
    one further group. An earlier partition ends; cuts stay."""

    at_ns: Span
    groups: Annotated[
        tuple[Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)], ...],
        msgspec.Meta(min_length=1),
    ]


class Heal(_TomlTable, frozen=True, kw_only=True):
    """Every partition and every cut that began before ends."""

    at_ns: Span


class Cut(_TomlTable, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Nothing that `from` send from now on reaches `to`; all where not given."""

    at_ns: Span
    for_ns: Span | None = None
    """For so long; until the next [[heal]] if not given."""
    from_: tuple[Name, ...] | None = None
    to: tuple[Name, ...] | None = None
    both: bool = False
    """The other way too."""


class Crash(_TomlTable, frozen=True, kw_only=True):
    """The process is gone: no step more, and no goodbye."""

    member: Name
    at_ns: Span
    lose: bool = False
    """Of what it sent and is still on its way, each link loses a random last part."""
    after_proposal: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    """Not at `at_ns` but so many of its steps after the member has proposed a view change, if both
    happen in the `for_ns` from then on; else not at all."""
    for_ns: Span | None = None


class Restart(_TomlTable, frozen=True, kw_only=True):
    """A new process with the next incarnation starts alone, once the old one is gone."""

    member: Name
    at_ns: Span


class PlannedLeave(_TomlTable, frozen=True, kw_only=True):
    """The member goes as it should: it says goodbye and stops when the others know."""

    member: Name
    at_ns: Span


class Imposter(_TomlTable, frozen=True, kw_only=True):
    """A second process with the name of `member` starts alone, on the machine of `beside`."""

    member: Name
    at_ns: Span
    beside: Name
    incarnation: Annotated[int, msgspec.Meta(ge=0, lt=IMPOSTERS_FROM)] | None = None
    """None: higher than that of the process that has the name."""


class OperatorBreak(_TomlTable, frozen=True, kw_only=True):
    """An operator tells the member to treat `target` as failed."""

    member: Name
    target: Name
    at_ns: Span


class ClockJump(_TomlTable, frozen=True, kw_only=True):
    """The member's clock is so much further from now on, as after a suspend."""

    member: Name
    at_ns: Span
    by_ns: Annotated[int, msgspec.Meta(ge=1, le=10_000 * SECOND)]


class Busy(_TomlTable, frozen=True, kw_only=True):
    """For a while each of the member's steps takes at least `cpu_ns`."""

    member: Name
    at_ns: Span
    for_ns: Span
    cpu_ns: Span


class PlannedRole(_TomlTable, frozen=True, kw_only=True):
    """The application of the member sets its role to these operations."""

    member: Name
    at_ns: Span
    operations: Operations = ()


class Garbage(_TomlTable, frozen=True, kw_only=True):
    """Datagrams that no member sent: noise, damaged, foreign, old or forged packets."""

    to: Name
    at_ns: Span
    count: Count = 1
    every_ns: Span = MS
    kind: Nonsense = "random"


class Traffic(_TomlTable, frozen=True, kw_only=True, rename={"from_": "from"}):
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


_TRUSTED = {"trusted": True}


class Scenario(_TomlTable, frozen=True, kw_only=True, rename={"break_": "break"}):
    """Everything a run depends on."""

    name: str = "scenario"
    about: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0
    members: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=64)]
    patience_ns: Span = 60 * SECOND
    """The run is stuck if it has not settled this long after the last thing planned."""
    steps_max: Annotated[int, msgspec.Meta(ge=1, le=STEPS_MAX)] = 3_000_000
    start: Start = "together"
    """All in one view by construction, or each in a view of its own, to find the others."""
    calm_ns: Span | None = None
    """For so long all must be settled, in views of all they can reach, before the run ends.
    None: see `calm`."""
    changes_max: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Nothing here gives a member cause for more views than its first and so many. None: it may."""
    ask_delivery: bool = False
    """Half of the members ask when all have delivered their messages."""
    config: dict[str, Any] = {}
    network: Network = Network()
    member: tuple[Peculiarity, ...] = ()
    link: tuple[LinkSettings, ...] = ()
    pause: tuple[Pause, ...] = ()
    burst: tuple[Burst, ...] = ()
    reader: tuple[Reader, ...] = ()
    partition: tuple[Partition, ...] = ()
    heal: tuple[Heal, ...] = ()
    cut: tuple[Cut, ...] = ()
    crash: tuple[Crash, ...] = ()
    restart: tuple[Restart, ...] = ()
    leave: tuple[PlannedLeave, ...] = ()
    imposter: tuple[Imposter, ...] = ()
    break_: tuple[OperatorBreak, ...] = ()
    clock: tuple[ClockJump, ...] = ()
    busy: tuple[Busy, ...] = ()
    role: tuple[PlannedRole, ...] = ()
    garbage: tuple[Garbage, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    def common_config(self) -> Config:
        """The settings of all members. The network is `trusted`, unless the scenario says that it
        is not."""
        return lan(**{**_TRUSTED, **self.config})

    def config_of(self, name: str) -> Config:
        """The settings of one member: the common ones with its own laid over them."""
        own: dict[str, Any] = {}
        for peculiarity in self.member:
            if peculiarity.name == name:
                own.update(peculiarity.config)
        return lan(**{**_TRUSTED, **self.config, **own})

    def in_line(self, name: str, incarnation: int) -> bool:
        """Whether a process is one of the member itself, first or restarted, and no imposter."""
        return 1 <= incarnation <= 1 + sum(restart.member == name for restart in self.restart)

    def calm(self) -> int:
        """How long nothing may change at the end: two hellos and a little where members come
        and go, so that nobody is missed who was about to be found; else no time at all."""
        if self.calm_ns is not None:
            return self.calm_ns
        if self.start == "together" and not any(getattr(self, table) for table in CHANGES):
            return 0
        return 2 * lan(**self.config).hello_ns + 100 * MS

    def hello_near_delay(self) -> bool:
        """Whether HELLOs come about as often as packets take to travel: up to twice as long, or
        half."""
        travel = self.network.delay_ns + self.network.jitter_ns
        return travel <= 2 * lan(**self.config).hello_ns <= 4 * travel

    def horizon_ns(self) -> int:
        """When the last planned thing happens, at the latest."""
        return max((end for _, end in self.ends_ns()), default=0)

    def undisturbed_ns(self) -> int:
        """From when on nothing happens but what members say."""
        return max((end for (table, _), end in self.ends_ns() if table != "traffic"), default=0)

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
        for i, r in enumerate(self.reader):
            yield ("reader", i), r.at_ns + r.for_ns
        for table in CHANGES:
            for i, row in enumerate(getattr(self, table)):
                yield (table.rstrip("_"), i), row.at_ns + (getattr(row, "for_ns", 0) or 0)
