"""Random scenarios over point-to-point channels that break, one for each seed.

Links are connections (`channels`): they lose nothing and keep the order, until they break; then
what was sent last is lost. Two kinds of scenario are drawn.

*Around*: channels break, in both directions or in one, and are connected again, but a tree of
channels always stays up both ways. Nobody crashes. Members reach each other around the broken
channels, so there is no cause for any view change (`changes_max`).

*Free*: any channels break, the mesh falls into cliques, members crash, leave, restart and pause,
one after the other or at once. In half of them members set their roles meanwhile. In a third a
member crashes a few steps after it has begun a view change.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

from phalanx.sim.generators.common import message_settings, ms, names_of, often, sometimes, us
from phalanx.sim.scenario.model import (
    MS,
    SECOND,
    Crash,
    Cut,
    Heal,
    LinkSettings,
    Network,
    Partition,
    Pause,
    PlannedLeave,
    PlannedRole,
    Restart,
    Scenario,
    Spoken,
    Traffic,
)

MEMBERS_LO = 3
MEMBERS_HI = 8
CASES = (
    "crash",
    "initiator_crashed",
    "attempts",
    "leave",
    "concurrent_first",
    "break_both",
    "break_one_way",
    "reconnect",
    "partition",
    "merges_2",
    "suspected_alive",
    "early_t_change",
    "early_t_speak",
    "role",
    "views_role",
    "sent_in_change",
    "carried",
    "future_frames",
    "late_frames",
    "fetched",
    "repeated",
    "forwarded",
    "transit",
    "proof_by_tag",
)
"""Faults and cases (docs/scenarios.md) that a sweep proves nothing about unless they happen: it
names those that did not."""
_MESSAGES = 6_000
"""Budget of a run, roughly: messages times the square of the number of members."""
_SERVICES: tuple[Spoken, ...] = ("any", "agreed", "safe", "causal", "basic")
_OPERATIONS = ("read", "write", "index", "audit")
_SHAPES = ("line", "star", "random", "random")
_BREAKS = ms(2, 20, 100, 500, 1000, 3000)
"""How long a channel is down."""


def random_mesh(seed: int, members_lo: int = MEMBERS_LO, members_hi: int = MEMBERS_HI) -> Scenario:
    """The scenario of a seed: the same in every process and on every machine."""
    rng = Random(f"mesh {seed}")
    names = names_of(rng.randrange(members_lo, members_hi + 1))
    around = often(rng, 50)
    alone = not around and often(rng, 50)
    begin = (1200 if alone else 20) * MS
    faults, end = _around(rng, names, begin) if around else _free(rng, names, begin)
    roles = [] if around else _roles(seed, names, begin, end)
    if not around:
        _crash_of_an_initiator(seed, names, begin, end, faults, roles)
    tables: dict[str, Any] = {key: tuple(rows) for key, rows in faults.items()}
    return Scenario(
        name="mesh-around" if around else "mesh",
        about=f"mesh, drawn from seed {seed} with {members_lo}:{members_hi} members",
        seed=seed,
        members=names,
        start="alone" if alone else "together",
        patience_ns=30 * SECOND,
        steps_max=500_000,
        changes_max=0 if around else None,
        config=_config(rng),
        network=_network(rng),
        link=_links(rng, names),
        traffic=_traffic(rng, names, begin, end),
        role=tuple(sorted(roles, key=lambda row: row.at_ns)),
        **tables,
    )


def _config(rng: Random) -> dict[str, Any]:
    config: dict[str, Any] = {"mode": rng.choice(("flow", "flow", "flow", "hold"))}
    sometimes(rng, 15, config, order="all-ack")
    sometimes(rng, 25, config, early=True)
    sometimes(rng, 25, config, frame_bytes_max=(1472, 4000))
    return config


def _network(rng: Random) -> Network:
    wire: dict[str, Any] = {"channels": True, "delay_ns": rng.choice(us(50, 200, 1000, 5000))}
    sometimes(rng, 60, wire, jitter_ns=us(50, 500, 3000))
    return Network(**wire)


def _links(rng: Random, names: tuple[str, ...]) -> tuple[LinkSettings, ...]:
    if not often(rng, 40):
        return ()
    pairs = [pair for pair in combinations(names, 2) if often(rng, 30)]
    return tuple(
        LinkSettings(from_=(a,), to=(b,), delay_ns=rng.choice(us(100, 2000, 10_000)))
        for pair in pairs
        for a, b in (pair, pair[::-1])
    )


# ---------------------------------------------------------------------------- faults


def tree_of(rng: Random, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Channels that connect all members without a circle: a line, a star, or any other tree."""
    mixed, shape = rng.sample(names, len(names)), rng.choice(_SHAPES)
    later = range(1, len(mixed))
    near = [{"line": i - 1, "star": 0, "random": rng.randrange(i)}[shape] for i in later]
    return [(mixed[at], mixed[i]) for at, i in zip(near, later, strict=True)]


def _around(rng: Random, names: tuple[str, ...], begin: int) -> tuple[dict[str, list[Any]], int]:
    """Breaks of channels outside a tree, for a while or to the end, and the time of the last."""
    tree = {frozenset(pair) for pair in tree_of(rng, names)}
    others = [pair for pair in combinations(names, 2) if frozenset(pair) not in tree]
    cuts: list[Cut] = []
    now = begin
    at_once = often(rng, 40)
    for a, b in rng.sample(others, rng.randrange(1, len(others) + 1)) if others else ():
        for _ in range(1 if often(rng, 60) else rng.randrange(1, 5)):
            sender, receiver = rng.sample((a, b), 2)
            lasting = None if often(rng, 30) else rng.choice(_BREAKS)
            both = often(rng, 60)
            cut = Cut(at_ns=now, for_ns=lasting, from_=(sender,), to=(receiver,), both=both)
            cuts.append(cut)
            now += rng.randrange(3 * MS if at_once else 400 * MS)
    end = now + rng.choice(ms(100, 2500, 5000))
    return {"cut": cuts, "heal": [Heal(at_ns=end)]}, end


def _free(rng: Random, names: tuple[str, ...], begin: int) -> tuple[dict[str, list[Any]], int]:
    tables: dict[str, list[Any]] = {}
    running, gone, now = list(names), list[str](), begin
    for _ in range(rng.randrange(2, 9)):
        row: Any = None
        kind = rng.choice(
            ("cut", "cut", "one-way", "cliques", "crash", "leave", "restart", "pause")
        )
        if kind in ("cut", "one-way"):
            kind, row = "cut", _break(rng, names, now, both=kind == "cut")
        elif kind == "cliques":
            mixed = rng.sample(names, len(names))
            side = tuple(sorted(mixed[: rng.randrange(1, len(names))]))
            kind, row = "partition", Partition(at_ns=now, groups=(side,))
        elif kind == "pause":
            length = rng.choice(ms(20, 200, 500, 1500))
            row = Pause(member=rng.choice(names), at_ns=now, for_ns=length)
        elif kind in ("crash", "leave") and len(running) > 2:
            member = running.pop(rng.randrange(len(running)))
            gone.append(member)
            crash = Crash(member=member, at_ns=now, lose=often(rng, 60))
            row = crash if kind == "crash" else PlannedLeave(member=member, at_ns=now)
        elif kind == "restart" and gone:
            running.append(gone.pop())
            row = Restart(member=running[-1], at_ns=now)
        if row is not None:
            tables.setdefault(kind, []).append(row)
            now += 1 + rng.randrange(rng.choice(ms(10, 100, 400, 1500)))
        if "partition" in tables and often(rng, 30):
            tables.setdefault("heal", []).append(Heal(at_ns=now))
    tables.setdefault("heal", []).append(Heal(at_ns=now))
    return tables, now


def _break(rng: Random, names: tuple[str, ...], now: int, both: bool) -> Cut:
    sender, receiver = rng.sample(names, 2)
    lasting = None if often(rng, 30) else rng.choice(_BREAKS)
    return Cut(at_ns=now, for_ns=lasting, from_=(sender,), to=(receiver,), both=both)


def _roles(seed: int, names: tuple[str, ...], begin: int, end: int) -> list[PlannedRole]:
    """Role changes of any members at any time, sometimes several at once. They have a random
    generator of their own, so that the rest of a scenario does not depend on them."""
    rng = Random(f"mesh roles {seed}")
    if not often(rng, 50):
        return []
    rows, now = list[PlannedRole](), begin
    span = max(1, end - begin)
    for _ in range(rng.randrange(1, 7)):
        if not often(rng, 30):
            now = begin + rng.randrange(span)
        operations = tuple(sorted(rng.sample(_OPERATIONS, rng.randrange(len(_OPERATIONS)))))
        rows.append(PlannedRole(member=rng.choice(names), at_ns=now, operations=operations))
    return rows


def _crash_of_an_initiator(
    seed: int,
    names: tuple[str, ...],
    begin: int,
    end: int,
    faults: dict[str, list[Any]],
    roles: list[PlannedRole],
) -> None:
    """A member crashes 0 to 14 of its steps after it has proposed a view change, with any end of
    what it sent lost. Half of the time it begins one itself: it sets its role. With a
    random generator of its own."""
    rng = Random(f"mesh initiator {seed}")
    lives = [row for table in ("crash", "leave") for row in faults.get(table, ())]
    others = [name for name in names if all(row.member != name for row in lives)]
    if len(others) < 3 or not often(rng, 33):
        return
    member, at = rng.choice(others), begin + rng.randrange(max(1, end - begin))
    crash = Crash(
        member=member,
        at_ns=at,
        lose=often(rng, 80),
        after_proposal=rng.randrange(15),
        for_ns=rng.choice(ms(100, 500, 2000)),
    )
    faults.setdefault("crash", []).append(crash)
    if often(rng, 50):
        roles.append(PlannedRole(member=member, at_ns=at, operations=("index",)))


def _traffic(rng: Random, names: tuple[str, ...], begin: int, end: int) -> tuple[Traffic, ...]:
    """A steady stream of each member over the whole time."""
    budget = max(10, _MESSAGES // len(names) ** 3)
    services = rng.sample(_SERVICES, rng.randrange(1, 4))
    subsets = often(rng, 30)
    span = end + 200 * MS
    tables = []
    for name in names:
        if often(rng, 80):
            count = 1 + rng.randrange(budget)
            gap = max(1, span // count)
            at = rng.randrange(gap) if begin < SECOND else begin // 2
            settings = message_settings(rng, services, subsets, vary_percent=30)
            tables.append(
                Traffic(
                    from_=name,
                    at_ns=at,
                    count=count,
                    every_ns=gap // 2,
                    jitter_ns=gap,
                    **settings,
                )
            )
    return tuple(tables)
