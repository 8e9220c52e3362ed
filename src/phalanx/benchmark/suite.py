"""What is measured, in which order, and what is made of it.

The sides of a comparison take turns, trial by trial, in one run: what else the machine does
meanwhile meets all of them. It need not slow all alike, so each row tells how many cores others
took, and a fixed piece of work before each trial how fast the machine was. Results are medians of
the trials; a ratio is one of medians.
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
from phalanx.benchmark.measure import Flood, LossCounts, failover, flood, idle, latency, percentile
from phalanx.benchmark.phalanx_system import Members
from phalanx.benchmark.process_group import TrialFailed
from phalanx.benchmark.trial import BenchmarkedSystem, Trial
from phalanx.benchmark.usage import load, yardstick

BUSY = 0.3
"""More load than this before a run, and results will suffer."""


class SuiteRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One measure of one side."""

    what: str
    """throughput, latency, failover, idle."""
    side: str
    measure: str
    """What the values are, unit included."""
    values: list[float]
    """One a trial, in order."""
    members: int
    size: int | None = None
    service: str | None = None
    more: dict[str, Any] = {}
    """What was seen on the way."""
    ratios: dict[str, float] = {}
    """This median divided by that of other sides."""

    @property
    def median(self) -> float:
        return median(self.values)


class Suite:
    """Runs trials and gathers rows. `say` tells people what is going on, `show` gets the rows of
    each comparison when it is complete."""

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
        """Trials that could not be measured; the others go on."""
        self.yardsticks: list[float] = []
        """Before each trial: how long a fixed piece of work took."""
        self.complaints: list[str] = []
        """What was wrong in trials that could."""
        self._seconds = seconds
        self._warm = warm
        self._trials = trials
        self._say = say
        self._show = show

    @property
    def violated(self) -> bool:
        """Whether the checkers found something."""
        return any(text.startswith("VIOLATED") for text in self.verdicts.values())

    def throughput(self, sides: Sequence[BenchmarkedSystem], size: int, service: str) -> None:
        title = f"throughput, {sides[0].n} members, {service}, {size} B"
        task = Trial(mode="flood", size=size, service=service)
        able = [side for side in sides if service in services(side)]
        rows = {side.name: self._row("throughput", side, "messages/s", task) for side in able}
        seen: dict[str, list[Flood]] = {side.name: [] for side in able}
        for trial in range(self._trials):
            for side in able:
                self._say(f"{title}: {side.name}, trial {trial + 1} of {self._trials}")
                with self._trial(title, side):
                    result = flood(side, task, self._warm, self._seconds)
                    rows[side.name].values.append(result.messages_per_second)
                    seen[side.name].append(result)
                    self.complaints += [f"{title}: {side.name}: {c}" for c in result.complaints]
        for name, row in rows.items():
            if row.values:
                row.more = _on_the_way(seen[name])
        self._finish(title, list(rows.values()))

    def latency(
        self, sides: Sequence[BenchmarkedSystem], size: int, service: str, rate: float, senders: int
    ) -> None:
        who = "one member sends" if senders == 1 else "each member sends"
        title = f"latency, {sides[0].n} members, {service}, {size} B, {who} {rate:g}/s"
        task = Trial(mode="latency", size=size, service=service, rate=rate, senders=senders)
        able = [side for side in sides if service in services(side)]
        shares = {"p50 us": 0.5, "p99 us": 0.99}
        others: dict[str, list[float]] = {side.name: [] for side in able}
        rows = {
            (side.name, measure): self._row("latency", side, measure, task)
            for measure in shares
            for side in able
        }
        for trial in range(self._trials):
            for side in able:
                self._say(f"{title}: {side.name}, trial {trial + 1} of {self._trials}")
                with self._trial(title, side):
                    seen = latency(side, task, self._warm, self._seconds)
                    others[side.name].append(seen.others)
                    for measure, share in shares.items():
                        value = percentile(seen.times, share) / 1e3
                        rows[side.name, measure].values.append(value)
        for row in rows.values():
            if row.values:
                row.more = {"rate": rate, "senders": min(senders, row.members)}
                row.more["others"] = median(others[row.side])
        self._finish(title, list(rows.values()))

    def failover(
        self, sides: Sequence[BenchmarkedSystem], trials: int, network: LossCounts | None
    ) -> None:
        """Here the sides do not take turns: a group is made once, and goes through all trials."""
        title = f"failover, {sides[0].n} members, seconds until the last has the new view"
        rows: dict[tuple[str, str], SuiteRow] = {}
        for side in sides:
            count = 0

            def done(side: BenchmarkedSystem = side) -> None:
                nonlocal count
                count += 1
                self._say(f"{title}: {side.name}, {count} of {trials} done")

            self._say(f"{title}: {side.name}")
            with self._trial(title, side):
                for change in failover(side, trials, network, done):
                    key = change.kind, side.name
                    if key not in rows:
                        rows[key] = self._row("failover", side, f"{change.kind} s")
                    rows[key].values.append(change.seconds)
        self._finish(title, sorted(rows.values(), key=lambda row: _KINDS.index(row.measure)))

    def idle(self, sides: Sequence[BenchmarkedSystem], seconds: float) -> None:
        title = f"idle, {sides[0].n} members, cost of one"
        rows: dict[tuple[str, str], SuiteRow] = {}
        for side in sides:
            self._say(f"{title}: {side.name}, {seconds:.0f} s")
            with self._trial(title, side):
                seen = idle(side, seconds)
                values = {"cpu %": seen.cpu_share * 100, "rss MB": seen.rss_bytes / 1e6}
                if seen.sent_per_second:  # nobody can tell members apart on the loopback
                    values["sent B/s"] = seen.sent_per_second
                    values["received B/s"] = seen.received_per_second
                for measure, value in values.items():
                    row = rows[measure, side.name] = self._row("idle", side, measure)
                    row.values.append(value)
        order = list(dict.fromkeys(measure for measure, _ in rows))
        self._finish(title, sorted(rows.values(), key=lambda row: order.index(row.measure)))

    # ------------------------------------------------------------------ rows

    @contextmanager
    def _trial(self, title: str, side: BenchmarkedSystem) -> Iterator[None]:
        """A trial that fails is told, and the rest goes on."""
        self.yardsticks.append(yardstick())
        try:
            yield
        except TrialFailed as error:
            self.failures.append(f"{title}: {side.name}: {error}")
            self._say(f"FAILED {self.failures[-1]}")
        self._verify(side)

    def _row(
        self, what: str, side: BenchmarkedSystem, measure: str, task: Trial | None = None
    ) -> SuiteRow:
        return SuiteRow(
            what=what,
            side=side.name,
            measure=measure,
            values=[],
            members=side.n,
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

    def _verify(self, side: BenchmarkedSystem) -> None:
        """The checkers have the last word on a trial that kept journals."""
        if isinstance(side, Members):
            for folder in side.journals:
                if str(folder) not in self.verdicts:
                    self._say(f"checking {folder.name}")
                    self.verdicts[str(folder)] = verdict(folder)


_KINDS = ["kill s", "cut s", "heal s"]


def _on_the_way(floods: Sequence[Flood]) -> dict[str, Any]:
    return {
        "mb_per_s": median(f.bytes_per_second for f in floods) / 1e6,
        "cpu_share": median(f.cpu_share for f in floods),
        "rss_mb": median(f.rss_bytes for f in floods) / 1e6,
        "views_changed": sum(f.views_changed for f in floods),
        "others": median(f.others for f in floods),
    }


def services(side: BenchmarkedSystem) -> Sequence[str]:
    """What a side offers; all four, unless it says otherwise."""
    return getattr(side, "services", ("basic", "causal", "agreed", "safe"))


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
    """Empty when the machine is quiet, or else a line to tell."""
    if load_before is None or load_before <= BUSY:
        return ""
    told = f"the machine was busy in the last minute (load {load_before:.2f})"
    return f"{told}: if others still are, do not trust the results, nor the ratios"


def summary(suite: Suite, about: dict[str, Any]) -> dict[str, Any]:
    """Everything as one JSON object."""
    rows = []
    for row in suite.rows:
        told: dict[str, Any] = msgspec.to_builtins(row)
        told |= {"median": row.median, "low": min(row.values), "high": max(row.values)}
        rows.append(told)
    return {
        "machine": about,
        "rows": rows,
        "verdicts": suite.verdicts,
        "failures": suite.failures,
        "complaints": suite.complaints,
        "yardsticks": suite.yardsticks,
    }
