"""Reports to the application about merges, its queue and its receipts, on rows of few members.

Checks that need messages run on Spark: `receipts` and `merges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phalanx.pipeline.audit.chronicle import Chronicle, Fate, Install, MemberRecord
from phalanx.pipeline.audit.group_findings import GroupFindings
from phalanx.pipeline.audit.report_rows import Closing, Side

PROPOSALS = ("COMMIT", "FA", "FOLLOW")
"""Steps with which a member proposes a view."""
MERGE = "merge-report-truth"
REMEMBERED_MAX = 1024
"""A member reports how far it delivered of so many members that it met."""
CUT_SHORT = ("ended", "failed")
"""Stops that leave messages waiting: the run ended, unless it settled, or an error ended it."""


def reports(run: Chronicle, out: GroupFindings) -> None:
    for member in run.known:
        if not member.torn:
            _queue(run, member, out)
            _receipts(run, member, out)


def _list(labels: Iterable[str]) -> str:
    return " ".join(sorted(labels)) or "nobody"


# ---------------------------------------------------------------------------- the queue


def _queue(run: Chronicle, member: MemberRecord, out: GroupFindings) -> None:
    """All that was accepted is submitted, or refused with a reason, once the member has stopped."""
    name, given = "accepted-is-sent", member.excerpt.submitted
    earlier = member.excerpt.queue
    for index, row in enumerate(member.queues):
        counts = row.accepted, row.submitted, row.refused
        if earlier is None or given is None:  # rows before are missing: it is what others begin at
            earlier, given = counts, row.submitted
            continue
        out.asked(name)
        given += member.submitted.get(index, 0)
        grew = all(now >= before for now, before in zip(counts, earlier, strict=True))
        # At the end of a life the rest is refused without a row of its own.
        last = row is member.queues[-1] and not member.excerpt.goes_on
        silent = row.refused > earlier[2] and row.reason is None and not last
        shown = [(member, row.lseq)]
        if not grew or silent or row.accepted < row.submitted + row.refused:
            out.found(f"{name}/counts", who=member, rows=shown)
        elif row.submitted != given:
            note = f"{given} messages, its queue counts {row.submitted}"
            out.found(f"{name}/given", who=member, note=note, rows=shown)
        earlier = counts
    stop = None if member.excerpt.goes_on else member.stop
    if not member.queues or stop is None or (stop.reason in CUT_SHORT and not run.settled):
        return
    row = member.queues[-1]
    if row.accepted > row.submitted + row.refused:
        note = f"{row.accepted} messages, submitted {row.submitted} and refused {row.refused}"
        out.found(f"{name}/kept", who=member, note=note, rows=[(member, row.lseq)])


# ---------------------------------------------------------------------------- receipts


def _receipts(run: Chronicle, member: MemberRecord, out: GroupFindings) -> None:
    """In a settled run a living sender has both receipts for all that it sent."""
    last, name = member.sent_last, "receipt-liveness"
    if not (last and member.tells and member in run.living):
        return
    for what in ("ordered", "stable"):
        out.asked(name)
        upto = member.receipts[what].upto if what in member.receipts else 0
        if upto < last:
            shown = [(member, member.sent_last_lseq)]
            out.found(f"{name}/", who=member, first=upto + 1, last=last, note=what, rows=shown)


def promises(
    run: Chronicle, out: GroupFindings
) -> Iterator[tuple[MemberRecord, Closing, list[MemberRecord]]]:
    """Per receipt at the end of a view, the members of which it speaks: of those that move on
    together, those that come to the next view. In older journals receipts do not name them."""
    for member in run.known:
        for row in member.closings if not member.torn else ():
            at = member.next.get(row.v)
            after = None if at is None else member.installs[at]
            ends = after is not None and after.step == row.step
            if row.members is None and member.tells:
                continue  # it speaks of the whole view
            if not ends and not run.step_ended(member, row.step):
                yield member, row, []  # the view that ends this one may be among what is missing
                continue
            if not ends and row.members is None:
                continue
            together = after.transitional if after is not None and ends else None
            if row.members is not None and (together is None or set(row.members) != set(together)):
                note, shown = ", ".join(row.members) or "nobody", [(member, row.lseq)]
                out.found("receipt-truth/together", who=member, v=row.v, note=note, rows=shown)
                yield member, row, []
                continue
            assert after is not None
            come = [
                m for m in run.known if m.label in after.transitional and after.v in m.installed
            ]
            yield member, row, come


# ---------------------------------------------------------------------------- merges


def proposals(
    run: Chronicle, out: GroupFindings
) -> Iterator[tuple[MemberRecord, Side, list[tuple[MemberRecord | None, Fate | None]]]]:
    """Per merged view and component the first report, and each member of the component that comes
    from it to the view with the step that proposed it; None where journals do not show it. Each
    member gets a report of each component, all get the same, and what they say of one component
    alone follows from the rest."""
    first: dict[int, tuple[MemberRecord, list[Side]]] = {}
    for member in run.known:
        if member.tells and not member.torn:
            _sides(run, member, first, out)
    for v, (member, sides) in first.items():
        inside = run.views[v].inside
        for side in sides:
            out.asked(MERGE)
            here = run.views[side.w].inside if side.w in run.views else None
            if here is not None and here != set(side.members):
                note = f"{_list(side.members)}, but it was of {_list(here)}"
                shown = [(member, side.lseq)]
                out.found(f"{MERGE}/members", who=member, v=v, w=side.w, note=note, rows=shown)
                continue
            come = [label for label in side.members if label in inside]
            yield member, side, [_proposal(run, x, side) for x in come if _from(run, x, side)]


def _sides(
    run: Chronicle,
    member: MemberRecord,
    first: dict[int, tuple[MemberRecord, list[Side]]],
    out: GroupFindings,
) -> None:
    """Compare the reports of a member with the components of its views, and with the first."""
    for install in member.installs:
        if len(install.components) < 2 or not run.step_ended(member, install.step):
            continue
        out.asked(MERGE)
        v, sides = install.v, member.sides.get(install.v, [])
        if sorted(side.component for side in sides) != sorted(install.components):
            out.found(f"{MERGE}/each", who=member, v=v, rows=[(member, install.lseq)])
        elif v not in first:
            first[v] = (member, sides)
        else:
            other, theirs = first[v]
            if [_content(side) for side in sides] != [_content(side) for side in theirs]:
                shown = [(member, sides[0].lseq), (other, theirs[0].lseq)]
                out.found(f"{MERGE}/apart", who=member, other=other, v=v, rows=shown)


def _from(run: Chronicle, label: str, side: Side) -> bool:
    """Whether a member may have come to the merged view from this component."""
    member = run.by_label.get(label)
    return member is None or member.came.get(side.v) in (None, side.w)


def _content(side: Side) -> tuple[object, ...]:
    alone = (side.alone, side.alone_first, side.alone_last)
    return (side.w, side.members, side.delivered, side.delivered_upto, *alone)


def _proposal(run: Chronicle, label: str, side: Side) -> tuple[MemberRecord | None, Fate | None]:
    """A member that has met more members than it remembers may report less than it delivered: it
    is not asked."""
    member = run.by_label.get(label)
    if member is None or member.torn or member.excerpt.delivered is None:
        return member, None
    met: set[str] = set()
    for install in member.installs:
        met |= run.views[install.v].inside
        if install.v == side.v:
            known = len(met) <= REMEMBERED_MAX
            return member, _proposed(member, install) if known else None
    return member, None


def _proposed(member: MemberRecord, install: Install) -> Fate | None:
    """The last step before the install that proposes a view of its context."""
    for step in reversed(member.steps):
        if step.lseq < install.lseq and step.op in PROPOSALS and step.context == install.context:
            return step
    return None
