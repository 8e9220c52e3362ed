"""A small page made by hand, with one name wherever a journal can put one."""

from __future__ import annotations

from phalanx.pipeline.report.model import (
    Bands,
    Changes,
    DeliveryFlow,
    EvidenceRow,
    Example,
    Latency,
    LifeBar,
    LinkLoss,
    Page,
    RemovalEntry,
    ReportFinding,
    RunModel,
    SendFlow,
    Step,
    Suspicions,
    Throughput,
    ViewBand,
)


def made(name: str) -> Page:
    """Two members, one of them of this name, which is also that of all else."""
    run = RunModel(
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
            LifeBar(0, 1, 0, 1_000_000, "STOP", 12),
            LifeBar(1, 2, 0, 500_000, "OPEN", 8, torn=True),
        ],
        views=[
            ViewBand(name, "A", "boot", [0, 1], 0, 700_000, 0),
            ViewBand(f"{name}2", "B", "removal", [0], 700_000, 1_000_000, 1),
        ],
        bands=Bands(
            [0, 1, 0], [0, 0, 1], [0, 0, 700_000], [700_000, 500_000, 1_000_000], [1, 1, 1], 3
        ),
        changes=Changes([0], [650_000], [700_000]),
        sends=SendFlow([0, 1], [100_000, 120_000], [1, 1], [3, 1], [2, 3], 2, [2, 0]),
        deliveries=DeliveryFlow([0, 0, 1, 1], [0, 1, 0, 1], [110_000, 112_000, 140_000, 141_000]),
        suspicions=Suspicions([0], [1], [600_000], ["SUSPECTED"], ["SILENCE"], 1),
        throughput=Throughput(
            500_001, [[0, 0], [0, 0], [3, 0], [1, 0]], [[0, 0], [0, 0], [6, 0], [2, 0]]
        ),
        latency=[Latency(2, False, 3, 10_000.0, 12_000.0, 12_000.0, 12_000.0, 12_000)],
        links=[LinkLoss(0, 1, 3, 12_000.0, 12_000.0, 9, 0.125, 2), LinkLoss(1, 0, 1)],
        findings=[
            ReportFinding(
                "fifo",
                "violated",
                4,
                1,
                meaning="kept",
                examples=[Example(name, [name], [EvidenceRow(name, 2, 7, 5, "deliver", name)])],
            ),
            ReportFinding("causal", "unverifiable", 0, 0, why=name),
            ReportFinding("integrity", "holds", 4, 0),
        ],
        removals=[
            RemovalEntry(
                *(1, 700_000, 100_000, 100_000, "ENDED", 0, 1, ["ada"]),
                [Step(0, "ada", "SUSPECTED", "SILENCE"), Step(100_000, name, "INSTALL")],
                2,
            ),
        ],
        removals_total=1,
    )
    return Page(version="0", made="2026-01-01T00:00:00+00:00", runs=[run])
