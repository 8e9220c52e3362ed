"""Safe prefix: who delivers a safe message before the marker knows that everyone in the view
has it, so everyone in the view delivers it there or crashes (PROTOCOLS B.5, D.1).

The end of the story can be asked only of members that left the view behind, or of all once
the run has settled. In a simulation the moment itself can be asked: an omniscient probe says
when each member had each frame.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.trace import Member, Part, Trace, addressed, label, messages

Inserted = Mapping[tuple[str, str, int], int]
"""(holder, sender, frame number) to the simulator's time at which the holder had the frame."""

NAME = "safe-prefix"


def check_safe(trace: Trace, inserted: Inserted | None, out: Findings) -> None:
    reported: set[tuple[Member, Member, int]] = set()
    for parts in trace.parts.values():
        for part in parts:
            if part.row.service != "SAFE" or part.row.region != "REGULAR":
                continue
            members = trace.views.get(part.row.vid, ())
            for other in members:
                if other != part.member and addressed(other, part.row.to):
                    _delivered_too(trace, part, other, reported, out)
            if inserted is not None:
                _held(part, members, inserted, out)
    if inserted is not None:
        _receipts(trace, inserted, out)


def _delivered_too(
    trace: Trace,
    part: Part,
    other: Member,
    reported: set[tuple[Member, Member, int]],
    out: Findings,
) -> None:
    vid = part.row.vid
    settled = trace.over and trace.alive(other) and trace.last_view(other) == vid
    if not settled and not trace.closed(other, vid):
        return
    out.evaluated(NAME)
    gap = trace.lacks(other, part.sender, part.first, part.last)
    if gap is None:
        spans = trace.delivered[other][part.sender]
        elsewhere = [
            (lo, hi)
            for lo, hi, at in spans.within(part.first, part.last)
            if trace.deliveries[other][spans.values[at]].vid != vid
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


def _held(part: Part, members: tuple[Member, ...], inserted: Inserted, out: Findings) -> None:
    """Stability needs the whole view, those included to whom it was not addressed."""
    now = part.row.sim_ns
    if now is None:
        return
    for other in members:
        if other == part.sender:
            continue
        out.evaluated(NAME)
        had = inserted.get((other[0], part.sender[0], part.row.frame))
        if had is None or had > now:
            when = "never had it" if had is None else f"had it only at {had}"
            text = (
                f"{label(part.member)} delivered {part} as safe in {part.row.vid} at {now}, "
                f"{label(other)} {when} (frame {part.row.frame})"
            )
            out.violated(NAME, text, [part.row], other[0], part.sender[0])


def _receipts(trace: Trace, inserted: Inserted, out: Findings) -> None:
    """A receipt of stability says the same to the sender: everyone has it."""
    for member, rows in trace.stables.items():
        for row in rows:
            sender = (row.sender, row.sender_inc)
            send = trace.sends[sender].get(row.upto) if sender in trace.sends else None
            if send is None or row.sim_ns is None:
                continue
            for other in trace.views.get(row.vid, ()):
                if other == sender:
                    continue
                out.evaluated(NAME)
                had = inserted.get((other[0], sender[0], send.frame))
                if had is None or had > row.sim_ns:
                    what = messages(sender, row.upto, row.upto)
                    text = f"{label(member)} was told that {what} is stable in {row.vid}, "
                    text += f"but {label(other)} lacked frame {send.frame}"
                    out.violated(NAME, text, [send, row], other[0])
