"""One order of agreed and safe messages (PROTOCOLS D.1: prefix, weak and strong total order).

Positions count every ordered message of the view, whether it was addressed to me or not. So
a hole at a member is legal exactly where another member shows that the message there was
not for it.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from phalanx.sim.checkers.findings import Findings
from phalanx.sim.checkers.spans import Spans, agree
from phalanx.sim.checkers.trace import Member, Part, Trace, addressed, label

ORDERED = ("AGREED", "SAFE")


def check_order(trace: Trace, out: Findings) -> None:
    ordered: defaultdict[str, dict[Member, list[Part]]] = defaultdict(dict)
    for member, parts in trace.parts.items():
        for part in parts:
            if part.row.service in ORDERED:
                ordered[part.row.vid].setdefault(member, []).append(part)
    for vid, by_member in ordered.items():
        moved: defaultdict[str | None, dict[Member, list[Part]]] = defaultdict(dict)
        for member, parts in by_member.items():
            after = trace.successor.get((member, vid))
            moved[after.vid if after else None][member] = parts
        for after_vid, group in moved.items():
            if after_vid is None and len(moved) > 1:
                # Agreed is not uniform: once a change has decided without it, a crashed
                # member may have delivered what the others order otherwise or never.
                group = {m: p for m, p in group.items() if m not in trace.crashed}
            _positions(vid, group, trace.torn, out)
            if after_vid is not None:
                _weak_total_order(f"{vid} before {after_vid}", group, out)
    out.report.statistics["strong-total-order"] = _on_cycles(ordered)


def _positions(vid: str, group: dict[Member, list[Part]], torn: set[Member], out: Findings) -> None:
    by_pos: list[tuple[int, int, tuple[Member, int], Part]] = []
    by_number: defaultdict[Member, list[tuple[int, int, int, Part]]] = defaultdict(list)
    for member, parts in group.items():
        before: Part | None = None
        highest = -1
        for part in parts:
            out.evaluated("running-prefix")
            pos = part.pos
            if pos is None:
                text = f"{label(member)} delivered {part} in {vid} without a position"
                out.violated("running-prefix", text, [part.row])
                continue
            if pos <= highest and before is not None:
                text = (
                    f"{label(member)} delivered {part} at position {pos} of {vid} "
                    f"after {before} up to {highest}"
                )
                out.violated("running-prefix", text, [before.row, part.row])
            before, highest = part, pos + part.last - part.first
            offset = part.first - pos
            by_pos.append((pos, highest, (part.sender, offset), part))
            by_number[part.sender].append((part.first, part.last, offset, part))
    agreed, apart = agree(by_pos)
    for claims in by_number.values():
        apart += agree(claims)[1]
    told = set()
    for a, b in apart:
        if (id(a), id(b)) not in told:
            told.add((id(a), id(b)))
            text = (
                f"{label(a.member)} has {a} at position {a.pos} of {vid}, "
                f"{label(b.member)} has {b} at {b.pos}"
            )
            out.violated("running-prefix", text, [a.row, b.row])
    for member, parts in group.items():
        if member not in torn:
            _holes(vid, member, parts, agreed, out)


def _holes(
    vid: str,
    member: Member,
    parts: list[Part],
    agreed: list[tuple[int, int, tuple[Member, int], Part]],
    out: Findings,
) -> None:
    mine: Spans[Part] = Spans()
    for part in parts:
        if part.pos is not None:
            mine.add(part.pos, part.pos + part.last - part.first, part)
    end = mine.lasts[-1] if mine.lasts else -1
    for first, last, _, other in agreed:
        if first > end:
            break
        if other.member == member or not addressed(member, other.row.to):
            continue
        for lo, hi in mine.missing(first, min(last, end)):
            text = (
                f"{label(member)} skipped {other} at position {lo}..{hi} of {vid}, "
                f"which {label(other.member)} delivered"
            )
            out.violated("running-prefix", text, [other.row, mine.values[-1].row])


def _weak_total_order(where: str, group: dict[Member, list[Part]], out: Findings) -> None:
    for (p, ps), (q, qs) in combinations(group.items(), 2):
        out.evaluated("weak-total-order")
        a, b = _common(ps, qs), _common(qs, ps)
        if [x[:3] for x in a] == [x[:3] for x in b]:
            continue
        i = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x[:3] != y[:3]), -1)
        text = f"{label(p)} delivered {a[i][3]} in {where}, where {label(q)} delivered {b[i][3]}"
        out.violated("weak-total-order", text, [a[i][3].row, b[i][3].row])


def _common(mine: list[Part], theirs: list[Part]) -> list[tuple[Member, int, int, Part]]:
    """My sequence without what the other did not deliver, as the longest possible runs."""
    had: defaultdict[Member, Spans[None]] = defaultdict(Spans)
    for part in theirs:
        had[part.sender].add(part.first, part.last, None)
    runs: list[tuple[Member, int, int, Part]] = []
    for part in mine:
        for lo, hi, _ in had[part.sender].within(part.first, part.last):
            if runs and runs[-1][0] == part.sender and runs[-1][2] == lo - 1:
                runs[-1] = (part.sender, runs[-1][1], hi, runs[-1][3])
            else:
                runs.append((part.sender, lo, hi, part))
    return runs


def _on_cycles(ordered: dict[str, dict[Member, list[Part]]]) -> int:
    """How many messages cannot be put in one order: peel off what is before or after all."""
    starts: defaultdict[Member, set[int]] = defaultdict(set)
    paths: defaultdict[Member, list[Part]] = defaultdict(list)
    for by_member in ordered.values():
        for member, parts in by_member.items():
            paths[member] += parts
            for part in parts:
                starts[part.sender] |= {part.first, part.last + 1}
    cuts = {sender: sorted(s) for sender, s in starts.items()}
    places = {s: {n: i for i, n in enumerate(c)} for s, c in cuts.items()}
    after: defaultdict[tuple[Member, int], set[tuple[Member, int]]] = defaultdict(set)
    before: defaultdict[tuple[Member, int], set[tuple[Member, int]]] = defaultdict(set)
    nodes: set[tuple[Member, int]] = set()
    for parts in paths.values():
        previous = None
        for part in sorted(parts, key=lambda p: p.nth):
            s, at = part.sender, places[part.sender]
            for i in range(at[part.first], at[part.last + 1]):
                here = (s, i)
                nodes.add(here)
                if previous is not None:
                    after[previous].add(here)
                    before[here].add(previous)
                previous = here
    for towards, back in ((after, before), (before, after)):
        free = [n for n in nodes if not back[n]]
        while free:
            node = free.pop()
            nodes.discard(node)
            for other in towards[node]:
                back[other].discard(node)
                if not back[other] and other in nodes:
                    free.append(other)
    return sum(cuts[s][i + 1] - cuts[s][i] for s, i in nodes)
