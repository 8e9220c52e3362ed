"""The scenario that `phalanx sim demo` shows: small enough to read, bad enough to matter."""

from __future__ import annotations

from phalanx.sim.scenario import MS, Network, Scenario, Spoken, Traffic


def demo_scenario(seed: int) -> Scenario:
    """Five members, four services, and a network that loses one packet in ten."""
    names = ("ada", "bea", "cyd", "dov", "eli")
    services: tuple[Spoken, ...] = ("basic", "causal", "agreed", "safe")
    return Scenario(
        name="demo",
        seed=seed,
        members=names,
        network=Network(jitter_ns=MS, loss_ppm=100_000, duplicate_ppm=50_000, reorder_ppm=50_000),
        traffic=tuple(
            Traffic(
                from_=name,
                at_ns=k * 5 * MS + i * 90_000,
                every_ns=20 * MS,
                jitter_ns=MS,
                count=2,
                service=service,
                to=names[:2] if (name, service) == ("eli", "causal") else "all",
            )
            for i, name in enumerate(names)
            for k, service in enumerate(services)
        ),
    )
