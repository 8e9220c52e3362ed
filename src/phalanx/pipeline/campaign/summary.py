"""Summary of a folder of campaign rows: totals, and the failing seeds. Needs no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from phalanx.pipeline.campaign import store
from phalanx.pipeline.campaign.seed_task import FAILED, Status
from phalanx.pipeline.campaign.store import Wave
from phalanx.verify.properties import FIXED_VIEW, PROPERTIES

SEEDS_END = 1 << 63


class Failing(msgspec.Struct, frozen=True):
    """A seed that failed, or that came to no end."""

    seed: int
    status: Status
    violated: list[str]
    error: str | None


class Summary(msgspec.Struct):
    """One campaign, as played by one version of the code."""

    campaign: str
    code_version: str
    seeds: int
    status: dict[str, int]
    failing: list[Failing]
    inconclusive: list[Failing]
    digest: str
    """Names all seeds with what came of them, times apart: equal digests, equal results."""
    steps: int
    simulated_seconds: float
    delivered: int
    cpu_seconds: float
    wall_seconds: float
    seeds_per_second: float
    cores_busy: float
    """Processor seconds of runs in a second of a wave."""
    faults: dict[str, int]
    cases: dict[str, int]
    properties: dict[str, int]
    never_evaluated: list[str]

    @property
    def failed(self) -> bool:
        return bool(self.failing)


def summaries(folder: Path) -> list[Summary]:
    """Of all that is in the folder, by campaign and version of the code."""
    waves = store.waves_in(folder)
    parts = groupby(waves, key=lambda wave: (wave.campaign, wave.code))
    return [summary(folder, list(part)) for _, part in parts]


def summary(folder: Path, waves: Sequence[Wave], seeds: tuple[int, int] | None = None) -> Summary:
    """Of waves of one campaign and one version of the code, at least one; of these seeds only.
    Holds one wave in memory."""
    total = _Total()
    first, end = seeds or (0, SEEDS_END)
    for wave in sorted(waves):
        total.add(store.rows(folder, [wave]), first, end)
        first = max(first, wave.end)  # each seed once, whatever waves there are
    wall_s = store.wall_ms(folder, waves) / 1000
    cpu_s = total.cpu_ms / 1000
    campaign = waves[0].campaign
    properties = _only(total.counts, "property.")
    asked = FIXED_VIEW if campaign.startswith("fixed-") else PROPERTIES
    if campaign.startswith("walk-"):  # walks have checks of their own (`explore.histories`)
        asked = ()
    return Summary(
        campaign=campaign,
        code_version=waves[0].code,
        seeds=total.status.total(),
        status=dict(sorted(total.status.items())),
        failing=total.failing,
        inconclusive=total.inconclusive,
        digest=total.digest.hexdigest(),
        steps=total.steps,
        simulated_seconds=round(total.sim_ns / 1e9, 3),
        delivered=total.delivered,
        cpu_seconds=round(cpu_s, 3),
        wall_seconds=round(wall_s, 3),
        seeds_per_second=round(sum(w.end - w.first for w in waves) / max(wall_s, 1e-9), 2),
        cores_busy=round(total.busy_ms / 1000 / max(wall_s, 1e-9), 2),
        faults=_only(total.counts, "fault."),
        cases=_only(total.counts, "case."),
        properties=properties,
        never_evaluated=[name for name in asked if name not in properties],
    )


class _Total:
    """What the rows of waves add up to."""

    def __init__(self) -> None:
        self.status: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.failing: list[Failing] = []
        self.inconclusive: list[Failing] = []
        self.digest = blake2b(digest_size=16)
        self.steps = self.sim_ns = self.delivered = self.cpu_ms = 0
        self.busy_ms = 0
        """Processor time of all seeds of the waves, also of those that were not asked for."""

    def add(self, rows: Any, first: int, end: int) -> None:
        """Those of seeds first to end - 1, in the order of seeds."""
        for batch in rows.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                self.busy_ms += row["cpu_ms"]
                if first <= row["seed"] < end:
                    self._add(row)

    def _add(self, row: dict[str, Any]) -> None:
        self.status[row["status"]] += 1
        self.counts.update(dict(row["counts"]))
        found = Failing(row["seed"], row["status"], row["violated"], row["error"])
        if found.status in FAILED:
            self.failing.append(found)
        elif found.status == "inconclusive":
            self.inconclusive.append(found)
        self.digest.update(msgspec.json.encode((found, row["digest"])))
        for name in ("steps", "sim_ns", "delivered", "cpu_ms"):
            setattr(self, name, getattr(self, name) + row[name])


def _only(counts: Counter[str], front: str) -> dict[str, int]:
    return {k.removeprefix(front): n for k, n in sorted(counts.items()) if k.startswith(front)}
