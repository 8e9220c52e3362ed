"""Ingest, judge the views that have closed, write their verdicts, and find alerts; again and again.

    watcher = Watcher("lake", ["journals/"], WatchSettings())
    for event in watcher.trigger(): ...

A trigger ingests what is new, reads which views members installed, and judges the views that can be
judged (`closed_views`). Verdicts are written in transactions of the lake, a bounded number of views
each, under the key (cluster, run, group, view). Nothing else is kept on disk: a watcher that is
killed at any moment finds in the lake what was judged by which rows, and judges the rest. So each
view has one verdict, that of the newest rows.

State in memory is bounded by the open views, the last closed ones and the journals of each group.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from phalanx.errors import JournalError, PipelineError
from phalanx.pipeline.audit.view_stays import ViewStay
from phalanx.pipeline.group_tables import GroupKey
from phalanx.pipeline.ingest import ingest
from phalanx.pipeline.lake.lake import Lake, Snapshot
from phalanx.pipeline.lake.lake_transaction import change
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.watch.alerts import (
    ActiveAlerts,
    AlertChange,
    Measured,
    Thresholds,
    gaps,
    measured,
    of_measures,
    silent_members,
    violations,
)
from phalanx.pipeline.watch.closed_views import (
    ClosedViews,
    JudgeView,
    RowsTaken,
    TimePassed,
    VerdictsWritten,
    ends_of,
)
from phalanx.pipeline.watch.open_metrics import MetricFamily
from phalanx.pipeline.watch.unit_audit import (
    CarriedExcerpts,
    LakeGroup,
    UnitVerdict,
    group_key,
    judged_evidence,
    put_verdicts,
)

NS = 1_000_000_000
UNITS_MAX = 200
"""Verdicts that are written together."""


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    grace_s: float = 30.0
    """A view is judged without a member that was silent for so long."""
    open_s: float = 60.0
    """Open views are judged this often, if they have new rows; 0: only when they close."""
    thresholds: Thresholds = Thresholds()
    once: bool = False
    """Nothing more will come: members that did not stop are silent."""


class VerdictEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that was written."""

    event: Literal["verdict"] = "verdict"
    at: datetime
    unit: UnitVerdict


class ProblemEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger could not do all of its work; the next one tries again."""

    event: Literal["problem"] = "problem"
    at: datetime
    text: str


WatchEvent = VerdictEvent | AlertChange | ProblemEvent


class _Group:
    """What is remembered of one group."""

    def __init__(self, grace_ns: int, alerts: ActiveAlerts) -> None:
        self.machine = ClosedViews(grace_ns)
        self.seen: dict[str, tuple[int, int, int]] = {}
        """By journal: last row, rows, and whether it stopped."""
        self.grown_ns: dict[str, int] = {}
        """By the label of each member that did not stop."""
        self.latest: dict[str, ViewStay] = {}
        """By label, its last stay."""
        self.alerts = alerts
        self.carried = CarriedExcerpts()
        self.measured = Measured()
        self.open_ns = 0
        """When open views were judged last."""
        self.has_new_rows = False


class _Judged(NamedTuple):
    """A view that was judged, and whose verdict is not written yet."""

    group: _Group
    unit: JudgeView
    found: UnitVerdict


class Watcher:
    """One lake, and journals to ingest into it, if any."""

    def __init__(
        self,
        lake: str | Path,
        journals: Sequence[str],
        settings: WatchSettings,
        now: Callable[[], int] = time.monotonic_ns,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """`now` is a clock in nanoseconds that only grows; `stopped` is asked between views."""
        self.lake = Lake.create(lake) if journals else Lake(lake)
        self._journals, self._settings = list(journals), settings
        self._now, self._stopped = now, stopped
        self._groups: dict[GroupKey, _Group] = {}
        self._evidence: dict[GroupKey, dict[str, str]] | None = None
        """Of the verdicts that an earlier process wrote, until their groups were seen."""
        self._version = -1
        self.verdicts: Counter[tuple[str, str]] = Counter()
        """Written by this watcher, by status and verdict."""
        self.violations: Counter[GroupKey] = Counter()
        self.rows = self.triggers = self.problems = 0
        self.trigger_s = 0.0

    def trigger(self) -> Iterator[WatchEvent]:
        """One round. PipelineError for a lake that cannot be used."""
        began = time.monotonic()
        self.triggers += 1
        if self._journals:
            yield from self._tried(self._ingest)
        snapshot = self.lake.snapshot()
        try:
            yield from self._judge(snapshot)
        except PipelineError as error:
            # Another process may write now, or has removed the version that was read.
            if self._settings.once or self.lake.snapshot().version == 0:
                raise
            yield self.problem(error)
        yield from self._silence()
        self.trigger_s = time.monotonic() - began

    # ------------------------------------------------------------------ rows

    def _tried(self, work: Callable[[], None]) -> Iterator[WatchEvent]:
        try:
            work()
        except (JournalError, PipelineError) as error:
            if self._settings.once:
                raise
            yield self.problem(error)

    def problem(self, error: Exception) -> ProblemEvent:
        """Counts something that will be tried again."""
        self.problems += 1
        return ProblemEvent(at=datetime.now(UTC), text=str(error))

    def _ingest(self) -> None:
        self.rows += ingest(self._journals, self.lake.place).rows

    def _judge(self, snapshot: Snapshot) -> Iterator[WatchEvent]:
        now = self._now()
        if self._evidence is None:
            self._evidence = judged_evidence(snapshot)
        by_group: dict[GroupKey, list[JournalFacts]] = {}
        if snapshot.version != self._version:
            for facts in snapshot.journals():
                by_group.setdefault(group_key(facts), []).append(facts)
        pending: list[_Judged] = []
        for key in dict.fromkeys([*sorted(by_group), *self._groups]):
            if key in by_group or self._is_due(now, key):
                yield from self._group(now, snapshot, key, by_group.get(key), pending)
            if len(pending) >= UNITS_MAX:
                yield from self._write(now, pending)
            if self._stopped():
                break
        yield from self._write(now, pending)
        if not self._stopped():
            self._version = snapshot.version

    def _is_due(self, now: int, key: GroupKey) -> bool:
        """A member may have become silent, or open views are due."""
        group = self._groups[key]
        deadline = group.machine.deadline()
        return (deadline is not None and deadline <= now) or self._open_due(now, group)

    def _open_due(self, now: int, group: _Group) -> bool:
        every = self._settings.open_s * NS
        return bool(every) and group.has_new_rows and now - group.open_ns >= every

    def _group(
        self,
        now: int,
        snapshot: Snapshot,
        key: GroupKey,
        journals: list[JournalFacts] | None,
        pending: list[_Judged],
    ) -> Iterator[WatchEvent]:
        """Judges what is due in one group; verdicts are added to `pending`, and written when there
        are many."""
        grace_ns = 0 if self._settings.once else int(self._settings.grace_s * NS)
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = _Group(grace_ns, ActiveAlerts())
            known.open_ns = now
        ends = {} if journals is None else {f.journal: _end(f) for f in journals}
        if journals is not None and ends == known.seen:
            journals = None
        lake_group: LakeGroup | None = None
        forced: set[str] = set()
        if journals is not None:
            lake_group = LakeGroup(snapshot, key, journals, known.carried)
            forced = self._take(now, known, lake_group)
            known.has_new_rows = True
            yield from self._of_rows(known, lake_group)
        due = known.machine.step(now, TimePassed())  # also what could not be written before
        views = {unit.view for unit in due}
        if self._open_due(now, known):
            known.open_ns, known.has_new_rows = now, False
            due = [*due, *(u for u in known.machine.open_views(now) if u.view not in views)]
        elif forced:
            late = known.machine.all_views(now)
            due = [*due, *(u for u in late if u.view in forced and u.view not in views)]
        if due:
            if lake_group is None:
                mine = [f for f in snapshot.journals(groups=[key.group]) if group_key(f) == key]
                lake_group = LakeGroup(snapshot, key, mine, known.carried)
            there = [unit for unit in due if unit.view in lake_group.index.by_view]
            there.sort(key=lambda unit: lake_group.epoch(unit.view))
            for unit in there:
                if self._stopped():
                    return
                pending.append(_Judged(known, unit, lake_group.judge(unit)))
                if len(pending) >= UNITS_MAX:
                    yield from self._write(now, pending)

    def _take(self, now: int, known: _Group, group: LakeGroup) -> set[str]:
        """Gives new rows to the machine. Returns the views in which rows were added to the middle
        of a journal, as a better copy of a damaged file does."""
        stays: list[ViewStay] = []
        refilled: set[str] = set()
        first = not known.seen
        for facts in group.journals:
            last, rows, _ = known.seen.get(facts.journal, (0, 0, 0))
            mine = group.index.by_journal.get(facts.journal, [])
            if last and facts.rows - rows > facts.last - last:
                refilled |= {stay.view for stay in mine}
                last = 0
            stays += [stay for stay in mine if stay.lseq > last]
            label = f"{facts.member}.{facts.incarnation}"
            if mine:
                known.latest[label] = mine[-1]
            if facts.stopped:
                known.grown_ns.pop(label, None)
            elif label not in known.grown_ns or facts.last > last:
                known.grown_ns[label] = now
            known.seen[facts.journal] = _end(facts)
        here = {facts.journal for facts in group.journals}
        for journal in known.seen.keys() - here:  # retention deleted it
            del known.seen[journal]
        known.carried.forget(() if refilled else here)
        labels = {f"{f.member}.{f.incarnation}" for f in group.journals}
        for label in known.latest.keys() - labels:
            del known.latest[label]
            known.grown_ns.pop(label, None)
        ends = ends_of(
            (f.member, f.incarnation, f.journal, f.last, f.stopped) for f in group.journals
        )
        known.machine.step(now, RowsTaken(tuple(stays), ends))
        if first and self._evidence is not None:
            written = self._evidence.pop(group.key, {})
            known.machine.step(now, VerdictsWritten(written))
        return refilled

    # ------------------------------------------------------------------ verdicts

    def _write(self, now: int, pending: list[_Judged]) -> Iterator[WatchEvent]:
        """One transaction for the views of all groups."""
        if not pending:
            return
        with change(self.lake, "watch") as transaction:
            put_verdicts(transaction, [judged.found for judged in pending])
            transaction.commit()
        for judged in pending:
            if judged.unit.status != "open":
                written = {judged.unit.view: judged.unit.evidence}
                judged.group.machine.step(now, VerdictsWritten(written))
        events = [event for judged in pending for event in self._told(judged.found)]
        pending.clear()
        yield from events

    def _told(self, judged: UnitVerdict) -> Iterator[WatchEvent]:
        verdict = judged.verdict
        self.verdicts[verdict.status, verdict.verdict] += 1
        yield VerdictEvent(at=datetime.now(UTC), unit=judged)
        for alert in violations(judged):
            self.violations[GroupKey(verdict.cluster, verdict.run, verdict.group)] += 1
            yield AlertChange(event="raised", at=datetime.now(UTC), alert=alert)

    # ------------------------------------------------------------------ alerts

    def _of_rows(self, known: _Group, group: LakeGroup) -> Iterator[AlertChange]:
        thresholds = self._settings.thresholds
        found = list(gaps(group.key, group.journals)) if thresholds.gap else []
        if thresholds.measures or thresholds.view_changes:
            known.measured = measured(group, thresholds)
            found += of_measures(group.key, known.measured, thresholds)
        yield from known.alerts.update(found, ("gap", "view-changes", "latency", "loss"))

    def _silence(self) -> Iterator[AlertChange]:
        if self._settings.once:
            return
        now = self._now()
        for key, known in self._groups.items():
            silence = {label: (now - at) / NS for label, at in known.grown_ns.items()}
            threshold = self._settings.thresholds.silent
            found = silent_members(key, known.latest, silence, threshold)
            yield from known.alerts.update(list(found), ["silent-member"])

    def metrics(self, dropped: int = 0) -> list[MetricFamily]:
        """Counts and measures of this watcher."""
        groups = sorted(self._groups.items())
        labels = {key: _labels(key) for key, _ in groups}
        active = [
            ({**labels[key], "kind": a.kind, "subject": a.subject}, 1.0)
            for key, known in groups
            for a in known.alerts.active.values()
        ]
        counts = [
            ({"status": status, "verdict": verdict}, float(count))
            for (status, verdict), count in sorted(self.verdicts.items())
        ]
        p99 = [
            ({**labels[key], "service": service, "scope": scope}, p99_ns / NS)
            for key, known in groups
            for (service, scope), p99_ns in known.measured.p99_ns.items()
        ]
        loss = [
            ({**labels[key], "link": link}, value)
            for key, known in groups
            for link, value in known.measured.loss.items()
        ]
        rates = [
            ({**labels[key], "member": who}, value)
            for key, known in groups
            for who, value in known.measured.view_changes.items()
        ]
        violated = [(labels[key], float(self.violations[key])) for key, _ in groups]
        return [
            MetricFamily("phalanx_watch_verdicts", "counter", "Verdicts written.", counts),
            MetricFamily("phalanx_watch_violated", "counter", "Verdicts violated.", violated),
            MetricFamily("phalanx_watch_alert", "gauge", "Alerts that stand.", active),
            MetricFamily(
                "phalanx_latency_p99_seconds", "gauge", "From submission to delivery.", p99
            ),
            MetricFamily("phalanx_link_loss_ratio", "gauge", "Frames missing on a link.", loss),
            MetricFamily("phalanx_view_changes_per_minute", "gauge", "Views installed.", rates),
            MetricFamily(
                "phalanx_watch_rows", "counter", "Rows ingested.", [({}, float(self.rows))]
            ),
            MetricFamily(
                "phalanx_watch_problems",
                "counter",
                "Triggers that could not do all of their work.",
                [({}, float(self.problems))],
            ),
            MetricFamily(
                "phalanx_watch_webhook_dropped",
                "counter",
                "Alerts that could not be sent.",
                [({}, float(dropped))],
            ),
            MetricFamily(
                "phalanx_watch_lake_version",
                "gauge",
                "The version that was judged.",
                [({}, float(max(self._version, 0)))],
            ),
            MetricFamily(
                "phalanx_watch_trigger_seconds",
                "gauge",
                "How long the last trigger took.",
                [({}, self.trigger_s)],
            ),
            MetricFamily(
                "phalanx_watch_trigger_timestamp_seconds",
                "gauge",
                "When the last trigger ended.",
                [({}, time.time())],
            ),
        ]


def _labels(key: GroupKey) -> dict[str, str]:
    """Of a sample of a group. The run of real members is the name of their cluster; only groups of
    a simulation have other ones, and the same name in each."""
    labels = {"cluster": key.cluster, "group": key.group}
    return labels if key.run == key.cluster else labels | {"run": key.run}


def _end(facts: JournalFacts) -> tuple[int, int, int]:
    return facts.last, facts.rows, facts.stopped
