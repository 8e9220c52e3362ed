"""Random scenarios in which members crash, leave, restart, partition and merge, one for each seed.

A few faults follow each other, from at once to a second and a half apart. Many hit the view change
that the fault before them caused, which is where membership protocols break. Traffic continues
before, during and after the faults, with volleys around them so that messages are in flight when a
view ends. Each seed turns on its own subset of faults and settings, as in `fixed_view`.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any, Literal

from phalanx.sim.generators.common import (
    bursts,
    garbage,
    message_settings,
    ms,
    names_of,
    often,
    peculiarities,
    sometimes,
    speakers_of,
    unequal_links,
    us,
)
from phalanx.sim.generators.rare_cases import CHANGING, size_of_group, with_rare_cases
from phalanx.sim.scenario.model import (
    MS,
    SECOND,
    Busy,
    ClockJump,
    Crash,
    Cut,
    Heal,
    Imposter,
    LinkSettings,
    Network,
    Nonsense,
    Partition,
    Pause,
    PlannedLeave,
    Restart,
    Scenario,
    Spoken,
    Traffic,
)

MEMBERS_LO = 3
MEMBERS_HI = 16
_EVENTS_MAX = 6
_TRIES_MAX = 60
_MESSAGES = 8_000
"""Budget of a run, roughly: messages times the square of the number of members."""

Event = Literal[
    "partition", "heal", "cut", "one-way", "crash", "restart", "leave", "imposter", "pause"
]
_EVENTS: tuple[Event, ...] = (
    "partition",
    "heal",
    "cut",
    "one-way",
    "crash",
    "restart",
    "leave",
    "imposter",
    "pause",
)
_WEIGHTS = {"partition": 4, "heal": 4, "crash": 4, "restart": 3, "leave": 2, "pause": 2}
_GARBAGE: tuple[Nonsense, ...] = ("replayed", "forged", "stale", "flipped", "foreign", "random")
_SERVICES: tuple[Spoken, ...] = ("any", "agreed", "safe", "safe", "causal", "any", "basic")


def random_membership_scenario(
    seed: int, members_lo: int = MEMBERS_LO, members_hi: int = MEMBERS_HI
) -> Scenario:
    """The scenario of a seed: the same in every process and on every machine."""
    rng = Random(f"membership {seed}")
    names = names_of(size_of_group(rng, "membership", seed, members_lo, members_hi))
    alone = often(rng, 75)
    plan = _FaultPlan(rng, names, rng.randrange(1200 * MS if alone else 300 * MS))
    plan.draw()
    span = plan.now + rng.randrange(100 * MS, 1500 * MS)
    config = _config(rng)
    tables: dict[str, Any] = {key: tuple(rows) for key, rows in plan.tables.items()}
    scenario = Scenario(
        name="turmoil",
        about=f"drawn from seed {seed} with {members_lo}:{members_hi} members",
        seed=seed,
        members=names,
        start="alone" if alone else "together",
        patience_ns=30 * SECOND,
        steps_max=500_000,
        config=config,
        network=_network(rng),
        link=_links(rng, names),
        member=peculiarities(rng, names, slow_percent=15),
        burst=bursts(rng, names, span, ms(2, 10, 40, 150)),
        clock=_clocks(rng, names, span),
        busy=_busy(rng, names, span),
        garbage=garbage(rng, names, span, _GARBAGE, 40, ms(1, 10, 50)),
        traffic=_traffic(rng, names, span, plan.times, config),
        **tables,
    )
    return with_rare_cases("membership", scenario, CHANGING)


# ---------------------------------------------------------------------------- faults


class _FaultPlan:
    """The faults of a scenario, drawn in order: each fits the state that those before it leave."""

    def __init__(self, rng: Random, names: tuple[str, ...], now: int) -> None:
        self._rng = rng
        self._names = names
        self.now = now
        self.times: list[int] = []
        self.tables: dict[str, list[Any]] = {}
        self._running = list(names)
        self._gone: list[str] = []
        self._severed = False
        self._lopsided = False
        """A link is cut in one direction until the next heal."""
        allowed = [event for event in _EVENTS if often(rng, 60)] or ["partition"]
        if "partition" in allowed or "cut" in allowed:
            allowed.append("heal")
        self._allowed = [e for event in allowed for e in [event] * _WEIGHTS.get(event, 1)]

    def draw(self) -> None:
        """Draw all events, and for most runs a heal at the end."""
        rng = self._rng
        wanted = min(1 + rng.randrange(8), _EVENTS_MAX)
        for _ in range(_TRIES_MAX):
            begun = len(self.times)
            if begun == wanted:
                break
            getattr(self, "_" + rng.choice(self._allowed).replace("-", "_"))()
            if len(self.times) > begun:  # else the event does not fit here
                self.now += self._gap()
        if self._severed and (self._lopsided or often(rng, 80)):
            self._heal()
        if self._gone and often(rng, 40):
            self._restart()

    def _gap(self) -> int:
        """Time to the next event: within the view change, or after the group has settled."""
        rng = self._rng
        match rng.randrange(5):
            case 0:
                return rng.randrange(30 * MS)
            case 1 | 2:
                return rng.randrange(60 * MS, 400 * MS)
            case _:
                return rng.randrange(1500 * MS)

    def _add(self, table: str, row: Any) -> None:
        self.tables.setdefault(table, []).append(row)
        self.times.append(self.now)

    def _partition(self) -> None:
        rng, names = self._rng, list(self._names)
        rng.shuffle(names)
        parts = min(rng.choice((2, 2, 2, 3, 3, 4)), len(names))
        if parts < 2:
            return
        ends = [0, *sorted(rng.sample(range(1, len(names)), parts - 1)), len(names)]
        groups = [tuple(sorted(names[a:b])) for a, b in pairwise(ends)]
        self._severed = True
        self._add("partition", Partition(at_ns=self.now, groups=tuple(groups[1:])))

    def _heal(self) -> None:
        if self._severed:
            self._severed = self._lopsided = False
            self._add("heal", Heal(at_ns=self.now))

    def _cut(self) -> None:
        self._sever(both=True)

    def _one_way(self) -> None:
        self._sever(both=False)

    def _sever(self, both: bool) -> None:
        rng = self._rng
        if len(self._names) < 2:
            return
        pair = rng.sample(self._names, 2)
        to = (pair[1],) if often(rng, 50) else None
        lasting = rng.choice(ms(5, 50, 300, 1000)) if often(rng, 50) else None
        if lasting is None:
            self._severed = True
            self._lopsided |= not both
        cut = Cut(at_ns=self.now, for_ns=lasting, from_=(pair[0],), to=to, both=both)
        self._add("cut", cut)

    def _crash(self) -> None:
        if len(self._running) > 1:
            name = self._end()
            self._add("crash", Crash(member=name, at_ns=self.now, lose=often(self._rng, 50)))

    def _leave(self) -> None:
        if len(self._running) > 1:
            self._add("leave", PlannedLeave(member=self._end(), at_ns=self.now))

    def _end(self) -> str:
        name = self._running.pop(self._rng.randrange(len(self._running)))
        self._gone.append(name)
        return name

    def _restart(self) -> None:
        if self._gone:
            name = self._gone.pop(self._rng.randrange(len(self._gone)))
            self._running.append(name)
            self._add("restart", Restart(member=name, at_ns=self.now))

    def _imposter(self) -> None:
        name, beside = self._rng.choice(self._names), self._rng.choice(self._names)
        self._add("imposter", Imposter(member=name, at_ns=self.now, beside=beside))

    def _pause(self) -> None:
        lasting = self._rng.choice(ms(10, 60, 200, 500, 1000, 1500))
        name = self._rng.choice(self._names)
        self._add("pause", Pause(member=name, at_ns=self.now, for_ns=lasting))


def _clocks(rng: Random, names: tuple[str, ...], span: int) -> tuple[ClockJump, ...]:
    if not often(rng, 10):
        return ()
    by = rng.choice(ms(10, 100, 500, 3000))
    return (ClockJump(member=rng.choice(names), at_ns=rng.randrange(span), by_ns=by),)


def _busy(rng: Random, names: tuple[str, ...], span: int) -> tuple[Busy, ...]:
    if not often(rng, 12):
        return ()
    return (
        Busy(
            member=rng.choice(names),
            at_ns=rng.randrange(span),
            for_ns=rng.choice(ms(100, 300, 800)),
            cpu_ns=rng.choice(us(100, 500, 2000)),
        ),
    )


# ---------------------------------------------------------------------------- surroundings


def _config(rng: Random) -> dict[str, Any]:
    config: dict[str, Any] = {"mode": rng.choice(("hold", "flow"))}
    sometimes(rng, 15, config, order="all-ack")
    sometimes(rng, 25, config, early=True)
    sometimes(rng, 15, config, post_confirm=True)
    sometimes(rng, 25, config, datagram_bytes_max=(300, 512, 1000))
    sometimes(rng, 30, config, frame_bytes_max=(300, 1472, 4000))
    if often(rng, 40):
        window = rng.choice((4 << 10, 8 << 10, 16 << 10))
        config["window_bytes_max"] = window
        config["window_bytes_min"] = rng.choice((window, window // 2))
        config["outbox_bytes_max"] = rng.choice((500, 2 << 10, 8 << 10))
    sometimes(rng, 25, config, fail_ns=ms(350, 500, 1200), alive_idle_ns=ms(100, 150))
    sometimes(rng, 25, config, hello_ns=ms(100, 150, 400))
    sometimes(rng, 25, config, collect_ns=ms(20, 40, 120))
    sometimes(rng, 25, config, change_ns=ms(150, 250, 500))
    return config


def _network(rng: Random) -> Network:
    wire: dict[str, Any] = {"delay_ns": rng.choice(us(20, 100, 100, 300, 1000))}
    sometimes(rng, 60, wire, jitter_ns=us(50, 300, 2000))
    sometimes(rng, 50, wire, loss_ppm=(2_000, 10_000, 10_000, 50_000, 100_000))
    sometimes(rng, 20, wire, duplicate_ppm=(5_000, 50_000))
    sometimes(rng, 25, wire, reorder_ppm=(5_000, 50_000, 300_000), late_ns=us(300, 2000, 8000))
    sometimes(rng, 10, wire, loopback=True)
    return Network(**wire)


def _links(rng: Random, names: tuple[str, ...]) -> tuple[LinkSettings, ...]:
    if not often(rng, 25):
        return ()
    links = unequal_links(rng, names, 40, us(10, 200, 1000, 8000))
    if often(rng, 30):
        links.append(LinkSettings(to=(rng.choice(names),), loss_ppm=150_000))
    return tuple(links)


# ---------------------------------------------------------------------------- traffic


def _traffic(
    rng: Random, names: tuple[str, ...], span: int, times: list[int], config: dict[str, Any]
) -> tuple[Traffic, ...]:
    """A steady stream over the whole time, volleys around the faults, a few large messages."""
    budget = max(20, _MESSAGES // (len(names) ** 2))
    speakers = speakers_of(rng, names, 40)
    services = rng.sample(_SERVICES, rng.randrange(1, 4))
    subsets = often(rng, 40)
    tables: list[Traffic] = []
    for name in speakers:
        count = 1 + rng.randrange(max(2, budget // len(speakers)))
        gap = span // count
        tables.append(
            Traffic(
                from_=name,
                at_ns=rng.randrange(max(1, gap)),
                count=count,
                every_ns=gap // 2,
                jitter_ns=gap,
                **message_settings(rng, services, subsets, vary_percent=40),
            )
        )
    for _ in range(rng.randrange(5)):
        near = max(0, rng.choice(times or [span]) - rng.randrange(30 * MS))
        tables.append(
            Traffic(
                from_=rng.choice(speakers),
                at_ns=near,
                count=rng.randrange(2, 16),
                every_ns=rng.choice(ms(1, 3, 10)),
                batch=rng.choice((1, 1, 3, 10, 30)),
                **message_settings(rng, services, subsets, vary_percent=40),
            )
        )
    for _ in range(max(0, rng.randrange(4) - 1)):
        near = max(0, rng.choice(times or [span]) - rng.randrange(20 * MS))
        size = rng.choice((5_000, 20_000, 70_000)) * 3 // len(names)
        size = min(size, 100 * int(config.get("datagram_bytes_max", 1472)))
        to: Literal["all", "some"] = "some" if subsets and often(rng, 40) else "all"
        service = rng.choice(services)
        speaker = rng.choice(speakers)
        tables.append(Traffic(from_=speaker, at_ns=near, size=size, service=service, to=to))
    return tuple(tables)
