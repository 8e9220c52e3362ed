"""Safe delivery: a safe message is delivered as regular only when all members of the view have it.

safe-prefix   If a member delivers a safe message before the transitional marker, every member of
              the view installed the view, and delivers the message in it, before or after its own
              marker, unless it crashes or leaves.

A message is stable after a frame of every member that was sent in the view. A member that never
installed the view sent none, so then a regular delivery is wrong even if that member crashed.

Deliveries are due from members that left the view, and from all once the run has settled. In a
simulation the moment of the delivery is checked too: a probe knows when each member had each
frame. docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label, messages
from phalanx.verify.checkers.receipt_truth import Inserted
from phalanx.verify.checkers.trace import DeliveredRange, Trace

NAME = "safe-prefix"


def check_safe(trace: Trace, inserted: Inserted | None, out: Findings) -> None:
    """The others owe the same whichever member delivered: each range is checked once, for its
    earliest delivery."""
    earliest: dict[tuple[str, Member, int, int], DeliveredRange] = {}
    for view, by_member in trace.by_view.items():
        for parts in by_member.values():
            for part in parts:
                if part.row.service == "SAFE" and part.row.region == "REGULAR":
                    key = view, part.sender, part.first, part.last
                    known = earliest.get(key)
                    if known is None or (part.row.sim_ns or 0) < (known.row.sim_ns or 0):
                        earliest[key] = part
    absent: set[tuple[str, Member]] = set()
    reported: set[tuple[Member, Member, int]] = set()
    for part in earliest.values():
        _all_deliver(trace, part, inserted is not None, absent, reported, out)
        if inserted is not None:
            _all_have(trace, part, inserted, out)


def _all_deliver(
    trace: Trace,
    part: DeliveredRange,
    simulated: bool,
    absent: set[tuple[str, Member]],
    reported: set[tuple[Member, Member, int]],
    out: Findings,
) -> None:
    view = part.row.view
    lives = trace.lives
    for other in trace.views.get(view, ()):
        if other not in trace.journals or other in lives.torn:
            continue
        if view not in trace.installed[other]:
            # A crash loses the end of a journal, except in a simulation.
            if lives.whole(other) or (simulated and other in lives.crashed):
                out.evaluated(NAME)
                if (view, other) not in absent:
                    absent.add((view, other))
                    text = f"{label(part.member)} delivered {part} as safe in {view}, "
                    text += f"which {label(other)} never installed"
                    out.violated(NAME, text, [part.row], other[0], part.sender[0])
            continue
        settled = trace.over and lives.alive(other) and trace.last_view(other) == view
        if (settled or trace.closed(other, view)) and part.is_for(other):
            out.evaluated(NAME)
            _delivers(trace, part, other, reported, out)


def _delivers(
    trace: Trace,
    part: DeliveredRange,
    other: Member,
    reported: set[tuple[Member, Member, int]],
    out: Findings,
) -> None:
    view = part.row.view
    gap = trace.lacks(other, part.sender, part.first, part.last)
    if gap is None:
        spans, rows = trace.delivered[other][part.sender], trace.deliveries[other]
        at = spans.index(part.first)
        if spans.lasts[at] >= part.last and rows[spans.values[at]].view == view:
            return
        elsewhere = [
            (lo, hi)
            for lo, hi, at in spans.within(part.first, part.last)
            if rows[spans.values[at]].view != view
        ]
        if not elsewhere:
            return
        gap = elsewhere[0]
    if (other, part.sender, gap[0]) in reported:
        return
    reported.add((other, part.sender, gap[0]))
    text = (
        f"{label(part.member)} delivered {messages(part.sender, *gap)} as safe in {view}, "
        f"{label(other)} did not deliver it there"
    )
    out.violated(NAME, text, [part.row], other[0], part.sender[0])


def _all_have(trace: Trace, part: DeliveredRange, inserted: Inserted, out: Findings) -> None:
    """Stability needs the whole view, those included to whom it was not addressed."""
    now = part.row.sim_ns
    if now is None:
        return
    for other in trace.views.get(part.row.view, ()):
        if other == part.sender:
            continue
        out.evaluated(NAME)
        had = inserted.get((*other, *part.sender, part.row.frame))
        if had is None or had > now:
            when = "never had it" if had is None else f"had it only at {had}"
            text = (
                f"{label(part.member)} delivered {part} as safe in {part.row.view} at {now}, "
                f"{label(other)} {when} (frame {part.row.frame})"
            )
            out.violated(NAME, text, [part.row], other[0], part.sender[0])
