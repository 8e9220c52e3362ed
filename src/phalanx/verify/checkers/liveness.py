"""Liveness of delivery in a settled run: every message is sent and delivered in the end.

self-delivery              A member delivers its own messages.
multicast-liveness         All addressed members deliver every message; accepted messages are sent.
termination-of-delivery    The same for every member of the view, crashed or not: if one does not
                           deliver, the sender must get a next view.
safe-indication-liveness   Every safe message is delivered as regular.
basic                      Basic messages are delivered in a view that lasts.

A message is due only in its home (`trace`), if its sender ended there; `virtual_synchrony` judges
views that ended. Except for termination, only members that live to the end must deliver. An
accepted message must be sent or reported as not sent, and the report is right if each addressed
member was missing from one of the sender's views since. Self-delivery is also due from a member
that left the home of a message. docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from phalanx.journal.schema import Accepted, NotSent, Sent
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages
from phalanx.verify.checkers.range_map import RangeMap
from phalanx.verify.checkers.trace import Trace


def check_liveness(trace: Trace, out: Findings) -> None:
    owed = {"multicast-liveness": 0, "termination-of-delivery": 0, "self-delivery": 0}
    owed |= {"safe-indication-liveness": 0, "basic": 0}
    for sender, sends in trace.sends.items():
        settled = trace.over and trace.lives.alive(sender)
        for send in sends.values:
            home = trace.home(sender, send)
            if addressed(sender, send):
                if settled or (home is not None and trace.closed(sender, home)):
                    owed["self-delivery"] += 1
                    _self_delivery(trace, sender, send, out)
            if settled and trace.last_view(sender) == home:
                _deliveries(trace, sender, send, owed, out)
        if settled:
            _accepted(trace, sender, out)
    for name, times in owed.items():
        out.evaluated(name, times)


def _self_delivery(trace: Trace, sender: Member, send: Sent, out: Findings) -> None:
    gap = trace.lacks(sender, sender, send.first, send.last)
    if gap is not None:
        text = (
            f"{label(sender)} never delivered its own {messages(sender, *gap)}, sent in {send.view}"
        )
        out.violated("self-delivery", text, [send])


def _deliveries(
    trace: Trace, sender: Member, send: Sent, owed: dict[str, int], out: Findings
) -> None:
    view = trace.last_view(sender)
    if view is None:
        return
    reach = trace.lives.reach(sender)
    for other in trace.views[view]:
        if other not in trace.journals or other in trace.lives.torn:
            continue
        if not addressed(other, send):
            continue
        names = ["termination-of-delivery"]
        apart = reach is not None and other[0] not in reach
        if not apart and trace.lives.alive(other) and trace.last_view(other) == view:
            names.append("multicast-liveness")
            if send.service == "SAFE":
                names.append("safe-indication-liveness")
                _indication(trace, sender, send, other, out)
            elif send.service == "BASIC":
                names.append("basic")
        gap = trace.lacks(other, sender, send.first, send.last)
        for name in names:
            owed[name] += 1
            if gap is not None:
                text = (
                    f"{label(other)} never delivered {messages(sender, *gap)} "
                    f"({send.service}), sent in {send.view}"
                )
                out.violated(name, text, [send], other[0])


def _indication(trace: Trace, sender: Member, send: Sent, other: Member, out: Findings) -> None:
    """In a view that lasts, a safe message is delivered as regular."""
    spans = trace.delivered[other].get(sender)
    for lo, hi, at in () if spans is None else spans.within(send.first, send.last):
        assert spans is not None
        row = trace.deliveries[other][spans.values[at]]
        if row.region != "REGULAR":
            text = (
                f"{label(other)} delivered {messages(sender, lo, hi)} without knowing that all of "
                f"{row.view} have it, though the view stayed"
            )
            out.violated("safe-indication-liveness", text, [send, row])


# ---------------------------------------------------------------------------- accepted


def _accepted(trace: Trace, sender: Member, out: Findings) -> None:
    """Every accepted message is sent, or rightly reported as not sent."""
    if not trace.submits[sender]:
        return
    reports: RangeMap[NotSent] = RangeMap()
    for row in trace.not_sent[sender]:
        reports.add(row.first, row.last, row)
    sends = trace.sends[sender]
    for submit in trace.submits[sender]:
        out.evaluated("multicast-liveness")
        for first, last, at in reports.within(submit.first, submit.last):
            _reported(trace, sender, submit, first, last, reports.values[at], out)
        for first, last in sends.missing(submit.first, submit.last):
            for lo, hi in reports.missing(first, last):
                what = messages(sender, lo, hi)
                text = f"{label(sender)} accepted {what} and never sent it"
                out.violated("multicast-liveness", text, [submit])
                if addressed(sender, submit):
                    out.evaluated("self-delivery")
                    text = f"{label(sender)} never delivered its own {what}, which it accepted"
                    out.violated("self-delivery", text, [submit])


def _reported(
    trace: Trace,
    sender: Member,
    submit: Accepted,
    first: int,
    last: int,
    row: NotSent,
    out: Findings,
) -> None:
    """The views from that of the submission to that at the end of the reporting step count."""
    installs = [r for r in trace.installs[sender] if r.step <= row.step]
    before = [r for r in installs if r.lseq < submit.lseq]
    counted = [trace.inside[r.view] for r in installs[max(0, len(before) - 1) :]]
    here = counted[0].intersection(*counted) if counted else frozenset[Member]()
    stayed = [m for m in sorted(here) if addressed(m, submit)]
    if stayed:
        text = (
            f"{label(sender)} got a report that {messages(sender, first, last)} goes to nobody, "
            f"but {label(stayed[0])} was in its view all the time"
        )
        out.violated("multicast-liveness", text, [submit, row], stayed[0][0])
