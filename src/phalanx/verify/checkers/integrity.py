"""Integrity and no duplication of deliveries, and the same for basic messages.

integrity        A delivered message was sent before, by that sender, as that service, in that
                 frame and view, with that content, to that member; its sender is in the view of
                 the delivery. Where no row shows the sending, the members that delivered the
                 message agree on these.
no-duplication   No member delivers a message twice in its life.
basic            The same for basic messages; `liveness` adds their delivery.

docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from phalanx.journal.schema import Accepted, Deliver, Sent
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages
from phalanx.verify.checkers.trace import DeliveredRange, Trace

Contents = Callable[[str, int, int, int], int]
"""(sender name, incarnation, first, last) to the CRC-32 of the concatenated bodies."""


def check_integrity(trace: Trace, contents: Contents | None, out: Findings) -> None:
    digests: dict[tuple[Member, int, int], Accepted | Deliver] = {
        (member, row.first, row.last): row
        for member, rows in trace.submits.items()
        for row in rows
        if row.digest is not None
    }
    for member, parts in trace.parts.items():
        judged = {"BASIC": 0, "other": 0}
        for part in parts:
            if _is_plain(trace, part):
                judged["BASIC" if part.row.service == "BASIC" else "other"] += 1
            else:
                _judge(trace, part, out)
        out.evaluated("integrity", judged["BASIC"] + judged["other"])
        out.evaluated("basic", judged["BASIC"])
        for row in trace.deliveries[member]:
            if row.digest is not None:
                _content(row, row.digest, contents, digests, out)
    for member in trace.journals:
        _as_accepted(trace, member, out)
    _contradictions(trace, out)
    _no_duplication(trace, out)


def _is_plain(trace: Trace, part: DeliveredRange) -> bool:
    """A fast test that almost every correct delivery passes; the others are judged in full."""
    send, row = part.send, part.row
    return (
        send is not None
        and send.to is None
        and row.to is None
        and row.service == send.service
        and row.frame == send.frame
        and row.origin == send.view
        and part.sender in trace.inside.get(row.view, ())
        and part.member != part.sender
        and row.sim_ns is not None
        and send.sim_ns is not None
        and row.sim_ns >= send.sim_ns
    )


def _judge(trace: Trace, part: DeliveredRange, out: Findings) -> None:
    stranger = _stranger(trace, part)
    if part.send is None and not stranger and not trace.sent_all(part.sender, part.first):
        return  # it may have been sent behind the end of the sender's journal
    names = ["integrity", "basic"] if part.row.service == "BASIC" else ["integrity"]
    for name in names:
        out.evaluated(name)
        for text in [stranger] if stranger else _faults(trace, part):
            rows = [part.row] if part.send is None else [part.send, part.row]
            out.violated(name, text, rows, part.sender[0])


def _stranger(trace: Trace, part: DeliveredRange) -> str | None:
    """The sender of a message is in the view of its delivery and in the view of its sending. This
    can be judged even if the sender has no journal."""
    vids = [part.row.view]
    if part.sender not in trace.journals:
        vids.append(part.row.origin)
    for view in vids:
        if part.sender not in trace.inside.get(view, (part.sender,)):
            return f"{label(part.member)} delivered {part}, whose sender is not in {view}"
    return None


def _faults(trace: Trace, part: DeliveredRange) -> Iterator[str]:
    member, send, row = part.member, part.send, part.row
    who = label(member)
    if send is None:
        yield f"{who} delivered {part}, which was never sent"
        return
    if not addressed(member, send):
        yield f"{part} for {_to(send)} was shown to a stranger, {who}"
    elif not _same_receivers(trace, send, row):
        yield f"{who} delivered {part} as sent to {_to(row)}, it was sent to {_to(send)}"
    if row.service != send.service:
        yield f"{who} delivered {part} as {row.service}, it was sent as {send.service}"
    if row.frame != send.frame:
        yield f"{who} delivered {part} from frame {row.frame}, it left in frame {send.frame}"
    if row.origin != send.view:
        yield f"{who} delivered {part} as sent in {row.origin}, it was sent in {send.view}"
    if member == part.sender:
        early = row.step < send.step or row.lseq < send.lseq
    elif row.sim_ns is None or send.sim_ns is None:
        early = False  # clocks of two machines are never compared
    else:
        early = row.sim_ns < send.sim_ns
    if early:
        yield f"{who} delivered {part} before it was sent"


def _same_receivers(trace: Trace, send: Sent, row: Deliver) -> bool:
    """A carried message may name only those of its receivers that are in the next view."""
    if send.to is None or row.to is None:
        return send.to is row.to
    if send.to_incarnations is None or row.to_incarnations is None:
        return sorted(send.to) == sorted(row.to)
    meant = sorted(zip(send.to, send.to_incarnations, strict=True))
    named = sorted(zip(row.to, row.to_incarnations, strict=True))
    if named == meant:
        return True
    here = trace.inside.get(row.view)
    if here is None:  # the installation is missing
        return set(named) <= set(meant)
    return row.view != send.view and named == [m for m in meant if m in here]


def _contradictions(trace: Trace, out: Findings) -> None:
    """Deliveries of messages of which no row shows the sending: members agree on service, frame and
    view of sending, and in one view on the receivers."""
    unsent: dict[Member, list[DeliveredRange]] = {}
    for parts in trace.parts.values():
        for part in parts:
            if part.send is None:
                unsent.setdefault(part.sender, []).append(part)
    for parts in unsent.values():
        parts.sort(key=lambda part: part.first)
        open_: list[DeliveredRange] = []
        for part in parts:
            open_ = [other for other in open_ if other.last >= part.first]
            for other in open_:
                if what := _contradiction(other.row, part.row):
                    both = messages(part.sender, part.first, min(part.last, other.last))
                    text = f"{label(other.member)} and {label(part.member)} delivered {both} with "
                    text += f"another {what}"
                    names = ["integrity"]
                    if part.row.service == other.row.service == "BASIC":
                        names.append("basic")
                    for name in names:
                        out.violated(name, text, [other.row, part.row], part.sender[0])
            open_.append(part)


def _contradiction(one: Deliver, two: Deliver) -> str:
    """What two rows about the same messages say differently; empty if nothing."""
    if one.service != two.service:
        return "service"
    if one.frame != two.frame:
        return "frame"
    if one.origin != two.origin:
        return "view of sending"
    receivers = (one.to, one.to_incarnations) != (two.to, two.to_incarnations)
    return "receivers" if receivers and one.view == two.view else ""


def _as_accepted(trace: Trace, sender: Member, out: Findings) -> None:
    """A message is sent to the members it was accepted for, except those that left its sender's
    view since. A torn journal may lack that view."""
    if sender in trace.lives.torn:
        return
    sends = trace.sends[sender]
    for submit in trace.submits[sender]:
        for first, last, at in sends.within(submit.first, submit.last):
            send = sends.values[at]
            out.evaluated("integrity")
            if not _for_the_same(trace, sender, submit, send):
                what = messages(sender, first, last)
                text = f"{what} was accepted for {_to(submit)} and sent to {_to(send)}"
                out.violated("integrity", text, [submit, send])


def _for_the_same(trace: Trace, sender: Member, submit: Accepted, send: Sent) -> bool:
    if submit.to is None or send.to is None:
        return submit.to is send.to
    if submit.to_incarnations is None or send.to_incarnations is None:
        return set(send.to) <= set(submit.to)
    meant = set(zip(submit.to, submit.to_incarnations, strict=True))
    named = set(zip(send.to, send.to_incarnations, strict=True))
    installs = [row for row in trace.installs[sender] if row.lseq < send.lseq]
    begun = sum(row.lseq < submit.lseq for row in installs)
    here = [trace.inside[row.view] for row in installs[max(0, begun - 1) :]]
    stayed = meant.intersection(*here)
    return stayed <= named <= meant


def _to(row: Accepted | Sent | Deliver) -> str:
    if row.to is None:
        return "all"
    if row.to_incarnations is None:
        return ", ".join(row.to)
    return ", ".join(label(m) for m in zip(row.to, row.to_incarnations, strict=True))


def _content(
    row: Deliver,
    digest: int,
    contents: Contents | None,
    seen: dict[tuple[Member, int, int], Accepted | Deliver],
    out: Findings,
) -> None:
    """Compare the bodies with the simulator's, or else with those that were submitted or that other
    members delivered as the same range."""
    sender = (row.sender, row.sender_incarnation)
    out.evaluated("integrity")
    if contents is not None:
        if contents(row.sender, row.sender_incarnation, row.first, row.last) != digest:
            what = messages(sender, row.first, row.last)
            text = (
                f"{row.member}.{row.incarnation} delivered {what} with other bodies than were sent"
            )
            out.violated("integrity", text, [row], row.sender)
        return
    first = seen.setdefault((sender, row.first, row.last), row)
    if first.digest == digest:
        return
    what = messages(sender, row.first, row.last)
    if isinstance(first, Accepted):
        text = (
            f"{row.member}.{row.incarnation} delivered {what} with other bodies than were submitted"
        )
        out.violated("integrity", text, [row, first], row.sender)
    else:
        one, other = f"{first.member}.{first.incarnation}", f"{row.member}.{row.incarnation}"
        text = f"{one} and {other} got different bodies of {what}"
        out.violated("integrity", text, [first, row], row.sender)


def _no_duplication(trace: Trace, out: Findings) -> None:
    """A message is delivered once in a life, in whatever view."""
    for deliveries in trace.deliveries.values():
        out.evaluated("no-duplication", len(deliveries))
    for first, again in trace.repeated:
        what = messages((again.sender, again.sender_incarnation), again.first, again.last)
        text = f"{again.member}.{again.incarnation} delivered {what} again, in {again.view}"
        for name in (
            ("no-duplication", "basic") if again.service == "BASIC" else ("no-duplication",)
        ):
            out.violated(name, text, [first, again], again.sender)
    for row in trace.resent:
        what = messages((row.member, row.incarnation), row.first, row.last)
        text = f"{what} was sent twice, in {row.view}"
        out.violated("no-duplication", text, [row])
