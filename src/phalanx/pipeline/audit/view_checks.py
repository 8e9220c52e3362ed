"""View-level properties of one run, judged by the checkers of `verify` in a worker.

They need rows of views and lives alone, which are few and fit into memory, so a second program for
them would only repeat the first. The properties are those of `Judges.ONE_PROGRAM` in the catalogue.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from phalanx.journal.schema import Life, Topology, ViewChangeStep, ViewInstalled
from phalanx.pipeline.audit.chronicle import Chronicle, Fate, Install, MemberRecord
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.verify.checkers.convergence import check_convergence
from phalanx.verify.checkers.findings import Findings, Violation
from phalanx.verify.checkers.life_spans import LifeSpans
from phalanx.verify.checkers.view_reports import check_view_reports
from phalanx.verify.checkers.view_trace import ViewTrace
from phalanx.verify.checkers.views import check_views


def view_checks(run: Chronicle, out: GroupFindings) -> None:
    trace = view_trace(run)
    checked = Findings(kept_max=sys.maxsize)
    check_views(trace, checked)
    changes_max = run.changes_max if run.settled else None
    check_convergence(trace, run.undisturbed_ns, changes_max, checked)
    check_view_reports(trace, None, checked)
    numbers = {view: v for v, view in run.vids.items()}
    for name, result in checked.report.properties.items():
        if result.evaluated:
            out.asked(name, result.evaluated)
        for violation in result.violations:
            _found(run, violation, numbers, out)


def _found(
    run: Chronicle, violation: Violation, numbers: dict[str, int], out: GroupFindings
) -> None:
    """Put a violation into the shape of the audit's findings. Its text is complete."""
    rows = [(run.by_label[f"{p.member}.{p.incarnation}"], p.lseq) for p in violation.places]
    shown = {member.member for member, _ in rows}
    others = [m for m in run.members if m.member in violation.members and m.member not in shown]
    out.found(
        f"{violation.property}/",
        who=rows[0][0] if rows else None,
        other=others[0] if others else None,
        v=None if violation.view is None else numbers.get(violation.view),
        note=violation.text,
        rows=rows,
    )


# ---------------------------------------------------------------------------- rows


def view_trace(run: Chronicle) -> ViewTrace:
    """The rows of views and lives as the journals had them. Simulated time counts in settled runs
    only, as for the checkers."""
    lives = LifeSpans(over=run.settled)
    installs: dict[tuple[str, int], list[ViewInstalled]] = {}
    steps: dict[tuple[str, int], list[ViewChangeStep]] = {}
    for m in run.known:
        assert m.journal is not None
        key = (m.member, m.incarnation)
        if run.settled:
            lives.add(key, None if m.first is None else m.first.sim_ns, m.journal.end_sim_ns)
        else:
            lives.add(key, None, None)
        if m.torn:
            lives.torn.add(key)
        installs[key] = [_install(run, m, row) for row in m.installs]
        rows = [_fate(run, m, row) for row in m.fates]
        steps[key] = [row for row in rows if isinstance(row, ViewChangeStep)]
        for row in rows:
            lives.note(key, row)
    lives.close()
    return ViewTrace(lives, installs, steps)


def _common(run: Chronicle, m: MemberRecord, row: Fate | Install) -> dict[str, Any]:
    return {
        "run": run.journals[0].run,
        "profile": "T",
        "group": run.journals[0].group,
        "member": m.member,
        "incarnation": m.incarnation,
        "lseq": row.lseq,
        "step": 0,
        "t_ns": 0,
        "sim_ns": row.sim_ns if run.settled else None,
    }


def _fate(run: Chronicle, m: MemberRecord, row: Fate) -> Life | Topology | ViewChangeStep:
    common = _common(run, m, row)
    if row.component is not None:
        return Topology(**common, component=row.component)
    if row.stage:
        stage, action = cast("Any", row.stage), cast("Any", row.op)
        return ViewChangeStep(**common, context=row.context, stage=stage, action=action)
    return Life(**common, op=cast("Any", row.op), reason=row.reason)


def _install(run: Chronicle, m: MemberRecord, row: Install) -> ViewInstalled:
    lists = {
        "members": row.inside,
        "transitional": row.transitional,
        "joined": row.joined,
        "left": row.left,
    }
    names, incarnations = _split(row.role_members)
    columns: dict[str, Any] = {"role_members": names, "role_incarnations": incarnations}
    for column, labels in lists.items():
        names, incarnations = _split(labels)
        columns[column] = names
        one = "member" if column == "members" else column
        columns[f"{one}_incarnations"] = incarnations
    return ViewInstalled(
        **_common(run, m, row),
        **columns,
        view=row.view,
        joins=row.joins,
        removals=row.removals,
        context=row.context,
        cause=cast("Any", row.cause),
        previous=row.previous,
        components=row.components,
        role_serials=row.role_serials,
        role_operations=row.role_operations,
    )


def _split(labels: list[str] | None) -> tuple[list[str] | None, list[int] | None]:
    """Names and incarnations of members that are written `ada.2`."""
    if labels is None:
        return None, None
    pairs = [label.rpartition(".") for label in labels]
    return [name for name, _, _ in pairs], [int(incarnation) for _, _, incarnation in pairs]
