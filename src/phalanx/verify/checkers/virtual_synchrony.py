"""Virtual synchrony, and the transitional marker.

virtual-synchrony   Members with the same next view delivered the same messages (S0 P.2), of those
                    addressed to them.
safe-marker         Members with the same next view saw the transitional marker at the same
                    position, and the marker names them. Deliveries before it are regular, after it
                    transitional; in the agreed order exactly the positions from `pos` on come
                    after it.

docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, addressed, label, messages, named
from phalanx.verify.checkers.range_map import RangeMap
from phalanx.verify.checkers.trace import DeliveredRange, Trace
from phalanx.verify.checkers.transitions import ViewTransition


def check_synchrony(trace: Trace, ways: Sequence[ViewTransition], out: Findings) -> None:
    torn = trace.lives.torn
    for route in ways:
        if route.after is None:
            continue
        group = {m: parts for m, parts in route.parts.items() if m not in torn}
        if len(group) > 1:
            _virtual_synchrony(str(route), group, out)
            _same_marker(trace, route, list(group), out)
    _sides(trace, out)


def _virtual_synchrony(
    where: str, group: dict[Member, list[DeliveredRange]], out: Findings
) -> None:
    out.evaluated("virtual-synchrony", len(group))
    had = {m: {(p.sender, p.first, p.last) for p in parts} for m, parts in group.items()}
    first, *others = had.values()
    if any(ranges != first for ranges in others):
        _differences(where, group, out)


def _differences(where: str, group: dict[Member, list[DeliveredRange]], out: Findings) -> None:
    """Report messages that a member lacks. Ranges may differ legally: they are split at other
    numbers, or not addressed to all."""
    had: dict[Member, defaultdict[Member, RangeMap[None]]] = {}
    union: defaultdict[Member, RangeMap[DeliveredRange]] = defaultdict(RangeMap)
    for member, parts in group.items():
        had[member] = defaultdict(RangeMap)
        for part in parts:
            had[member][part.sender].add(part.first, part.last, None)
            union[part.sender].add(part.first, part.last, part)
    for member in group:
        for sender, spans in union.items():
            for first, last, part in zip(spans.firsts, spans.lasts, spans.values, strict=True):
                if not addressed(member, part.row):
                    continue
                for lo, hi in had[member][sender].missing(first, last):
                    text = (
                        f"{label(part.member)} delivered {messages(sender, lo, hi)} in {where}, "
                        f"{label(member)} did not"
                    )
                    out.violated("virtual-synchrony", text, [part.row], member[0])


def _same_marker(trace: Trace, route: ViewTransition, members: list[Member], out: Findings) -> None:
    rows = {m: trace.markers.get((m, route.view)) for m in members}
    if not any(rows.values()):
        return
    out.evaluated("safe-marker")
    places = {m: row.pos if row else None for m, row in rows.items()}
    if len(set(places.values())) > 1:
        said = ", ".join(f"{label(m)} at {p}" for m, p in places.items())
        text = f"the transitional marker of {route} is at different positions: {said}"
        shown = [row for row in rows.values() if row]
        out.violated("safe-marker", text, shown, *(m[0] for m in members))


def _sides(trace: Trace, out: Findings) -> None:
    torn = trace.lives.torn  # the missing rows may include the marker
    for row, marker in trace.wrong_region:
        member = (row.member, row.incarnation)
        if member in torn:
            continue
        side = "before any marker" if marker is None else "after the marker"
        what = messages((row.sender, row.sender_incarnation), row.first, row.last)
        text = f"{label(member)} delivered {what} as {row.region} {side} of {row.view}"
        out.evaluated("safe-marker")
        out.violated("safe-marker", text, [*([marker] if marker else []), row])
    for (member, view), marker in trace.markers.items():
        after = trace.successor.get((member, view))
        along = named(marker.members, marker.member_incarnations)
        if after is not None and along is not None and member not in torn:
            out.evaluated("safe-marker")
            if along != set(zip(after.transitional, after.transitional_incarnations, strict=True)):
                text = f"the marker of {view} at {label(member)} names others than those that move "
                out.violated("safe-marker", f"{text}on with it to {after.view}", [marker, after])
        for part in trace.by_view.get(view, {}).get(member, ()):
            pos = part.pos
            if pos is None or member in torn:
                continue
            out.evaluated("safe-marker")
            if (pos >= marker.pos) is not (part.row.lseq > marker.lseq):
                text = (
                    f"{label(member)} delivered {part} at position {pos} of {view} on the wrong "
                    f"side of the marker at {marker.pos}"
                )
                out.violated("safe-marker", text, [marker, part.row])
