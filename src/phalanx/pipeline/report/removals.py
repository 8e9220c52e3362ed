"""Removals on the page: who was removed, by whom, on what evidence, and how long it took.

`history.removals` finds the removals and their evidence, each row by the clock of its member. Here
the first of them in time are placed on the axis of their run.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row, Window
from pyspark.sql import functions as F

from phalanx.pipeline.history.removals import removals
from phalanx.pipeline.report.model import RemovalEntry, Step, ViewBand
from phalanx.pipeline.report.time_axis import Axis, Member, RunAxis
from phalanx.pipeline.tables import Tables

CHAIN_MAX = 2_000
"""Rows of evidence of one removal that are looked at."""
INSTALL = "INSTALL"


def collect_removals(
    tables: Tables, axis: Axis, views: list[list[ViewBand]]
) -> list[tuple[list[RemovalEntry], int]]:
    """Of each run the first removals in time of those that the page has lanes for, and how many
    there are of all."""
    each = max(1, axis.caps.removals // len(axis.runs))
    # Only to choose the first ones: wall clocks place, and prove nothing.
    began = F.array_min(F.transform("chain", lambda row: F.coalesce(row.sim_ns, row.wall_ns)))
    run = Window.partitionBy("run_no")
    first = run.orderBy(F.col("life").isNull(), "began", "target", "target_incarnation", "view")
    found = (
        axis.name(axis.of_run(removals(tables)), "target", "target_incarnation", "life")
        .withColumn("began", began)
        .select(
            *(
                "run_no",
                "target",
                "target_incarnation",
                "view",
                "next_view",
                "fate",
                "observers",
                "began",
            ),
            F.slice("chain", 1, CHAIN_MAX).alias("chain"),
            F.size("chain").alias("steps"),
            F.count("*").over(run).alias("total"),
            F.row_number().over(first).alias("rank"),
        )
        .where(F.col("rank") <= each)
    )
    by_run: list[tuple[list[RemovalEntry], int]] = [([], 0) for _ in axis.runs]
    for row in found.orderBy("run_no", "rank").collect():
        known = axis.runs[row.run_no]
        listed, _ = by_run[row.run_no]
        by_run[row.run_no] = listed, row.total
        if (row.target, row.target_incarnation) in known.lives:
            listed.append(_removal(known, views[row.run_no], row, axis.caps.steps))
    for listed, _ in by_run:
        listed.sort(key=lambda removal: (removal.at, removal.life))
    return by_run


def _removal(run: RunAxis, views: list[ViewBand], row: Row, most: int) -> RemovalEntry:
    index = {view.view: i for i, view in enumerate(views)}
    shifts = {(j.member, j.incarnation): j.shift_ns for j in run.journals}
    placed = [
        (_placed(proof, shifts), proof)
        for proof in row.chain
        if (proof.member, proof.incarnation) in shifts and proof.action != "CLOSED"
    ]
    steps = _since_began(run, placed)
    installed = [at for at, proof in steps if proof.kind == "VIEW"]
    kept = sorted(steps, key=_weight)[:most]
    return RemovalEntry(
        life=run.lives[row.target, row.target_incarnation],
        at=min((at for at, proof in placed if proof.kind == "VIEW"), default=0),
        lead=min(installed, default=0),
        took=max(installed, default=0),
        fate=row.fate,
        view=index.get(row.view, -1),
        next_view=index.get(row.next_view, -1),
        by=[label((one.member, one.incarnation)) for one in row.observers],
        steps=[_step(at, proof) for at, proof in sorted(kept, key=_in_time)],
        steps_total=len(steps) if row.steps <= CHAIN_MAX else row.steps,
    )


def _since_began(run: RunAxis, placed: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The steps by the time since the first of them. Where members share no clock that is the first
    on the same machine: nothing is computed from the clocks of two."""
    machines = {
        (j.member, j.incarnation): j.machine if run.clock == "wall" else 0 for j in run.journals
    }
    began: dict[int, int] = {}
    for at, proof in placed:
        machine = machines[proof.member, proof.incarnation]
        began[machine] = min(at, began.get(machine, at))
    return [(at - began[machines[proof.member, proof.incarnation]], proof) for at, proof in placed]


def _placed(proof: Row, shifts: dict[Member, int]) -> int:
    ns: int = proof.t_ns if proof.sim_ns is None else proof.sim_ns
    return (ns + shifts[proof.member, proof.incarnation]) // 1000


def _in_time(step: tuple[int, Any]) -> tuple[int, str, int]:
    at, proof = step
    return at, proof.member, proof.lseq


def _weight(step: tuple[int, Any]) -> tuple[int, int, str, int]:
    """What is kept first where there is too much: installations, then what was thought of it."""
    kinds = ("VIEW", "SUSPECT", "STEP", "MARKER")
    return kinds.index(step[1].kind), *_in_time(step)


def _step(at: int, proof: Row) -> Step:
    who = label((proof.member, proof.incarnation))
    if proof.kind == "SUSPECT":
        return Step(at, who, proof.state, proof.evidence)
    if proof.kind == "STEP":
        return Step(at, who, proof.action)
    return Step(at, who, INSTALL if proof.kind == "VIEW" else proof.kind)


def label(member: Member) -> str:
    """As text output names a life: the first by its name alone."""
    return member[0] if member[1] == 1 else f"{member[0]}.{member[1]}"
