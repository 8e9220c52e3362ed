"""What an application is told with a view, at its end and of its queue is true.

view-delta-truth     A view's `joined` and `left` are the differences to the view before.
merge-report-truth   A merged view reports of each component how far those of its members that come
                     to the view had delivered when they proposed it, and which messages one
                     component alone had delivered; all members get the same report.
no-needless-stop     A member stops because its name is in use only if it is alone in its view and
                     another process with its name lived at the same time; it leaves only if it was
                     asked to, when the others have left it out or its time to leave is over.
accepted-is-sent     Messages that the queue of a member accepted are given to the protocol, or
                     refused with a reason.
"""

from __future__ import annotations

from phalanx.journal.events import CtxStep, Life, MergeSide, ViewInstall
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.names import Member, label, messages
from phalanx.sim.checkers.trace import Trace

DELTA, MERGE = "view-delta-truth", "merge-report-truth"
STOP, QUEUE = "no-needless-stop", "accepted-is-sent"
ISSUES = ("COMMIT", "FA", "FOLLOW")
"""Steps with which a member proposes a view."""


def check_reports(trace: Trace, leave_ns: int | None, out: Findings) -> None:
    """`leave_ns` is how long a member that leaves waits for the others, where a simulator knows."""
    for member in trace.journals:
        if member not in trace.lives.torn:
            _deltas(trace, member, out)
            _stop(trace, member, leave_ns, out)
            _queue(trace, member, out)
    _merges(trace, out)


# ---------------------------------------------------------------------------- joined and left


def _deltas(trace: Trace, member: Member, out: Findings) -> None:
    before: set[Member] = set()
    for row in trace.installs[member]:
        here = set(zip(row.members, row.member_incs, strict=True))
        if row.joined is not None and row.left is not None:
            out.evaluated(DELTA)
            joined = set(zip(row.joined, row.joined_incs or (), strict=True))
            left = set(zip(row.left, row.left_incs or (), strict=True))
            booted = row.cause == "BOOT"
            wanted = (set(), set()) if booted else (here - before, before - here)
            if (joined, left) != wanted:
                text = f"{label(member)} was told that {_list(joined)} joined and {_list(left)} "
                text += f"left with {row.vid}; {_list(wanted[0])} did, and {_list(wanted[1])}"
                out.violated(DELTA, text, [row])
        before = here


def _list(members: set[Member]) -> str:
    return " ".join(map(label, sorted(members))) or "nobody"


# ---------------------------------------------------------------------------- merges


def _merges(trace: Trace, out: Findings) -> None:
    first: dict[str, tuple[Member, list[MergeSide]]] = {}
    for member, reports in trace.sides.items():
        if member in trace.lives.torn:
            continue
        for vid, sides in reports.items():
            if vid not in first:
                first[vid] = (member, sides)
                _merge(trace, vid, sides, out)
                continue
            out.evaluated(MERGE)
            other, theirs = first[vid]
            if [_content(side) for side in sides] != [_content(side) for side in theirs]:
                text = f"{label(member)} and {label(other)} got different reports of {vid}"
                out.violated(MERGE, text, [sides[0], theirs[0]])


def _content(side: MergeSide) -> tuple[object, ...]:
    lists = (side.members, side.member_incs, side.senders, side.sender_incs, side.upto)
    alone = (side.alone, side.alone_incs, side.alone_first, side.alone_last)
    return (side.side_vid, *lists, *alone)


def _merge(trace: Trace, vid: str, sides: list[MergeSide], out: Findings) -> None:
    """Compare what is reported of each component with what its members had delivered."""
    reported: list[dict[Member, int]] = []
    for side in sides:
        out.evaluated(MERGE)
        said = dict(zip(zip(side.senders, side.sender_incs, strict=True), side.upto, strict=True))
        reported.append(said)
        members = list(zip(side.members, side.member_incs, strict=True))
        come = [m for m in members if m in trace.inside.get(vid, ())]
        seen = [_delivered_before(trace, m, side.side_vid, vid) for m in come]
        best: dict[Member, int] = {}
        for delivered in seen:
            for sender, number in (delivered or {}).items():
                best[sender] = max(best.get(sender, 0), number)
        complete = all(delivered is not None for delivered in seen)
        for sender in sorted(best.keys() | said.keys()):
            told, real = said.get(sender, 0), best.get(sender, 0)
            if told < real or (complete and told > real):
                text = f"{vid} reports that {side.side_vid} had delivered "
                text += f"{messages(sender, told, told)}, but it was {messages(sender, real, real)}"
                out.violated(MERGE, text, [side])
    for index, side in enumerate(sides):
        wanted = _alone(reported, index)
        ranges = zip(side.alone, side.alone_incs, side.alone_first, side.alone_last, strict=True)
        if [((name, inc), first, last) for name, inc, first, last in ranges] != wanted:
            text = f"{vid} reports wrongly what only {side.side_vid} had delivered"
            out.violated(MERGE, text, [side])


def _alone(reported: list[dict[Member, int]], index: int) -> list[tuple[Member, int, int]]:
    """The messages that only one component had delivered, of senders that another one knows."""
    found = []
    for sender, number in sorted(reported[index].items()):
        others = [r[sender] for i, r in enumerate(reported) if i != index and sender in r]
        if others and number > max(others):
            found.append((sender, max(others) + 1, number))
    return found


def _delivered_before(
    trace: Trace, member: Member, side_vid: str, vid: str
) -> dict[Member, int] | None:
    """Per sender, the highest number that a member had delivered when it proposed the view from the
    component; None if its journal does not show it."""
    at = trace.installed.get(member, {}).get(vid)
    if at is None or trace.before.get((member, vid)) != side_vid or member in trace.lives.torn:
        return None
    install = trace.installs[member][at]
    issued = _issue(trace.steps[member], install)
    if issued is None:
        return None
    best: dict[Member, int] = {}
    for row in trace.deliveries[member]:
        if row.lseq > issued.lseq:
            break
        sender = (row.sender, row.sender_inc)
        best[sender] = max(best.get(sender, 0), row.last)
    return best


def _issue(steps: list[CtxStep], install: ViewInstall) -> CtxStep | None:
    """The step with which a member proposed the view that it installs."""
    for step in reversed(steps):
        if step.lseq < install.lseq and step.action in ISSUES and step.context == install.context:
            return step
    return None


# ---------------------------------------------------------------------------- the end


def _stop(trace: Trace, member: Member, leave_ns: int | None, out: Findings) -> None:
    row = trace.lives.stopped.get(member)
    if row is None:
        return
    if row.reason == "name-in-use":
        view = trace.installs[member][-1] if trace.installs[member] else None
        if view is not None and len(view.members) > 1:
            out.evaluated(STOP)
            text = f"{label(member)} stopped because its name is in use, though it was accepted in "
            out.violated(STOP, text + view.vid, [view, row])
            return
        rivals = [m for m in trace.journals if m != member and m[0] == member[0]]
        if not rivals and row.sim_ns is None:
            return  # the journal of its namesake was not given
        out.evaluated(STOP)
        if not any(_lived_with(trace, rival, member, row) for rival in rivals):
            text = f"{label(member)} stopped because its name is in use, and nobody used it"
            out.violated(STOP, text, [row])
    elif row.reason == "left" and len(trace.installs[member]) > 1:
        out.evaluated(STOP)
        asked = next((step for step in trace.steps[member] if step.action == "LEAVE"), None)
        if asked is None:
            out.violated(STOP, f"{label(member)} left without being asked to", [row])
        elif leave_ns is not None and (row.sim_ns or 0) < (asked.sim_ns or 0) + leave_ns:
            _waits(trace, member, asked, row, out)


def _waits(trace: Trace, member: Member, asked: CtxStep, stop: Life, out: Findings) -> None:
    """A member that leaves early goes on until the others that it counts have left it out."""
    for other in trace.views[trace.installs[member][-1].vid]:
        if other == member or label(other) in asked.failed_after or other not in trace.journals:
            continue
        if other in trace.lives.torn or trace.lives.gone_by(other, stop.sim_ns or 0):
            continue
        out.evaluated(STOP)
        if not _has_left_out(trace, other, member, stop):
            text = f"{label(member)} stopped before {label(other)} had left it out"
            out.violated(STOP, text, [asked, stop], other[0])


def _has_left_out(trace: Trace, other: Member, member: Member, stop: Life) -> bool:
    by_ns = stop.sim_ns or 0
    return any(
        (step.sim_ns or 0) <= by_ns and label(member) in step.failed_after
        for step in trace.steps[other]
    ) or any(
        (row.sim_ns or 0) <= by_ns and member not in trace.inside[row.vid]
        for row in trace.installs[other][1:]
    )


def _lived_with(trace: Trace, rival: Member, member: Member, stop: Life) -> bool:
    """Whether a namesake lived while the member did. Without a common clock it may have."""
    end = trace.lives.crashed.get(rival) or trace.lives.stopped.get(rival)
    began, ended = trace.journals[rival][0].sim_ns, None if end is None else end.sim_ns
    started = trace.journals[member][0].sim_ns
    if stop.sim_ns is None or began is None or started is None:
        return True
    return began <= stop.sim_ns and (ended is None or ended >= started)


def _queue(trace: Trace, member: Member, out: Findings) -> None:
    rows = trace.queues[member]
    if not rows:
        return
    given = sum(row.last - row.first + 1 for row in trace.submits[member])
    out.evaluated(QUEUE)
    for before, row in zip([None, *rows], rows, strict=False):
        refused = row.refused - (before.refused if before is not None else 0)
        waits = row.accepted - row.submitted - row.refused
        if waits < 0 or (refused and row.reason is None and member not in trace.lives.stopped):
            text = f"{label(member)}: the counts of its queue contradict each other"
            out.violated(QUEUE, text, [row])
    last = rows[-1]
    if member in trace.lives.stopped:
        if last.submitted != given or last.accepted != last.submitted + last.refused:
            text = f"{label(member)} accepted {last.accepted} messages, submitted {given} and "
            text += f"refused {last.refused}"
            out.violated(QUEUE, text, [last])
