"""Total order of agreed and safe messages: running prefix, weak and strong total order.

running-prefix     Agreed and safe messages have one position each, the same at all members that
                   went through a view alike (`transitions`), and no member skips one addressed to
                   it.
weak-total-order   Members with the same next view delivered in the same order.

Positions count every ordered message of the view, also those addressed to others. So a hole in the
positions of a member is legal exactly if another member shows that the message there was not for
it. If each message has one position and positions grow, the sequences are equal; only where that
fails are sequences compared message by message. Strong total order is a statistic: partitions
break it. docs/protocol/properties.md states the properties in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.range_map import RangeMap, agree
from phalanx.verify.checkers.trace import DeliveredRange, Trace
from phalanx.verify.checkers.transitions import ViewTransition

PREFIX, WEAK = "running-prefix", "weak-total-order"

Places = dict[tuple[int, Member, int, int], DeliveredRange]
"""(position, sender, first, last) to a delivery of these messages there."""


def check_order(trace: Trace, ways: Sequence[ViewTransition], out: Findings) -> None:
    clean = True
    by_view: defaultdict[str, Places] = defaultdict(dict)
    for route in ways:
        group = {
            m: ordered
            for m, parts in route.parts.items()
            if (ordered := [p for p in parts if p.row.service in ("AGREED", "SAFE")])
        }
        if not group:
            continue
        places: Places = {}
        found = out.report.properties[PREFIX].found
        agreed = _positions(route, group, places, out)
        _holes(route, group, agreed, trace.lives.torn, out)
        broken = out.report.properties[PREFIX].found > found
        clean = clean and not broken
        if route.after is not None:
            pairs = len(group) * (len(group) - 1) // 2
            out.evaluated(WEAK, pairs)
            if broken:
                _weak_total_order(route, group, out)
        for place, part in places.items():
            by_view[route.view].setdefault(place, part)
    one = clean and _fits_together(by_view)
    out.report.statistics["strong-total-order"] = 0 if one else _on_cycles(trace)


def _positions(
    route: ViewTransition, group: dict[Member, list[DeliveredRange]], places: Places, out: Findings
) -> RangeMap[DeliveredRange]:
    """Each message has one position, and each position one message. Returns the agreed map."""
    for member, parts in group.items():
        highest = -1
        before: DeliveredRange | None = None
        out.evaluated(PREFIX, len(parts))
        for part in parts:
            pos = part.pos
            if pos is None:
                text = f"{label(member)} delivered {part} in {route.view} without a position"
                out.violated(PREFIX, text, [part.row])
                continue
            if pos <= highest and before is not None:
                text = (
                    f"{label(member)} delivered {part} at position {pos} of {route.view} "
                    f"after {before} up to {highest}"
                )
                out.violated(PREFIX, text, [before.row, part.row])
            before, highest = part, pos + part.last - part.first
            places.setdefault((pos, part.sender, part.first, part.last), part)
    agreed, apart = _contradictions(places)
    reported = set()
    for a, b in apart:
        if (id(a), id(b)) not in reported:
            reported.add((id(a), id(b)))
            text = (
                f"{label(a.member)} has {a} at position {a.pos} of {route.view}, "
                f"{label(b.member)} has {b} at {b.pos}"
            )
            out.violated(PREFIX, text, [a.row, b.row])
    return agreed


def _contradictions(
    places: Places,
) -> tuple[RangeMap[DeliveredRange], list[tuple[DeliveredRange, DeliveredRange]]]:
    by_pos: list[tuple[int, int, tuple[Member, int], DeliveredRange]] = []
    by_number: defaultdict[Member, list[tuple[int, int, int, DeliveredRange]]] = defaultdict(list)
    for (pos, sender, first, last), part in places.items():
        by_pos.append((pos, pos + last - first, (sender, first - pos), part))
        by_number[sender].append((first, last, first - pos, part))
    agreed, apart = agree(by_pos)
    for claims in by_number.values():
        apart += agree(claims)[1]
    spans: RangeMap[DeliveredRange] = RangeMap()
    for first, last, _, part in agreed:
        spans.add(first, last, part)
    return spans, apart


def _holes(
    route: ViewTransition,
    group: dict[Member, list[DeliveredRange]],
    agreed: RangeMap[DeliveredRange],
    torn: set[Member],
    out: Findings,
) -> None:
    for member, parts in group.items():
        due = 0
        for part in parts if member not in torn else ():
            pos = part.pos
            if pos is None:
                continue
            for lo, hi, at in agreed.within(due, pos - 1) if pos > due else ():
                other = agreed.values[at]
                if other.member != member and other.is_for(member):
                    text = (
                        f"{label(member)} skipped {other} at position {lo}..{hi} of {route.view}, "
                        f"which {label(other.member)} delivered"
                    )
                    out.violated(PREFIX, text, [other.row, part.row])
            due = max(due, pos + part.last - part.first + 1)


def _weak_total_order(
    route: ViewTransition, group: dict[Member, list[DeliveredRange]], out: Findings
) -> None:
    for (p, ps), (q, qs) in combinations(group.items(), 2):
        a, b = _common(ps, qs), _common(qs, ps)
        if [x[:3] for x in a] == [x[:3] for x in b]:
            continue
        i = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x[:3] != y[:3]), -1)
        text = f"{label(p)} delivered {a[i][3]} in {route}, where {label(q)} delivered {b[i][3]}"
        out.violated(WEAK, text, [a[i][3].row, b[i][3].row])


def _common(
    mine: list[DeliveredRange], theirs: list[DeliveredRange]
) -> list[tuple[Member, int, int, DeliveredRange]]:
    """The first sequence restricted to messages of the second, as the longest possible runs."""
    had: defaultdict[Member, RangeMap[None]] = defaultdict(RangeMap)
    for part in theirs:
        had[part.sender].add(part.first, part.last, None)
    runs: list[tuple[Member, int, int, DeliveredRange]] = []
    for part in mine:
        for lo, hi, _ in had[part.sender].within(part.first, part.last):
            if runs and runs[-1][0] == part.sender and runs[-1][2] == lo - 1:
                runs[-1] = (part.sender, runs[-1][1], hi, runs[-1][3])
            else:
                runs.append((part.sender, lo, hi, part))
    return runs


# ---------------------------------------------------------------------------- strong total order


def _fits_together(by_view: dict[str, Places]) -> bool:
    """Whether one order of all messages trivially exists: each view has one order, and no message
    is in two views, since the views of a member follow each other."""
    where: dict[tuple[Member, int], str] = {}
    for view, places in by_view.items():
        if _contradictions(places)[1]:
            return False
        for part in places.values():
            if part.at < 0 or where.setdefault((part.sender, part.at), view) != view:
                return False
    return True


def _on_cycles(trace: Trace) -> int:
    """The messages that fit into no one order: remove repeatedly those before or after all."""
    starts: defaultdict[Member, set[int]] = defaultdict(set)
    paths = [
        [p for p in parts if p.row.service in ("AGREED", "SAFE")] for parts in trace.parts.values()
    ]
    for parts in paths:
        for part in parts:
            starts[part.sender] |= {part.first, part.last + 1}
    cuts = {sender: sorted(s) for sender, s in starts.items()}
    places = {s: {n: i for i, n in enumerate(c)} for s, c in cuts.items()}
    after: defaultdict[tuple[Member, int], set[tuple[Member, int]]] = defaultdict(set)
    before: defaultdict[tuple[Member, int], set[tuple[Member, int]]] = defaultdict(set)
    members: set[tuple[Member, int]] = set()
    for parts in paths:
        previous = None
        for part in parts:
            s, at = part.sender, places[part.sender]
            for i in range(at[part.first], at[part.last + 1]):
                here = (s, i)
                members.add(here)
                if previous is not None:
                    after[previous].add(here)
                    before[here].add(previous)
                previous = here
    for towards, back in ((after, before), (before, after)):
        free = [n for n in members if not back[n]]
        while free:
            member = free.pop()
            members.discard(member)
            for other in towards[member]:
                back[other].discard(member)
                if not back[other] and other in members:
                    free.append(other)
    return sum(cuts[s][i + 1] - cuts[s][i] for s, i in members)
