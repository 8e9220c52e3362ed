"""Rare cases on top of a random scenario: a few seeds of each kind draw one, fewer several.

Each aims at one of the cases that `coverage` counts and has its name. A seed draws them from a
random generator of their own, after `fixed_view`, `membership` or `storm` made its scenario: a seed
that draws none runs that scenario unchanged. The share of each is small, because a run in which
everything happens hides more than it shows, and because some cost several times as much as a plain
run.

Times follow the scenario: an event that must fall into a view change is a fraction of `fail_ns`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from msgspec.structs import replace

from phalanx.config import lan
from phalanx.sim.scenario.model import (
    IMPOSTERS_FROM,
    LIVES,
    MS,
    SECOND,
    Crash,
    Cut,
    Heal,
    Imposter,
    OperatorBreak,
    Partition,
    Pause,
    Reader,
    Restart,
    Scenario,
    Traffic,
)

SMALL_HI = 8
LARGE_PERCENT = {"fixed": 2, "membership": 3}
_ROUND_TRIPS = 8
"""Members get at least so many of the longest delays to answer: else no group could ever form."""
_FLAPPING_NS_MAX = 4 * SECOND

Case = Literal[
    "slow_reader",
    "operator_break",
    "lower_namesake",
    "third_namesake",
    "long_pause",
    "carried_subset_lost",
    "hello_near_delay",
    "one_way_flaps",
]

FIXED: dict[Case, int] = {"slow_reader": 10}
CHANGING: dict[Case, int] = {
    "slow_reader": 8,
    "operator_break": 7,
    "lower_namesake": 5,
    "third_namesake": 4,
    "long_pause": 4,
    "carried_subset_lost": 5,
    "hello_near_delay": 4,
    "one_way_flaps": 6,
}
"""Of a hundred seeds, so many draw the case; in a fixed view only what gives no cause to end it."""


def size_of_group(rng: Random, kind: str, seed: int, lo: int, hi: int) -> int:
    """From lo to hi members; where both small and large groups are allowed, few are large. The
    scenario of a small group does not depend on `hi`."""
    if not lo <= SMALL_HI < hi:
        return rng.randrange(lo, hi + 1)
    small, large = rng.randrange(lo, SMALL_HI + 1), Random(f"large {kind} {seed}")
    if large.randrange(100) < LARGE_PERCENT[kind]:
        return large.randrange(SMALL_HI + 1, hi + 1)
    return small


def with_rare_cases(kind: str, scenario: Scenario, shares: dict[Case, int]) -> Scenario:
    """The scenario with the rare cases that its seed draws, if any."""
    rng = Random(f"rare {kind} {scenario.seed}")
    drawn = [case for case, share in shares.items() if rng.randrange(100) < share]
    for case in drawn:
        scenario = _DRAW[case](rng, scenario)
    if drawn:
        scenario = replace(scenario, about=f"{scenario.about}; {', '.join(drawn)}")
    if shares is CHANGING and Random(f"trusted {kind} {scenario.seed}").randrange(2):
        scenario = replace(scenario, config={**scenario.config, "trusted": False})
    return scenario


# ---------------------------------------------------------------------------- members


def _slow_reader(rng: Random, scenario: Scenario) -> Scenario:
    """One or two members fall behind with reading and catch up, by and by or at once."""
    span, readers = _span(scenario), list[Reader]()
    for _ in range(rng.randrange(1, 3)):
        name, now = rng.choice(scenario.members), rng.randrange(span)
        for _ in range(rng.randrange(1, 5)):
            level = rng.choice((0, 1, 1, 2, 2))
            length = max(MS, span // rng.choice((3, 10, 30, 100)))
            if level:
                readers.append(Reader(member=name, at_ns=now, for_ns=length, level=level))
            now += length
    return _more(scenario, reader=readers)


def _operator_break(rng: Random, scenario: Scenario) -> Scenario:
    """An operator tells a member to treat another as failed; sometimes two members each other."""
    breaks: list[OperatorBreak] = []
    if len(scenario.members) > 1:
        for _ in range(rng.randrange(1, 4)):
            at = _when(rng, scenario)
            one, other = rng.sample(scenario.members, 2)
            breaks.append(OperatorBreak(member=one, target=other, at_ns=at))
            if rng.randrange(4) == 0:
                at += rng.choice((0, MS, 30 * MS))
                breaks.append(OperatorBreak(member=other, target=one, at_ns=at))
    return _more(scenario, break_=breaks)


def _lower_namesake(rng: Random, scenario: Scenario) -> Scenario:
    return _namesakes(rng, scenario, [0])


def _third_namesake(rng: Random, scenario: Scenario) -> Scenario:
    """Three processes of one name; most often the one in the middle comes last."""
    between = IMPOSTERS_FROM // 2
    younger: list[int | None] = [None, between]
    return _namesakes(rng, scenario, younger if rng.randrange(4) else [between, 0])


def _namesakes(rng: Random, scenario: Scenario, incarnations: list[int | None]) -> Scenario:
    """More processes of one name, most often out of reach of the first and of each other until
    the network heals: then two or three hold the name, each in a view of its own."""
    names, fail = scenario.members, _fail_ns(scenario)
    holder, at = rng.choice(names), _when(rng, scenario)
    others = rng.sample([n for n in names if n != holder], len(names) - 1)
    parts = [others[i :: len(incarnations)] for i in range(len(incarnations))]
    rows: dict[str, list[Any]] = {"imposter": []}
    if others and rng.randrange(4):
        rows["partition"] = [
            Partition(at_ns=at, groups=tuple(tuple(sorted(part)) for part in parts if part))
        ]
        rows["heal"] = [Heal(at_ns=at + rng.randrange(fail // 4, 2 * fail))]
    used = {row.incarnation for row in scenario.imposter if row.member == holder}
    for part, drawn in zip(parts, incarnations, strict=True):
        incarnation = None if drawn in used else drawn  # another rare case may have it
        at += rng.randrange(fail // 8)
        beside = rng.choice(part or names)
        rows["imposter"].append(
            Imposter(member=holder, at_ns=at, beside=beside, incarnation=incarnation)
        )
    return _more(scenario, **rows)


def _long_pause(rng: Random, scenario: Scenario) -> Scenario:
    """A member stops for so long that the others remove it, and goes on. Some of what its
    application says waits for that; the others talk meanwhile."""
    name, at = rng.choice(scenario.members), _when(rng, scenario)
    # Seldom the longest: they cost most.
    length = min(rng.randrange(2 * SECOND, 8 * SECOND) for _ in range(2))
    said = [
        Traffic(
            from_=speaker,
            at_ns=at + rng.randrange(length),
            count=rng.randrange(1, 8),
            every_ns=rng.choice((1, 30, 200)) * MS,
            service="any",
        )
        for speaker in {name: None, rng.choice(scenario.members): None}
    ]
    after = at + length + rng.randrange(2 * _fail_ns(scenario))  # a run does not end before
    said.append(Traffic(from_=rng.choice(scenario.members), at_ns=after, service="any"))
    pause = Pause(member=name, at_ns=at, for_ns=length)
    return _more(scenario, pause=[pause], traffic=said)


def _carried_subset_lost(rng: Random, scenario: Scenario) -> Scenario:
    """Members crash and are back before the others have removed them, while messages to them are
    on their way: these are carried into a view that has the next process of the name."""
    fail, names = _fail_ns(scenario), scenario.members
    untouched = [
        n for n in names if all(n != r.member for t in LIVES for r in getattr(scenario, t))
    ]
    if not untouched or len(names) < 2:
        return scenario
    rows: dict[str, list[Any]] = {"crash": [], "restart": [], "traffic": []}
    for name in rng.sample(untouched, min(len(untouched), rng.choice((1, 1, 2)))):
        others = [n for n in names if n != name]
        at = _when(rng, scenario)
        for _ in range(rng.randrange(1, 3)):
            back = at + rng.choice((MS, fail // 16, fail // 8, fail // 4, fail // 2))
            rows["crash"].append(Crash(member=name, at_ns=at, lose=rng.randrange(2) == 0))
            rows["restart"].append(Restart(member=name, at_ns=back))
            for speaker in rng.sample(others, min(len(others), rng.randrange(1, 3))):
                gap = max(MS, (back + fail - at) // rng.choice((30, 50)))
                receivers = (name, rng.choice(others))
                rows["traffic"].append(
                    Traffic(
                        from_=speaker,
                        at_ns=max(0, at - rng.randrange(30 * MS)),
                        count=(back + fail - at) // gap,
                        every_ns=gap // 2,
                        jitter_ns=gap,
                        size=rng.choice((0, 20, 100)),
                        service=rng.choice(("agreed", "causal", "safe", "any", "any")),
                        to=receivers,
                    )
                )
            at = back + rng.randrange(fail // 2, 2 * fail)
    # A message is carried if it is sent between a proposal and the view: some round trips.
    wire, config = scenario.network, {**scenario.config, "mode": "flow"}
    most = lan(**config).change_ns // _ROUND_TRIPS - wire.jitter_ns - wire.late_ns
    slower = max(wire.delay_ns, min(rng.choice((3, 8, 15)) * MS, most))
    scenario = replace(scenario, config=config, network=replace(wire, delay_ns=slower))
    return _more(scenario, **rows)


# ---------------------------------------------------------------------------- network


def _hello_near_delay(rng: Random, scenario: Scenario) -> Scenario:
    """Packets travel for tens of milliseconds, HELLOs are about as far apart, and members have
    the time to answer that such a network needs."""
    delay = rng.choice((10, 20, 40)) * MS
    jitter = rng.choice((0, delay // 2, delay))
    travel = delay + jitter
    config = lan(**scenario.config)
    slow = {
        "hello_ns": travel * rng.choice((3, 4, 5, 6)) // 4,
        "fail_ns": max(config.fail_ns, _ROUND_TRIPS * travel),
        "change_ns": max(config.change_ns, _ROUND_TRIPS * travel),
        "collect_ns": max(config.collect_ns, travel),
        "claim_ns": max(config.claim_ns, travel),
        "probe_ns": max(config.probe_ns, travel),
        "nack_retry_ns": max(config.nack_retry_ns, 2 * travel),
    }
    network = replace(scenario.network, delay_ns=delay, jitter_ns=jitter)
    return replace(scenario, network=network, config={**scenario.config, **slow})


def _one_way_flaps(rng: Random, scenario: Scenario) -> Scenario:
    """One direction of a link, or all that a member sends, is cut and opened again and again."""
    if len(scenario.members) < 2:
        return scenario
    sender, receiver = rng.sample(scenario.members, 2)
    to = None if rng.randrange(4) == 0 else (receiver,)
    now, fail = _when(rng, scenario), _fail_ns(scenario)
    period = rng.choice((fail // 40, fail // 8, fail // 2, fail * 5 // 4))
    count = max(3, min(rng.randrange(3, 9), _FLAPPING_NS_MAX // (2 * period)))
    cuts: list[Cut] = []
    for _ in range(count):
        length = rng.randrange(period // 2, period * 3 // 2)
        cuts.append(Cut(at_ns=now, for_ns=length, from_=(sender,), to=to))
        now += length + rng.randrange(period // 2, period * 3 // 2)
    return _more(scenario, cut=cuts)


_DRAW: dict[Case, Callable[[Random, Scenario], Scenario]] = {
    "slow_reader": _slow_reader,
    "operator_break": _operator_break,
    "lower_namesake": _lower_namesake,
    "third_namesake": _third_namesake,
    "long_pause": _long_pause,
    "carried_subset_lost": _carried_subset_lost,
    "hello_near_delay": _hello_near_delay,
    "one_way_flaps": _one_way_flaps,
}


# ---------------------------------------------------------------------------- times and rows


def _span(scenario: Scenario) -> int:
    return max(scenario.horizon_ns(), 20 * MS)


def _when(rng: Random, scenario: Scenario) -> int:
    """At any time, or soon after something else that happens."""
    times = [r.at_ns for table in ("partition", "heal", *LIVES) for r in getattr(scenario, table)]
    if times and rng.randrange(2):
        return int(rng.choice(times)) + rng.randrange(_fail_ns(scenario))
    return rng.randrange(_span(scenario))


def _fail_ns(scenario: Scenario) -> int:
    return lan(**scenario.config).fail_ns


def _more(scenario: Scenario, **rows: list[Any]) -> Scenario:
    """The scenario with more rows in its tables."""
    return replace(scenario, **{key: (*getattr(scenario, key), *new) for key, new in rows.items()})
