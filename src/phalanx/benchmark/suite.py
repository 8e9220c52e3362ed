"""The benchmark suite: which trials run, in which order, and the rows of results.

The systems of a comparison take turns, trial by trial, in one run, so that other load on the
machine affects all of them. It may not slow them alike: each row has the number of cores that other
programs used, and a fixed loop before each trial measures the speed of the machine. Results are
medians of the trials; a ratio is a ratio of medians.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import msgspec

from phalanx.benchmark.journal_verdict import verdict
from phalanx.benchmark.measure import (
    CuttableNetwork,
    Flood,
    failover,
    flood,
    idle,
    latency,
    percentile,
)
from phalanx.benchmark.phalanx_system import PhalanxSystem
from phalanx.benchmark.process_group import TrialFailed
from phalanx.benchmark.trial import BenchmarkedSystem, Trial
from phalanx.benchmark.usage import calibration_loop, load

BUSY = 0.3
"""A load above this before a run distorts the results."""


class SuiteRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One measurement of one system."""

    what: str
    """throughput, latency, failover, idle."""
    side: str
    measure: str
    """What the values mean, with the unit."""
    values: list[float]
    """One value per trial, in order."""
    members: int
    size: int | None = None
    service: str | None = None
    more: dict[str, Any] = {}
    """Further measurements of the same trials."""
    ratios: dict[str, float] = {}
    """This median divided by that of other systems."""

    @property
    def median(self) -> float:
        return median(self.values)


class Suite:
    """Runs trials and collects rows. `say` prints progress; `show` gets the rows of each comparison
    when it is complete."""

    def __init__(
        self,
        *,
        seconds: float,
        warm: float,
        trials: int,
        say: Callable[[str], None],
        show: Callable[[str, list[SuiteRow]], None],
    ) -> None:
        self.rows: list[SuiteRow] = []
        self.verdicts: dict[str, str] = {}
        self.failures: list[str] = []
        """Trials that could not be measured; the suite continues."""
        self.calibrations: list[float] = []
        """The duration of a fixed loop before each trial."""
        self.complaints: list[str] = []
        """Problems in trials that were measured."""
        self._seconds = seconds
        self._warm = warm
        self._trials = trials
        self._say = say
        self._show = show

    @property
    def violated(self) -> bool:
        """Whether the checkers found a violation."""
        return any(text.startswith("VIOLATED") for text in self.verdicts.values())

    def throughput(self, systems: Sequence[BenchmarkedSystem], size: int, service: str) -> None:
        title = f"throughput, {systems[0].n} members, {service}, {size} B"
        task = Trial(mode="flood", size=size, service=service)
        able = [system for system in systems if service in services(system)]
        rows = {system.name: self._row("throughput", system, "messages/s", task) for system in able}
        seen: dict[str, list[Flood]] = {system.name: [] for system in able}
        for trial in range(self._trials):
            for system in able:
                self._say(f"{title}: {system.name}, trial {trial + 1} of {self._trials}")
                with self._trial(title, system):
                    result = flood(system, task, self._warm, self._seconds)
                    rows[system.name].values.append(result.messages_per_second)
                    seen[system.name].append(result)
                    self.complaints += [f"{title}: {system.name}: {c}" for c in result.complaints]
        for name, row in rows.items():
            if row.values:
                row.more = _flood_details(seen[name])
        self._finish(title, list(rows.values()))

    def latency(
        self,
        systems: Sequence[BenchmarkedSystem],
        size: int,
        service: str,
        rate: float,
        senders: int,
    ) -> None:
        who = "one member sends" if senders == 1 else "each member sends"
        title = f"latency, {systems[0].n} members, {service}, {size} B, {who} {rate:g}/s"
        task = Trial(mode="latency", size=size, service=service, rate=rate, senders=senders)
        able = [system for system in systems if service in services(system)]
        shares = {"p50 us": 0.5, "p99 us": 0.99}
        others: dict[str, list[float]] = {system.name: [] for system in able}
        rows = {
            (system.name, measure): self._row("latency", system, measure, task)
            for measure in shares
            for system in able
        }
        for trial in range(self._trials):
            for system in able:
                self._say(f"{title}: {system.name}, trial {trial + 1} of {self._trials}")
                with self._trial(title, system):
                    seen = latency(system, task, self._warm, self._seconds)
                    others[system.name].append(seen.others)
                    for measure, share in shares.items():
                        value = percentile(seen.times, share) / 1e3
                        rows[system.name, measure].values.append(value)
        for row in rows.values():
            if row.values:
                row.more = {"rate": rate, "senders": min(senders, row.members)}
                row.more["others"] = median(others[row.side])
        self._finish(title, list(rows.values()))

    def failover(
        self, systems: Sequence[BenchmarkedSystem], trials: int, network: CuttableNetwork | None
    ) -> None:
        """The systems do not take turns here: one group goes through all trials."""
        title = f"failover, {systems[0].n} members, seconds until the last has the new view"
        rows: dict[tuple[str, str], SuiteRow] = {}
        for system in systems:
            count = 0

            def done(system: BenchmarkedSystem = system) -> None:
                nonlocal count
                count += 1
                self._say(f"{title}: {system.name}, {count} of {trials} done")

            self._say(f"{title}: {system.name}")
            with self._trial(title, system):
                for change in failover(system, trials, network, done):
                    key = change.kind, system.name
                    if key not in rows:
                        rows[key] = self._row("failover", system, f"{change.kind} s")
                    rows[key].values.append(change.seconds)
        self._finish(title, sorted(rows.values(), key=lambda row: _KINDS.index(row.measure)))

    def idle(self, systems: Sequence[BenchmarkedSystem], seconds: float) -> None:
        title = f"idle, {systems[0].n} members, cost of one"
        rows: dict[tuple[str, str], SuiteRow] = {}
        for system in systems:
            self._say(f"{title}: {system.name}, {seconds:.0f} s")
            with self._trial(title, system):
                seen = idle(system, seconds)
                values = {"cpu %": seen.cpu_share * 100, "rss MB": seen.rss_bytes / 1e6}
                if seen.sent_per_second:  # the loopback interface does not count by member
                    values["sent B/s"] = seen.sent_per_second
                    values["received B/s"] = seen.received_per_second
                for measure, value in values.items():
                    row = rows[measure, system.name] = self._row("idle", system, measure)
                    row.values.append(value)
        order = list(dict.fromkeys(measure for measure, _ in rows))
        self._finish(title, sorted(rows.values(), key=lambda row: order.index(row.measure)))

    # ------------------------------------------------------------------ rows

    @contextmanager
    def _trial(self, title: str, system: BenchmarkedSystem) -> Iterator[None]:
        """Record a trial that fails, and continue with the next."""
        self.calibrations.append(calibration_loop())
        try:
            yield
        except TrialFailed as error:
            self.failures.append(f"{title}: {system.name}: {error}")
            self._say(f"FAILED {self.failures[-1]}")
        self._verify(system)

    def _row(
        self, what: str, system: BenchmarkedSystem, measure: str, task: Trial | None = None
    ) -> SuiteRow:
        return SuiteRow(
            what=what,
            side=system.name,
            measure=measure,
            values=[],
            members=system.n,
            size=None if task is None else task.size,
            service=None if task is None else task.service,
        )

    def _finish(self, title: str, rows: list[SuiteRow]) -> None:
        rows = [row for row in rows if row.values]
        for row in rows:
            for other in rows:
                if other is not row and other.measure == row.measure and other.median > 0:
                    row.ratios[other.side] = row.median / other.median
        self.rows += rows
        self._show(title, rows)

    def _verify(self, system: BenchmarkedSystem) -> None:
        """Check the journals of the trial, if it kept any."""
        if isinstance(system, PhalanxSystem):
            for folder in system.journals:
                if str(folder) not in self.verdicts:
                    self._say(f"checking {folder.name}")
                    self.verdicts[str(folder)] = verdict(folder)


_KINDS = ["kill s", "cut s", "heal s"]


def _flood_details(floods: Sequence[Flood]) -> dict[str, Any]:
    return {
        "mb_per_s": median(f.bytes_per_second for f in floods) / 1e6,
        "cpu_share": median(f.cpu_share for f in floods),
        "rss_mb": median(f.rss_bytes for f in floods) / 1e6,
        "views_changed": sum(f.views_changed for f in floods),
        "others": median(f.others for f in floods),
    }


def services(system: BenchmarkedSystem) -> Sequence[str]:
    """The services of a system; all four by default."""
    return getattr(system, "services", ("basic", "causal", "agreed", "safe"))


# ---------------------------------------------------------------------------- the machine


def machine() -> dict[str, Any]:
    """Where this was measured: what a reader needs to judge the numbers."""
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": load(),
    }


def warning(load_before: float | None) -> str:
    """A warning if the machine is busy, otherwise empty."""
    if load_before is None or load_before <= BUSY:
        return ""
    text = f"the machine was busy in the last minute (load {load_before:.2f})"
    return f"{text}: if it still is, neither the results nor the ratios are reliable"


def summary(suite: Suite, about: dict[str, Any]) -> dict[str, Any]:
    """Everything as one JSON object."""
    rows = []
    for row in suite.rows:
        result: dict[str, Any] = msgspec.to_builtins(row)
        result |= {"median": row.median, "low": min(row.values), "high": max(row.values)}
        rows.append(result)
    return {
        "machine": about,
        "rows": rows,
        "verdicts": suite.verdicts,
        "failures": suite.failures,
        "complaints": suite.complaints,
        "calibrations": suite.calibrations,
    }
