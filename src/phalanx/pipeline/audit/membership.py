"""Views: who installs what, and after what."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

from phalanx.pipeline.audit.chronicle import Chronicle, Install, Member, Route
from phalanx.pipeline.audit.saying import Says

Movers = dict[Member, Install]


def membership(run: Chronicle, says: Says) -> None:
    for member in run.known:
        _self_inclusion(member, says)
        _local_monotonicity(member, says)
    _vid_sanity(run, says)
    _mutual_agreement(run, says)
    _joint_agreement(run, says)
    _transitional_set(run, says)
    for route in run.routes:
        _same_marker(route, says)
    for member in run.known:
        _marker_names(member, says)


def _self_inclusion(member: Member, says: Says) -> None:
    says.asked("self-inclusion", len(member.installs))
    for row in member.installs:
        if member.label not in row.inside:
            says.found("self-inclusion/", who=member, v=row.v, rows=[(member, row.lseq)])


def _local_monotonicity(member: Member, says: Says) -> None:
    """Epochs grow, and each install names the one before it; a torn journal may lack that one."""
    name, rows = "local-monotonicity", member.installs
    for a, b in pairwise(rows):
        says.asked(name)
        shown = [(member, a.lseq), (member, b.lseq)]
        if (b.joins, b.removals) <= (a.joins, a.removals):
            says.found(f"{name}/epoch", who=member, v=b.v, w=a.v, rows=shown)
        elif b.prev != a.v and not member.torn:
            note = b.prev_vid or "nowhere"
            says.found(f"{name}/from", who=member, v=b.v, w=a.v, note=note, rows=shown)
    if rows and rows[0].prev is not None and not member.torn:
        row = rows[0]
        says.found(f"{name}/origin", who=member, v=row.v, w=row.prev, rows=[(member, row.lseq)])


def _vid_sanity(run: Chronicle, says: Says) -> None:
    known: dict[int, tuple[Member, Install]] = {}
    for member in run.known:
        for row in member.installs:
            says.asked("vid-sanity")
            one, first = known.setdefault(row.v, (member, row))
            if _meaning(row) != _meaning(first):
                shown = [(one, first.lseq), (member, row.lseq)]
                says.found("vid-sanity/", who=one, other=member, v=row.v, rows=shown)


def _meaning(row: Install) -> tuple[object, ...]:
    inside, merged = sorted(row.inside), sorted(row.components)
    return inside, row.joins, row.removals, row.context, row.cause, merged


def _moves(run: Chronicle) -> dict[int, dict[int, Movers]]:
    """From each view to each next one: who went there."""
    after: defaultdict[int, defaultdict[int, Movers]] = defaultdict(lambda: defaultdict(dict))
    for member in run.known:
        for v, at in member.next.items():
            row = member.installs[at]
            after[v][row.v][member] = row
    return {v: dict(ways) for v, ways in after.items()}


def _mutual_agreement(run: Chronicle, says: Says) -> None:
    """S0 P.1: who has each other in the next view has the same next view."""
    for v, ways in _moves(run).items():
        says.asked("mutual-agreement", sum(map(len, ways.values())) - 1)
        for (w, to_w), (u, to_u) in combinations(ways.items(), 2):
            p = next((m for m in to_w if m.label in run.views[u].inside), None)
            q = next((m for m in to_u if m.label in run.views[w].inside), None)
            if p is not None and q is not None:
                _disagreed("after", run.vids.get(v, ""), p, to_w[p], q, to_u[q], says)


def _disagreed(
    way: str, where: str, p: Member, w: Install, q: Member, u: Install, says: Says
) -> None:
    kind, shown = f"mutual-agreement/{way}", [(p, w.lseq), (q, u.lseq)]
    says.found(kind, who=p, other=q, v=w.v, w=u.v, note=where, rows=shown)


def _joint_agreement(run: Chronicle, says: Says) -> None:
    """P.1 over components: two that come from different views, and each join both of these views
    and each other, join them in one view."""
    joins: defaultdict[int, Movers] = defaultdict(dict)
    merging: defaultdict[int, dict[int, set[int]]] = defaultdict(dict)
    for member in run.known:
        for row in member.installs:
            if row.components:
                joins[row.v][member] = row
            for component in row.components:
                merging[component][row.v] = set(row.components)
    told: set[frozenset[int]] = set()
    for w, movers in joins.items():
        for p, row in movers.items():
            mine = p.came.get(w)
            for u, united in merging.get(mine, {}).items() if mine is not None else ():
                if u == w or frozenset((w, u)) in told or p.label not in run.views[u].inside:
                    continue
                for q, other in joins[u].items():
                    theirs = q.came.get(u)
                    if theirs is None or theirs == mine or q.label not in run.views[w].inside:
                        continue
                    if theirs in row.components and theirs in united:
                        told.add(frozenset((w, u)))
                        says.asked("mutual-agreement")
                        _disagreed("joining", run.vids.get(mine or 0, ""), p, row, q, other, says)
                        break


def _transitional_set(run: Chronicle, says: Says) -> None:
    """Of those that came, a member is told exactly those that came from where it came from; and
    it is told nobody that was not in both views."""
    into: defaultdict[int, defaultdict[int, Movers]] = defaultdict(lambda: defaultdict(dict))
    for before, ways in _moves(run).items():
        for v, movers in ways.items():
            into[v][before] |= movers
    for v, origins in into.items():
        came = {m.label for movers in origins.values() for m in movers}
        now = run.views[v].inside
        for before, movers in origins.items():
            then = run.views.get(before)
            both = now if then is None else now & then.inside
            along = {m.label for m in movers}
            for member, row in movers.items():
                says.asked("transitional-set", len(came))
                trans = set(row.trans)
                for wrong in sorted((trans - both) | ((trans & came) ^ along)):
                    is_in = "is in" if wrong in trans else "is not in"
                    says.found(
                        "transitional-set/",
                        who=member,
                        other=run.by_label.get(wrong),
                        v=v,
                        w=before,
                        note=f"{wrong} {is_in} its transitional set",
                        rows=[(member, row.lseq)],
                    )


def _same_marker(route: Route, says: Says) -> None:
    """Who move on together have passed the marker at the same position, or all without one."""
    members = [m for m in route.members if not m.torn]
    if route.w is None or len(members) < 2:
        return
    markers = {m: m.markers.get(route.v) for m in members}
    if not any(markers.values()):
        return
    says.asked("safe-marker")
    places = {m: row.at_pos if row else None for m, row in markers.items()}
    if len(set(places.values())) > 1:
        one = members[0]
        other = next(m for m in members if places[m] != places[one])
        said = ", ".join(f"{m.label} at {place}" for m, place in places.items())
        shown = [(m, row.lseq) for m in (one, other) if (row := markers[m]) is not None]
        says.found(
            "safe-marker/apart", who=one, other=other, v=route.v, w=route.w, note=said, rows=shown
        )


def _marker_names(member: Member, says: Says) -> None:
    """A marker names the members that move on together."""
    for v, marker in member.markers.items():
        at = member.next.get(v)
        if at is None or marker.members is None or member.torn:
            continue
        says.asked("safe-marker")
        after = member.installs[at]
        if set(marker.members) != set(after.trans):
            shown = [(member, marker.lseq), (member, after.lseq)]
            says.found("safe-marker/names", who=member, v=v, w=after.v, rows=shown)
