"""What `phalanx watch` tells an operator, and from which thresholds on.

    violation       a view violates a guarantee
    silent-member   a member of a view has written no rows for so long
    gap             rows of a journal are missing or cannot be read
    view-changes    a member installed too many views in a minute
    latency         the 99th percentile of a service is too high
    loss            too many frames are missing on a link

Thresholds come from a TOML file and from options, which win:

    [alerts]
    silent = 60              # seconds; 0 turns an alert off
    gap = true
    view-changes = 10        # in a minute, at one member
    loss = 0.05              # of the frames of a link
    window = 300             # seconds: what view-changes, latency and loss look at
    [alerts.p99-ms]          # by service, or `p99-ms = 100` for all
    AGREED = 50

An alert is raised once, and cleared once what it tells of is over. A violation is raised each time
that a view is judged to violate something, and not cleared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from phalanx.errors import PipelineError
from phalanx.pipeline.audit.view_stays import ViewStay
from phalanx.pipeline.group_tables import GroupKey, GroupTables
from phalanx.pipeline.history.instant import Instant
from phalanx.pipeline.measures.latency import SERVICES, latency
from phalanx.pipeline.measures.links import links
from phalanx.pipeline.segment_stats import JournalFacts
from phalanx.pipeline.time_window import TimeWindow, within
from phalanx.pipeline.watch.unit_audit import LakeGroup, UnitVerdict

AlertKind = Literal["violation", "silent-member", "gap", "view-changes", "latency", "loss"]
NS = 1_000_000_000
RECENT_ROWS = 100_000
"""Of each journal of a large group, so many of the last rows are measured."""
_REMEDY = "see docs/watch.md#alerts"
_NUMBER_MAX = 1e9


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """When to raise alerts; None and 0 turn one off."""

    silent: float = 60.0
    gap: bool = True
    view_changes: float = 0.0
    loss: float = 0.0
    window: float = 300.0
    p99_ms: dict[str, float] | float = {}

    @property
    def measures(self) -> bool:
        """Messages or links must be measured."""
        return bool(self.p99_ms) or self.loss > 0

    def p99_of(self, service: str) -> float:
        if isinstance(self.p99_ms, dict):
            return self.p99_ms.get(service, 0.0)
        return self.p99_ms


def load_thresholds(path: Path) -> Thresholds:
    """PipelineError for a file that is not TOML, and for names and values that are not known."""
    try:
        given = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise PipelineError(str(path), f"cannot be read as TOML ({error})", _REMEDY) from error
    unknown = set(given) - {"alerts"}
    known = {field.replace("_", "-") for field in Thresholds.__struct_fields__}
    alerts = given.get("alerts", {})
    if isinstance(alerts, dict):
        unknown |= set(alerts) - known
    if unknown:
        problem = f"unknown names: {', '.join(sorted(unknown))}"
        raise PipelineError(str(path), problem, _REMEDY)
    try:
        found = msgspec.convert(alerts, Thresholds)
    except msgspec.ValidationError as error:
        raise PipelineError(str(path), f"not thresholds ({error})", _REMEDY) from error
    check_thresholds(str(path), found)
    return found


def check_thresholds(where: str, found: Thresholds) -> None:
    """PipelineError for values that mean nothing."""
    services = found.p99_ms if isinstance(found.p99_ms, dict) else {}
    for name in services:
        if name not in SERVICES:
            problem = f"p99-ms: there is no service {name!r}"
            raise PipelineError(where, problem, f"services are {', '.join(SERVICES)}")
    for_all = [] if isinstance(found.p99_ms, dict) else [found.p99_ms]
    numbers = [found.silent, found.view_changes, found.loss, *services.values(), *for_all]
    known = all(0 <= number <= _NUMBER_MAX for number in [*numbers, found.window])  # not for nan
    if not known or found.window == 0 or found.loss > 1:
        raise PipelineError(where, "a threshold is out of range", _REMEDY)


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. It is the same as long as kind, group and subject are."""

    kind: AlertKind
    cluster: str
    run: str
    group: str
    subject: str
    """The view, member, link or service that it is about."""
    text: str
    value: float | None = None
    threshold: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self.kind, self.cluster, self.run, self.group, self.subject


class AlertChange(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that was raised or cleared."""

    event: Literal["raised", "cleared"]
    at: datetime
    alert: Alert


class ActiveAlerts:
    """Which alerts of a group stand: bounded by its members, links and services."""

    def __init__(self) -> None:
        self.active: dict[tuple[str, ...], Alert] = {}

    def update(self, found: Iterable[Alert], kinds: Collection[AlertKind]) -> list[AlertChange]:
        """The changes that follow if of these kinds exactly the found alerts stand now."""
        now = datetime.now(UTC)
        there = {alert.key: alert for alert in found}
        over = [k for k, old in self.active.items() if k not in there and old.kind in kinds]
        new = [alert for key, alert in there.items() if key not in self.active]
        changes = [AlertChange(event="raised", at=now, alert=alert) for alert in new]
        changes += [
            AlertChange(event="cleared", at=now, alert=self.active.pop(key)) for key in over
        ]
        self.active.update(there)
        return changes


class Measured(msgspec.Struct):
    """What was measured of a group in the window."""

    p99_ns: dict[tuple[str, str], int] = {}
    """By service and scope."""
    loss: dict[str, float] = {}
    """By link, `ada.1>bea.1`."""
    view_changes: dict[str, float] = {}
    """In a minute, by member."""


def violations(unit: UnitVerdict) -> Iterator[Alert]:
    """One alert for a view that is violated; its subject is the view."""
    verdict = unit.verdict
    if verdict.verdict == "violated":
        more = f"; {unit.findings[0].text}" if unit.findings else ""
        yield Alert(
            kind="violation",
            cluster=verdict.cluster,
            run=verdict.run,
            group=verdict.group,
            subject=verdict.view,
            text=f"view {verdict.view} violates {', '.join(verdict.violated)}{more}",
            value=verdict.violations,
        )


def gaps(key: GroupKey, journals: Iterable[JournalFacts]) -> Iterator[Alert]:
    for facts in journals:
        if facts.torn:
            who = f"{facts.member}.{facts.incarnation}"
            lost = facts.last - facts.rows
            count = f"{lost} rows" if lost > 0 else "rows"
            text = f"{count} of {who} are missing: lost, corrupt, or pruned"
            yield Alert(kind="gap", **key._asdict(), subject=who, text=text, value=max(lost, 0))


def silent_members(
    key: GroupKey, latest: Mapping[str, ViewStay], silence: Mapping[str, float], threshold: float
) -> Iterator[Alert]:
    """`latest`: by label, the last stay of each member in a view. `silence`: for how many seconds
    a journal that did not stop has not grown. Members that others have removed are not expected to
    write."""
    for label, seconds in sorted(silence.items()):
        if not 0 < threshold <= seconds:
            continue
        own = latest.get(label)
        epoch = (-1, -1) if own is None else (own.joins, own.removals)
        removed = any(
            label not in stay.members and (stay.joins, stay.removals) > epoch
            for stay in latest.values()
        )
        if not removed:
            more: dict[str, Any] = {"value": seconds, "threshold": threshold}
            text = f"no rows of {label} for {seconds:.0f} s"
            yield Alert(kind="silent-member", **key._asdict(), subject=label, text=text, **more)


def measured(group: LakeGroup, thresholds: Thresholds) -> Measured:
    """View changes, latency and loss in the last seconds of a group's journals."""
    found = Measured({}, {}, {})
    window_ns = int(thresholds.window * NS)
    for facts in group.journals:
        stays = group.index.by_journal.get(facts.journal, [])
        end = facts.end_t_ns if facts.end_sim_ns is None else facts.end_sim_ns
        recent = sum(stay.own_ns > end - window_ns for stay in stays[1:])
        if recent:
            who = f"{facts.member}.{facts.incarnation}"
            found.view_changes[who] = recent * 60 / thresholds.window
    if thresholds.measures:
        tables = within(group.recent(RECENT_ROWS), _last(group, window_ns))
        if tables.journals:
            _measure(tables, found)
    return found


def _last(group: LakeGroup, window_ns: int) -> TimeWindow:
    """The last part of the group's life, by the clock of each member."""
    simulated = [j.end_sim_ns for j in group.journals if j.end_sim_ns is not None]
    if simulated:
        return TimeWindow(Instant(max(simulated) - window_ns, True))
    end = max(j.wall_ns + j.end_t_ns - j.mono_ns for j in group.journals)
    return TimeWindow(Instant(end - window_ns, False))


def _measure(tables: GroupTables, found: Measured) -> None:
    for row in latency(tables):
        key = row.service, row.scope
        found.p99_ns[key] = max(row.p99_ns, found.p99_ns.get(key, 0))
    for link in links(tables):
        if link.loss is not None:
            ends = f"{link.peer}.{link.peer_incarnation}>{link.member}.{link.incarnation}"
            found.loss[ends] = link.loss


def of_measures(key: GroupKey, found: Measured, thresholds: Thresholds) -> Iterator[Alert]:
    """Alerts about what was measured."""
    common: dict[str, Any] = key._asdict()
    for who, rate in found.view_changes.items():
        if 0 < thresholds.view_changes < rate:
            text = f"{who} installs {rate:.1f} views a minute"
            more: dict[str, Any] = {"value": rate, "threshold": thresholds.view_changes}
            yield Alert(kind="view-changes", **common, subject=who, text=text, **more)
    for (service, scope), p99_ns in found.p99_ns.items():
        limit, value = thresholds.p99_of(service), p99_ns / 1e6
        if 0 < limit < value:
            where = "at the sender" if scope == "SELF" else "at other members"
            text = f"p99 of {service} {where} is {value:.3f} ms"
            more = {"value": value, "threshold": limit}
            yield Alert(kind="latency", **common, subject=f"{service}/{scope}", text=text, **more)
    for link, loss in found.loss.items():
        if 0 < thresholds.loss < loss:
            text = f"{100 * loss:.2f} % of the frames are missing on {link}"
            more = {"value": loss, "threshold": thresholds.loss}
            yield Alert(kind="loss", **common, subject=link, text=text, **more)
