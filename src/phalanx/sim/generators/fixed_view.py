"""Random scenarios, one a seed, swarm style.

Each seed turns on its own subset of faults and its own settings: a run with every fault at
once hides what a run with two of them shows (swarm testing, Groce et al., ISSTA 2012).
Traffic comes in moods. *narrow*: one message at a time travels, links differ a lot, so votes
arrive in different orders; this is where ordering rules are tested. *busy*: everybody talks
at once. *gusts*: many messages in one submission, against small windows. *heavy*: a few
large messages among small ones. The amount of traffic is cut to what a run may cost.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import msgspec

from phalanx.sim.generators.rare_cases import FIXED, SMALL_HI, size_of_group, with_rare_cases
from phalanx.sim.scenario.model import (
    MS,
    Burst,
    Garbage,
    LinkSettings,
    Network,
    Nonsense,
    Pause,
    Peculiarity,
    Scenario,
    Spoken,
    Traffic,
)

US = 1_000
MEMBERS_LO, MEMBERS_HI = 2, 16
_NAMES = ("ada", "bea", "cyd", "dov", "eli", "fay", "gus", "hal", "ida", "jon", "kim", "leo")
_SERVICES: tuple[Spoken, ...] = ("any", "agreed", "any", "safe", "causal", "any", "basic")
_GARBAGE: tuple[Nonsense, ...] = ("random", "truncated", "flipped", "foreign", "stale")
SPEAKERS_MAX = 5
"""In a large group, where everybody answers everybody."""
_PACKETS = 10_000
"""How many packets a run may cost to receive, about."""

Mood = Literal["narrow", "busy", "gusts", "heavy"]
_MOODS: tuple[Mood, ...] = ("narrow", "narrow", "busy", "busy", "gusts", "heavy")


def random_scenario(
    seed: int, members_lo: int = MEMBERS_LO, members_hi: int = MEMBERS_HI
) -> Scenario:
    """The scenario of a seed: the same in every process and on every machine."""
    rng = Random(f"scenario {seed}")
    size = size_of_group(rng, "fixed", seed, members_lo, members_hi)
    names = names_of(size)
    mood = rng.choice(_MOODS)
    traffic = _traffic(rng, names, mood)
    quiet = Scenario(name="random", members=names, traffic=traffic, seed=seed, changes_max=0)
    span = max(quiet.horizon_ns(), 20 * MS)
    scenario = msgspec.structs.replace(
        quiet,
        about=f"{mood}, drawn from seed {seed} with {members_lo}:{members_hi} members",
        config=_config(rng, mood),
        network=_network(rng, mood),
        link=_links(rng, names, mood),
        member=_peculiarities(rng, names),
        pause=_pauses(rng, names, span),
        burst=_bursts(rng, names, span),
        garbage=_garbage(rng, names, span),
    )
    return with_rare_cases("fixed", scenario, FIXED)


def names_of(size: int) -> tuple[str, ...]:
    """So many names of members, always the same."""
    return _NAMES[:size] if size <= len(_NAMES) else tuple(f"m{i:02}" for i in range(size))


def often(rng: Random, percent: int) -> bool:
    return rng.randrange(100) < percent


def _config(rng: Random, mood: Mood) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if often(rng, 15):
        config["order"] = "all-ack"
    if often(rng, 25):
        config["early"] = True
    if often(rng, 20):
        config["post_confirm"] = True
    if often(rng, 35):
        config["datagram_bytes_max"] = rng.choice((300, 400, 512, 1000, 1472))
    if often(rng, 35):
        config["frame_bytes_max"] = rng.choice((300, 700, 1472, 4000, 60_000))
    if often(rng, 70 if mood in ("gusts", "heavy") else 20):
        window = rng.choice((4 << 10, 8 << 10, 16 << 10, 64 << 10))
        config["window_bytes_max"] = window
        config["window_bytes_min"] = rng.choice((window, window // 2, 2048))
        config["outbox_bytes_max"] = rng.choice((500, 2 << 10, 2 << 10, 8 << 10))
    if often(rng, 30):
        config["ack_prompt_ns"] = rng.choice((50, 150, 1000, 3000)) * US
    if often(rng, 30):
        config["ack_lazy_ns"] = rng.choice((1, 3, 30)) * MS
    if often(rng, 30):
        config["nack_ns_min"] = rng.choice((100, 500, 2000)) * US
        config["nack_ns_max"] = config["nack_ns_min"] * rng.choice((1, 2, 5))
    if often(rng, 20):
        config["pace_ns_max"] = rng.choice((0, 100, 5000)) * US
    if often(rng, 20):
        config["nack_retry_ns"] = rng.choice((2, 5, 20)) * MS
    if often(rng, 20):
        config["answer_ns_min"] = rng.choice((200, 1000)) * US
        config["answer_ns_max"] = rng.choice((1, 3, 10)) * MS
    if often(rng, 20):
        config["alive_busy_ns"] = rng.choice((4, 40)) * MS
        config["alive_idle_ns"] = rng.choice((60, 500)) * MS
    if often(rng, 15):
        config["ahead_frames_max"] = rng.choice((4, 16, 64))
    return config


def _network(rng: Random, mood: Mood) -> Network:
    wire: dict[str, Any] = {"delay_ns": rng.choice((20, 100, 100, 300, 1000)) * US}
    if often(rng, 60):
        wire["jitter_ns"] = rng.choice((50, 300, 2000)) * US
    if often(rng, 55):
        wire["loss_ppm"] = rng.choice((2_000, 10_000, 50_000, 100_000, 200_000, 300_000))
    if often(rng, 30):
        wire["duplicate_ppm"] = rng.choice((5_000, 50_000, 200_000))
    if often(rng, 35):
        wire["reorder_ppm"] = rng.choice((5_000, 50_000, 300_000))
        wire["late_ns"] = rng.choice((300, 2000, 8000)) * US
    if mood != "narrow" and often(rng, 40):
        wire["spacing_ns"] = rng.choice((1, 10, 50)) * US
    return Network(**wire)


def _links(rng: Random, names: tuple[str, ...], mood: Mood) -> tuple[LinkSettings, ...]:
    """Narrow moods need it most: a different delay each way between each two members. Now and
    then a member hears badly, or a link is dead one way and others must stand in."""
    links: list[LinkSettings] = []
    if often(rng, 70 if mood == "narrow" else 25):
        for a in names:
            for b in names:
                if a != b and often(rng, 60):
                    delay = rng.choice((10, 50, 200, 1000, 3000, 8000)) * US
                    links.append(LinkSettings(from_=(a,), to=(b,), delay_ns=delay))
    if often(rng, 20):
        deaf = rng.choice(names)
        links.append(LinkSettings(to=(deaf,), loss_ppm=rng.choice((100_000, 300_000))))
    if len(names) > 2 and often(rng, 8):
        a, b = rng.sample(names, 2)
        links.append(LinkSettings(from_=(a,), to=(b,), loss_ppm=1_000_000))
    return tuple(links)


def _peculiarities(rng: Random, names: tuple[str, ...]) -> tuple[Peculiarity, ...]:
    own: list[Peculiarity] = []
    slow, small, clocks = often(rng, 25), often(rng, 15), often(rng, 50)
    for name in names:
        traits: dict[str, Any] = {}
        if (slow or small) and often(rng, 40):
            traits["cpu_ns"] = rng.choice((20, 60, 150)) * US
        if small:
            traits["inbox_packets"] = rng.choice((2, 4, 16, 64))
        if clocks:
            traits["clock_ns"] = rng.randrange(1 << 50)
        if traits:
            own.append(Peculiarity(name=name, **traits))
    return tuple(own)


def _pauses(rng: Random, names: tuple[str, ...], span: int) -> tuple[Pause, ...]:
    if not often(rng, 25):
        return ()
    return tuple(
        Pause(
            member=rng.choice(names),
            at_ns=rng.randrange(span),
            for_ns=rng.choice((1, 5, 20, 60)) * MS,
        )
        for _ in range(rng.randrange(1, 4))
    )


def _bursts(rng: Random, names: tuple[str, ...], span: int) -> tuple[Burst, ...]:
    if not often(rng, 25):
        return ()
    bursts: list[Burst] = []
    for _ in range(rng.randrange(1, 4)):
        aim: dict[str, Any] = {}
        if often(rng, 50):
            aim["from_"] = (rng.choice(names),)
        if often(rng, 30):
            aim["to"] = (rng.choice(names),)
        at, length = rng.randrange(span), rng.choice((300, 2000, 10_000, 40_000)) * US
        bursts.append(Burst(at_ns=at, for_ns=length, **aim))
    return tuple(bursts)


def _garbage(rng: Random, names: tuple[str, ...], span: int) -> tuple[Garbage, ...]:
    if not often(rng, 25):
        return ()
    return tuple(
        Garbage(
            to=rng.choice(names),
            at_ns=rng.randrange(span),
            count=rng.randrange(1, 20),
            every_ns=rng.choice((50, 500, 3000)) * US,
            kind=kind,
        )
        for kind in _GARBAGE
        if often(rng, 50)
    )


def _traffic(rng: Random, names: tuple[str, ...], mood: Mood) -> tuple[Traffic, ...]:
    size = len(names)
    subsets = often(rng, 35)
    services = rng.sample(_SERVICES, rng.randrange(1, 4))
    speakers = list(names)
    if often(rng, 35):
        speakers = rng.sample(names, rng.randrange(1, size + 1))
    if size > SMALL_HI:
        speakers = rng.sample(speakers, min(len(speakers), SPEAKERS_MAX))
    acked = max(1, size * (size - 1))
    tables: list[Traffic] = []
    for name in speakers:
        table: dict[str, Any] = {
            "from_": name,
            "at_ns": rng.randrange(5 * MS),
            "service": rng.choice(services),
            "size": rng.choice((0, 1, 20, 100)),
        }
        if often(rng, 50):
            table["size_max"] = rng.choice((100, 200, 1400))
        if subsets and often(rng, 60):
            table["to"] = "some"
        table |= _rhythm(rng, mood, len(speakers), acked)
        tables.append(Traffic(**table))
    if mood == "heavy":
        for _ in range(rng.randrange(1, 3)):
            large = rng.choice((5_000, 20_000, 70_000, 300_000)) // max(1, size // 3)
            tables.append(
                Traffic(
                    from_=rng.choice(speakers),
                    at_ns=rng.randrange(20 * MS),
                    size=large,
                    service=rng.choice(services),
                    to="some" if subsets and often(rng, 40) else "all",
                )
            )
    return tuple(tables)


def _rhythm(rng: Random, mood: Mood, speakers: int, acked: int) -> dict[str, Any]:
    """How often one of the speakers speaks, so that the run stays within its budget."""
    if mood == "narrow":
        count = min(60, max(4, _PACKETS // (acked * speakers)))
        gap = rng.choice((2, 5, 12)) * MS * speakers
        return {"count": rng.randrange(3, count + 1), "every_ns": gap, "jitter_ns": gap}
    if mood == "gusts":
        return {
            "count": rng.randrange(4, 24),
            "batch": rng.randrange(2, 40),
            "every_ns": rng.choice((20, 200, 1000, 4000)) * US,
            "jitter_ns": rng.choice((0, 100, 1000)) * US,
        }
    span = min(60, max(4, _PACKETS // (acked * 6))) * MS
    count = rng.randrange(20, 150) if mood == "busy" else rng.randrange(5, 40)
    gap = span // count
    return {"count": count, "every_ns": gap // 2, "jitter_ns": gap}
