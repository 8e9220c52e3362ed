"""Receipts: what a sender is told of its own messages is true, and it is told.

receipt-truth       A receipt speaks of messages that were sent, in the view that they belong to.
                    *Stable*: every member of the view has them; where the view has ended, the
                    members that the receipt names, which are those that move on together, deliver
                    them there or do not come to the next view. *Ordered*: nothing that comes
                    before them in the order was still to arrive.
receipt-liveness    In a settled run a living sender has both receipts for all that it sent.
not-sent-liveness   An addressed member that is missing from the view a message belongs to is
                    reported as gone, and nobody else is. A member that is reported before the
                    message is sent never delivers it.

A simulation knows when each member had each frame, and is asked about that moment. Of journals
alone, members that left the view behind or stay in it to the end can be asked what they delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.journal.events import NotSent, Ordered, Send, Stable, Submit, ViewInstall
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.names import Member, addressed, label, messages
from phalanx.sim.checkers.spans import Spans
from phalanx.sim.checkers.trace import Part, Trace

Inserted = Mapping[tuple[str, int, str, int, int], int]
"""(holder's name, its incarnation, sender's name, its incarnation, frame number) to the
simulator's time at which the holder had the frame."""

TRUTH, LIVENESS, NOT_SENT = "receipt-truth", "receipt-liveness", "not-sent-liveness"


def check_receipts(trace: Trace, inserted: Inserted | None, out: Findings) -> None:
    for sender in trace.journals:
        if sender in trace.lives.torn:
            continue
        _stables(trace, sender, inserted, out)
        _orders(trace, sender, inserted, out)
        _liveness(trace, sender, out)
        _lost(trace, sender, out)


def _covered(
    trace: Trace, sender: Member, rows: Iterable[Stable | Ordered], out: Findings
) -> list[tuple[Stable | Ordered, Send, int, int]]:
    """Each receipt with the sends that it newly speaks of. A receipt of what was not sent, or that
    belongs to another view, is a violation. Messages that were reported as going to nobody need not
    have been sent; older receipts may name the view before."""
    found, upto = [], 0
    unsent: Spans[None] = Spans()
    for report in trace.not_sent[sender]:
        unsent.add(report.first, report.last, None)
    for row in rows:
        out.evaluated(TRUTH)
        first, upto = upto + 1, max(upto, row.upto)
        if upto < first:
            continue  # it repeats an earlier one
        sends = trace.sends[sender]
        for gap in sends.missing(first, row.upto):
            for lo, hi in unsent.missing(*gap):
                text = f"{label(sender)} has a receipt for {messages(sender, lo, hi)}, never sent"
                out.violated(TRUTH, text, [row])
        for lo, hi, at in sends.within(first, row.upto):
            send = sends.values[at]
            home = trace.home(sender, send)
            if home is not None and home != row.vid:
                if not trace.reports_all(sender):
                    continue
                text = f"{label(sender)} has a receipt for {messages(sender, lo, hi)} in {row.vid},"
                out.violated(TRUTH, f"{text} but it belongs to {home}", [send, row])
                continue
            found.append((row, send, lo, hi))
    return found


# ---------------------------------------------------------------------------- stable


def _stables(trace: Trace, sender: Member, inserted: Inserted | None, out: Findings) -> None:
    promised = {row.lseq: _promised(trace, sender, row, out) for row in trace.stables[sender]}
    blamed: set[tuple[Member, int]] = set()
    for row, send, lo, hi in _covered(trace, sender, trace.stables[sender], out):
        assert isinstance(row, Stable)
        for other in promised[row.lseq]:
            if other == sender or (other, send.frame) in blamed:
                continue
            lacks = _lacks(trace, row, send, (lo, hi), other, inserted, out)
            if lacks:
                blamed.add((other, send.frame))
                text = f"{label(sender)} has a receipt that {messages(sender, lo, hi)} is stable "
                out.violated(TRUTH, f"{text}in {row.vid}, but {lacks}", [send, row], other[0])


def _promised(trace: Trace, sender: Member, row: Stable, out: Findings) -> tuple[Member, ...]:
    """The members of which a receipt speaks. Where the view has ended, they are those that move on
    together; older journals do not name them."""
    after = _after(trace, sender, row)
    together = () if after is None else tuple(zip(after.trans, after.trans_incs, strict=True))
    if row.members is None:
        return trace.views.get(row.vid, ()) if after is None else together
    named = tuple(zip(row.members, row.member_incs or (), strict=True))
    if after is not None and set(named) == set(together):
        return named
    text = f"{label(sender)} has a receipt for {', '.join(map(label, named)) or 'nobody'}, "
    out.violated(TRUTH, f"{text}who do not move on from {row.vid} together", [row])
    return ()


def _after(trace: Trace, sender: Member, row: Stable) -> ViewInstall | None:
    """The view that is installed in the step of a receipt which speaks of the members that come to
    it. None if it speaks of the whole view."""
    if row.members is None and trace.reports_all(sender):
        return None
    after = trace.successor.get((sender, row.vid))
    return after if after is not None and after.step == row.step else None


def _lacks(
    trace: Trace,
    row: Stable,
    send: Send,
    numbers: tuple[int, int],
    other: Member,
    inserted: Inserted | None,
    out: Findings,
) -> str | None:
    """What contradicts a receipt; None if nothing does."""
    sender = (row.sender, row.sender_inc)
    by_ns = row.sim_ns
    after = _after(trace, sender, row)
    if after is not None:
        at = trace.installed.get(other, {}).get(after.vid)
        if at is None:
            return None  # it did not come to the next view
        by_ns = trace.installs[other][at].sim_ns
    if inserted is not None and by_ns is not None:
        out.evaluated(TRUTH)
        had = inserted.get((*other, *sender, send.frame))
        if had is None or had > by_ns:
            return f"{label(other)} lacked frame {send.frame} at {by_ns}"
    if other not in trace.journals or other in trace.lives.torn:
        return None
    stays = trace.over and trace.lives.alive(other) and trace.last_view(other) == row.vid
    if (stays or trace.closed(other, row.vid)) and addressed(other, send):
        out.evaluated(TRUTH)
        if not _delivered_in(trace, other, sender, *numbers, row.vid):
            return f"{label(other)} did not deliver it there"
    return None


def _delivered_in(
    trace: Trace, member: Member, sender: Member, first: int, last: int, vid: str
) -> bool:
    spans = trace.delivered[member].get(sender)
    if spans is None or spans.missing(first, last):
        return False
    rows = trace.deliveries[member]
    return all(rows[spans.values[at]].vid == vid for _, _, at in spans.within(first, last))


# ---------------------------------------------------------------------------- ordered


def _orders(trace: Trace, sender: Member, inserted: Inserted | None, out: Findings) -> None:
    covered = _covered(trace, sender, trace.orders[sender], out)
    if inserted is None:
        return
    places = _places(trace, sender)
    arrived: dict[str, list[int]] = {}
    """Per view and position, when the last frame of those up to it had arrived here."""
    for vid, parts in places.items():
        latest, times = 0, arrived.setdefault(vid, [])
        for part in parts:
            own = part.sender == sender
            had = 0 if own else inserted.get((*sender, *part.sender, part.row.frame), 1 << 62)
            latest = max(latest, had)
            times.append(latest)
    for row, send, lo, hi in covered:
        if send.service not in ("AGREED", "SAFE") or row.sim_ns is None:
            continue
        for index, part in enumerate(places.get(row.vid, ())):
            if part.sender == sender and part.first <= hi and lo <= part.last:
                out.evaluated(TRUTH)
                if index and arrived[row.vid][index - 1] > row.sim_ns:
                    text = f"{label(sender)} has a receipt that {part} is ordered in {row.vid}, "
                    text += "but something that came before it had not arrived"
                    out.violated(TRUTH, text, [send, row, part.row])
                break


def _places(trace: Trace, member: Member) -> dict[str, list[Part]]:
    """Per view, what the member delivered in the agreed order, by position."""
    found: dict[str, list[Part]] = {}
    for part in trace.parts[member]:
        if part.pos is not None:
            found.setdefault(part.row.vid, []).append(part)
    for parts in found.values():
        parts.sort(key=lambda part: part.pos or 0)
    return found


# ---------------------------------------------------------------------------- liveness


def _liveness(trace: Trace, sender: Member, out: Findings) -> None:
    sends = trace.sends[sender]
    if not (trace.over and trace.lives.alive(sender) and trace.reports_all(sender)):
        return
    if not sends.lasts:
        return
    last = sends.lasts[-1]
    for name, rows in (("ordered", trace.orders[sender]), ("stable", trace.stables[sender])):
        out.evaluated(LIVENESS)
        upto = max((row.upto for row in rows), default=0)
        if upto < last:
            what = messages(sender, upto + 1, last)
            text = f"{label(sender)} never got a receipt that {what} is {name}"
            out.violated(LIVENESS, text, [sends.values[-1]])


# ---------------------------------------------------------------------------- lost receivers


def _lost(trace: Trace, sender: Member, out: Findings) -> None:
    """Subset messages: whom they were for when they were submitted, and who is in their home."""
    reports = [*trace.not_sent[sender], *trace.lost_receivers[sender]]
    for row in reports:
        _report(trace, sender, row, out)
    sends = trace.sends[sender]
    for submit in trace.submits[sender]:
        if submit.to is None or submit.to_incs is None or not trace.reports_all(sender):
            continue
        for lo, hi, at in sends.within(submit.first, submit.last):
            home = trace.home(sender, sends.values[at])
            if home is None or home not in trace.installed[sender]:
                continue
            out.evaluated(NOT_SENT)
            here = trace.inside[home]
            gone = [m for m in zip(submit.to, submit.to_incs, strict=True) if m not in here]
            for member in gone:
                if not any(_names(row, member) and row.first <= lo <= row.last for row in reports):
                    what = messages(sender, lo, hi)
                    text = f"{label(sender)} was not told that {what} does not go to "
                    text += f"{label(member)}, which is not in {home}"
                    out.violated(NOT_SENT, text, [submit, sends.values[at]], member[0])


def _names(row: NotSent, member: Member) -> bool:
    if row.to is None:
        return True  # of before receivers were named
    return member in zip(row.to, row.to_incs or (), strict=True)


def _report(trace: Trace, sender: Member, row: NotSent, out: Findings) -> None:
    """Members that are reported as gone do not deliver; nobody does if no receiver is left. What
    had been sent by then may be delivered in a view without the sender."""
    out.evaluated(NOT_SENT)
    submit = _submitted(trace, sender, row.first)
    send = trace.sends[sender].get(row.first)
    for member in trace.journals if send is None or send.lseq > row.lseq else ():
        if row.rest and not _names(row, member):
            continue
        spans = trace.delivered[member].get(sender)
        if spans is not None and spans.within(row.first, row.last):
            text = f"{label(sender)} was told that {messages(sender, row.first, row.last)} does not"
            text += f" go to {label(member)}, which delivered it"
            out.violated(NOT_SENT, text, [row], member[0])
    for member in zip(row.to or (), row.to_incs or (), strict=True):
        if submit is not None and not addressed(member, submit):
            text = f"{label(sender)} was told that {label(member)} is gone, which was not addressed"
            out.violated(NOT_SENT, text, [submit, row], member[0])


def _submitted(trace: Trace, sender: Member, number: int) -> Submit | None:
    return next((s for s in trace.submits[sender] if s.first <= number <= s.last), None)
