"""A small page made by hand, with one name wherever a journal can put one."""

from __future__ import annotations

from phalanx.pipeline.report.model import (
    Bands,
    Changes,
    Deliveries,
    Example,
    Finding,
    Latency,
    Life,
    Link,
    Page,
    Removal,
    Row,
    Run,
    Sends,
    Step,
    Suspicions,
    Throughput,
    View,
)


def made(name: str) -> Page:
    """Two members, one of them of this name, which is also that of all else."""
    run = Run(
        cluster=name,
        run=name,
        group=name,
        mode="hold",
        clock="machine",
        began="2026-01-01T00:00:00.000+00:00",
        span=1_000_000,
        rows=20,
        sent=4,
        delivered=8,
        lanes=["ada", name],
        lives=[
            Life(0, 1, 0, 1_000_000, "STOP", 12),
            Life(1, 2, 0, 500_000, "OPEN", 8, torn=True),
        ],
        views=[
            View(name, "A", "BOOT", [0, 1], 0, 700_000, 0),
            View(f"{name}2", "B", "REMOVE", [0], 700_000, 1_000_000, 1),
        ],
        bands=Bands(
            [0, 1, 0], [0, 0, 1], [0, 0, 700_000], [700_000, 500_000, 1_000_000], [1, 1, 1], 3
        ),
        changes=Changes([0], [650_000], [700_000]),
        sends=Sends([0, 1], [100_000, 120_000], [1, 1], [3, 1], [2, 3], 2, [2, 0]),
        deliveries=Deliveries([0, 0, 1, 1], [0, 1, 0, 1], [110_000, 112_000, 140_000, 141_000]),
        suspicions=Suspicions([0], [1], [600_000], ["SUSPECTED"], ["SILENCE"], 1),
        throughput=Throughput(
            500_001, [[0, 0], [0, 0], [3, 0], [1, 0]], [[0, 0], [0, 0], [6, 0], [2, 0]]
        ),
        latency=[Latency(2, False, 3, 10_000.0, 12_000.0, 12_000.0, 12_000.0, 12_000)],
        links=[Link(0, 1, 3, 12_000.0, 12_000.0, 9, 0.125, 2), Link(1, 0, 1)],
        findings=[
            Finding(
                "fifo",
                "violated",
                4,
                1,
                meaning="kept",
                examples=[Example(name, [name], [Row(name, 2, 7, 5, "deliver", name)])],
            ),
            Finding("causal", "unverifiable", 0, 0, why=name),
            Finding("integrity", "holds", 4, 0),
        ],
        removals=[
            Removal(
                *(1, 700_000, 100_000, 100_000, "ENDED", 0, 1, ["ada"]),
                [Step(0, "ada", "SUSPECTED", "SILENCE"), Step(100_000, name, "INSTALL")],
                2,
            ),
        ],
        removals_total=1,
    )
    return Page(version="0", made="2026-01-01T00:00:00+00:00", runs=[run])
