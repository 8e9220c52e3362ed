"""Removals on the page: who was removed, by whom, on what evidence, and how long it took.

`history.removals` finds the removals and their evidence, each row by the clock of its member. Here
the first of them in time are placed on the axis of their run.
"""

from __future__ import annotations

from phalanx.pipeline.group_tables import GroupTables
from phalanx.pipeline.history.removals import Proof, Removal, removals
from phalanx.pipeline.report.model import Caps, RemovalEntry, Step, ViewBand
from phalanx.pipeline.report.time_axis import Member, RunAxis

CHAIN_MAX = 2_000
"""Rows of evidence of one removal that are looked at."""
INSTALL = "INSTALL"


def collect_removals(
    group: GroupTables, axis: RunAxis, caps: Caps, views: list[ViewBand]
) -> tuple[list[RemovalEntry], int]:
    """The first removals in time of those that the page has lanes for, and how many there are of
    all."""
    found = sorted(removals(group), key=lambda one: _rank(axis, one))
    index = {view.view: i for i, view in enumerate(views)}
    listed = [
        _removal(axis, index, one, caps.steps)
        for one in found[: caps.removals]
        if (one.target, one.target_incarnation) in axis.lives
    ]
    return sorted(listed, key=lambda one: (one.at, one.life)), len(found)


def _rank(axis: RunAxis, removal: Removal) -> tuple[bool, int, str, int, str]:
    """Only to choose the first ones: wall clocks place, and prove nothing."""
    life = removal.target, removal.target_incarnation
    times = ((row.wall_ns or 0) if row.sim_ns is None else row.sim_ns for row in removal.chain)
    return life not in axis.lives, min(times), *life, removal.view


def _removal(run: RunAxis, index: dict[str, int], row: Removal, most: int) -> RemovalEntry:
    shifts = {(j.member, j.incarnation): j.shift_ns for j in run.journals}
    placed = [
        (_placed(proof, shifts), proof)
        for proof in row.chain[:CHAIN_MAX]
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
        steps_total=len(steps) if len(row.chain) <= CHAIN_MAX else len(row.chain),
    )


def _since_began(run: RunAxis, placed: list[tuple[int, Proof]]) -> list[tuple[int, Proof]]:
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


def _placed(proof: Proof, shifts: dict[Member, int]) -> int:
    return (proof.at_ns + shifts[proof.member, proof.incarnation]) // 1000


def _in_time(step: tuple[int, Proof]) -> tuple[int, str, int]:
    at, proof = step
    return at, proof.member, proof.lseq


def _weight(step: tuple[int, Proof]) -> tuple[int, int, str, int]:
    """What is kept first where there is too much: installations, then what was thought of it."""
    kinds = ("VIEW", "SUSPECT", "STEP", "MARKER")
    return kinds.index(step[1].kind), *_in_time(step)


def _step(at: int, proof: Proof) -> Step:
    who = label((proof.member, proof.incarnation))
    if proof.kind == "SUSPECT":
        return Step(at, who, proof.state or "", proof.evidence or "")
    if proof.kind == "STEP":
        return Step(at, who, proof.action or "")
    return Step(at, who, INSTALL if proof.kind == "VIEW" else proof.kind)


def label(member: Member) -> str:
    """As text output names a life: the first by its name alone."""
    return member[0] if member[1] == 1 else f"{member[0]}.{member[1]}"
