"""What is delivered was sent, to me, once, in this view, and arrives as it left.

Integrity, no duplication, sending view, same view; and their share of basic (PROTOCOLS D.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from phalanx.journal.events import Deliver
from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.trace import Member, Part, Trace, addressed, label, messages

Contents = Callable[[str, int, int, int], int]
"""(sender name, incarnation, first, last) to the CRC-32 of the bodies put together."""


def check_integrity(trace: Trace, contents: Contents | None, out: Findings) -> None:
    digests: dict[tuple[Member, int, int], Deliver] = {}
    for member, parts in trace.parts.items():
        for part in parts:
            _integrity(trace, part, out)
            _sending_view(part, out)
        for row in trace.deliveries[member]:
            if row.digest is not None:
                _content(row, row.digest, contents, digests, out)
    _no_duplication(trace, out)
    _same_view(trace, out)


def _integrity(trace: Trace, part: Part, out: Findings) -> None:
    stranger = _stranger(trace, part)
    if part.send is None and not stranger and not trace.sent_all(part.sender, part.first):
        return  # beyond an unclean end: unverifiable
    names = ["integrity", "basic"] if part.row.service == "BASIC" else ["integrity"]
    for name in names:
        out.evaluated(name)
        for text in [stranger] if stranger else _faults(part):
            rows = [part.row] if part.send is None else [part.send, part.row]
            out.violated(name, text, rows, part.sender[0])


def _stranger(trace: Trace, part: Part) -> str | None:
    """A sender without a journal may have sent anything, but not in a view without it."""
    vid = part.row.origin_vid
    if part.sender in trace.journals or part.sender in trace.views.get(vid, (part.sender,)):
        return None
    return f"{label(part.member)} delivered {part}, whose sender is not in {vid}"


def _faults(part: Part) -> Iterator[str]:
    member, send, row = part.member, part.send, part.row
    who = label(member)
    if send is None:
        yield f"{who} delivered {part}, which was never sent"
        return
    if not addressed(member, send.to):
        yield f"{part} for {', '.join(send.to or ())} was shown to a stranger, {who}"
    elif sorted(row.to or ()) != sorted(send.to or ()) or (row.to is None) != (send.to is None):
        yield f"{who} delivered {part} as sent to {row.to}, it was sent to {send.to}"
    if row.service != send.service:
        yield f"{who} delivered {part} as {row.service}, it was sent as {send.service}"
    if row.frame != send.frame:
        yield f"{who} delivered {part} from frame {row.frame}, it left in frame {send.frame}"
    if member == part.sender:
        early = row.step < send.step
    elif row.sim_ns is None or send.sim_ns is None:
        early = False  # clocks of two machines are never compared
    else:
        early = row.sim_ns < send.sim_ns
    if early:
        yield f"{who} delivered {part} before it was sent"


def _content(
    row: Deliver,
    digest: int,
    contents: Contents | None,
    seen: dict[tuple[Member, int, int], Deliver],
    out: Findings,
) -> None:
    """Bodies are compared with the truth, or else with what others got for the same range."""
    sender = (row.sender, row.sender_inc)
    what = messages(sender, row.first, row.last)
    out.evaluated("integrity")
    if contents is not None:
        if contents(row.sender, row.sender_inc, row.first, row.last) != digest:
            text = f"{row.node}.{row.inc} delivered {what} with other bodies than were sent"
            out.violated("integrity", text, [row], row.sender)
        return
    first = seen.setdefault((sender, row.first, row.last), row)
    if first.digest != digest:
        text = f"{first.node}.{first.inc} and {row.node}.{row.inc} got different bodies of {what}"
        out.violated("integrity", text, [first, row], row.sender)


def _no_duplication(trace: Trace, out: Findings) -> None:
    for deliveries in trace.deliveries.values():
        out.evaluated("no-duplication", len(deliveries))
    for first, again in trace.repeated:
        what = messages((again.sender, again.sender_inc), again.first, again.last)
        text = f"{again.node}.{again.inc} delivered {what} again, in {again.vid}"
        for name in (
            ("no-duplication", "basic") if again.service == "BASIC" else ("no-duplication",)
        ):
            out.violated(name, text, [first, again], again.sender)
    for row in trace.resent:
        text = f"{messages((row.node, row.inc), row.first, row.last)} was sent twice, in {row.vid}"
        out.violated("no-duplication", text, [row])


def _sending_view(part: Part, out: Findings) -> None:
    """Only messages of phase 0 belong to the view they left in; later ones are carried."""
    send, row = part.send, part.row
    if send is None:
        return
    out.evaluated("sending-view")
    if row.origin_vid != send.vid or (send.phase == 0 and row.vid != send.vid):
        text = (
            f"{label(part.member)} delivered {part} in {row.vid} as sent in {row.origin_vid}, "
            f"it was sent in {send.vid}"
        )
        out.violated("sending-view", text, [send, row])


def _same_view(trace: Trace, out: Findings) -> None:
    by_send: defaultdict[tuple[Member, int], list[Part]] = defaultdict(list)
    for parts in trace.parts.values():
        for part in parts:
            if part.row.service != "BASIC":
                by_send[part.sender, part.at].append(part)
    for parts in by_send.values():
        if len({p.member for p in parts}) < 2:
            continue
        out.evaluated("same-view")
        if len({p.row.vid for p in parts}) == 1:
            continue
        for i, a in enumerate(parts):
            for b in parts[i + 1 :]:
                if a.row.vid != b.row.vid and a.first <= b.last and b.first <= a.last:
                    _one_view(trace, a, b, out)


def _one_view(trace: Trace, a: Part, b: Part, out: Findings) -> None:
    """A carried message (phase 1) may go up in two views, at members that parted ways."""
    carried = a.send is not None and a.send.phase > 0
    met = any(r.vid == b.row.vid for r in trace.installs[a.member]) or any(
        r.vid == a.row.vid for r in trace.installs[b.member]
    )
    if carried and not met:
        return
    text = f"{label(a.member)} delivered {a} in {a.row.vid}, {label(b.member)} {b} in {b.row.vid}"
    out.violated("same-view", text, [a.row, b.row], a.sender[0])
