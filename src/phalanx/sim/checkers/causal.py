"""Order of cause and effect: fifo, causal, reliable causal, no inversion across views.

For each delivery and each sender in its past, one message decides: the last one of that
sender that was addressed to the member. If it came first, so did all before it, because each
was judged in its turn (PROTOCOLS D.3 item 4). If it came later in the view, order was broken:
`fifo` if both are of one sender, `causal` otherwise. If it came in a later view, that is an
inversion. If it never came though it was sent in the same view, there is a gap, and
`reliable-causal` is broken. Basic messages stand outside.
"""

from __future__ import annotations

from bisect import bisect_right

from phalanx.journal.events import Deliver, Send
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.trace import Member, Part, Trace, addressed, label, messages
from phalanx.sim.checkers.vectors import Vectors


def check_causal(trace: Trace, vectors: Vectors, out: Findings) -> None:
    for row in vectors.looped:
        what = messages((row.node, row.inc), row.first, row.last)
        text = f"{what} depends on itself: something it follows was delivered before it was sent"
        out.violated("integrity", text, [row], *row.dep_nodes)
    for member in trace.journals:
        _fifo(trace, member, out)
        if member not in trace.torn:
            _Pasts(trace, vectors, member, out).check()


def _fifo(trace: Trace, member: Member, out: Findings) -> None:
    highest: dict[tuple[str, Member], Part] = {}
    for part in trace.parts[member]:
        if part.row.service == "BASIC":
            continue
        before = highest.get((part.row.vid, part.sender))
        if before is not None:
            out.evaluated("fifo")
            if part.first <= before.last:
                text = f"{label(member)} delivered {part} after {before} in {part.row.vid}"
                out.violated("fifo", text, [before.row, part.row], part.sender[0])
                continue
        highest[part.row.vid, part.sender] = part


class _Pasts:
    """One member's deliveries, each against its past."""

    def __init__(self, trace: Trace, vectors: Vectors, member: Member, out: Findings) -> None:
        self.trace, self.vectors, self.member, self.out = trace, vectors, member, out
        self.spans = trace.delivered[member]
        self.rows = trace.deliveries[member]
        self.view_index = {r.vid: i for i, r in enumerate(trace.installs[member])}
        self.due: dict[Member, tuple[list[int], list[Send]]] = {}
        for sender, sends in trace.sends.items():
            mine = [r for r in sends.values if r.service != "BASIC" and addressed(member, r.to)]
            self.due[sender] = ([r.first for r in mine], mine)
        self.reported: set[tuple[str, Member, int]] = set()

    def check(self) -> None:
        for part in self.trace.parts[self.member]:
            if part.row.service == "BASIC" or part.send is None:
                continue
            self._against(part, part.sender, part.first - 1)
            vector = self.vectors.of(part.sender, part.at)
            for sender, number in zip(self.vectors.senders, vector, strict=True):
                if number and sender != part.sender:
                    self._against(part, sender, number)

    def _against(self, part: Part, sender: Member, number: int) -> None:
        """`part` follows all messages of `sender` up to `number`."""
        firsts, rows = self.due.get(sender, ([], []))
        at = bisect_right(firsts, number) - 1
        if at < 0:
            return
        send = rows[at]
        number = min(number, send.last)
        spans = self.spans.get(sender)
        index = None if spans is None else spans.get(number)
        vid = part.row.vid
        if index is None:
            if send.vid == vid and send.phase == 0:
                self.out.evaluated("reliable-causal")
                text = f"never delivered {messages(sender, number, number)}"
                self._report("reliable-causal", part, sender, number, text, send)
            return
        cause = self.rows[index]
        if cause.vid == vid:
            self.out.evaluated("reliable-causal")
            if sender == part.sender:
                return  # fifo's
            self.out.evaluated("causal")
            if index > part.nth:
                text = f"delivered {messages(sender, number, number)} only later"
                self._report("causal", part, sender, number, text, cause)
        elif vid in self.view_index and cause.vid in self.view_index:
            self.out.evaluated("no-view-crossing-inversion")
            if self.view_index[cause.vid] > self.view_index[vid]:
                text = f"delivered {messages(sender, number, number)} in the later {cause.vid}"
                self._report("no-view-crossing-inversion", part, sender, number, text, cause)

    def _report(
        self, name: str, part: Part, sender: Member, number: int, what: str, why: Send | Deliver
    ) -> None:
        """Once for each message that is late: everything after it would repeat it."""
        if (name, sender, number) in self.reported:
            return
        self.reported.add((name, sender, number))
        text = f"{label(self.member)} delivered {part} in {part.row.vid}, which follows, but {what}"
        self.out.violated(name, text, [why, part.row], self.member[0], sender[0])
