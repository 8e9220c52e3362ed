"""Reports to the application about views, its own stop and its queue.

view-delta-truth     The members that a view reports as joined and left are the difference to the
                     previous view.
no-needless-stop     A member stops because its name is in use only if it is alone in its view and
                     another process with its name lived at the same time. It leaves only on
                     request, and not before the others have removed it, have crashed or leave too,
                     or its time to leave is over.
accepted-is-sent     The messages that the queue of a member accepted are given to the protocol, or
                     refused with a reason.

docs/protocol/properties.md states them in full. The first two need rows of views and lives alone,
so the audit runs `check_view_reports` too.
"""

from __future__ import annotations

from phalanx.journal.schema import Life, ViewChangeStep
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label, labels, named
from phalanx.verify.checkers.trace import Trace
from phalanx.verify.checkers.view_trace import ViewTrace

DELTA, STOP, QUEUE = "view-delta-truth", "no-needless-stop", "accepted-is-sent"
NOBODY: frozenset[Member] = frozenset()
CUT_SHORT = ("ended", "failed")
"""Reasons of stops that may leave accepted messages behind: the end of a run that did not settle,
and an error."""


def check_view_reports(
    trace: ViewTrace, leave_ns: int | None, out: Findings, trusted: bool = True
) -> None:
    """`leave_ns` is how long a leaving member waits for the others, where a simulator knows it.
    Unless the network is `trusted`, nobody stops a process for its name that was a member."""
    for member in trace.installs:
        if member not in trace.lives.torn:
            _deltas(trace, member, out)
            _stop(trace, member, leave_ns, trusted, out)


def check_queues(trace: Trace, out: Findings) -> None:
    for member in trace.journals:
        if member not in trace.lives.torn:
            _queue(trace, member, out)


# ---------------------------------------------------------------------------- joined and left


def _deltas(trace: ViewTrace, member: Member, out: Findings) -> None:
    before: frozenset[Member] | None = None
    for row in trace.installs[member]:
        here = frozenset(zip(row.members, row.member_incarnations, strict=True))
        joined, left = (
            named(row.joined, row.joined_incarnations),
            named(row.left, row.left_incarnations),
        )
        if joined is not None and left is not None:
            out.evaluated(DELTA)
            came, went = NOBODY, NOBODY  # a first view reports no changes
            if before is not None:
                came, went = here - before, before - here
            if (joined, left) != (came, went):
                text = (
                    f"{label(member)} got a report that {labels(joined)} joined and {labels(left)} "
                )
                text += f"left with {row.view}; {labels(came)} did, and {labels(went)}"
                out.violated(DELTA, text, [row], view=row.view)
        before = here


# ---------------------------------------------------------------------------- the end


def _stop(
    trace: ViewTrace, member: Member, leave_ns: int | None, trusted: bool, out: Findings
) -> None:
    row = trace.lives.stopped.get(member)
    if row is None:
        return
    if row.reason == "name-in-use":
        view = trace.installs[member][-1] if trace.installs[member] else None
        if view is not None and len(view.members) > 1:
            out.evaluated(STOP)
            text = f"{label(member)} stopped because its name is in use, though it was accepted in "
            out.violated(STOP, text + view.view, [view, row], view=view.view)
            return
        accepted = next((v for v in trace.installs[member] if len(v.members) > 1), None)
        if accepted is not None and not trusted:
            out.evaluated(STOP)
            text = f"{label(member)} stopped because its name is in use, though it was a member in "
            text += f"{accepted.view} and packets may be forged"
            out.violated(STOP, text, [accepted, row], view=accepted.view)
            return
        rivals = [m for m in trace.installs if m != member and m[0] == member[0]]
        if not rivals and not (trace.over and row.sim_ns is not None):
            return  # the journal of its namesake may be missing
        out.evaluated(STOP)
        if not any(_lived_with(trace, rival, member, row) for rival in rivals):
            text = f"{label(member)} stopped because its name is in use, and nobody used it"
            out.violated(STOP, text, [row])
    elif row.reason == "left" and len(trace.installs[member]) > 1:
        out.evaluated(STOP)
        asked = next((step for step in trace.steps[member] if step.action == "LEAVE"), None)
        if asked is None:
            out.violated(STOP, f"{label(member)} left without being asked to", [row])
        elif leave_ns is not None and row.t_ns < asked.t_ns + leave_ns:  # by its own clock
            _waits(trace, member, asked, row, out)


def _waits(
    trace: ViewTrace, member: Member, asked: ViewChangeStep, stop: Life, out: Findings
) -> None:
    """A member that stops before its time to leave is over waits until the others it counts, except
    those that leave too (`gone_by`), have removed it."""
    for other in trace.views[trace.installs[member][-1].view]:
        if other == member or label(other) in asked.failed_after or other not in trace.installs:
            continue
        if other in trace.lives.torn or trace.lives.gone_by(other, stop.sim_ns or 0):
            continue
        out.evaluated(STOP)
        if not _has_left_out(trace, other, member, stop):
            text = f"{label(member)} stopped before {label(other)} had left it out"
            out.violated(STOP, text, [asked, stop], other[0])


def _has_left_out(trace: ViewTrace, other: Member, member: Member, stop: Life) -> bool:
    by_ns = stop.sim_ns or 0
    return any(
        (step.sim_ns or 0) <= by_ns and label(member) in step.failed_after
        for step in trace.steps[other]
    ) or any(
        (row.sim_ns or 0) <= by_ns and member not in trace.inside[row.view]
        for row in trace.installs[other][1:]
    )


def _lived_with(trace: ViewTrace, rival: Member, member: Member, stop: Life) -> bool:
    """Whether a process of the same name lived at the same time as the member. True if there is no
    common clock, or if rows may be missing."""
    if rival in trace.lives.torn or not trace.over:
        return True
    end = trace.lives.crashed.get(rival) or trace.lives.stopped.get(rival)
    began, ended = trace.lives.began_ns[rival], None if end is None else end.sim_ns
    started = trace.lives.began_ns[member]
    if stop.sim_ns is None or began is None or started is None:
        return True
    return began <= stop.sim_ns and (ended is None or ended >= started)


def _queue(trace: Trace, member: Member, out: Findings) -> None:
    rows = trace.queues[member]
    submits, at, given = trace.submits[member], 0, 0
    earlier = (0, 0, 0)
    for row in rows:
        out.evaluated(QUEUE)
        while at < len(submits) and submits[at].lseq < row.lseq:
            given += submits[at].last - submits[at].first + 1
            at += 1
        counts = row.accepted, row.submitted, row.refused
        grew = all(now >= before for now, before in zip(counts, earlier, strict=True))
        # At the end of a life the messages still queued are refused without a row of their own.
        silent = row.refused > earlier[2] and row.reason is None and row is not rows[-1]
        if not grew or silent or row.accepted < row.submitted + row.refused:
            text = f"{label(member)}: the counts of its queue contradict each other"
            out.violated(QUEUE, text, [row])
        elif row.submitted != given:
            text = f"{label(member)} submitted {given} messages, its queue counts {row.submitted}"
            out.violated(QUEUE, text, [row])
        earlier = counts
    stop = trace.lives.stopped.get(member)
    if not rows or stop is None or (stop.reason in CUT_SHORT and not trace.over):
        return
    last = rows[-1]
    if last.accepted > last.submitted + last.refused:
        text = f"{label(member)} accepted {last.accepted} messages, submitted {last.submitted} and "
        out.violated(QUEUE, f"{text}refused {last.refused}", [last])
