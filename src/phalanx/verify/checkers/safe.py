"""Safe prefix: who delivers a safe message before the marker knows that everyone in the view
has it, so everyone in the view delivers it there, in either region, or crashes or leaves
(PROTOCOLS B.5, D.1).

Stability takes a frame of every member that was sent in the view. A member that never installed
the view sent none: then a regular delivery is wrong, whoever crashed.

The end of the story can be asked only of members that left the view behind, or of all once
the run has settled. In a simulation the moment itself can be asked: an omniscient probe says
when each member had each frame.
"""

from __future__ import annotations

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages
from phalanx.verify.checkers.receipt_truth import Inserted
from phalanx.verify.checkers.trace import DeliveredRange, Trace

NAME = "safe-prefix"


def check_safe(trace: Trace, inserted: Inserted | None, out: Findings) -> None:
    """What is asked of the others is the same whoever delivered first: each range is asked
    once, at the earliest moment."""
    earliest: dict[tuple[str, Member, int, int], DeliveredRange] = {}
    for vid, by_member in trace.by_view.items():
        for parts in by_member.values():
            for part in parts:
                if part.row.service == "SAFE" and part.row.region == "REGULAR":
                    key = vid, part.sender, part.first, part.last
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
    vid = part.row.vid
    lives = trace.lives
    for other in trace.views.get(vid, ()):
        if other not in trace.journals or other in lives.torn:
            continue
        if vid not in trace.installed[other]:
            # A crash costs a journal its end, but not in a simulation.
            if lives.whole(other) or (simulated and other in lives.crashed):
                out.evaluated(NAME)
                if (vid, other) not in absent:
                    absent.add((vid, other))
                    text = f"{label(part.member)} delivered {part} as safe in {vid}, "
                    text += f"which {label(other)} never installed"
                    out.violated(NAME, text, [part.row], other[0], part.sender[0])
            continue
        settled = trace.over and lives.alive(other) and trace.last_view(other) == vid
        if (settled or trace.closed(other, vid)) and addressed(other, part.row):
            out.evaluated(NAME)
            _delivers(trace, part, other, reported, out)


def _delivers(
    trace: Trace,
    part: DeliveredRange,
    other: Member,
    reported: set[tuple[Member, Member, int]],
    out: Findings,
) -> None:
    vid = part.row.vid
    gap = trace.lacks(other, part.sender, part.first, part.last)
    if gap is None:
        spans, rows = trace.delivered[other][part.sender], trace.deliveries[other]
        at = spans.index(part.first)
        if spans.lasts[at] >= part.last and rows[spans.values[at]].vid == vid:
            return
        elsewhere = [
            (lo, hi)
            for lo, hi, at in spans.within(part.first, part.last)
            if rows[spans.values[at]].vid != vid
        ]
        if not elsewhere:
            return
        gap = elsewhere[0]
    if (other, part.sender, gap[0]) in reported:
        return
    reported.add((other, part.sender, gap[0]))
    text = (
        f"{label(part.member)} delivered {messages(part.sender, *gap)} as safe in {vid}, "
        f"{label(other)} did not deliver it there"
    )
    out.violated(NAME, text, [part.row], other[0], part.sender[0])


def _all_have(trace: Trace, part: DeliveredRange, inserted: Inserted, out: Findings) -> None:
    """Stability needs the whole view, those included to whom it was not addressed."""
    now = part.row.sim_ns
    if now is None:
        return
    for other in trace.views.get(part.row.vid, ()):
        if other == part.sender:
            continue
        out.evaluated(NAME)
        had = inserted.get((*other, *part.sender, part.row.frame))
        if had is None or had > now:
            when = "never had it" if had is None else f"had it only at {had}"
            text = (
                f"{label(part.member)} delivered {part} as safe in {part.row.vid} at {now}, "
                f"{label(other)} {when} (frame {part.row.frame})"
            )
            out.violated(NAME, text, [part.row], other[0], part.sender[0])
