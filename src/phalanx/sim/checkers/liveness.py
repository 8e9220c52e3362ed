"""What must happen in the end (PROTOCOLS D.2), asked of a run that has settled.

Only members that lived to the end owe anything, and only in the view they ended in: closed
views are the business of virtual synchrony. Self delivery is also owed by whoever left the
view of its sending behind. Termination of delivery makes no exception for the crashed: if a
member of the view does not deliver, the sender must get a next view.
"""

from __future__ import annotations

from phalanx.journal.events import Send
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.trace import Member, Trace, addressed, label, messages


def check_liveness(trace: Trace, out: Findings) -> None:
    for sender, sends in trace.sends.items():
        for send in sends.values:
            _self_delivery(trace, sender, send, out)
            if trace.over and trace.alive(sender):
                _deliveries(trace, sender, send, out)


def _self_delivery(trace: Trace, sender: Member, send: Send, out: Findings) -> None:
    if not addressed(sender, send.to):
        return
    left_view = send.phase == 0 and trace.closed(sender, send.vid)
    if not left_view and not (trace.over and trace.alive(sender)):
        return
    out.evaluated("self-delivery")
    gap = trace.lacks(sender, sender, send.first, send.last)
    if gap is not None:
        text = (
            f"{label(sender)} never delivered its own {messages(sender, *gap)}, sent in {send.vid}"
        )
        out.violated("self-delivery", text, [send])


def _deliveries(trace: Trace, sender: Member, send: Send, out: Findings) -> None:
    if trace.last_view(sender) != send.vid:
        return  # the sender went on
    truth = trace.topology.get(sender)
    for other in trace.views[send.vid]:
        if other not in trace.journals or other in trace.torn or not addressed(other, send.to):
            continue
        owed = ["termination-of-delivery"]
        apart = truth is not None and other[0] not in truth.component
        if not apart and trace.alive(other) and trace.last_view(other) == send.vid:
            owed.append("multicast-liveness")
            if send.service == "SAFE":
                owed.append("safe-indication-liveness")
            elif send.service == "BASIC":
                owed.append("basic")
        gap = trace.lacks(other, sender, send.first, send.last)
        for name in owed:
            out.evaluated(name)
            if gap is not None:
                text = (
                    f"{label(other)} never delivered {messages(sender, *gap)} "
                    f"({send.service}), sent in {send.vid}"
                )
                out.violated(name, text, [send], other[0])
