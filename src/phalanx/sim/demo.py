"""The scenario of `phalanx sim demo`: a small group with a crash, a partition and a merge.

Five members start alone and find each other. They send with all four services; one crashes, the
others are partitioned into three with messages in flight, continue to send, and merge again; the
crashed one restarts. Throughout, the network loses one packet in ten.
"""

from __future__ import annotations

from phalanx.sim.scenario.model import (
    MS,
    Crash,
    Heal,
    Network,
    Partition,
    Restart,
    Scenario,
    Spoken,
    Traffic,
)

INTRODUCTION = (
    "Five members on a network that loses one packet in ten: they start alone, dov crashes,",
    "the others part three ways and meet again, dov comes back. ada#3 is ada's third message,",
    "dov.2 the second life of dov; what comes after a ! was not known to be everywhere in its",
    "view. The causal message of eli was for ada and bea alone.",
)

NAMES = ("ada", "bea", "cyd", "dov", "eli")
SERVICES: tuple[Spoken, ...] = ("basic", "causal", "agreed", "safe")

CRASH_NS = 1_000 * MS
PART_NS = 2_500 * MS
HEAL_NS = 4_500 * MS
RETURN_NS = 5_500 * MS


def demo_scenario(seed: int) -> Scenario:
    return Scenario(
        name="demo",
        seed=seed,
        members=NAMES,
        start="alone",
        network=Network(jitter_ns=MS, loss_ppm=100_000, duplicate_ppm=50_000, reorder_ppm=50_000),
        crash=(Crash(member="dov", at_ns=CRASH_NS),),
        partition=(Partition(at_ns=PART_NS, groups=(("ada", "bea"), ("cyd",), ("eli",))),),
        heal=(Heal(at_ns=HEAL_NS),),
        restart=(Restart(member="dov", at_ns=RETURN_NS),),
        traffic=(
            *_round(NAMES, 600 * MS, SERVICES),
            *_round(("ada",), PART_NS - MS, ("safe",)),
            *_round(("cyd", "eli"), PART_NS + MS, ("safe",)),
            *_round(("bea", "cyd"), PART_NS + 1_500 * MS, ("causal", "agreed")),
            *_round(NAMES, RETURN_NS + 900 * MS, ("safe",)),
        ),
    )


def _round(names: tuple[str, ...], at_ns: int, services: tuple[Spoken, ...]) -> list[Traffic]:
    """Each member sends one message of each service; eli's causal one goes to two members."""
    return [
        Traffic(
            from_=name,
            at_ns=at_ns + k * 5 * MS + i * 90_000,
            service=service,
            to=NAMES[:2] if (name, service) == ("eli", "causal") else "all",
        )
        for i, name in enumerate(names)
        for k, service in enumerate(services)
    ]
