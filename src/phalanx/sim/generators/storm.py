"""Random scenarios in which view changes overlap, one for each seed.

The `membership` scenarios let a group settle between faults. Here the time-outs are short, links
differ a lot, and partitions, cuts, bursts, pauses, crashes, leaves and restarts follow each other
within milliseconds under dense traffic, so that frames of three views are in flight at a time. The
groups are small: a fault that needs six members also occurs with four.

Delays stay well below the time that members have to answer, or no group could ever form.
"""

from __future__ import annotations

from random import Random
from typing import Any

from phalanx.sim.generators.common import (
    burst_aim,
    ms,
    names_of,
    often,
    sometimes,
    unequal_links,
    us,
)
from phalanx.sim.generators.rare_cases import CHANGING, with_rare_cases
from phalanx.sim.scenario.model import (
    MS,
    SECOND,
    Burst,
    Crash,
    Cut,
    Heal,
    LinkSettings,
    Network,
    Partition,
    Pause,
    PlannedLeave,
    Restart,
    Scenario,
    Traffic,
)

MEMBERS_LO = 3
MEMBERS_HI = 5
_ROUND_TRIPS = 8
"""A member has at least this many times the longest delay to answer."""
_EVENTS = (
    "partition",
    "partition",
    "heal",
    "cut",
    "one-way",
    "deaf",
    "burst",
    "burst",
    "crash",
    "pause",
    "pause",
    "leave",
    "restart",
)


def random_storm(seed: int, members_lo: int = MEMBERS_LO, members_hi: int = MEMBERS_HI) -> Scenario:
    """The scenario of a seed: the same in every process and on every machine."""
    rng = Random(f"storm {seed}")
    names = names_of(rng.randrange(members_lo, members_hi + 1))
    alone = often(rng, 30)
    network, links, slowest = _network(rng, names)
    begin = (150 if alone else 20) * MS
    faults, end = _faults(rng, names, begin)
    tables: dict[str, Any] = {key: tuple(rows) for key, rows in faults.items()}
    scenario = Scenario(
        name="storm",
        about=f"storm, drawn from seed {seed} with {members_lo}:{members_hi} members",
        seed=seed,
        members=names,
        start="alone" if alone else "together",
        patience_ns=30 * SECOND,
        steps_max=500_000,
        config=_config(rng, slowest),
        network=network,
        link=links,
        traffic=_traffic(rng, names, begin, end),
        **tables,
    )
    return with_rare_cases("storm", scenario, CHANGING)


def _config(rng: Random, slowest: int) -> dict[str, Any]:
    change = max(rng.choice(ms(30, 60, 120)), _ROUND_TRIPS * slowest)
    config: dict[str, Any] = {
        "mode": rng.choice(("flow", "flow", "hold")),
        "fail_ns": max(rng.choice(ms(60, 100, 150, 250)), _ROUND_TRIPS * slowest),
        "alive_idle_ns": rng.choice(ms(15, 25, 40)),
        "alive_busy_ns": rng.choice(ms(5, 10)),
        "probe_ns": rng.choice(ms(5, 10)),
        "hello_ns": rng.choice(ms(20, 40, 80)),
        "collect_ns": rng.choice(ms(3, 8, 20, 40)),
        "change_ns": change,
        "claim_ns": 2 * MS,
        "ack_lazy_ns": 5 * MS,
    }
    sometimes(rng, 15, config, order="all-ack")
    return config


def _network(rng: Random, names: tuple[str, ...]) -> tuple[Network, tuple[LinkSettings, ...], int]:
    wire: dict[str, Any] = {"delay_ns": rng.choice(us(100, 300, 1000, 3000))}
    sometimes(rng, 50, wire, jitter_ns=us(300, 2000, 6000))
    sometimes(rng, 40, wire, loss_ppm=(10_000, 50_000, 150_000))
    sometimes(rng, 20, wire, reorder_ppm=100_000, late_ns=ms(2, 8, 20))
    links: list[LinkSettings] = []
    if often(rng, 60):
        links = unequal_links(rng, names, 40, us(20, 500, 2000, 8000, 20_000))
    slowest = max([wire["delay_ns"], *(link.delay_ns or 0 for link in links)])
    slowest += wire.get("jitter_ns", 0) + wire.get("late_ns", 0)
    return Network(**wire), tuple(links), slowest


def _faults(rng: Random, names: tuple[str, ...], begin: int) -> tuple[dict[str, list[Any]], int]:
    """The faults, and the time of the last one."""
    tables: dict[str, list[Any]] = {}
    running, gone, now, severed = list(names), list[str](), begin, False
    for _ in range(rng.randrange(2, 10)):
        kind = rng.choice(_EVENTS)
        row: Any = None
        if kind == "partition" and len(names) > 1:
            row, severed = Partition(at_ns=now, groups=_groups(rng, names)), True
        elif kind == "heal" and severed:
            row, severed = Heal(at_ns=now), False
        elif kind in ("cut", "one-way", "deaf") and len(names) > 1:
            row, kind = _cut(rng, names, now, kind), "cut"
        elif kind == "burst":
            row = _burst(rng, names, now)
        elif kind == "pause":
            length = rng.choice(ms(3, 15, 60, 150, 400))
            row = Pause(member=rng.choice(names), at_ns=now, for_ns=length)
        elif kind in ("crash", "leave") and len(running) > 2 and often(rng, 60):
            member = running.pop(rng.randrange(len(running)))
            gone.append(member)
            if kind == "crash":
                row = Crash(member=member, at_ns=now, lose=often(rng, 60))
            else:
                row = PlannedLeave(member=member, at_ns=now)
        elif kind == "restart" and gone:
            member = gone.pop()
            running.append(member)
            row = Restart(member=member, at_ns=now)
        if row is not None:
            tables.setdefault(kind, []).append(row)
            now += 1 + rng.randrange(rng.choice(ms(5, 60, 60, 400)))
    if severed:
        tables.setdefault("heal", []).append(Heal(at_ns=now))
    return tables, now


def _groups(rng: Random, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    mixed = rng.sample(names, len(names))
    first = rng.randrange(1, len(names))
    groups = [tuple(mixed[:first])]
    if first < len(names) - 1 and often(rng, 30):
        groups.append((mixed[first],))
    return tuple(groups)


def _cut(rng: Random, names: tuple[str, ...], now: int, kind: str) -> Cut:
    sender, receiver = rng.sample(names, 2)
    return Cut(
        at_ns=now,
        for_ns=rng.choice(ms(2, 10, 40, 120, 300)),
        from_=(sender,),
        to=None if kind == "deaf" else (receiver,),
        both=kind == "cut",
    )


def _burst(rng: Random, names: tuple[str, ...], now: int) -> Burst:
    aim = burst_aim(rng, names, 80, 80)
    return Burst(at_ns=now, for_ns=rng.choice(ms(1, 3, 8, 20, 60)), **aim)


def _traffic(rng: Random, names: tuple[str, ...], begin: int, end: int) -> tuple[Traffic, ...]:
    span = end + 100 * MS - begin
    tables = []
    for name in names:
        if often(rng, 80):
            gap = rng.choice(ms(1, 2, 5, 12))
            tables.append(
                Traffic(
                    from_=name,
                    at_ns=begin - 20 * MS + rng.randrange(10 * MS),
                    count=max(1, min(120, span // gap)),
                    every_ns=gap // 2,
                    jitter_ns=gap,
                    size=rng.choice((0, 10, 60)),
                    service=rng.choice(("agreed", "causal", "safe", "any", "any")),
                    to="some" if often(rng, 15) else "all",
                )
            )
    if often(rng, 15):
        at = begin + rng.randrange(max(1, end - begin))
        large = 80_000 if len(names) < 5 else 30_000
        tables.append(Traffic(from_=rng.choice(names), at_ns=at, size=large))
    return tuple(tables)
