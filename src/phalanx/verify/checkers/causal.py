"""Causal order: fifo, causal, reliable causal, and no inversion across views.

fifo                         Messages of one sender are delivered in the order they were sent.
causal                       The causes of a message are delivered before it.
reliable-causal              No cause of a delivered message is missing in its home view.
no-view-crossing-inversion   No message is delivered in a view before that of its cause.

For each delivery and each sender in its past, one message decides: the last one of that sender that
was addressed to the member. If it was delivered first, so were all before it, because each of them
was judged in its turn. If it was delivered later in the same view, the order is broken: `fifo` if
both messages have one sender, `causal` otherwise. If it was delivered in a later view, that is an
inversion. If it was never delivered although the view is its home (`trace`), there is a gap, and
`reliable-causal` is broken. So messages of another component, or of views before the member joined,
are no gap. If the home is unknown, because the sender crashed during the change, the view counts as
home if any member delivered the message in it. Basic messages are not compared.
docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import gt

from phalanx.journal.schema import Deliver, Sent
from phalanx.verify.checkers.causal_vectors import CausalVectors
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages
from phalanx.verify.checkers.trace import DeliveredRange, Trace


def check_causal(trace: Trace, vectors: CausalVectors, out: Findings) -> None:
    for row in vectors.looped:
        what = messages((row.member, row.incarnation), row.first, row.last)
        text = f"{what} depends on itself: something it follows was delivered before it was sent"
        out.violated("integrity", text, [row], *row.dep_senders)
    for member in trace.journals:
        _fifo(trace, member, out)
        if member not in trace.lives.torn:
            _Pasts(trace, vectors, member, out).check()


def _fifo(trace: Trace, member: Member, out: Findings) -> None:
    judged = 0
    highest: dict[Member, DeliveredRange] = {}
    view = ""
    for part in trace.parts[member]:
        row = part.row
        if row.service == "BASIC":
            continue
        if row.view != view:
            view, highest = row.view, {}
        before = highest.get(part.sender)
        if before is not None:
            judged += 1
            if part.first <= before.last:
                text = f"{label(member)} delivered {part} after {before} in {row.view}"
                out.violated("fifo", text, [before.row, row], part.sender[0])
                continue
        highest[part.sender] = part
    out.evaluated("fifo", judged)


class _Pasts:
    """Compares each delivery of one member with its causal past."""

    def __init__(self, trace: Trace, vectors: CausalVectors, member: Member, out: Findings) -> None:
        self.trace, self.vectors, self.member, self.out = trace, vectors, member, out
        self.spans = trace.delivered[member]
        self.rows = trace.deliveries[member]
        self.due: dict[Member, tuple[list[int], list[Sent]]] = {}
        self.reported: set[tuple[str, Member, int]] = set()

    def check(self) -> None:
        """`cleared` is, per sender, the last message already judged in this view. The past of
        almost every delivery lies within it."""
        vectors, senders = self.vectors, self.vectors.senders
        rank, view = vectors.rank, ""
        cleared: list[int] = []
        causal = reliable = 0
        for part in self.trace.parts[self.member]:
            if part.send is None or part.row.service == "BASIC":
                continue
            if part.row.view != view:
                view, cleared = part.row.view, [0] * len(senders)
            own = rank[part.sender]
            if part.first - 1 > cleared[own]:
                self._against(part, part.sender, part.first - 1)
                cleared[own] = part.first - 1
            vector = vectors.of(part.sender, part.at)
            if any(map(gt, vector, cleared)):
                for i, number in enumerate(vector):
                    if number > cleared[i]:
                        self._against(part, senders[i], number)
                        cleared[i] = number
            cleared[own] = max(cleared[own], part.last)
            weight = vectors.weight(part.sender, part.at)
            causal += weight
            reliable += weight + (part.first > 1)
        self.out.evaluated("causal", causal)
        self.out.evaluated("reliable-causal", reliable)

    def _due(self, sender: Member) -> tuple[list[int], list[Sent]]:
        """The sends of this sender that are addressed to the member, without basic ones."""
        found = self.due.get(sender)
        if found is None:
            sends = self.trace.sends.get(sender)
            rows = [] if sends is None else sends.values
            mine = [r for r in rows if r.service != "BASIC" and addressed(self.member, r)]
            found = self.due[sender] = ([r.first for r in mine], mine)
        return found

    def _against(self, part: DeliveredRange, sender: Member, number: int) -> None:
        """Judge a delivery that causally follows all messages of `sender` up to `number`."""
        firsts, rows = self._due(sender)
        at = bisect_right(firsts, number) - 1
        if at < 0:
            return
        send = rows[at]
        number = min(number, send.last)
        spans = self.spans.get(sender)
        index = None if spans is None else spans.get(number)
        view = part.row.view
        if index is None:
            if self._belongs(sender, send, number, view):
                text = f"never delivered {messages(sender, number, number)}"
                self._report("reliable-causal", part, sender, number, text, send)
            return
        cause = self.rows[index]
        if cause.view == view:
            if sender != part.sender and index > part.nth:  # for one sender, `fifo` judges it
                text = f"delivered {messages(sender, number, number)} only later"
                self._report("causal", part, sender, number, text, cause)
        else:
            self.out.evaluated("no-view-crossing-inversion")
            if index > part.nth:
                text = f"delivered {messages(sender, number, number)} in the later {cause.view}"
                self._report("no-view-crossing-inversion", part, sender, number, text, cause)

    def _belongs(self, sender: Member, send: Sent, number: int, view: str) -> bool:
        trace = self.trace
        home = trace.home(sender, send)
        if home is not None:
            return home == view
        for other in trace.by_view.get(view, ()):
            spans = trace.delivered[other].get(sender)
            index = None if spans is None else spans.get(number)
            if index is not None and trace.deliveries[other][index].view == view:
                return True
        return False

    def _report(
        self,
        name: str,
        part: DeliveredRange,
        sender: Member,
        number: int,
        what: str,
        why: Sent | Deliver,
    ) -> None:
        """Report a late message once, not for each message that follows it."""
        if (name, sender, number) in self.reported:
            return
        self.reported.add((name, sender, number))
        text = (
            f"{label(self.member)} delivered {part} in {part.row.view}, which follows, but {what}"
        )
        self.out.violated(name, text, [why, part.row], self.member[0], sender[0])
