"""Flow control: a member has no more messages in flight than its window allows.

bounded-window   Own messages that were sent and are not stable have at most the bytes of the
                 window, and one frame.

Rows of submissions give the bytes, so only submissions that are in flight as a whole are counted;
a member may exceed the window by the frame that fills it. Messages of several frames are not
counted: their first frames leave the window before the last one does, and only the last one gives
a receipt. Judged in simulations, which draw messages of one size for a submission.
docs/protocol/properties.md states the property in full.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.trace import Trace

NAME = "bounded-window"


class FlowLimits(NamedTuple):
    """Settings of the members: the bytes that may be in flight, and that fit into a frame."""

    window_bytes: int
    frame_bytes: int
    leave_ns: int
    """How long a leaving member waits for the others."""
    trusted: bool = True
    """Members take packets for authentic, so that another process can stop one for its name."""


def check_flow_control(trace: Trace, limits: FlowLimits | None, out: Findings) -> None:
    """`limits` is None if the members' settings are not known."""
    if limits is None:
        return
    for member in trace.journals:
        if member not in trace.lives.torn and trace.submits[member]:
            _member(trace, member, limits, out)


def _member(trace: Trace, member: Member, limits: FlowLimits, out: Findings) -> None:
    submits = trace.submits[member]
    lasts = [row.last for row in submits]
    sizes = (
        row.size if 2 * row.size <= (row.last - row.first + 1) * limits.frame_bytes else 0
        for row in submits
    )
    sums = list(accumulate(sizes, initial=0))
    bytes_max = limits.window_bytes + limits.frame_bytes
    receipts = trace.stables[member]
    stable, at = 0, 0
    for send in trace.sends[member].values:
        # Receipts come at the end of a step, which may send frames while others become stable.
        while at < len(receipts) and receipts[at].step <= send.step:
            stable = max(stable, receipts[at].upto)
            at += 1
        out.evaluated(NAME)
        # Submissions before `first` are stable at least in part; from `end` on not all are sent.
        first = 0 if not stable else bisect_right(lasts, stable)
        first += first < len(submits) and submits[first].first <= stable
        end = bisect_right(lasts, send.last)
        flying = sums[end] - sums[first] if end > first else 0
        if flying > bytes_max:
            text = f"{label(member)} had {flying} bytes in flight, {bytes_max} at most are allowed"
            out.violated(NAME, text, [send])
            return
