"""Receipts of a sender for its own messages: they are true, and they arrive.

receipt-truth       A receipt is about messages that were sent, in their home view. *Stable*: every
                    member of the view has them; if the view has ended, the receipt names the
                    members with the same next view, and each of them delivers the messages there
                    or does not come to the next view. *Ordered*: no message before them in the
                    order was still to arrive. *AllDelivered*: every addressed member of the view,
                    or of the members that the receipt names, delivered the messages of the view up
                    to that number in it.
receipt-liveness    In a settled run a living sender has both receipts for all messages it sent.

A simulation knows when each member had each frame, so there the moment of the receipt is checked.
With journals alone, the checker compares the deliveries of members that left the view or stay in
it to the end. In journals before schema 6 a receipt names no members; one in the step that ends
the view is about the members with the same next view, and there are no receipts of order.
docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from phalanx.journal.schema import AllDelivered, Ordered, Sent, Stable, ViewInstalled
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, labels, messages, named
from phalanx.verify.checkers.range_map import RangeMap
from phalanx.verify.checkers.trace import DeliveredRange, Trace

Inserted = Mapping[tuple[str, int, str, int, int], int]
"""(holder's name, its incarnation, sender's name, its incarnation, frame number) to the
simulator's time at which the holder had the frame."""
Covered = list[tuple[Sent, int, int]]
"""Send rows, each with the range of its messages that is covered."""
R = TypeVar("R", Stable, Ordered)

TRUTH, LIVENESS = "receipt-truth", "receipt-liveness"
NEVER_NS = 1 << 62


def check_receipts(trace: Trace, inserted: Inserted | None, out: Findings) -> None:
    for sender in trace.journals:
        if sender in trace.lives.torn:
            continue
        _stables(trace, sender, inserted, out)
        _orders(trace, sender, inserted, out)
        _all_delivered(trace, sender, out)
        _liveness(trace, sender, out)


def _covered(
    trace: Trace, sender: Member, rows: Iterable[R], out: Findings
) -> Iterator[tuple[R, Covered]]:
    """Each receipt with the sends that it newly covers. A receipt for messages that were not sent,
    or that belong to another view, is a violation. Messages reported as sent to no member need not
    have been sent."""
    upto, sends = 0, trace.sends[sender]
    unsent: RangeMap[None] = RangeMap()
    for report in trace.not_sent[sender]:
        unsent.add(report.first, report.last, None)
    for row in rows:
        out.evaluated(TRUTH)
        first, upto = upto + 1, max(upto, row.upto)
        covered: Covered = []
        if first <= upto:
            for lo, hi in sends.missing(first, upto):
                for one, other in unsent.missing(lo, hi):
                    what = messages(sender, one, other)
                    text = f"{label(sender)} has a receipt for {what}, never sent"
                    out.violated(TRUTH, text, [row])
            for lo, hi, at in sends.within(first, upto):
                send = sends.values[at]
                home = trace.home(sender, send)
                if home is None or home == row.view:
                    covered.append((send, lo, hi))
                elif trace.reports_all(sender):
                    what = messages(sender, lo, hi)
                    text = (
                        f"{label(sender)} has a receipt for {what} in {row.view}, but it belongs "
                    )
                    out.violated(TRUTH, f"{text}to {home}", [send, row])
        yield row, covered


# ---------------------------------------------------------------------------- stable


def _stables(trace: Trace, sender: Member, inserted: Inserted | None, out: Findings) -> None:
    blamed: set[tuple[Member, int]] = set()
    for row, covered in _covered(trace, sender, trace.stables[sender], out):
        if (row.sender, row.sender_incarnation) != sender:
            text = f"{label(sender)} has a receipt for messages of "
            text += label((row.sender, row.sender_incarnation))
            out.violated(TRUTH, text, [row])
            continue
        members, after = _promised(trace, sender, row, out)
        for other in members:
            if other == sender:
                continue
            for send, lo, hi in covered:
                if (other, send.frame) in blamed:
                    continue
                lacks = _lacks(trace, row, after, send, (lo, hi), other, inserted, out)
                if lacks:
                    blamed.add((other, send.frame))
                    what = messages(sender, lo, hi)
                    text = f"{label(sender)} has a receipt that {what} is stable in {row.view}, "
                    out.violated(TRUTH, f"{text}but {lacks}", [send, row], other[0])


def _promised(
    trace: Trace, sender: Member, row: Stable, out: Findings
) -> tuple[Collection[Member], ViewInstalled | None]:
    """The members that a receipt is about. If the view ends with this step, they are the
    transitional set of the next view, which is returned too."""
    members = named(row.members, row.member_incarnations)
    after = trace.successor.get((sender, row.view))
    ends = after is not None and after.step == row.step
    if members is None and trace.reports_all(sender):
        return trace.views.get(row.view, ()), None
    if not ends and not trace.step_ended(row):
        return (), None  # the next view may be among the missing rows
    if after is None or not ends:
        if members is None:
            return trace.views.get(row.view, ()), None
        together = None
    else:
        together = frozenset(zip(after.transitional, after.transitional_incarnations, strict=True))
        if members is None or members == together:
            return together, after
    text = f"{label(sender)} has a receipt that names {labels(members)} at the end of {row.view}, "
    if together is None:
        text += "but the view did not end there"
    else:
        text += f"but {labels(together)} move on together"
    out.violated(TRUTH, text, [row])
    return (), None


def _lacks(
    trace: Trace,
    row: Stable,
    after: ViewInstalled | None,
    send: Sent,
    numbers: tuple[int, int],
    other: Member,
    inserted: Inserted | None,
    out: Findings,
) -> str | None:
    """What contradicts a receipt about one member; None if nothing does."""
    sender = (row.sender, row.sender_incarnation)
    by_ns = row.sim_ns
    if after is not None:
        at = trace.installed.get(other, {}).get(after.view)
        if at is None:
            return None  # it did not come to the next view
        by_ns = trace.installs[other][at].sim_ns
    if inserted is not None and by_ns is not None:
        out.evaluated(TRUTH)
        had = inserted.get((*other, *sender, send.frame))
        if had is None or had > by_ns:
            return f"{label(other)} lacked frame {send.frame} at {by_ns}"
    lives = trace.lives
    if other not in trace.journals or other in lives.torn:
        return None
    if row.view not in trace.installed[other]:
        # A crash loses the end of a journal, except in a simulation.
        if lives.whole(other) or (inserted is not None and other in lives.crashed):
            out.evaluated(TRUTH)
            return f"{label(other)} never installed it"
        return None
    stays = trace.over and lives.alive(other) and trace.last_view(other) == row.view
    if (stays or trace.closed(other, row.view)) and addressed(other, send):
        out.evaluated(TRUTH)
        if not _delivered_in(trace, other, sender, *numbers, row.view):
            return f"{label(other)} did not deliver it there"
    return None


def _delivered_in(
    trace: Trace, member: Member, sender: Member, first: int, last: int, view: str
) -> bool:
    spans = trace.delivered[member].get(sender)
    if spans is None or spans.missing(first, last):
        return False
    rows = trace.deliveries[member]
    return all(rows[spans.values[at]].view == view for _, _, at in spans.within(first, last))


# ---------------------------------------------------------------------------- ordered


def _orders(trace: Trace, sender: Member, inserted: Inserted | None, out: Findings) -> None:
    arrivals: dict[str, _Arrivals] = {}
    for row, covered in _covered(trace, sender, trace.orders[sender], out):
        if inserted is None or row.sim_ns is None:
            continue
        if not arrivals:
            arrivals = {v: _Arrivals(p, inserted) for v, p in _placed(trace, sender).items()}
        here = arrivals.get(row.view)
        for send, lo, hi in covered if here is not None else ():
            assert here is not None
            for part, before_ns in here.of_own(lo, hi):
                out.evaluated(TRUTH)
                if before_ns > row.sim_ns:
                    text = f"{label(sender)} has a receipt that {part} is ordered in {row.view}, "
                    text += "but something that comes before it had not arrived"
                    out.violated(TRUTH, text, [send, row, part.row])


class _Arrivals:
    """The own messages of a member in the agreed order of a view, each with the time at which the
    last frame before it in the order had arrived."""

    def __init__(self, parts: list[DeliveredRange], inserted: Inserted) -> None:
        self._own: RangeMap[tuple[DeliveredRange, int]] = RangeMap()
        latest = 0
        for part in sorted(parts, key=lambda part: part.pos or 0):
            if part.sender == part.member:
                self._own.add(part.first, part.last, (part, latest))
            else:
                had = inserted.get((*part.member, *part.sender, part.row.frame), NEVER_NS)
                latest = max(latest, had)

    def of_own(self, first: int, last: int) -> list[tuple[DeliveredRange, int]]:
        return [self._own.values[at] for _, _, at in self._own.within(first, last)]


def _placed(trace: Trace, member: Member) -> dict[str, list[DeliveredRange]]:
    """Per view, the deliveries of a member that have a position."""
    found: dict[str, list[DeliveredRange]] = {}
    for part in trace.parts[member]:
        if part.pos is not None:
            found.setdefault(part.row.view, []).append(part)
    return found


# ---------------------------------------------------------------------------- delivered by all


def _all_delivered(trace: Trace, sender: Member, out: Findings) -> None:
    sends = trace.sends[sender]
    checked: dict[tuple[str, Member], int] = {}
    """Per view and member, the last message that was checked."""
    for row in trace.all_delivered[sender]:
        out.evaluated(TRUTH)
        members = named(row.members, row.member_incarnations)
        for other in members if members is not None else trace.views.get(row.view, ()):
            if other not in trace.journals or other in trace.lives.torn:
                continue
            first = checked.get((row.view, other), 0) + 1
            checked[row.view, other] = max(first - 1, row.upto)
            for lo, hi, at in sends.within(first, row.upto) if first <= row.upto else ():
                send = sends.values[at]
                if trace.home(sender, send) == row.view and addressed(other, send):
                    out.evaluated(TRUTH)
                    if not _delivered_by(trace, other, sender, (lo, hi), row):
                        what = messages(sender, lo, hi)
                        text = f"{label(sender)} has a receipt that {what} is delivered by all of "
                        text += f"{row.view}, but {label(other)} had not delivered it there"
                        out.violated(TRUTH, text, [send, row], other[0])


def _delivered_by(
    trace: Trace, member: Member, sender: Member, numbers: tuple[int, int], row: AllDelivered
) -> bool:
    """Whether a member had delivered messages when the receipt was given. True if it may have:
    there is no common clock and the end of its journal may be missing."""
    if not _delivered_in(trace, member, sender, *numbers, row.view):
        return row.sim_ns is None and not trace.lives.whole(member)
    if row.sim_ns is None:
        return True
    spans, rows = trace.delivered[member][sender], trace.deliveries[member]
    return all(
        (rows[spans.values[at]].sim_ns or 0) <= row.sim_ns for _, _, at in spans.within(*numbers)
    )


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
            out.violated(LIVENESS, text, [sends.values[sends.index(last)]])
