"""Membership properties: view installations and the agreement of members on them.

self-inclusion       A member belongs to every view it installs.
local-monotonicity   Epochs of a member's views grow, each view names the previous one, and no role
                     of a member that moves together with this one is older than before.
vid-sanity           A view id means the same view at all members.
mutual-agreement     Members that keep each other install the same next view.
transitional-set     A view names the members that came from the same previous view.

docs/protocol/properties.md states them in full. They need view installations alone, so the audit
runs these functions too.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

from phalanx.journal.schema import ViewInstalled
from phalanx.verify.checkers.findings import Findings
from phalanx.verify.checkers.member_names import Member, label
from phalanx.verify.checkers.view_trace import ViewTrace

Movers = dict[Member, ViewInstalled]


def check_views(trace: ViewTrace, out: Findings) -> None:
    for member, installs in trace.installs.items():
        _self_inclusion(member, installs, out)
        _local_monotonicity(member, installs, member in trace.lives.torn, out)
    _vid_sanity(trace, out)
    _mutual_agreement(trace, out)
    _joint_agreement(trace, out)
    _transitional_set(trace, out)


def _self_inclusion(member: Member, installs: list[ViewInstalled], out: Findings) -> None:
    for row in installs:
        out.evaluated("self-inclusion")
        if member not in zip(row.members, row.member_incarnations, strict=True):
            text = f"{label(member)} installed {row.view} without being in it"
            out.violated("self-inclusion", text, [row], view=row.view)


def _local_monotonicity(
    member: Member, installs: list[ViewInstalled], torn: bool, out: Findings
) -> None:
    for a, b in pairwise(installs):
        out.evaluated("local-monotonicity")
        if (b.joins, b.removals) <= (a.joins, a.removals):
            text = f"{label(member)} installed {b.view} after {a.view}: the epoch did not grow"
            out.violated("local-monotonicity", text, [a, b], view=b.view)
        elif b.previous != a.view and not torn:
            text = f"{label(member)} says it came to {b.view} from {b.previous}, not from {a.view}"
            out.violated("local-monotonicity", text, [a, b], view=b.view)
        for q, before, after in _older_roles(a, b):
            text = (
                f"{label(member)} came from {a.view} to {b.view} with {label(q)}, whose role "
                f"went back from number {before} to {after}"
            )
            out.violated("local-monotonicity", text, [a, b], q[0], view=b.view)
    if installs and installs[0].previous is not None and not torn:
        row = installs[0]
        text = f"{label(member)} says it came to {row.view} from {row.previous}, which it never had"
        out.violated("local-monotonicity", text, [row], view=row.view)


def _older_roles(a: ViewInstalled, b: ViewInstalled) -> list[tuple[Member, int, int]]:
    """Members that move together from `a` to `b` whose role has a lower serial in `b`, 0 for none;
    with both serials."""
    if not a.role_members or b.previous != a.view:
        return []
    together = set(zip(b.transitional, b.transitional_incarnations, strict=True))
    earlier, later = _serials(a), _serials(b)
    return [
        (member, serial, later.get(member, 0))
        for member, serial in sorted(earlier.items())
        if member in together and later.get(member, 0) < serial
    ]


def _serials(row: ViewInstalled) -> dict[Member, int]:
    members = zip(row.role_members, row.role_incarnations, strict=True)
    return dict(zip(members, row.role_serials, strict=True))


def _vid_sanity(trace: ViewTrace, out: Findings) -> None:
    known: dict[str, ViewInstalled] = {}
    for installs in trace.installs.values():
        for row in installs:
            out.evaluated("vid-sanity")
            first = known.setdefault(row.view, row)
            if first is not row and _content(row) != _content(first):
                text = f"{row.view} means one view at {first.member} and another at {row.member}"
                out.violated("vid-sanity", text, [first, row], view=row.view)


def _content(row: ViewInstalled) -> tuple[object, ...]:
    members = sorted(zip(row.members, row.member_incarnations, strict=True))
    epoch, components = (row.joins, row.removals), sorted(row.components)
    columns = (row.role_members, row.role_incarnations, row.role_serials, row.role_operations)
    roles = sorted(zip(*columns, strict=True))
    return members, epoch, row.context, row.cause, components, roles


def _mutual_agreement(trace: ViewTrace, out: Findings) -> None:
    """Members that leave a view for views that contain both install the same one (S0 P.1)."""
    after: defaultdict[str, defaultdict[str, Movers]]
    after = defaultdict(lambda: defaultdict(dict))
    for (member, view), row in trace.successor.items():
        after[view][row.view][member] = row
    for view, ways in after.items():
        for movers in ways.values():
            out.evaluated("mutual-agreement", len(movers) - 1)
        for (w, to_w), (u, to_u) in combinations(ways.items(), 2):
            out.evaluated("mutual-agreement")
            ps = [p for p in to_w if p in trace.inside[u]]
            qs = [q for q in to_u if q in trace.inside[w]]
            if ps and qs:
                _disagreed(f"after {view}", to_w[ps[0]], to_u[qs[0]], out)


def _joint_agreement(trace: ViewTrace, out: Findings) -> None:
    """The same across a merge: two members from different views that each merge both of these
    views, and contain each other, install the same merged view."""
    joins: defaultdict[str, Movers] = defaultdict(dict)
    of_component: defaultdict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for member, installs in trace.installs.items():
        for row in installs:
            if row.components:
                joins[row.view][member] = row
                for component in row.components:
                    of_component[component][row.view] = frozenset(row.components)
    reported = set()
    for w, movers in joins.items():
        for p, row in movers.items():
            mine = trace.before.get((p, w))
            for u, united in of_component.get(mine or "", {}).items():
                if u == w or p not in trace.inside[u] or (w, u) in reported:
                    continue
                for q, other in joins[u].items():
                    theirs = trace.before.get((q, u))
                    if theirs == mine or q not in trace.inside[w]:
                        continue
                    if theirs in row.components and theirs in united:
                        reported |= {(w, u), (u, w)}
                        out.evaluated("mutual-agreement")
                        _disagreed(f"joining {mine} and {theirs}", row, other, out)
                        break


def _disagreed(where: str, w: ViewInstalled, u: ViewInstalled, out: Findings) -> None:
    text = (
        f"{where}, {w.member}.{w.incarnation} installed {w.view} "
        f"and {u.member}.{u.incarnation} {u.view}, "
        "though each has the other in its view"
    )
    out.violated("mutual-agreement", text, [w, u], view=w.view)


def _transitional_set(trace: ViewTrace, out: Findings) -> None:
    """Of the members that installed the view, the transitional set holds exactly those that came
    from the same view; all of it is in both views."""
    into: defaultdict[str, defaultdict[str, Movers]]
    into = defaultdict(lambda: defaultdict(dict))
    for (member, view), row in trace.successor.items():
        into[row.view][view][member] = row
    apart = 0
    for view, ways in into.items():
        came = {q: before for before, movers in ways.items() for q in movers}
        for before, movers in ways.items():
            both = trace.inside[view] & trace.inside.get(before, trace.inside[view])
            apart += sum(q in both and origin != before for q, origin in came.items())
            for p, row in movers.items():
                transitional = set(
                    zip(row.transitional, row.transitional_incarnations, strict=True)
                )
                out.evaluated("transitional-set", len(came))
                if transitional <= both and transitional & came.keys() == movers.keys():
                    continue
                for q in sorted(
                    (transitional - both) | ((transitional & came.keys()) ^ movers.keys())
                ):
                    origin = f"from {came[q]}" if q in came else "not at all"
                    text = (
                        f"{label(p)} came to {view} from {before} and {label(q)} {origin}, but "
                        f"{label(q)} is {'in' if q in transitional else 'not in'} "
                        f"{label(p)}'s transitional set"
                    )
                    rows = [row, *([ways[came[q]][q]] if q in came else [])]
                    out.violated("transitional-set", text, rows, q[0], view=view)
    out.report.statistics["successors-apart"] = apart
