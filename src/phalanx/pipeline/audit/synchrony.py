"""Virtual synchrony and the side of the marker: members that go from one view to the next together
have delivered the same messages in it (S0 P.2), each on the right side of the marker.

The marker cuts a view in two: deliveries before it are regular, deliveries after it transitional;
of the agreed order exactly the positions from `pos` on come after it.
"""

from __future__ import annotations

import numpy as np

from phalanx.pipeline.audit.group_findings import GroupFinding, shown_rows
from phalanx.pipeline.audit.member_masks import Words, lowest, some
from phalanx.pipeline.audit.message_columns import Deliveries
from phalanx.pipeline.audit.number_ranges import NONE, Bools, Longs, counted, group_starts, repeated
from phalanx.pipeline.audit.prepare import PreparedGroup
from phalanx.pipeline.audit.row_coder import BASIC, SAFE


def virtual_synchrony(p: PreparedGroup) -> None:
    """Of each cell that a member on a route delivered in the view: the members on it that did not,
    though it was addressed to them."""
    w, facts = p.cells.ways, p.facts
    way, route = on_routes(p, np.flatnonzero(w.service != BASIC))
    together = facts.together[route]
    here = together & p.cells.in_order[way]
    lack = together & facts.meant[w.t[way]] & ~p.cells.in_order[way]
    bad = some(here) & some(lack)
    if facts.sets and bad.any():
        bad &= _of_the_first(p, way, route)

    def shown(i: int) -> GroupFinding:
        j, r = int(way[i]), int(route[i])
        k = int(w.k[j])
        about = (int(w.s[j]), int(w.c1[j]), int(w.c2[j]), int(w.v[j]), int(facts.route_w[r]))
        rows = ((k, int(w.lseq[j])),)
        return GroupFinding("virtual-synchrony/", k, lowest(lack[i]), *about, rows=rows)

    p.out.add_each("virtual-synchrony/", bad, w.s[way], w.c1[way], shown)


def on_routes(p: PreparedGroup, ways: Longs) -> tuple[Longs, Longs]:
    """Each of these ways with each route through its view."""
    v = p.cells.ways.v[ways]
    counts = p.facts.route_count[v]
    row = repeated(counts)
    return ways[row], p.facts.route_begin[v][row] + counted(counts)


def _of_the_first(p: PreparedGroup, way: Longs, route: Longs) -> Bools:
    """Where members do not agree on the receivers of a message, the first of the route is
    believed: the ways that name its set."""
    w = p.cells.ways
    mine = p.cells.mask[way] & p.facts.together[route]
    first = np.full(len(way), np.iinfo(np.int64).max)
    has = some(mine)
    first[has] = [lowest(mask) for mask in mine[has]]
    order = np.lexsort((w.t[way], first, route, w.cell[way]))
    starts = group_starts(w.cell[way][order], route[order])
    counts = np.diff(np.append(starts, len(order)))
    believed = np.empty(len(way), dtype=np.int64)
    believed[order] = np.repeat(w.t[way][order[starts]], counts)
    found: Bools = w.t[way] == believed
    return found


def marker_sides(p: PreparedGroup) -> None:
    """Each delivery is on the side of the marker that its region and its position say."""
    _region(p, p.deliveries)
    if len(p.repeated):
        _region(p, p.repeated)
    d, facts = p.deliveries, p.facts
    marker_lseq, marker_pos = facts.marker(d.k, d.v)
    marked = ~facts.torn[d.k] & (marker_lseq >= 0) & (d.pos != NONE) & (d.service != BASIC)
    p.out.asked("safe-marker", marked.sum())
    late = (d.lseq > marker_lseq) & (d.pos < marker_pos)
    early = (d.lseq < marker_lseq) & (d.pos + d.last - d.first >= marker_pos)

    def shown(i: int) -> GroupFinding:
        k = int(d.k[i])
        note = f"at position {d.pos[i]} on the wrong side of the marker at {marker_pos[i]}"
        about = (int(d.s[i]), int(d.first[i]), int(d.last[i]), int(d.v[i]))
        rows = shown_rows((k, int(marker_lseq[i])), (k, int(d.lseq[i])))
        return GroupFinding("safe-marker/side", k, None, *about, note=note, rows=rows)

    p.out.add_each("safe-marker/side", marked & (late | early), d.s, d.first, shown)


def _region(p: PreparedGroup, d: Deliveries) -> None:
    """A torn journal may lack the marker."""
    mark = p.facts.where(d.k, d.lseq).mark
    after = (mark != NONE) & (d.lseq > mark)
    bad = ~p.facts.torn[d.k] & (d.regular == after)
    p.out.asked("safe-marker", bad.sum())

    def shown(i: int) -> GroupFinding:
        k = int(d.k[i])
        side = "after the marker" if after[i] else "before any marker"
        said = "as REGULAR " if d.regular[i] else "as TRANSITIONAL "
        about = (int(d.s[i]), int(d.first[i]), int(d.last[i]), int(d.v[i]))
        rows = shown_rows((k, int(mark[i])), (k, int(d.lseq[i])))
        return GroupFinding("safe-marker/region", k, None, *about, note=said + side, rows=rows)

    p.out.add_each("safe-marker/region", bad, d.s, d.first, shown)


def safe_prefix(p: PreparedGroup) -> None:
    """A member that delivers a safe message before the marker knows that everyone in the view has
    it, so everyone in the view delivers it there, in either region, or crashes or leaves.

    Stability takes a frame of every member that was sent in the view. A member that never installed
    the view sent none: then a regular delivery is wrong. Only members that left the view behind, or
    all once the run has settled, can be asked for their delivery."""
    w, facts, cells = p.cells.ways, p.facts, p.cells
    safe = np.flatnonzero((w.service == SAFE) & some(cells.regular))
    absent = facts.absent[w.v[safe]]
    owe = facts.duty[w.v[safe]] & facts.meant[cells.meant[safe]]
    lack = owe & ~cells.have[safe]
    p.out.asked("safe-prefix", (some(absent) | some(owe)).sum())
    for kind, whom in (("safe-prefix/absent", absent), ("safe-prefix/missing", lack)):

        def shown(i: int, kind: str = kind, whom: Words = whom) -> GroupFinding:
            j = int(safe[i])
            k = int(w.k[j])
            about = (int(w.s[j]), int(w.c1[j]), int(w.c2[j]), int(w.v[j]))
            return GroupFinding(kind, k, lowest(whom[i]), *about, rows=((k, int(w.lseq[j])),))

        p.out.add_each(kind, some(whom), w.s[safe], w.c1[safe], shown)
