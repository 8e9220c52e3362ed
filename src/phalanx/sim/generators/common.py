"""Random draws shared by the scenario generators: names, links, bursts, garbage, message settings.

A scenario is a function of its seed, so the order of the draws is part of what these functions
promise: drawing one number more or less changes every scenario after it.
"""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

from phalanx.sim.scenario.model import (
    MS,
    Burst,
    Garbage,
    LinkSettings,
    Nonsense,
    Peculiarity,
    Spoken,
)

US = 1_000
_NAMES = ("ada", "bea", "cyd", "dov", "eli", "fay", "gus", "hal", "ida", "jon", "kim", "leo")


def us(*values: int) -> tuple[int, ...]:
    """Microseconds as nanoseconds."""
    return tuple(value * US for value in values)


def ms(*values: int) -> tuple[int, ...]:
    """Milliseconds as nanoseconds."""
    return tuple(value * MS for value in values)


def names_of(size: int) -> tuple[str, ...]:
    """The names of the members of a group of this size, always the same."""
    return _NAMES[:size] if size <= len(_NAMES) else tuple(f"m{i:02}" for i in range(size))


def often(rng: Random, percent: int) -> bool:
    """True with this probability."""
    return rng.randrange(100) < percent


def sometimes(rng: Random, percent: int, settings: dict[str, Any], **values: Any) -> None:
    """With this probability, set these values; draw one wherever a tuple of them is given."""
    if often(rng, percent):
        for key, value in values.items():
            settings[key] = rng.choice(value) if isinstance(value, tuple) else value


def speakers_of(rng: Random, names: tuple[str, ...], percent: int) -> list[str]:
    """The members that send messages: all, or with this probability a random subset."""
    if often(rng, percent):
        return rng.sample(names, rng.randrange(1, len(names) + 1))
    return list(names)


def message_settings(
    rng: Random, services: list[Spoken], subsets: bool, vary_percent: int
) -> dict[str, Any]:
    """Service, size and receivers of the messages of one [[traffic]] table."""
    settings: dict[str, Any] = {
        "service": rng.choice(services),
        "size": rng.choice((0, 1, 20, 100)),
    }
    sometimes(rng, vary_percent, settings, size_max=(100, 200, 1400))
    if subsets:
        sometimes(rng, 60, settings, to="some")
    return settings


def unequal_links(
    rng: Random, names: tuple[str, ...], percent: int, delays_ns: tuple[int, ...]
) -> list[LinkSettings]:
    """A delay of its own for each direction between two members, with this probability each."""
    return [
        LinkSettings(from_=(sender,), to=(receiver,), delay_ns=rng.choice(delays_ns))
        for sender, receiver in permutations(names, 2)
        if often(rng, percent)
    ]


def peculiarities(
    rng: Random, names: tuple[str, ...], slow_percent: int, small_percent: int = 0
) -> tuple[Peculiarity, ...]:
    """Slow processors, small inboxes and clocks that differ between members."""
    slow = often(rng, slow_percent)
    small = small_percent > 0 and often(rng, small_percent)
    clocks = often(rng, 50)
    own: list[Peculiarity] = []
    for name in names:
        traits: dict[str, Any] = {}
        if slow or small:
            sometimes(rng, 40, traits, cpu_ns=us(20, 60, 150))
        if small:
            traits["inbox_packets"] = rng.choice((2, 4, 16, 64))
        if clocks:
            traits["clock_ns"] = rng.randrange(1 << 50)
        if traits:
            own.append(Peculiarity(name=name, **traits))
    return tuple(own)


def bursts(
    rng: Random, names: tuple[str, ...], span: int, lengths_ns: tuple[int, ...]
) -> tuple[Burst, ...]:
    """Up to three bursts of loss in a quarter of the scenarios."""
    if not often(rng, 25):
        return ()
    drawn: list[Burst] = []
    for _ in range(rng.randrange(1, 4)):
        aim = burst_aim(rng, names, 50, 30)
        at, length = rng.randrange(span), rng.choice(lengths_ns)
        drawn.append(Burst(at_ns=at, for_ns=length, **aim))
    return tuple(drawn)


def burst_aim(
    rng: Random, names: tuple[str, ...], from_percent: int, to_percent: int
) -> dict[str, Any]:
    """The packets that a burst hits: of all members, or of one sender, one receiver or both."""
    aim: dict[str, Any] = {}
    if often(rng, from_percent):
        aim["from_"] = (rng.choice(names),)
    if often(rng, to_percent):
        aim["to"] = (rng.choice(names),)
    return aim


def garbage(
    rng: Random,
    names: tuple[str, ...],
    span: int,
    kinds: tuple[Nonsense, ...],
    kind_percent: int,
    gaps_ns: tuple[int, ...],
) -> tuple[Garbage, ...]:
    """Invalid packets of some of these kinds in a quarter of the scenarios."""
    if not often(rng, 25):
        return ()
    return tuple(
        Garbage(
            to=rng.choice(names),
            at_ns=rng.randrange(span),
            count=rng.randrange(1, 20),
            every_ns=rng.choice(gaps_ns),
            kind=kind,
        )
        for kind in kinds
        if often(rng, kind_percent)
    )
