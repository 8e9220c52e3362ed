"""Convergence of membership: precision, termination of view changes, bounded number of views.

membership-precision   Members that can reach each other end in one view of exactly themselves.
protocol-termination   Every view change that a member begins ends.
bounded-views          Views stop changing soon after the last disturbance, and a member installs
                       no more views than a scenario gives cause for.

They are judged in settled runs, of members that live to the end. The last topology rows give the
components; of the names in them those count that belong to a living member. If more processes
report the same names than there are names, they are separate processes under equal names, and the
names do not show which of them reach each other. docs/protocol/properties.md states the properties
in full. They need rows of views and lives alone, so the audit runs these functions too.

`count_changes` adds statistics that are not verdicts.
"""

from __future__ import annotations

from bisect import bisect_right

from phalanx.journal.schema import ViewChangeStep, ViewInstalled
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.trace import Trace
from phalanx.verify.checkers.view_trace import ViewTrace

VIEWS_FREE, VIEWS_PER_MEMBER = 4, 2
"""Views allowed after the last disturbance, and more for each living member. S0 bounds the number
of views after a change of topology; these numbers were chosen freely."""


def check_convergence(
    trace: ViewTrace, undisturbed_ns: int, changes_max: int | None, out: Findings
) -> None:
    """`undisturbed_ns`: the simulator disturbed no member after that time. `changes_max`: how often
    a member had cause to change its view, if that is known."""
    if trace.over:
        alive = [m for m in trace.installs if trace.lives.alive(m)]
        _precision(trace, alive, out)
        _bounded_views(trace, alive, max(undisturbed_ns, trace.lives.changed_ns), out)
        for member in alive:
            _termination(trace, member, out)
    if changes_max is not None:
        _no_needless_views(trace, changes_max, out)


def _precision(trace: ViewTrace, alive: list[Member], out: Findings) -> None:
    lives = trace.lives
    for member in alive:
        reach = lives.reach(member)
        if reach is None:
            continue
        due = [m for m in alive if m[0] in reach and lives.reach(m) in (reach, None)]
        if len(due) > len(reach):
            continue
        out.evaluated("membership-precision")
        namesakes = [m for m in due if m != member and m[0] == member[0]]
        if namesakes:
            text = f"{label(member)} and {label(namesakes[0])} live under one name, within reach"
            out.violated("membership-precision", text, lives.topology[member][-1:])
        if len({name for name, _ in due}) < len(due):
            continue  # others may mean either process by the name
        view = trace.last_view(member)
        here = sorted(trace.views[view]) if view else []
        rows = [lives.topology[member][-1], *trace.installs[member][-1:]]
        if here != due:
            text = (
                f"{label(member)} ended in {view} of {', '.join(map(label, here)) or 'nobody'}, "
                f"but could reach {', '.join(map(label, due))}"
            )
            out.violated("membership-precision", text, rows, view=view)
            continue
        for other in due:
            theirs = trace.last_view(other)
            if other > member and theirs != view:
                text = f"{label(member)} ended in {view}, {label(other)} within reach in {theirs}"
                out.violated("membership-precision", text, rows, other[0], view=view)


def _bounded_views(trace: ViewTrace, alive: list[Member], since_ns: int, out: Findings) -> None:
    bound = VIEWS_FREE + VIEWS_PER_MEMBER * len(alive)
    for member in alive:
        if member not in trace.lives.topology:
            continue
        out.evaluated("bounded-views")
        late = [r for r in trace.installs[member] if r.sim_ns is not None and r.sim_ns > since_ns]
        if len(late) > bound:
            text = (
                f"{label(member)} installed {len(late)} views after the last disturbance, "
                f"at {since_ns}, over {bound}"
            )
            out.violated("bounded-views", text, [late[bound]], view=late[bound].view)


def _no_needless_views(trace: ViewTrace, changes_max: int, out: Findings) -> None:
    for member, installs in trace.installs.items():
        out.evaluated("bounded-views")
        if len(installs) > changes_max + 1:
            text = (
                f"{label(member)} installed {len(installs)} views, although nothing gave cause "
                f"for more than {changes_max + 1}"
            )
            row = installs[changes_max + 1]
            out.violated("bounded-views", text, [row], view=row.view)


def _termination(trace: ViewTrace, member: Member, out: Findings) -> None:
    """A change ends with the installation of a view, unless a merge goes on through it (the view
    was closed outside of stage IDLE), or with FORGET."""
    open_: ViewChangeStep | None = None
    transit = False
    events: list[ViewChangeStep | ViewInstalled] = [*trace.steps[member], *trace.installs[member]]
    for row in sorted(events, key=lambda r: r.lseq):
        if isinstance(row, ViewInstalled):
            open_, transit = (open_ if transit else None), False
        elif row.action == "FORGET":
            open_ = None
        elif row.action == "CLOSED":
            transit = row.stage != "IDLE"
        elif row.action != "LEAVE":
            if open_ is None:
                out.evaluated("protocol-termination")
            open_ = row
    if open_ is not None:
        text = (
            f"{label(member)} began a change ({open_.action} in {open_.context}) and never ended it"
        )
        out.violated("protocol-termination", text, [open_])


# ---------------------------------------------------------------------------- statistics


def count_changes(trace: Trace, out: Findings) -> None:
    """Statistics of view changes: false removals, proposals for a view, time that sends waited."""
    statistics = out.report.statistics
    statistics["false-removals"] = _false_removals(trace.view_trace)
    statistics["commits-max"] = max((_commits(trace, m) for m in trace.journals), default=0)
    statistics["hold-gap-ns"] = max((_hold_gap(trace, m) for m in trace.journals), default=0)


def _false_removals(trace: ViewTrace) -> int:
    """Members that a view change removed while they were alive and within reach."""
    found: set[tuple[str, str, Member]] = set()
    for (member, before), row in trace.successor.items():
        gone = trace.inside.get(before, frozenset()) - trace.inside[row.view]
        if not gone or row.sim_ns is None:
            continue
        reach = trace.lives.reach(member, row.sim_ns) or ()
        for other in gone:
            if other[0] in reach and not trace.lives.gone_by(other, row.sim_ns):
                found.add((before, row.view, other))
    return len(found)


def _commits(trace: Trace, member: Member) -> int:
    """The most proposals between two view installations."""
    ends = [row.lseq for row in trace.installs[member]]
    count: dict[int, int] = {}
    for row in trace.steps[member]:
        if row.action in ("COMMIT", "FOLLOW"):
            at = bisect_right(ends, row.lseq)
            count[at] = count.get(at, 0) + 1
    return max(count.values(), default=0)


def _hold_gap(trace: Trace, member: Member) -> int:
    """The longest time a message waited during a view change with the window open."""
    changes = _changes(trace, member)
    if not changes:
        return 0
    closed = _closed_windows(trace, member)
    sends = trace.sends[member]
    worst = 0
    for submit in trace.submits[member]:
        for _, _, at in sends.within(submit.first, submit.last):
            waited = (submit.t_ns, sends.values[at].t_ns)
            for change in changes:
                during = _overlap(waited, change)
                if during[1] - during[0] > worst:
                    shut = (_overlap(during, c) for c in closed)
                    worst = max(worst, during[1] - during[0] - sum(b - a for a, b in shut))
    return worst


def _changes(trace: Trace, member: Member) -> list[tuple[int, int]]:
    """Each view change as (begin, end): from its first step to the installation or FORGET."""
    events: list[ViewChangeStep | ViewInstalled] = [*trace.steps[member], *trace.installs[member]]
    found: list[tuple[int, int]] = []
    began: int | None = None
    for row in sorted(events, key=lambda r: r.lseq):
        ends = isinstance(row, ViewInstalled) or row.action == "FORGET"
        if ends and began is not None:
            found.append((began, row.t_ns))
            began = None
        elif not ends and began is None:
            began = row.t_ns
    return found


def _closed_windows(trace: Trace, member: Member) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    began: int | None = None
    for row in trace.windows[member]:
        if row.op == "CLOSED":
            began = row.t_ns if began is None else began
        elif began is not None:
            found.append((began, row.t_ns))
            began = None
    return found


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    first, last = max(a[0], b[0]), min(a[1], b[1])
    return (first, last) if first < last else (first, first)
