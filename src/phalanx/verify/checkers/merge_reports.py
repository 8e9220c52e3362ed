"""Merge reports: a merged view reports what each component had delivered.

merge-report-truth   For each component, a merged view reports how far those of its members that
                     come to the view had delivered when they proposed it, and which messages only
                     this component had delivered. All members get the same report.

docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container

from phalanx.journal.schema import MergedComponent, ViewChangeStep, ViewInstalled
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label, labels, messages
from phalanx.verify.checkers.trace import Trace

MERGE = "merge-report-truth"
ISSUES = ("COMMIT", "FA", "FOLLOW")
"""Steps by which a member proposes a view."""
REMEMBERED_MAX = 1024
"""A member remembers the progress of this many members it has met."""


def check_merges(trace: Trace, out: Findings) -> None:
    first: dict[str, list[MergedComponent]] = {}
    for member, installs in trace.installs.items():
        if member in trace.lives.torn or not trace.reports_all(member):
            continue
        for install in installs:
            if len(install.components) < 2 or not trace.step_ended(install):
                continue
            out.evaluated(MERGE)
            sides = trace.sides[member].get(install.view, [])
            if sorted(side.component for side in sides) != sorted(install.components):
                text = f"{label(member)} got no report of each component of {install.view}"
                out.violated(MERGE, text, [install, *sides])
            elif install.view not in first:
                first[install.view] = sides
            else:
                theirs = first[install.view]
                if [_content(side) for side in sides] != [_content(side) for side in theirs]:
                    other = f"{theirs[0].member}.{theirs[0].incarnation}"
                    text = f"{label(member)} and {other} got different reports of {install.view}"
                    out.violated(MERGE, text, [sides[0], theirs[0]])
    proposed = _Proposed(trace, first)
    for view, sides in first.items():
        _merge(trace, view, sides, proposed, out)


def _content(side: MergedComponent) -> tuple[object, ...]:
    lists = (
        side.members,
        side.member_incarnations,
        side.delivered,
        side.delivered_incarnations,
        side.delivered_upto,
    )
    alone = (side.alone, side.alone_incarnations, side.alone_first, side.alone_last)
    return (side.component, *lists, *alone)


def _merge(
    trace: Trace, view: str, sides: list[MergedComponent], proposed: _Proposed, out: Findings
) -> None:
    """Compare the report on each component with the deliveries of its members."""
    reported: list[dict[Member, int]] = []
    for side in sides:
        out.evaluated(MERGE)
        said = dict(
            zip(
                zip(side.delivered, side.delivered_incarnations, strict=True),
                side.delivered_upto,
                strict=True,
            )
        )
        reported.append(said)
        members = list(zip(side.members, side.member_incarnations, strict=True))
        here = trace.inside.get(side.component)
        if here is not None and here != set(members):
            text = f"{view} reports that {side.component} was of {labels(frozenset(members))}, "
            out.violated(MERGE, f"{text}but it was of {labels(here)}", [side])
            continue
        _progress(trace, view, side, said, proposed, out)
    for index, side in enumerate(sides):
        wanted = _alone(reported, index)
        ranges = zip(
            side.alone, side.alone_incarnations, side.alone_first, side.alone_last, strict=True
        )
        if [
            ((name, incarnation), first, last) for name, incarnation, first, last in ranges
        ] != wanted:
            text = f"{view} reports wrongly what only {side.component} had delivered"
            out.violated(MERGE, text, [side])


def _progress(
    trace: Trace,
    view: str,
    side: MergedComponent,
    said: dict[Member, int],
    proposed: _Proposed,
    out: Findings,
) -> None:
    """Compare the reported progress with the deliveries of the members that come to the view."""
    best: dict[Member, int] = {}
    complete = True
    for member in zip(side.members, side.member_incarnations, strict=True):
        if member not in trace.inside.get(view, ()):
            continue
        origin = trace.before.get((member, view))
        if origin is not None and origin != side.component:
            continue
        delivered = proposed.delivered.get((member, view))
        if delivered is None:
            complete = False
            continue
        for sender, number in delivered.items():
            best[sender] = max(best.get(sender, 0), number)
    for sender in sorted(best.keys() | said.keys()):
        stated, real = said.get(sender, 0), best.get(sender, 0)
        if stated < real or (complete and stated > real):
            text = f"{view} reports that {side.component} had delivered "
            text += f"{messages(sender, stated, stated)}, but it was {messages(sender, real, real)}"
            out.violated(MERGE, text, [side])


def _alone(reported: list[dict[Member, int]], index: int) -> list[tuple[Member, int, int]]:
    """The messages only this component had delivered, of senders known to another one."""
    found = []
    for sender, number in sorted(reported[index].items()):
        others = [r[sender] for i, r in enumerate(reported) if i != index and sender in r]
        if others and number > max(others):
            found.append((sender, max(others) + 1, number))
    return found


class _Proposed:
    """Per member and merged view, how far the member had delivered each sender's messages when it
    proposed the view, if its journal shows it. A member that has met more members than it remembers
    may report less than it delivered, so it is left out."""

    def __init__(self, trace: Trace, vids: Container[str]) -> None:
        self.delivered: dict[tuple[Member, str], dict[Member, int]] = {}
        for member in trace.journals:
            if member not in trace.lives.torn:
                self._read(trace, member, vids)

    def _read(self, trace: Trace, member: Member, vids: Container[str]) -> None:
        """Read the deliveries of a member once, and take the progress at each of its proposals."""
        stops: list[tuple[int, str]] = []
        met: set[Member] = set()
        for install in trace.installs[member]:
            met |= trace.inside[install.view]
            issued = _issue(trace.steps[member], install) if install.view in vids else None
            if issued is not None and len(met) <= REMEMBERED_MAX:
                stops.append((issued.lseq, install.view))
        deliveries, at = trace.deliveries[member], 0
        best: dict[Member, int] = {}
        for lseq, view in sorted(stops):
            while at < len(deliveries) and deliveries[at].lseq < lseq:
                row = deliveries[at]
                sender = (row.sender, row.sender_incarnation)
                best[sender] = max(best.get(sender, 0), row.last)
                at += 1
            self.delivered.setdefault((member, view), dict(best))


def _issue(steps: list[ViewChangeStep], install: ViewInstalled) -> ViewChangeStep | None:
    """The step by which a member proposed the view that it installs."""
    for at in range(bisect_left(steps, install.lseq, key=lambda s: s.lseq) - 1, -1, -1):
        if steps[at].action in ISSUES and steps[at].context == install.context:
            return steps[at]
    return None
