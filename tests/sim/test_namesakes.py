"""Parts of a group in which processes took the names of members of other parts: when they meet
again, one process of each name stays, and those that stay are in one view (rules L-17 to L-19)."""

from __future__ import annotations

import random

import pytest

from phalanx.sim.mutants import apply
from phalanx.sim.run import run
from phalanx.sim.scenario.model import (
    Heal,
    Imposter,
    Network,
    Partition,
    Scenario,
    Traffic,
)

MS = 1_000_000
NAMES = ("ada", "bea", "cyd", "dov")
EARLIER_OR_LATER = (0, 2, 3, 50, 70)
"""Incarnations of processes that take a name; the members that they take it from have 1."""


def crossed_parts(seed: int) -> Scenario:
    """Two or three parts, most of which have a process of every name; chance decides whose is the
    latest."""
    chance = random.Random(seed)
    names = NAMES[: chance.choice((2, 2, 3, 3, 4))]
    parts: list[list[str]] = [[]]
    while not all(parts):
        parts = [[] for _ in range(2 if len(names) == 2 else chance.choice((2, 2, 3)))]
        for name in names:
            chance.choice(parts).append(name)
    at_ns, imposters, taken = 3_000 * MS, [], set[tuple[str, int]]()
    all_names = chance.random() < 0.7
    for part in parts:
        for name in names:
            if name in part or (not all_names and chance.random() < 0.4):
                continue
            incarnation = None
            if chance.random() < 0.4:
                free = [one for one in EARLIER_OR_LATER if (name, one) not in taken]
                incarnation = chance.choice(free)
                taken.add((name, incarnation))
            beside = chance.choice(part)
            imposters.append(
                Imposter(member=name, beside=beside, at_ns=at_ns, incarnation=incarnation)
            )
            at_ns += chance.choice((1, 50, 400)) * MS
    return Scenario(
        name=f"crossed-{seed}",
        seed=seed,
        members=names,
        start="alone",
        config={"mode": chance.choice(("flow", "hold"))},
        network=Network(delay_ns=chance.choice((100_000, MS, 5 * MS))),
        partition=(Partition(at_ns=1_000 * MS, groups=tuple(map(tuple, parts))),),
        imposter=tuple(imposters),
        heal=(Heal(at_ns=at_ns + chance.choice((200, 1_500, 4_000)) * MS),),
        traffic=tuple(
            Traffic(from_=name, at_ns=500 * MS, count=60, every_ns=100 * MS, size=10)
            for name in names
            if chance.random() < 0.6
        ),
        patience_ns=20_000 * MS,
    )


@pytest.mark.parametrize("part", range(4))
def test_parts_with_the_same_names_become_one_group(part: int) -> None:
    for seed in range(10 * part, 10 * part + 10):
        result = run(crossed_parts(seed))
        assert not result.failed, (seed, result.signature)


def test_they_stay_apart_where_no_part_gives_way() -> None:
    with apply("crossed-views-stay"):
        assert any(run(crossed_parts(seed)).failed for seed in range(20))
