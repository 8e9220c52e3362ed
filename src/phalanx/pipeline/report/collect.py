"""Collect the model of the page from a set of tables: all queries to Spark.

Every query returns little: aggregates, or a sample of bounded size. The result does not grow with
the journals.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import functions as F

from phalanx.pipeline.report.charts import collect_speed, collect_throughput
from phalanx.pipeline.report.message_flow import collect_flows, collect_suspicions
from phalanx.pipeline.report.model import Caps, Ended, LifeBar, Page, RunModel
from phalanx.pipeline.report.removals import collect_removals
from phalanx.pipeline.report.time_axis import Axis, RunAxis, open_axis
from phalanx.pipeline.report.verdicts import Findings, with_rows
from phalanx.pipeline.report.view_bands import collect_bands, collect_changes
from phalanx.pipeline.tables import Tables


def collect(
    tables: Tables,
    findings: Findings,
    *,
    version: str = "",
    caps: Caps | None = None,
    group: str | None = None,
    run: str | None = None,
) -> Page:
    """The page of these tables. `findings` are what the audit says, by (cluster, run, group).
    PipelineError if there is nothing to show."""
    axis = open_axis(tables, caps or Caps(), group, run)
    tables = axis.tables
    crashes = _crashes(tables, axis)
    lives = [_lives(known, crashes[no]) for no, known in enumerate(axis.runs)]
    bands = collect_bands(tables, axis)
    changes = collect_changes(tables, axis)
    throughput, ranges = collect_throughput(tables, axis)
    flows = collect_flows(tables, axis, ranges)
    suspicions = collect_suspicions(tables, axis)
    speed = collect_speed(tables, axis)
    removals = collect_removals(tables, axis, [views for _, views in bands])
    findings_by_run = with_rows(tables, axis, findings)
    runs = []
    for no, known in enumerate(axis.runs):
        runs.append(
            RunModel(
                cluster=known.cluster,
                run=known.run,
                group=known.group,
                mode=known.mode,
                clock=known.clock,
                began=known.began,
                span=known.span,
                rows=sum(j.rows for j in known.journals),
                sent=sum(map(sum, throughput[no].sent)),
                delivered=sum(map(sum, throughput[no].delivered)),
                lanes=known.lanes,
                lanes_left_out=known.lanes_left_out,
                lives=lives[no],
                views=bands[no][1],
                bands=bands[no][0],
                changes=changes[no],
                sends=flows[no][0],
                deliveries=flows[no][1],
                suspicions=suspicions[no],
                throughput=throughput[no],
                latency=speed[no][0],
                links=speed[no][1],
                findings=findings_by_run[no],
                removals=removals[no][0],
                removals_total=removals[no][1],
            )
        )
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return Page(version=version, made=made, runs=runs, runs_left_out=axis.left_out)


def _crashes(tables: Tables, axis: Axis) -> list[set[int]]:
    """Lives that are known to have crashed."""
    found: list[set[int]] = [set() for _ in axis.runs]
    crashed = axis.place(tables["life"]).where(F.col("op") == "CRASH")
    for row in crashed.select("run_no", "life").distinct().collect():
        found[row.run_no].add(row.life)
    return found


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
