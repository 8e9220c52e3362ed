"""Members that go from one view to the next together have delivered the same in it
(virtual synchrony, S0 P.2), and passed the marker at the same position."""

from __future__ import annotations

from collections import defaultdict

from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.spans import Spans
from phalanx.sim.checkers.trace import Member, Part, Trace, addressed, label, messages


def check_synchrony(trace: Trace, out: Findings) -> None:
    together: defaultdict[tuple[str, str], list[Member]] = defaultdict(list)
    for (member, vid), row in trace.successor.items():
        if member not in trace.torn:
            together[vid, row.vid].append(member)
    parts: defaultdict[tuple[Member, str], list[Part]] = defaultdict(list)
    for member, all_parts in trace.parts.items():
        for part in all_parts:
            if part.row.service != "BASIC":
                parts[member, part.row.vid].append(part)
    for (vid, after), members in together.items():
        if len(members) > 1:
            where = f"{vid} before {after}"
            _virtual_synchrony(where, {m: parts[m, vid] for m in members}, out)
            _safe_marker(trace, vid, where, members, out)


def _virtual_synchrony(where: str, group: dict[Member, list[Part]], out: Findings) -> None:
    had: dict[Member, defaultdict[Member, Spans[None]]] = {}
    union: defaultdict[Member, Spans[Part]] = defaultdict(Spans)
    for member, parts in group.items():
        had[member] = defaultdict(Spans)
        for part in parts:
            had[member][part.sender].add(part.first, part.last, None)
            union[part.sender].add(part.first, part.last, part)
    for member in group:
        out.evaluated("virtual-synchrony")
        for sender, spans in union.items():
            for first, last, part in zip(spans.firsts, spans.lasts, spans.values, strict=True):
                if not addressed(member, part.row.to):
                    continue
                for lo, hi in had[member][sender].missing(first, last):
                    text = (
                        f"{label(part.member)} delivered {messages(sender, lo, hi)} in {where}, "
                        f"{label(member)} did not"
                    )
                    out.violated("virtual-synchrony", text, [part.row], member[0])


def _safe_marker(trace: Trace, vid: str, where: str, members: list[Member], out: Findings) -> None:
    rows = {m: trace.markers.get((m, vid)) for m in members}
    if not any(rows.values()):
        return
    out.evaluated("safe-marker")
    places = {m: row.at_pos if row else None for m, row in rows.items()}
    if len(set(places.values())) > 1:
        said = ", ".join(f"{label(m)} at {p}" for m, p in places.items())
        text = f"the transitional marker of {where} is at different positions: {said}"
        shown = [row for row in rows.values() if row]
        out.violated("safe-marker", text, shown, *(m[0] for m in members))
