"""Merge reports: a merged view reports what each component had delivered.

merge-report-truth   For each component, a merged view reports how far those of its members that
                     come to the view had delivered: at least as far as when they proposed it, at
                     most as far as when they came to it. What only this component had delivered
                     are ranges of numbers that its members delivered since they met the sender,
                     above all that members of other components had delivered, had been told of
                     by an earlier merge, or could not have because they met the sender later. All
                     that its members had delivered when they proposed and that is above that is in
                     these ranges, if the sender is known to another component, and the members of
                     the other components were in no view with messages of it for some only. All
                     members get the same report.

docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable
from itertools import chain

import msgspec

from phalanx.journal.schema import MergedComponent, ViewChangeStep, ViewInstalled
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label, labels, messages
from phalanx.verify.checkers.trace import Trace

MERGE = "merge-report-truth"
ISSUES = ("COMMIT", "FA", "FOLLOW")
"""Steps by which a member proposes a view."""
REMEMBERED_MAX = 1024
"""A member remembers the progress of this many members it has met."""
Upto = dict[Member, int]
"""Per sender, the number of a message."""


class Standing(msgspec.Struct, frozen=True):
    """How far a member had come with the messages of each sender when it came to a view."""

    proposed: Upto | None
    """Delivered when it proposed the view; None if its journal does not show that, or if it has met
    more members than it remembers, and may report less than it delivered."""
    delivered: Upto
    met: Upto
    """Sent, as far as was reported, before the two met last; the member has none of these."""
    told: Upto
    """Delivered by a component of an earlier merge, as that reported, of known senders."""
    known: frozenset[Member]
    """Whom it was in a view with."""
    views: tuple[str, ...]
    """The last two views before, and their components: messages are carried from these."""

    def knows(self, sender: Member) -> int:
        """No message up to this number is delivered by another component alone."""
        return max(numbers.get(sender, 0) for numbers in (self.delivered, self.met, self.told))


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
    standings = _Standings(trace, first)
    for view, sides in first.items():
        _merge(trace, view, sides, standings, out)


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
    trace: Trace, view: str, sides: list[MergedComponent], standings: _Standings, out: Findings
) -> None:
    """Compare the report on each component with the deliveries of its members."""
    every: list[list[Standing | None]] = []
    for side in sides:
        out.evaluated(MERGE)
        members = set(_members(side))
        here = trace.inside.get(side.component)
        if here is not None and here != members:
            text = f"{view} reports that {side.component} was of {labels(frozenset(members))}, "
            out.violated(MERGE, f"{text}but it was of {labels(here)}", [side])
            every.append([None])
            continue
        came = [m for m in sorted(members) if m in trace.inside.get(view, ())]
        came = [m for m in came if trace.before.get((m, view), side.component) == side.component]
        every.append([standings.of.get((member, view)) for member in came])
        _progress(view, side, every[-1], out)
    for index, side in enumerate(sides):
        others = [s for at, some in enumerate(every) if at != index for s in some]
        theirs = [some for at, some in enumerate(sides) if at != index]
        acquainted = {m for some in theirs for m in (*_members(some), *_said(some))}
        _alone(trace, view, side, every[index], others, acquainted, out)


def _members(side: MergedComponent) -> Iterable[Member]:
    return zip(side.members, side.member_incarnations, strict=True)


def _progress(view: str, side: MergedComponent, came: list[Standing | None], out: Findings) -> None:
    """Compare the reported progress with the deliveries of the members that come to the view."""
    said = _said(side)
    least: Upto = {}
    most: Upto = {}
    complete = True
    for standing in came:
        if standing is None or standing.proposed is None:
            complete = False
            continue
        _raise(least, standing.proposed)
        _raise(most, standing.delivered)
    for sender in sorted(least.keys() | said.keys()):
        stated, low, high = (numbers.get(sender, 0) for numbers in (said, least, most))
        if stated < low or (complete and stated > high):
            real = low if stated < low else high
            text = f"{view} reports that {side.component} had delivered "
            text += f"{messages(sender, stated, stated)}, but it was {messages(sender, real, real)}"
            out.violated(MERGE, text, [side])


def _alone(
    trace: Trace,
    view: str,
    side: MergedComponent,
    came: list[Standing | None],
    others: list[Standing | None],
    acquainted: set[Member],
    out: Findings,
) -> None:
    """What a component is said to have delivered alone. `others` are the members of the other
    components that come to the view, `acquainted` whom those name."""
    claims: dict[Member, list[tuple[int, int]]] = {}
    senders = zip(side.alone, side.alone_incarnations, strict=True)
    for sender, first, last in zip(senders, side.alone_first, side.alone_last, strict=True):
        claims.setdefault(sender, []).append((first, last))
    here = [s for s in came if s is not None and s.proposed is not None]
    there = [s for s in others if s is not None and s.proposed is not None]
    complete = len(here) == len(came), len(there) == len(others)
    acquainted = acquainted.union(*(standing.known for standing in there))
    for sender in sorted({s for standing in here for s in standing.delivered} | claims.keys()):
        floor = max((standing.knows(sender) for standing in there), default=0)
        wrong = any(first <= floor or last < first for first, last in claims.get(sender, ()))
        if complete[0]:
            had = [(s.met.get(sender, 0) + 1, s.delivered.get(sender, 0)) for s in here]
            wrong = wrong or not _covers(had, claims.get(sender, []))
        if all(complete) and sender not in acquainted:
            wrong = wrong or sender in claims
        elif all(complete) and _is_plain(trace, sender, there):
            wanted = [
                (max(s.met.get(sender, 0), floor) + 1, s.proposed.get(sender, 0))
                for s in here
                if s.proposed is not None
            ]
            wrong = wrong or not _covers(claims.get(sender, []), wanted)
        if wrong:
            text = f"{view} reports wrongly what only {side.component} had delivered"
            out.violated(MERGE, f"{text} of {label(sender)}", [side])


def _is_plain(trace: Trace, sender: Member, standings: list[Standing]) -> bool:
    """Whether these members knew of no message of the sender that was for others: what they say of
    its messages follows from what they delivered."""
    views = {view for standing in standings for view in standing.views}
    here = sender in trace.journals and sender not in trace.lives.torn
    return here and all((sender, view) not in trace.selective for view in views)


def _covers(ranges: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> bool:
    """Whether every number of the wanted ranges is in one of these."""
    ordered = sorted(ranges)
    for first, last in wanted:
        at = first
        for begin, end in ordered:
            if begin <= at <= end:
                at = end + 1
        if at <= last:
            return False
    return True


def _said(side: MergedComponent) -> Upto:
    senders = zip(side.delivered, side.delivered_incarnations, strict=True)
    return dict(zip(senders, side.delivered_upto, strict=True))


def _raise(numbers: Upto, by: Upto) -> None:
    for sender, number in by.items():
        numbers[sender] = max(numbers.get(sender, 0), number)


class _Standings:
    """How far each member had come at each of these merged views, as its journal shows it."""

    def __init__(self, trace: Trace, views: Container[str]) -> None:
        self.of: dict[tuple[Member, str], Standing] = {}
        for member in trace.journals:
            if member not in trace.lives.torn:
                self._read(trace, member, views)

    def _read(self, trace: Trace, member: Member, views: Container[str]) -> None:
        deliveries, at = trace.deliveries[member], 0
        best: Upto = {}
        met: Upto = {}
        told: Upto = {}
        known: set[Member] = set()
        been: list[tuple[str, ...]] = []

        def delivered(lseq: int) -> Upto:
            nonlocal at
            while at < len(deliveries) and deliveries[at].lseq < lseq:
                row = deliveries[at]
                _raise(best, {(row.sender, row.sender_incarnation): row.last})
                at += 1
            return best.copy()

        for install in trace.installs[member]:
            if install.view in views:
                issued = _issue(trace.steps[member], install)
                proposed = None if issued is None else delivered(issued.lseq)
                if len(known | trace.inside[install.view]) > REMEMBERED_MAX:
                    proposed = None
                numbers = delivered(install.lseq), met.copy(), told.copy()
                facts = (*numbers, frozenset(known), tuple(chain(*been[-2:])))
                self.of[member, install.view] = Standing(proposed, *facts)
            been.append((install.view, *install.components))
            known |= trace.inside[install.view]
            reported: Upto = {}
            for side in trace.sides[member].get(install.view, ()):
                _raise(reported, _said(side))
            together = zip(install.transitional, install.transitional_incarnations, strict=True)
            for other in trace.inside[install.view].difference(together, (member,)):
                met[other] = reported.get(other, 0)
            _raise(told, {m: number for m, number in reported.items() if m in known})


def _issue(steps: list[ViewChangeStep], install: ViewInstalled) -> ViewChangeStep | None:
    """The step by which a member proposed the view that it installs."""
    for at in range(bisect_left(steps, install.lseq, key=lambda s: s.lseq) - 1, -1, -1):
        if steps[at].action in ISSUES and steps[at].context == install.context:
            return steps[at]
    return None
