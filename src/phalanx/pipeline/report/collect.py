"""Collect the model of the page from the tables of groups.

What is collected of a group is little: aggregates, or a sample of bounded size. The result does not
grow with the journals. `report_group` is the kernel of `phalanx report`; `collect` does the same
with groups that are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from phalanx.pipeline.group_tables import GroupKey, GroupTables, each_row
from phalanx.pipeline.report.charts import collect_latency, collect_links, collect_throughput
from phalanx.pipeline.report.message_flow import collect_flows, collect_suspicions
from phalanx.pipeline.report.model import Caps, Ended, LifeBar, Page, ReportFinding, RunModel
from phalanx.pipeline.report.removals import collect_removals
from phalanx.pipeline.report.time_axis import RunAxis, open_axis
from phalanx.pipeline.report.verdicts import Findings, with_rows
from phalanx.pipeline.report.view_bands import collect_bands, collect_changes
from phalanx.pipeline.time_window import TimeWindow, within

Judge = Callable[[GroupTables], Sequence[ReportFinding]]


class GroupReport(msgspec.Struct, frozen=True):
    """One group in one run: what the page shows of it, if it shows it, and whether it violates a
    guarantee."""

    key: GroupKey
    violated: bool
    model: RunModel | None


def report_group(
    shown: Collection[GroupKey],
    run: str | None,
    caps: Caps,
    window: TimeWindow,
    judge: Judge,
    group: GroupTables,
) -> GroupReport:
    """The kernel. Groups of other runs than `run` are not judged; those that are not `shown` are
    judged only. The verdicts are on all rows, whatever the window."""
    if run not in (None, group.key.run):
        return GroupReport(group.key, False, None)
    findings = judge(group)
    violated = any(finding.verdict == "violated" for finding in findings)
    inside = within(group, window) if group.key in shown else None
    if inside is None or not inside.journals:
        return GroupReport(group.key, violated, None)
    return GroupReport(group.key, violated, run_model(inside, group, findings, caps))


def largest(sizes: Iterable[tuple[GroupKey, int]], most: int) -> list[GroupKey]:
    """The largest groups, in the order of their keys."""
    order = sorted(sizes, key=lambda one: (-one[1], one[0]))
    return sorted(key for key, _ in order[:most])


def collect(
    groups: Sequence[GroupTables],
    findings: Findings,
    *,
    version: str = "",
    caps: Caps | None = None,
) -> Page:
    """The page of these groups. `findings` are what the audit says, by (cluster, run, group)."""
    caps = caps or Caps()
    shown = set(largest(((group.key, group.rows) for group in groups), caps.runs))
    each = caps.of_one(len(shown))
    runs = [
        run_model(group, group, findings.get(group.key, ()), each)
        for group in groups
        if group.key in shown
    ]
    return page_of(runs, version, len(groups) - len(shown))


def page_of(runs: list[RunModel], version: str, left_out: int) -> Page:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return Page(version=version, made=made, runs=runs, runs_left_out=left_out)


def run_model(
    group: GroupTables, whole: GroupTables, findings: Sequence[ReportFinding], caps: Caps
) -> RunModel:
    """What the page shows of a group; `whole` has the rows that findings refer to."""
    axis = open_axis(group, caps)
    throughput, ranges = collect_throughput(group, axis, caps)
    bands, views = collect_bands(group, axis, caps)
    sends, deliveries = collect_flows(group, axis, caps, ranges)
    speeds, took = collect_latency(group, axis)
    removals, removals_total = collect_removals(group, axis, caps, views)
    return RunModel(
        cluster=axis.cluster,
        run=axis.run,
        group=axis.group,
        mode=axis.mode,
        clock=axis.clock,
        began=axis.began,
        span=axis.span,
        rows=sum(journal.rows for journal in axis.journals),
        sent=sum(map(sum, throughput.sent)),
        delivered=sum(map(sum, throughput.delivered)),
        lanes=axis.lanes,
        lanes_left_out=axis.lanes_left_out,
        lives=_lives(axis, _crashed(group, axis)),
        views=views,
        bands=bands,
        changes=collect_changes(group, axis, caps),
        sends=sends,
        deliveries=deliveries,
        suspicions=collect_suspicions(group, axis, caps),
        throughput=throughput,
        latency=speeds,
        links=collect_links(group, axis, took),
        findings=with_rows(whole, axis, caps, findings),
        removals=removals,
        removals_total=removals_total,
    )


def _crashed(group: GroupTables, axis: RunAxis) -> set[int]:
    """Lives that are known to have crashed."""
    journals = axis.spans()
    lives = each_row(group["life"], "journal", "op")
    crashed = {journal for journal, op in lives if op == "CRASH" and journal in journals}
    return {axis.life_of(journals[journal]) for journal in crashed}


def _lives(run: RunAxis, crashed: set[int]) -> list[LifeBar]:
    journals = {(j.member, j.incarnation): j for j in run.journals}
    lives = []
    for (member, incarnation), number in run.lives.items():
        journal = journals.get((member, incarnation))
        if journal is None:
            lives.append(LifeBar(run.lane(member), incarnation, 0, 0, "ABSENT"))
            continue
        ended: Ended = "CRASH" if number in crashed else journal.ended
        lives.append(
            LifeBar(
                lane=run.lane(member),
                incarnation=incarnation,
                begin=journal.begin,
                end=journal.end,
                ended=ended,
                rows=journal.rows,
                torn=journal.torn,
                machine=journal.machine,
            )
        )
    return lives
