"""Random scenarios for a group with a fixed view, one for each seed.

Each seed turns on its own subset of faults and its own settings, because a run with every fault
at once hides what a run with two of them shows (swarm testing, Groce et al., ISSTA 2012). Traffic
has one of four moods. *narrow*: one message at a time is in flight and links differ a lot, so votes
arrive in different orders; this tests the ordering rules. *busy*: all members send at once.
*gusts*: many messages in one submission, against small windows. *heavy*: a few large messages
among small ones. The generator limits the traffic to what a run may cost.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import msgspec

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
from phalanx.sim.generators.rare_cases import FIXED, SMALL_HI, size_of_group, with_rare_cases
from phalanx.sim.scenario.model import (
    MS,
    LinkSettings,
    Network,
    Nonsense,
    Pause,
    Scenario,
    Spoken,
    Traffic,
)

MEMBERS_LO = 2
MEMBERS_HI = 16
_SERVICES: tuple[Spoken, ...] = ("any", "agreed", "any", "safe", "causal", "any", "basic")
_GARBAGE: tuple[Nonsense, ...] = ("random", "truncated", "flipped", "foreign", "stale")
SPEAKERS_MAX = 5
"""Limit in a large group, where every member answers every other."""
_PACKETS = 10_000
"""Budget of a run, roughly: packets received."""

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
        member=peculiarities(rng, names, slow_percent=25, small_percent=15),
        pause=_pauses(rng, names, span),
        burst=bursts(rng, names, span, us(300, 2000, 10_000, 40_000)),
        garbage=garbage(rng, names, span, _GARBAGE, 50, us(50, 500, 3000)),
    )
    return with_rare_cases("fixed", scenario, FIXED)


def _config(rng: Random, mood: Mood) -> dict[str, Any]:
    config: dict[str, Any] = {}
    sometimes(rng, 15, config, order="all-ack")
    sometimes(rng, 25, config, early=True)
    sometimes(rng, 20, config, post_confirm=True)
    sometimes(rng, 35, config, datagram_bytes_max=(300, 400, 512, 1000, 1472))
    sometimes(rng, 35, config, frame_bytes_max=(300, 700, 1472, 4000, 60_000))
    if often(rng, 70 if mood in ("gusts", "heavy") else 20):
        window = rng.choice((4 << 10, 8 << 10, 16 << 10, 64 << 10))
        config["window_bytes_max"] = window
        config["window_bytes_min"] = rng.choice((window, window // 2, 2048))
        config["outbox_bytes_max"] = rng.choice((500, 2 << 10, 2 << 10, 8 << 10))
    sometimes(rng, 30, config, ack_prompt_ns=us(50, 150, 1000, 3000))
    sometimes(rng, 30, config, ack_lazy_ns=ms(1, 3, 30))
    if often(rng, 30):
        config["nack_ns_min"] = rng.choice(us(100, 500, 2000))
        config["nack_ns_max"] = config["nack_ns_min"] * rng.choice((1, 2, 5))
    sometimes(rng, 20, config, pace_ns_max=us(0, 100, 5000))
    sometimes(rng, 20, config, nack_retry_ns=ms(2, 5, 20))
    sometimes(rng, 20, config, answer_ns_min=us(200, 1000), answer_ns_max=ms(1, 3, 10))
    sometimes(rng, 20, config, alive_busy_ns=ms(4, 40), alive_idle_ns=ms(60, 500))
    sometimes(rng, 15, config, ahead_frames_max=(4, 16, 64))
    return config


def _network(rng: Random, mood: Mood) -> Network:
    wire: dict[str, Any] = {"delay_ns": rng.choice(us(20, 100, 100, 300, 1000))}
    sometimes(rng, 60, wire, jitter_ns=us(50, 300, 2000))
    sometimes(rng, 55, wire, loss_ppm=(2_000, 10_000, 50_000, 100_000, 200_000, 300_000))
    sometimes(rng, 30, wire, duplicate_ppm=(5_000, 50_000, 200_000))
    sometimes(rng, 35, wire, reorder_ppm=(5_000, 50_000, 300_000), late_ns=us(300, 2000, 8000))
    if mood != "narrow":
        sometimes(rng, 40, wire, spacing_ns=us(1, 10, 50))
    return Network(**wire)


def _links(rng: Random, names: tuple[str, ...], mood: Mood) -> tuple[LinkSettings, ...]:
    """Links whose delays differ, above all in narrow moods. Some groups have a member that loses
    packets, some a link that is dead in one direction, so that others must relay."""
    links: list[LinkSettings] = []
    if often(rng, 70 if mood == "narrow" else 25):
        links = unequal_links(rng, names, 60, us(10, 50, 200, 1000, 3000, 8000))
    if often(rng, 20):
        deaf = rng.choice(names)
        links.append(LinkSettings(to=(deaf,), loss_ppm=rng.choice((100_000, 300_000))))
    if len(names) > 2 and often(rng, 8):
        a, b = rng.sample(names, 2)
        links.append(LinkSettings(from_=(a,), to=(b,), loss_ppm=1_000_000))
    return tuple(links)


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


def _traffic(rng: Random, names: tuple[str, ...], mood: Mood) -> tuple[Traffic, ...]:
    size = len(names)
    subsets = often(rng, 35)
    services = rng.sample(_SERVICES, rng.randrange(1, 4))
    speakers = speakers_of(rng, names, 35)
    if size > SMALL_HI:
        speakers = rng.sample(speakers, min(len(speakers), SPEAKERS_MAX))
    acked = max(1, size * (size - 1))
    tables: list[Traffic] = []
    for name in speakers:
        table: dict[str, Any] = {"from_": name, "at_ns": rng.randrange(5 * MS)}
        table |= message_settings(rng, services, subsets, vary_percent=50)
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
    """How often one speaker sends, so that the run stays within its budget."""
    if mood == "narrow":
        count = min(60, max(4, _PACKETS // (acked * speakers)))
        gap = rng.choice((2, 5, 12)) * MS * speakers
        return {"count": rng.randrange(3, count + 1), "every_ns": gap, "jitter_ns": gap}
    if mood == "gusts":
        return {
            "count": rng.randrange(4, 24),
            "batch": rng.randrange(2, 40),
            "every_ns": rng.choice(us(20, 200, 1000, 4000)),
            "jitter_ns": rng.choice(us(0, 100, 1000)),
        }
    span = min(60, max(4, _PACKETS // (acked * 6))) * MS
    count = rng.randrange(20, 150) if mood == "busy" else rng.randrange(5, 40)
    gap = span // count
    return {"count": count, "every_ns": gap // 2, "jitter_ns": gap}
